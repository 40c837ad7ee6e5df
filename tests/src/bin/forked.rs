//! `forked drop|release DIR DONE`: a tool that claims the database in DIR, and goes on in the background as daemons
//! do: a fork of it goes on, and the process of the claim is over. The fork drops or releases its copy of the claim,
//! and writes its PID to the file DONE.

use std::error::Error;
use std::ffi::OsString;
use std::fs;

use beadlock::Hold;
use nix::unistd::daemon;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let [how, dir, done] = words.as_slice() else {
        return Err("drop|release DIR DONE".into());
    };
    let claim = Hold::on(dir).claim()?;
    daemon(true, true)?;
    match how.to_str() {
        Some("drop") => drop(claim),
        Some("release") => {
            claim.release()?;
        }
        _ => return Err("drop or release".into()),
    }
    // Seen whole: it gets its name with its content in it.
    let draft = dir
        .to_str()
        .map(|dir| format!("{dir}/../forked-draft"))
        .ok_or("DIR")?;
    fs::write(&draft, std::process::id().to_string())?;
    fs::rename(draft, done)?;
    Ok(())
}
