//! Programs that a test writes and then executes.
//!
//! The kernel refuses to execute a file that any process has open for writing: ETXTBSY, "Text file busy". This also
//! holds for a script with a `#!` line. A child that another test thread starts has a copy of every descriptor between
//! its fork and its exec. So a program that the test process itself writes can stay busy for a moment after the test
//! has closed it, and the test fails once in a few hundred runs. The tests of one target are threads of one process,
//! so each of them can do that to each other.
//!
//! Only a process that starts nothing may therefore write such a file. [`write_program`] leaves it to `install`.
//! Programs that are read and not executed, as in `sh script`, may be written with `std::fs::write`.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Writes a program or a copy of one, with mode 0755. It can be executed as soon as this returns, whatever other
/// threads start. A file that is there is replaced, so a process that executes the old one goes on to do so.
///
/// # Panics
///
/// When the program cannot be written.
#[track_caller]
pub fn write_program(path: &Path, content: impl Read) {
    let ended = install(path, content);
    assert!(
        ended.as_ref().is_ok_and(ExitStatus::success),
        "cannot write {}: {ended:?}",
        path.display()
    );
}

fn install(path: &Path, mut content: impl Read) -> io::Result<ExitStatus> {
    let mut install = Command::new("install");
    let mut child = install
        .args(["-m", "755", "/dev/stdin"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()?;
    let written = child
        .stdin
        .take()
        .map(|mut stdin| io::copy(&mut content, &mut stdin))
        .transpose();
    let status = child.wait()?;
    written.map(|_| status)
}
