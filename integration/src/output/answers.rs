//! How a command answers: data on stdout, as text or in the envelope, the rest as talk, and how it ends
//! (docs/design.md#json).

use std::{ffi::OsString, io};

use beadlock_checker::internal::system_words;
use serde_json::Value;

use crate::error::{End, Error, Exit};
use crate::output::{Common, envelope::Request, talk::print};

/// The targets that were named, else the one that is found.
pub fn each(targets: &[OsString]) -> impl Iterator<Item = Option<&OsString>> {
    targets.iter().map(Some).chain(targets.is_empty().then_some(None))
}

/// What a command has to say of its targets, in their order.
#[derive(Debug, Default)]
pub struct Answers {
    pub text: String,
    pub data: Vec<Value>,
    pub exits: Vec<Exit>,
    pub errors: Vec<Error>,
}

impl Answers {
    /// A target that could not be answered.
    pub fn failed(&mut self, error: Error) {
        self.exits.push(error.exit);
        self.errors.push(error);
    }

    /// Prints, and ends with the highest code.
    pub fn print(self, common: &Common, request: &Request) -> End {
        self.errors.iter().for_each(|error| common.talk.error(&error.to_string()));
        let exit = self.exits.iter().map(|exit| exit.code()).max().unwrap_or(Exit::Done.code());
        let (data, error) = (Value::Array(self.data), self.errors.first());
        ended(print_answer(common, request, data, error, || self.text), exit)
    }
}

/// Prints an answer, in the envelope or as text. False: it could not be printed, which has been said.
pub fn print_answer(
    common: &Common,
    request: &Request,
    data: Value,
    error: Option<&Error>,
    text: impl FnOnce() -> String,
) -> bool {
    let printed = match common.json {
        true => print(&format!("{}\n", request.envelope(data, error, &common.talk.warnings()))),
        false => print(&text()),
    };
    printed.inspect_err(|why| common.talk.error(&words_of_unprinted(why))).is_ok()
}

/// Prints the envelope where JSON is wanted. False: it could not be, which has been said.
pub fn print_envelope(common: &Common, request: &Request, data: Value, error: Option<&Error>) -> bool {
    print_answer(common, request, data, error, String::new)
}

/// The end of a command that answers: with `code`, or with a failure when the answer could not be printed.
pub fn ended(is_printed: bool, code: u8) -> End {
    End::Code(if is_printed { code } else { Exit::Failed.code() })
}

/// Ends a command that has one answer. An answer that cannot be printed is a failure; a failure stays the one that it
/// is.
pub fn conclude(common: &Common, request: &Request, answer: Result<Value, (End, Error)>) -> End {
    common.talk.end_live();
    match answer {
        Ok(data) => ended(print_envelope(common, request, data, None), Exit::Done.code()),
        Err((end, error)) => {
            common.talk.error(&error.to_string());
            print_envelope(common, request, Value::Null, Some(&error));
            end
        }
    }
}

/// The end when stdout could not be written.
pub fn not_printed(common: &Common, why: &io::Error) -> End {
    common.talk.error(&words_of_unprinted(why));
    End::Code(Exit::Failed.code())
}

/// What was found could not be printed.
pub fn not_written(error: &io::Error) -> Error {
    Error::io(words_of_unprinted(error), error.kind())
}

fn words_of_unprinted(why: &io::Error) -> String {
    format!("failed to write to stdout: {}", system_words(why))
}
