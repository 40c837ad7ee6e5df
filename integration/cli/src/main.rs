//! `beadlock`: see the library for all it does.

#![forbid(unsafe_code)]

#[expect(
    clippy::disallowed_methods,
    reason = "the one place where this program ends"
)]
fn main() {
    std::process::exit(beadlock_cli::run().finish())
}
