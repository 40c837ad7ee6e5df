//! `beadlock-agent`: the daemon that asks before every cycle.

#![forbid(unsafe_code)]

use std::{ffi::OsString, process::ExitCode};

use beadlock_base::helper;
use beadlock_supervise::runner;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let helpers = match helper::serve(&words, &[runner::KIND]) {
        Ok(helpers) => helpers,
        Err(code) => return ExitCode::from(code),
    };
    match words.get(1) {
        Some(first) if first == beadlock_git::ARGUMENT => {
            beadlock_git::main(words.into_iter().skip(2))
        }
        _ => beadlock_agent::main(words, helpers),
    }
}
