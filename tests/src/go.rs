//! Go, for the module in `integration/go`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::skip;

/// `PROGRAM ARGS` in the module, from an environment of its own, without a network. What Go has built before is kept in
/// `target` between two runs.
fn in_the_module(program: &Path, target: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(skip::checkout().join("integration/go"))
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("GOCACHE", target.join("go-cache"))
        .env("GOPATH", target.join("go-path"))
        .env("GOENV", "off")
        .env("GOPROXY", "off")
        .env("GOTOOLCHAIN", "local")
        .env("CGO_ENABLED", "0");
    command
}

/// `go ARGS` in the module. None: there is no Go here, and it was said.
///
/// # Panics
///
/// When there is no Go and `CI` is set.
#[track_caller]
pub fn go(args: &[&str], target: &Path) -> Option<Command> {
    let mut command = in_the_module(&skip::tool("go")?, target);
    command.args(args);
    Some(command)
}

/// The Go files of the module that gofmt would change, a line each. None as for [`go`].
#[track_caller]
pub fn unformatted(target: &Path) -> Option<String> {
    let root = done(go(&["env", "GOROOT"], target)?);
    let gofmt = Path::new(String::from_utf8_lossy(&root.stdout).trim()).join("bin/gofmt");
    let mut command = in_the_module(&gofmt, target);
    command.args(["-l", "."]);
    Some(String::from_utf8_lossy(&done(command).stdout).into_owned())
}

/// Builds a program of the module into the directory `into`, and returns its path. None as for [`go`].
#[track_caller]
pub fn build(package: &str, target: &Path, into: &Path) -> Option<PathBuf> {
    let program = into.join(Path::new(package).file_name().expect("a package's name"));
    let mut command = go(&["build", "-o"], target)?;
    command.arg(&program).arg(package);
    done(command);
    Some(program)
}

/// Runs it to its end, which must be a good one.
///
/// # Panics
///
/// When it fails: with what it has said.
#[track_caller]
pub fn done(mut command: Command) -> Output {
    let output = command.output().expect("it starts");
    assert!(
        output.status.success(),
        "{command:?}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
