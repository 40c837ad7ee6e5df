//! The whole of a command under its lock: the wait, the work, the release, the answer and the exit code.

use beadlock_claim::error::Problem;
use std::future::{Future, pending};
use std::io::{self, Write};
use std::process::ExitCode;

use beadlock_base::{error::system_words, escape::escaped_path, sys};
use beadlock_core::take::Release;
use serde::Serialize;

use super::guard::{CommandGuard, Running};
use super::locks::{self, LockEnding};
use super::{declaration::CommandLock, failure::Failure};
use beadlock_claim::envelope::{Envelope, Request};
use beadlock_claim::error::{Error, Exit};

impl CommandLock {
    /// Waits for the lock, runs `body` under it, releases it, prints one envelope on stdout. Answers the exit code for
    /// `main`: 0, 4 for a lock that is held, that of the [`Failure`], or of the [`Error`] that kept `body` from
    /// running.
    ///
    /// SIGTERM, SIGINT and SIGHUP end the process instead, with the lock released, by that signal, and without a word.
    ///
    /// # Panics
    /// Never by itself. When `body` panics the lock is released, the panic goes on, and there is no envelope.
    pub fn run<T: Serialize>(self, body: impl FnOnce(Running) -> Result<T, Failure>) -> ExitCode {
        let request = Request::begin();
        let guard = match self.acquire() {
            Ok(guard) => guard,
            Err(error) => return refuse(&request, &error),
        };
        let done = body(guard.running());
        answer(&request, guard, done).unwrap_or_else(|| locks::stay())
    }

    /// [`run`](Self::run) for a `body` that is asynchronous, from any executor and without blocking it. Dropped, the
    /// future releases the lock. While a signal ends the process it is never ready.
    pub async fn run_async<T, F, W>(self, body: F) -> ExitCode
    where
        T: Serialize,
        F: FnOnce(Running) -> W,
        W: Future<Output = Result<T, Failure>>,
    {
        let request = Request::begin();
        let guard = match self.acquire_async().await {
            Ok(guard) => guard,
            Err(error) => return refuse(&request, &error),
        };
        let done = body(guard.running()).await;
        match answer(&request, guard, done) {
            Some(exit) => exit,
            None => pending().await,
        }
    }
}

fn refuse(request: &Request, error: &Error) -> ExitCode {
    // Another thread has called `exit`, and had the last word.
    if locks::ending() == Some(LockEnding::Exit) {
        return error.exit_code();
    }
    print(&Envelope::of(request, error), error.exit().code())
}

/// Releases the lock and prints what came of the work. `None`: a signal is ending the process.
fn answer<T: Serialize>(
    request: &Request,
    mut guard: CommandGuard,
    done: Result<T, Failure>,
) -> Option<ExitCode> {
    if !locks::are_ours() {
        // This is a fork of the process that holds the lock, and that process answers.
        return Some(if done.is_ok() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    let released = guard.end()?;
    let data = done.and_then(|data| serde_json::to_value(data).map_err(Failure::from));
    let (envelope, exit) = match data {
        Ok(data) => (Envelope::ok(request, data), Exit::Done.code()),
        Err(failure) => (failure.envelope(request), failure.exit_code()),
    };
    let path = escaped_path(guard.path());
    let late = match released {
        Ok(None | Some(Release::Released)) => None,
        Ok(Some(Release::Gone)) => Some(format!(
            "{path} was gone when it was to be released: another may have worked meanwhile"
        )),
        Ok(Some(Release::NotOurs(_))) => Some(format!(
            "{path} was another's lock when it was to be released, and was left there"
        )),
        Err(error) => Some(format!(
            "{path} could not be released, and is stale now: {error}"
        )),
    };
    let warnings = guard.running().warnings().into_iter().chain(late);
    Some(print(&warnings.fold(envelope, Envelope::warning), exit))
}

/// Prints the envelope. A failure to print turns success into failure, but a reader that has gone is no failure.
fn print(envelope: &Envelope, exit: u8) -> ExitCode {
    let printed = match sys::stdout_was_closed() {
        true => Err(io::Error::other("stdout is closed")),
        false => envelope.print(),
    };
    let Err(error) = printed else {
        return ExitCode::from(exit);
    };
    let why = system_words(&error);
    let _ = writeln!(
        io::stderr(),
        "beadlock: error: the answer could not be printed: {why}"
    );
    ExitCode::from(if exit == Exit::Done.code() {
        Exit::Failed.code()
    } else {
        exit
    })
}
