//! A lock in async code: what blocks, the claim and the release, runs in threads that may block.
//!
//! `cargo run -p beadlock-examples --example async_lock -- path/.beads`

use std::path::PathBuf;
use std::time::Duration;

use beadlock::{Hold, Wait};
use tokio::{task::spawn_blocking, time::sleep};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(".beads"), PathBuf::from);

    let hold = Hold::on(&dir)
        .holder("importer")
        .wait(Wait::UpTo(Duration::from_secs(30)));
    // Detached: the thread that has claimed may be asked for another claim of it, and waits then.
    let claim = spawn_blocking(|| hold.claim()).await??.detach();
    println!("claimed: {}", beadlock_checker::should_skip_database(&dir));

    // The lock belongs to no thread, so it stays over each `.await`.
    sleep(Duration::from_millis(10)).await;

    spawn_blocking(|| claim.release()).await??;
    println!("released");
    Ok(())
}
