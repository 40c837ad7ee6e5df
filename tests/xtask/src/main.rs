//! `cargo xtask TASK`. `protocol-check [NAME…]`: [`xtask::check`]. `schemas [--check]`: [`xtask::schemas`].

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("protocol-check") => xtask::check::protocols(&words.collect::<Vec<_>>()),
        Some("schemas") => xtask::schemas::run(&words.collect::<Vec<_>>()),
        other => {
            let said = other
                .map(|task| format!("there is no task {task:?}\n"))
                .unwrap_or_default();
            eprintln!("{said}cargo xtask protocol-check [NAME…]\ncargo xtask schemas [--check]");
            ExitCode::from(2)
        }
    }
}
