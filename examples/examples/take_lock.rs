//! A lock taken from Rust: while the claim is there, no daemon syncs the database.
//!
//! `cargo run -p beadlock-examples --example take_lock -- path/.beads`

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use beadlock::{Hold, Wait};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(".beads"), PathBuf::from);

    let claim = Hold::on(&dir)
        .holder("importer")
        .wait(Wait::UpTo(Duration::from_secs(30)))
        .claim()?;
    println!("claimed: {}", beadlock_checker::should_skip_database(&dir));

    let mut issues = std::fs::File::options()
        .append(true)
        .create(true)
        .open(claim.dir().join("issues.jsonl"))?;
    writeln!(issues, "{{\"id\":\"bd-100\",\"title\":\"imported\"}}")?;

    claim.release()?;
    println!("released");
    Ok(())
}
