//! The answer of a command: data on stdout, as text or in the envelope, the rest as talk; and how the command ends
//! (docs/design.md#json).

use beadlock_claim::error::Problem;
use std::ffi::{OsStr, OsString};
use std::io;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::Console;
use crate::program_end::{ExitCodeOverrides, ProgramEnd};
use beadlock_base::stdout::print;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::observe::NotAcquired;

/// The targets that were named, else the one that is found.
pub fn each(targets: &[OsString]) -> impl Iterator<Item = Option<&OsStr>> {
    targets
        .iter()
        .map(|target| Some(target.as_os_str()))
        .chain(targets.is_empty().then_some(None))
}

/// How the program ends where a claim was stopped, and the words for it; `then` is what they say after `ended by
/// SIGTERM`.
pub fn end_of(
    stopped: NotAcquired,
    then: &str,
    replaced: ExitCodeOverrides,
) -> (ProgramEnd, Error) {
    match stopped {
        NotAcquired::Failed(error) => (ProgramEnd::Code(replaced.code(error.exit())), error),
        NotAcquired::Signalled(signal) => {
            let error = Error::new(Code::Io, format!("ended by {signal}{then}"));
            let end = match signal {
                Signal::SIGINT => ProgramEnd::Interrupted,
                signal => ProgramEnd::Code(Exit::Signal(signal as i32).code()),
            };
            (end, error)
        }
    }
}

/// The answers of a command for its targets, in their order.
#[derive(Debug, Default)]
pub struct Answers {
    /// The text for stdout where no JSON is wanted.
    pub text: String,
    /// The envelope's `data`: an element for each target that was answered.
    pub data: Vec<Value>,
    /// How each target ended; the highest code is the program's.
    pub exits: Vec<Exit>,
    /// The errors of the targets that could not be answered; the first one is the envelope's.
    pub errors: Vec<Error>,
}

impl Answers {
    /// Adds the answer for one target.
    pub fn add(&mut self, exit: Exit, data: Value, text: &str) {
        self.exits.push(exit);
        self.data.push(data);
        self.text.push_str(text);
    }

    /// Adds a target that could not be answered.
    pub fn failed(&mut self, error: Error) {
        self.exits.push(error.exit());
        self.errors.push(error);
    }

    /// Prints, and ends with the highest code.
    pub fn print(self, common: &Console) -> ProgramEnd {
        self.errors
            .iter()
            .for_each(|error| common.talk.error(&error.to_string()));
        let exit = self
            .exits
            .iter()
            .map(|exit| exit.code())
            .max()
            .unwrap_or(Exit::Done.code());
        ended(
            print_answer(common, Value::Array(self.data), self.errors.first(), || {
                self.text
            }),
            exit,
        )
    }
}

/// Prints an answer, in the envelope or as text. False: it could not be printed, and an error was logged.
pub fn print_answer(
    common: &Console,
    data: Value,
    error: Option<&Error>,
    text: impl FnOnce() -> String,
) -> bool {
    let printed = match common.json {
        true => print(common.envelope(data, error)),
        false => print(text()),
    };
    printed
        .inspect_err(|why| common.talk.error(&not_written(why).to_string()))
        .is_ok()
}

/// Prints the envelope where JSON is wanted. False: it could not be printed, and an error was logged.
pub fn print_envelope(common: &Console, data: Value, error: Option<&Error>) -> bool {
    print_answer(common, data, error, String::new)
}

/// The end of a command that answers: with `code`, or with a failure when the answer could not be printed.
pub fn ended(is_printed: bool, code: u8) -> ProgramEnd {
    ProgramEnd::Code(if is_printed {
        code
    } else {
        Exit::Failed.code()
    })
}

/// Ends a command that has one answer. An answer that cannot be printed is a failure; an error keeps its own end.
pub fn conclude(common: &Console, answer: Result<Value, (ProgramEnd, Error)>) -> ProgramEnd {
    common.talk.end_live();
    match answer {
        Ok(data) => ended(print_envelope(common, data, None), Exit::Done.code()),
        Err((end, error)) => {
            common.talk.error(&error.to_string());
            print_envelope(common, Value::Null, Some(&error));
            end
        }
    }
}

/// The error for an answer that could not be printed.
pub fn not_written(error: &io::Error) -> Error {
    Error::failed("write to stdout", error)
}
