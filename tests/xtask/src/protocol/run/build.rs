//! Has cargo build what the tests need, and learns from it where that is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::protocol::named::{Named, Target, folder};
use beadlock_testkit::{binaries, skip::checkout};

/// The binary of each target that a test names.
pub fn tests(named: &[&Named]) -> Result<BTreeMap<(&'static str, Target), PathBuf>, String> {
    let targets: BTreeSet<(&'static str, Target)> = named
        .iter()
        .filter_map(|test| match test {
            Named::Cargo {
                package, target, ..
            } => Some((*package, target.clone())),
            Named::Bats { .. } | Named::Python { .. } => None,
        })
        .collect();
    if targets.is_empty() {
        return Ok(BTreeMap::new());
    }
    // With the whole workspace's features, as in `make test`: built there, it is not built again.
    let mut args: Vec<String> = ["test", "--workspace", "--no-run"]
        .map(str::to_owned)
        .into();
    for name in targets
        .iter()
        .map(|(_, target)| target)
        .collect::<BTreeSet<_>>()
    {
        match name {
            Target::Lib => args.push("--lib".to_owned()),
            Target::Test(name) => args.extend(["--test".to_owned(), name.clone()]),
        }
    }
    let built = cargo(&args)?;
    let binary = |(package, target): (&'static str, Target)| {
        let (kind, name) = match &target {
            Target::Lib => ("lib", None),
            Target::Test(name) => ("test", Some(name.as_str())),
        };
        let manifest = checkout().join(folder(package)).join("Cargo.toml");
        let is_it = |artifact: &&Value| {
            artifact["manifest_path"].as_str().map(Path::new) == Some(&manifest)
                && artifact["target"]["kind"][0] == kind
                && artifact["profile"]["test"] == true
                && name.is_none_or(|name| artifact["target"]["name"] == name)
        };
        let path = built.iter().find(is_it)?["executable"].as_str()?;
        Some(((package, target), path.into()))
    };
    Ok(targets.into_iter().filter_map(binary).collect())
}

/// The directory of both programs.
pub fn programs() -> Result<PathBuf, String> {
    let args = [
        "build",
        "--workspace",
        "--bin",
        "beadlock",
        "--bin",
        "beadlock-agent",
    ]
    .map(str::to_owned);
    let built = cargo(&args)?;
    let executable = built
        .iter()
        .find_map(|artifact| artifact["executable"].as_str());
    let directory = executable.and_then(|executable| Path::new(executable).parent());
    directory
        .map(Path::to_path_buf)
        .ok_or("cargo has built no program".to_owned())
}

/// What it has built, as it says in JSON; its talk and its errors go where ours go.
fn cargo(args: &[String]) -> Result<Vec<Value>, String> {
    let mut command = binaries::cargo();
    command
        .args(args)
        .args(["--locked", "--message-format=json-render-diagnostics"]);
    command.current_dir(checkout()).stderr(Stdio::inherit());
    let output = command.output().map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo {} failed", args.join(" ")));
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}
