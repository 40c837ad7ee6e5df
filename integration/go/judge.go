//go:build linux

package beadlock

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"
)

// judge says why the lock counts as held, or PIDGone.
func (r *Record) judge() Reason {
	host, err := os.Hostname()
	switch {
	case err != nil || host == "" || !utf8.ValidString(host):
		return HostUnknown
	case asciiLower(host) != asciiLower(r.Hostname):
		return OtherHost
	case differs(r.mark.machineID, machineID):
		return OtherMachine
	case differs(r.mark.pidNS, pidNamespace) && !differs(r.mark.bootID, bootID):
		return OtherPIDNamespace
	case r.PID > 1<<31-1:
		return PIDUnknown // No kernel has such a PID; cut to 32 bits it would be another one.
	}
	switch syscall.Kill(int(r.PID), 0) {
	case nil:
		return PIDAlive
	case syscall.EPERM:
		return PIDNotPermitted
	case syscall.ESRCH:
		return PIDGone
	}
	return PIDUnknown
}

// differs is false where one of the two is unknown.
func differs(recorded string, ours func() string) bool {
	if recorded == "" {
		return false
	}
	known := ours()
	return known != "" && known != recorded
}

// asciiLower leaves all beyond ASCII as it is: by Unicode's rules two names of hosts may be one.
func asciiLower(name string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, name)
}

// machineID is hashed, so that a lock file does not reveal it.
func machineID() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		text, _ := os.ReadFile(path)
		id := strings.TrimSpace(string(text))
		if id == "" {
			continue
		}
		if _, err := hex.DecodeString(id); err != nil || len(id) != 32 {
			return ""
		}
		digest := sha256.Sum256([]byte("beadlock machine\n" + id))
		return hex.EncodeToString(digest[:16])
	}
	return ""
}

// bootID comes from the kernel's own /proc only: container managers mount a random one over it.
func bootID() string {
	const procMagic = 0x9fa0
	file, err := os.Open("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	defer file.Close()
	var system syscall.Statfs_t
	if syscall.Fstatfs(int(file.Fd()), &system) != nil || system.Type != procMagic {
		return ""
	}
	line := make([]byte, 64)
	count, _ := file.Read(line)
	return strings.TrimSpace(string(line[:count]))
}

func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}
