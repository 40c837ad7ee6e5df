//! `beadlock-agent`: the daemon that asks before every cycle.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use beadlock_core::runner;

fn main() -> ExitCode {
    let args = std::env::args_os();
    match std::env::args_os().nth(1) {
        Some(first) if first == runner::ARGUMENT => runner::main(args.skip(2)),
        Some(first) if first == beadlock_git::ARGUMENT => beadlock_git::main(args.skip(2)),
        _ => beadlock_agent::main(args),
    }
}
