//go:build linux

package beadlock

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Cycle is one run of a daemon's work on one database. It has the gate, an flock on the database's directory, until Close
// or the end of the process: no claim begins, and no other cycle.
type Cycle struct {
	gate *os.File
	path string
}

// entered keeps every gate from the garbage collector, which would close its file and so open it to claims.
var entered sync.Map

// Enter begins a cycle on the database in dir: it takes the gate without waiting and looks at the lock. The cycle is nil
// where the database is to be left alone, and the decision's line for the log says why. Else do the work, then Close; the
// line is empty, unless a dead lock was removed first.
func Enter(dir string) (*Cycle, Decision) {
	var cycle *Cycle
	decision := settled(dir, func() (decision Decision) {
		cycle, decision = enter(dir)
		return decision
	})
	return cycle, decision
}

func enter(dir string) (*Cycle, Decision) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, unreadable(err)
	}
	fd, err := openat(-1, path, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return nil, unreadable(fmt.Errorf("cannot open %s: %w", shown(path, len(path)), err))
	}
	cycle := &Cycle{os.NewFile(uintptr(fd), path), path}
	entered.Store(cycle, nil)
	if err := flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		entered.Delete(cycle)
		cycle.gate.Close()
		if err == syscall.EWOULDBLOCK {
			return nil, skip(GateBusy, nil, "a sync cycle or a claim is in progress")
		}
		return nil, unreadable(fmt.Errorf("cannot take the gate of %s: %w", shown(path, len(path)), err))
	}
	decision := look(fd)
	if !decision.Proceed {
		cycle.Close()
		return nil, decision
	}
	return cycle, decision
}

// PassOn gives the gate to a command that is to be started, and to what it starts. When this process is killed meanwhile,
// the gate stays shut until they have ended. Call it before Start; the gate comes after the ExtraFiles that are there.
func (c *Cycle) PassOn(command *exec.Cmd) {
	command.ExtraFiles = append(command.ExtraFiles, c.gate)
}

// Lost tells whether another directory has taken the path of this one, as after `git switch`: claims do not wait for this
// cycle any more, which should end. A path that cannot be looked up is no loss. A loss is seen twice, with 100 ms between.
func (c *Cycle) Lost() bool {
	lost := func() bool {
		mine, err := c.gate.Stat()
		if err != nil {
			return false
		}
		there, err := os.Stat(c.path)
		return os.IsNotExist(err) || err == nil && !os.SameFile(mine, there)
	}
	if !lost() {
		return false
	}
	time.Sleep(100 * time.Millisecond)
	return lost()
}

// Close ends the cycle: it lets the gate go, also for processes that the work has left behind. Once is enough, and again
// does no harm. An error says that the gate could not be unlocked; it goes then with the last process that has it.
func (c *Cycle) Close() error {
	if _, isEntered := entered.LoadAndDelete(c); !isEntered {
		return nil
	}
	// Unlocked first: whatever was started meanwhile may have a copy of the descriptor, and a close would not do.
	err := flock(int(c.gate.Fd()), syscall.LOCK_UN)
	if closed := c.gate.Close(); err == nil {
		err = closed
	}
	return err
}

func flock(fd, how int) error {
	for {
		if err := syscall.Flock(fd, how); err != syscall.EINTR {
			return err
		}
	}
}
