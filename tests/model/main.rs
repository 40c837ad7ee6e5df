//! The protocol as a state machine, and every order in which its steps can be taken, gone through by `stateright`.
//!
//! One action is one system call of one actor, or what the code does between two with nobody able to notice. Each
//! names the function that it stands for. Beside the actors there are files, which are known by their names and by the
//! actors that have them open (`file`, `world`), leases as the kernel gives them, and the gate. In every state what
//! must hold is asked (`properties`), and from every state a way must lead to the end (`ending`).
//!
//! Time is not in it, but for one rule: a grace does not end before every open that was looked up before the file was
//! moved has arrived, or its process is dead (docs/design.md#grace). A release counts its grace from the claim,
//! because a writer that overwrites it has looked before; that of a lock at a path has none. Without leases whatever
//! was opened has to be truncated by then as well. How long anything else takes, the 45 s of the kernel too, is
//! anybody's guess, so it happens at every moment.
//!
//! What a writer without the gate destroys by itself is its own doing: it looks, and then writes over whatever is
//! there by then, or removes by path what is not its own. A claim that is lost like that is not counted.
//!
//! Not in it: files that are not regular files, errors, PID reuse, other hosts, `break`, and the portable ways around
//! `renameat2` and unnamed files.

mod actors;
mod built;
mod ending;
mod file;
mod fleet;
mod large;
mod mutants;
mod properties;
mod protocol;
mod run;
mod search;
mod set;
mod site;
mod system;
mod trace;
mod world;
