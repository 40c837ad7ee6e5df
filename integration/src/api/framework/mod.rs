//! A lock for a command of any command-line tool (REQ-F-033): the tool's author declares it, and the rest happens.
//!
//! ```no_run
//! use beadlock::framework::{CommandLock, Failure};
//! use serde_json::json;
//! use std::io::stderr;
//! use std::process::{Command, ExitCode};
//!
//! fn main() -> ExitCode {
//!     CommandLock::new("mytool", "deploy").run(|_| {
//!         // stdout is for the envelope.
//!         let status = Command::new("./roll-out.sh").stdout(stderr()).status()?;
//!         match status.success() {
//!             true => Ok(json!({ "deployed": true })),
//!             false => Err(Failure::new(format!("the roll-out has failed: {status}"))),
//!         }
//!     })
//! }
//! ```
//!
//! Two of these never run at once. The second waits for 10 s ([`timeout`](CommandLock::timeout)); then it prints the
//! envelope of `LOCK_HELD` and ends with 4. At the end of the first, however that comes, the lock is released, and the
//! second goes on at once. The answer is one envelope on stdout:
//! `{"ok":true,"data":{"deployed":true},"error":null,"warnings":[],"meta":{…}}`, or the [`Failure`] that `?` has made
//! of an error.
//!
//! # What happens at the end
//!
//! | the work | the lock | the process |
//! |---|---|---|
//! | returns, or returns an error | is released | prints the envelope and ends with the exit code |
//! | panics, and the panic unwinds | is released | goes on to panic |
//! | calls `std::process::exit`, in whichever thread | is released | ends with that code, and prints nothing |
//! | gets SIGTERM, SIGINT or SIGHUP | is released, in the order below | dies of that signal, and prints nothing |
//! | becomes another program (`exec`) | stays, and is stale when that has ended | is that program |
//! | gets any other signal that ends it, aborts, calls `_exit`, is out of memory | is stale | is gone |
//!
//! With `panic = "abort"` a panic aborts. A stale lock is taken over at once, also while a child still writes.
//!
//! A signal that comes in the wait for the lock ends the process with nothing claimed. A signal that was ignored when
//! the first lock was wanted, as under `nohup`, stays ignored.
//!
//! # Which order to use
//!
//! A signal is for the children too: whatever the command has started since it has the lock, and what that has started.
//! What a child starts when it has heard, to clean up, is left alone for as long as that child lives.
//!
//! - **Forward, wait, release** is the default. The signal is forwarded, the children have
//!   [`kill_after`](CommandLock::kill_after) (10 s) to end, what is left then is killed; then the lock is released, and
//!   the process dies of the signal. Use it whenever a child writes what the lock protects: a lock that is given up
//!   while a child still writes protects nothing.
//! - **Release, forward, wait** is [`release_before_forwarding`](CommandLock::release_before_forwarding), the letter of
//!   REQ-F-013. Use it when the children do not touch what the lock protects and may take long to end, or when whoever
//!   sends the signal, a supervisor with a time-out of its own, goes on to SIGKILL before they have.
//!
//! Whoever gets what the terminal sends (Ctrl-C) is not sent it again.
//!
//! # Work in the process itself
//!
//! Children can be waited for; a thread cannot be stopped. After the signal, once there are no children, `body` has 200
//! ms to return, and then the lock is released and the process dies, within a few milliseconds in which a thread of it
//! may still write. Work that must not overlap by even that asks [`Running::is_ending`] between its steps, and returns;
//! whoever returns then, or lets go of a guard, stays there until the process is gone.
//!
//! # Other ways in
//!
//! - From async code, on any executor: [`run_async`](CommandLock::run_async).
//! - For tools that print what they have to say themselves: [`acquire`](CommandLock::acquire) gives the guard,
//!   [`Envelope`](crate::Envelope) the envelope, with fields of the tool's own where it wants them, and
//!   [`Error::exit_code`](crate::Error::exit_code) the exit code.
//! - From the shell: `beadlock hold lock:PATH --wait 10s --json -- CMD`. It is the same lock: `beadlock status
//!   lock:PATH` tells about it, too.
//!
//! # Limits
//!
//! - The lock is one of the whole process: a second claim of it in the same process is an error at once.
//! - Handlers of the tool's own (tokio's, say) are called as well; the process dies all the same. It keeps doing so
//!   after the release of its last lock. Whoever blocks these signals to read them from a signalfd does not find them
//!   there.
//! - By default it is a lock of one user, and of those processes of that user that have the same `XDG_RUNTIME_DIR`: a
//!   cron job or a service may have none, a container has a `/tmp` of its own, and at the last logout the directory is
//!   removed, with the lock of whoever works on (`nohup`). A tool that is started in several of these ways names a
//!   [`directory`](CommandLock::directory).
//! - A daemon that a child has left behind before the signal came is not seen, nor are children from before the lock.
//!   Without `/proc`, or with that of another PID namespace, no child is: they are waited for, and do not hear of the
//!   signal.
//! - Whoever closes descriptors that are not its own, as `closefrom` does, closes the lock's: it is not released then,
//!   and is stale when the process has ended.
//! - A fork that executes nothing has no part in the lock: it releases nothing, prints no envelope and cannot have
//!   locks of its own.
//! - Holders are told from the dead by all that their record has: a PID that is another process's by now, a zombie that
//!   nobody reaps, and a boot that is over count as dead, as with `beadlock hold --reap-proven-dead`.
//! - One machine: a lock in a directory that several share is not taken over when its holder dies on another.

mod children;
mod declaration;
mod dir;
mod ending;
mod failure;
mod guard;
mod locks;
mod run;
mod running;
mod waiting;

pub use declaration::CommandLock;
pub use failure::Failure;
pub use guard::CommandGuard;
pub use running::Running;
