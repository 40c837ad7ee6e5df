//! `tool deploy --env prod`, the example of REQ-F-033: two of them never deploy at once.
//!
//! `cargo run -p beadlock-examples --example deploy_tool -- deploy --env prod` holds its lock until it is ended. A
//! second one beside it prints the envelope of `LOCK_HELD` after ten seconds and ends with 4; `kill` of the first
//! gives the lock back.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock::framework::CommandLock;
use beadlock::{Error, Wait};
use clap::Parser;
use serde_json::json;

#[derive(Parser)]
#[command(name = "tool")]
enum Cli {
    /// Deploys.
    Deploy {
        /// Where to.
        #[arg(long)]
        env: String,
        /// How long this takes; without it until it is ended.
        #[arg(long = "for", value_name = "DUR", value_parser = duration)]
        length: Option<Duration>,
        /// For how long another deployment is waited for.
        #[arg(long, value_name = "DUR", default_value = "10s")]
        timeout: Wait,
        /// Where the lock lies, in place of the user's own directory.
        #[arg(long, value_name = "DIR")]
        lock_dir: Option<PathBuf>,
    },
}

/// A length of time in the same words as a wait.
fn duration(text: &str) -> Result<Duration, Error> {
    Ok(text.parse::<Wait>()?.limit())
}

fn main() -> ExitCode {
    let Cli::Deploy {
        env,
        length,
        timeout,
        lock_dir,
    } = Cli::parse();
    let mut lock = CommandLock::new("mytool", "deploy")
        .version(env!("CARGO_PKG_VERSION"))
        .timeout(timeout.limit());
    if let Some(dir) = lock_dir {
        lock = lock.directory(dir);
    }
    lock.run(|running| {
        let begun = Instant::now();
        // A real one would roll out here, and look up between its steps.
        while !running.is_ending() && length.is_none_or(|length| begun.elapsed() < length) {
            sleep(Duration::from_millis(10));
        }
        Ok(json!({ "env": env, "deployed": true }))
    })
}
