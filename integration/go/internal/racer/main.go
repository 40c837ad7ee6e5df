// A contender for the tests of the repository: it works in a database again and again, in this very process, and says when
// somebody else was at work there.
//
//	racer gated|ungated|unchecked DIR GROUND PAUSE
//
// That two work at once is told by the kernel: whoever works has an flock on GROUND/NAME, as the tests' witness has. The
// second one adds a line to GROUND/overlaps. Each work adds a line to GROUND/entered. ungated and unchecked are the
// controls: a look at the lock without the gate, and the gate without a look at the lock.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"beadlock.invalid/beadlock"
)

func main() {
	way, dir, ground := os.Args[1], os.Args[2], os.Args[3]
	pause, err := time.ParseDuration(os.Args[4])
	must(err)
	for {
		switch way {
		case "gated":
			if cycle, decision := beadlock.Enter(dir); cycle != nil {
				work(way, ground, dir)
				must(cycle.Close())
			} else if decision.String() == "" {
				panic("a skip without a word")
			}
		case "ungated":
			if beadlock.Check(dir).Proceed {
				work(way, ground, dir)
			}
		case "unchecked":
			gate, err := os.Open(dir)
			must(err)
			if syscall.Flock(int(gate.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				work(way, ground, dir)
			}
			gate.Close()
		}
		time.Sleep(pause)
	}
}

func work(way, ground, dir string) {
	absolute, err := filepath.Abs(dir)
	must(err)
	// a/017/.beads is a-017, as the witness has it.
	above := filepath.Dir(absolute)
	name := filepath.Base(filepath.Dir(above)) + "-" + filepath.Base(above)
	inside, err := os.OpenFile(filepath.Join(ground, name), os.O_WRONLY|os.O_CREATE, 0o644)
	must(err)
	defer inside.Close()
	me := fmt.Sprintf("go %s %d", way, os.Getpid())
	switch syscall.Flock(int(inside.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) {
	case nil:
		must(inside.Truncate(0))
		_, err = inside.WriteString(me)
		must(err)
	case syscall.EWOULDBLOCK:
		appendLine(filepath.Join(ground, "overlaps"), me+" met another in "+name)
	default:
		panic("cannot lock " + inside.Name())
	}
	appendLine(filepath.Join(ground, "entered"), me)
	time.Sleep(5 * time.Millisecond)
}

func appendLine(path, line string) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	must(err)
	_, err = file.WriteString(line + "\n")
	must(err)
	must(file.Close())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
