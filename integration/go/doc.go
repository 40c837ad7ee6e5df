// Package beadlock is for a sync daemon in Go: whether it may touch a database now, and the gate that keeps claims away
// while it does. Linux, the standard library alone, no cgo.
//
// A database is a directory, such as .beads. Somebody claims it by a lock file in it, .exclusive-lock, as with
// `beadlock hold -- CMD`. Every cycle begins with [Enter] and ends with Close:
//
//	cycle, decision := beadlock.Enter(".beads")
//	if line := decision.String(); line != "" {
//		log.Print(line) // Skipping database (locked by importer)
//	}
//	if cycle == nil {
//		return // come back at the next interval
//	}
//	defer cycle.Close()
//
// [Enter] takes the gate and looks at the lock. [Check] only looks: a claim does not wait for what is done afterwards.
// [Parse] reads the content of a lock file. A command that does the work keeps the gate, also when the daemon is killed,
// once it was given to [Cycle.PassOn]. A long cycle asks [Cycle.Lost] now and then.
//
// The rule is that of `beadlock check`. Where this package knows less it skips:
//
//   - It changes no lock file. A dead lock, and one that a crash has left under the side name .exclusive-lock.aside, is
//     left to the program `beadlock check`, which is looked for in PATH; without it the database is skipped. A removal
//     of fewer steps loses the lock of somebody who lives.
//   - Nothing but ESRCH for a PID of this host, machine and PID namespace makes a lock dead. A zombie, a PID that was
//     given to another process, and a boot that is over are proofs for `beadlock check --reap-proven-dead`.
//   - Where there can be no gate (no such directory, one that may not be read, a file system without flock) there is no
//     cycle. `beadlock cycle -- CMD` knows what is safe there.
//   - A database that has joined a fleet (.exclusive-fleet) is for `beadlock cycle -- CMD` alone.
//
// Nothing here says whether a directory is a database, and no redirect is followed.
package beadlock
