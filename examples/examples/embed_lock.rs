//! A whole tool with a lock: `embed_lock CMD [ARG…]` runs CMD, and never two at once.

use std::io::stderr;
use std::process::{Command, ExitCode};
use std::time::Duration;

use beadlock::framework::{CommandLock, Failure};
use serde_json::json;

fn main() -> ExitCode {
    CommandLock::new("embed_lock", "run")
        .timeout(Duration::from_secs(2))
        .run(|running| {
            let mut words = std::env::args_os().skip(1);
            let usage = || {
                Failure::new("type: embed_lock CMD [ARG…]")
                    .code("USAGE")
                    .exit(2)
            };
            let mut command = Command::new(words.next().ok_or_else(usage)?);
            // stdout is for the envelope.
            let status = command
                .args(words)
                .envs(running.environment())
                .stdout(stderr())
                .status()?;
            match status.code() {
                Some(0) => Ok(json!({ "lock": running.path(), "exit_code": 0 })),
                code => Err(Failure::new(format!("the command failed: {status}"))
                    .exit(code.unwrap_or(1) as u8)),
            }
        })
}
