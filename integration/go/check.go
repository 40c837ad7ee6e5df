//go:build linux

package beadlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	lockName  = ".exclusive-lock"
	sideName  = ".exclusive-lock.aside"
	fleetName = ".exclusive-fleet"

	largest       = 64 * 1024
	leasePatience = 50 * time.Millisecond
	// checkPatience is far more than a removal takes: a fraction of a second.
	checkPatience = 30 * time.Second

	oPath = 0x200000 // O_PATH, which package syscall does not name
)

// Reason is why a decision was made: one of the words of `beadlock check --json`. This package finds those below;
// `beadlock check` may answer with others.
type Reason string

// The reasons of this package.
const (
	NoLock            Reason = "no_lock"             // no lock file is there
	PIDAlive          Reason = "pid_alive"           // the process exists
	PIDNotPermitted   Reason = "pid_not_permitted"   // the process exists, and is another user's
	PIDGone           Reason = "pid_gone"            // no process has the PID: the lock is dead
	PIDUnknown        Reason = "pid_unknown"         // the PID cannot be asked for
	OtherHost         Reason = "other_host"          // the record names another host
	HostUnknown       Reason = "host_unknown"        // this host has no name
	OtherMachine      Reason = "other_machine"       // the host has this one's name, and is another machine
	OtherPIDNamespace Reason = "other_pid_namespace" // the PID is one of a container's
	GateBusy          Reason = "gate_busy"           // a cycle or a claim is in progress
	RemovalFailed     Reason = "removal_failed"      // the lock is dead, and could not be removed
	Malformed         Reason = "malformed"           // the file is not JSON, or a field has a wrong type
	Invalid           Reason = "invalid"             // a needed value is missing or empty
	Unreadable        Reason = "unreadable"          // the file, or its directory, cannot be read
	FleetUseCycle     Reason = "fleet_use_cycle"     // the database has joined a fleet
)

// Decision says whether the database may be touched at this moment. The zero value says no.
type Decision struct {
	Proceed bool
	Reason  Reason
	Record  *Record // of the lock that is held, or was removed; nil where there is none or it could not be read
	line    string
	stale   bool // for `beadlock check` to remove, or to recover from
}

// String is the line for the log, to the letter; empty where there is nothing to say.
func (d Decision) String() string { return d.line }

func skip(reason Reason, record *Record, why string) Decision {
	return Decision{Reason: reason, Record: record, line: "Skipping database (" + why + ")"}
}

func unreadable(err error) Decision {
	return skip(Unreadable, nil, "lock check failed: failed to read lock file: "+err.Error())
}

// Check says whether the database in dir may be touched now. A directory that does not exist is free. A dead lock is
// removed by `beadlock check`. The answer is of this moment: only [Enter] keeps claims away until the work has ended.
func Check(dir string) Decision {
	return settled(dir, func() Decision { return lookAt(dir) })
}

// settled asks, and once more when `beadlock check` has removed what was dead.
func settled(dir string, ask func() Decision) Decision {
	first := ask()
	if !first.stale {
		return first
	}
	if failed := removeStale(dir, first); failed != nil {
		return *failed
	}
	second := ask()
	switch {
	case second.stale:
		return notRemoved(second, errors.New("there is one again"))
	case second.Proceed && first.Record != nil:
		second.Reason, second.Record = first.Reason, first.Record
		second.line = "Removed stale lock (" + shown(first.Record.Holder, 200) + "), proceeding with sync"
	}
	return second
}

// removeStale has `beadlock check` remove a dead lock, or recover one that lies aside: the only one that does it by all the
// steps. It takes the gate, so this process must not have it. Nil: look again.
func removeStale(dir string, stale Decision) *Decision {
	failed := func(decision Decision) *Decision { return &decision }
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return failed(notRemoved(stale, err))
	}
	limit, cancel := context.WithTimeout(context.Background(), checkPatience)
	defer cancel()
	said, err := exec.CommandContext(limit, "beadlock", "check", "--json", "beads:"+absolute).Output()
	var answer struct {
		Data []struct {
			Decision string
			Reason   Reason
			Message  string
		}
		Error *struct{ Message string }
	}
	switch broken := json.Unmarshal(said, &answer); {
	case broken == nil && len(answer.Data) == 1 && answer.Data[0].Decision == "skip":
		skipped := answer.Data[0]
		return &Decision{Reason: skipped.Reason, Record: stale.Record, line: skipped.Message}
	case broken == nil && len(answer.Data) == 1 && err == nil:
		return nil
	case broken == nil && answer.Error != nil:
		err = errors.New(answer.Error.Message)
	case err == nil:
		err = errors.New("`beadlock check` gave no answer")
	}
	return failed(notRemoved(stale, err))
}

func notRemoved(stale Decision, err error) Decision {
	failed := "failed to remove stale lock: "
	if stale.Record == nil {
		failed = "failed to recover " + sideName + ": "
	}
	return skip(RemovalFailed, stale.Record, "lock check failed: "+failed+shown(err.Error(), 200))
}

func lookAt(path string) Decision {
	dir, err := openat(-1, path, oPath|syscall.O_DIRECTORY)
	if err == syscall.ENOENT {
		return Decision{Proceed: true, Reason: NoLock}
	}
	if err != nil {
		return unreadable(err)
	}
	defer syscall.Close(dir)
	return look(dir)
}

// look judges the lock in an open directory. A lock may be aside for a moment, while somebody removes another: absent, no
// side file, still absent is no lock, and nothing less is.
func look(dir int) Decision {
	decision := judged(dir)
	if decision.Reason == NoLock {
		aside, err := exists(dir, sideName)
		switch {
		case err != nil:
			return unreadable(err)
		case aside:
			decision = Decision{Reason: RemovalFailed, stale: true}
		default:
			decision = judged(dir)
		}
	}
	if decision.Proceed || decision.stale {
		switch joined, err := exists(dir, fleetName); {
		case err != nil:
			return unreadable(err)
		case joined:
			return skip(FleetUseCycle, nil, "lock check failed: a check cannot keep a fleet claim away; "+
				"run the work under `beadlock cycle`")
		}
	}
	return decision
}

func judged(dir int) Decision {
	data, err := readLock(dir)
	if err == syscall.ENOENT {
		return Decision{Proceed: true, Reason: NoLock}
	}
	if err != nil {
		return unreadable(err)
	}
	record, err := Parse(data)
	switch {
	case errors.Is(err, ErrMalformed):
		return skip(Malformed, nil, "lock check failed: "+err.Error())
	case err != nil:
		return skip(Invalid, nil, "lock check failed: "+err.Error())
	}
	if reason := record.judge(); reason != PIDGone {
		return skip(reason, record, "locked by "+shown(record.Holder, 200))
	}
	return Decision{Reason: PIDGone, Record: record, stale: true}
}

// readLock reads a regular file of at most 64 KiB, without blocking and without following a link. The error is ENOENT where
// there is none.
func readLock(dir int) ([]byte, error) {
	var fd int
	var err error
	for deadline := time.Now().Add(leasePatience); ; time.Sleep(5 * time.Millisecond) {
		fd, err = openat(dir, lockName, syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY)
		// A heartbeat, or a removal, has it under a lease.
		if err != syscall.EAGAIN || time.Now().After(deadline) {
			break
		}
	}
	switch err {
	case nil:
	case syscall.EAGAIN:
		return nil, errors.New("another process has it under a write lease")
	case syscall.ELOOP:
		return nil, errors.New("it is a symbolic link")
	case syscall.ENXIO:
		return nil, errors.New("it is a socket")
	default:
		return nil, err
	}
	file := os.NewFile(uintptr(fd), lockName)
	defer file.Close()
	found, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !found.Mode().IsRegular() {
		return nil, fmt.Errorf("it is not a regular file (%s)", found.Mode())
	}
	data, err := io.ReadAll(io.LimitReader(file, largest+1))
	if err == nil && len(data) > largest {
		err = errors.New("it is larger than 64 KiB")
	}
	return data, err
}

// exists tells whether the directory has an entry of this name, of any kind.
func exists(dir int, name string) (bool, error) {
	fd, err := openat(dir, name, oPath|syscall.O_NOFOLLOW)
	if err == syscall.ENOENT {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, syscall.Close(fd)
}

// openat opens name in dir; in the working directory where dir is -1.
func openat(dir int, name string, flags int) (int, error) {
	const atWorkingDirectory = -100
	if dir < 0 {
		dir = atWorkingDirectory
	}
	for {
		fd, err := syscall.Openat(dir, name, flags|syscall.O_CLOEXEC, 0)
		if err != syscall.EINTR {
			return fd, err
		}
	}
}
