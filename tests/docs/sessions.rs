//! Sessions in the documents are typed again, and say the same. A block after the line `<!-- session -->` is one: what
//! is typed after `$ `, and what comes of it, up to the numbers, times and ids. One after the line
//! `<!-- session with PROGRAM -->` is typed where that program is.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use beadlock_tests::skip::{as_nobody, cannot, checkout, in_path, may_be_root, tool};
use beadlock_tests::{Ended, Scene, run, shown, write_program};

use super::{document, path_with_programs};

/// Where `make install` puts the functions that scripts source.
const INSTALLED: &str = "/usr/local/share/beadlock/shell/";

/// What is typed, and the lines that come of it.
struct Turn {
    typed: String,
    said: Vec<String>,
}

const MARK: &str = "<!-- session";

/// Programs of others that `scripts/test-tools.sh` cannot install, since Debian does not have them.
const NOT_IN_DEBIAN: [&str; 1] = ["terraform"];

/// The sessions of a page, each with the program that it needs. A mark without a block after it is a mistake in the page.
fn sessions(text: &str) -> Vec<(Option<String>, Vec<Turn>)> {
    let session = |rest: &str| {
        let (mark, rest) = rest.split_once(" -->\n```\n")?;
        let (block, _) = rest.split_once("```")?;
        Some((mark.strip_prefix(" with ").map(str::to_owned), turns(block)))
    };
    let marked = text.split(MARK).skip(1);
    marked
        .map(|rest| session(rest).expect("a block of code after the mark of a session"))
        .collect()
}

/// Whether a program that a session needs is here; where it is not, that is said.
fn is_here(program: &str) -> bool {
    if NOT_IN_DEBIAN.contains(&program) && in_path(program).is_none() {
        cannot(&format!("needs {program}, which Debian does not have"));
        return false;
    }
    tool(program).is_some()
}

fn turns(block: &str) -> Vec<Turn> {
    let mut turns = Vec::<Turn>::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(typed) => turns.push(Turn {
                typed: typed.to_owned(),
                said: Vec::new(),
            }),
            None => turns
                .last_mut()
                .expect("a session begins with `$ `")
                .said
                .push(line.to_owned()),
        }
    }
    turns
}

/// A script that writes what comes of the turn N into `out.N`. Before the next one it waits for all that a command in
/// the background says.
fn script(turns: &[Turn]) -> String {
    let mut script = String::new();
    for (at, Turn { typed, said }) in turns.iter().enumerate() {
        let _ = match typed.strip_suffix(" &") {
            Some(typed) => writeln!(
                script,
                "{typed} >out.{at} 2>&1 &\nfor _ in $(seq 1000); do [ $(wc -l <out.{at}) -ge {} ] && break; sleep 0.02; done",
                said.len()
            ),
            None => writeln!(script, "{{ {typed}\n}} >out.{at} 2>&1"),
        };
    }
    script
}

/// A copy of the functions for scripts that every user can read.
fn library() -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("a directory");
    fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    for entry in fs::read_dir(checkout().join("integration/shell"))
        .expect("list the functions")
        .flatten()
    {
        if entry.path().is_file() {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("a copy");
        }
    }
    copy
}

/// Types them in a directory of their own, which is their home, in a shell without job control, and as an ordinary
/// user.
fn type_again(name: &str, turns: &[Turn]) {
    let scene = Scene::new();
    // A file that a session shows by cat exists. Its script sources our functions where that user can reach them.
    let shell = library();
    let here = format!("{}/", shell.path().display());
    for Turn { typed, said } in turns {
        if let Some(file) = typed.strip_prefix("cat ") {
            let text = said.join("\n") + "\n";
            fs::write(scene.path().join(file), text.replace(INSTALLED, &here))
                .expect("write a file");
        }
    }
    let deploy = scene.path().join("deploy.sh");
    write_program(&deploy, &b"#!/bin/sh\nsleep 0.1\necho deployed\n"[..]);
    let home = fs::canonicalize(scene.path()).expect("its path");
    let mut command = scene.shell(&script(turns));
    command
        .env("PATH", path_with_programs())
        .env("HOME", &home)
        .env("ACTOR", "ann");
    if may_be_root() && as_nobody(&mut command) {
        let files = fs::read_dir(&home)
            .expect("list it")
            .map(|entry| entry.expect("an entry").path());
        for path in files.chain([home.clone()]) {
            chown(&path, Some(65534), Some(65534)).expect("give it away");
        }
    }
    let ended = Ended::from(run(command));
    let said_now = |at: usize| {
        let text = fs::read_to_string(scene.path().join(format!("out.{at}"))).unwrap_or_default();
        shown::as_in_docs(&text.replace(&here, INSTALLED), &home)
    };
    for (at, Turn { typed, said }) in turns.iter().enumerate() {
        let now = said_now(at);
        let same = now
            .lines()
            .map(shown::plain)
            .eq(said.iter().map(|line| shown::plain(line)));
        assert!(
            same,
            "{name}: $ {typed}\nsays\n{now}\nand not\n{}\n{ended:?}",
            said.join("\n")
        );
    }
}

#[test]
fn sessions_say_what_the_documents_show() {
    if tool("jq").is_none() {
        return;
    }
    let mut count = 0;
    for name in pages() {
        for (program, session) in sessions(&document(&name)) {
            if program.is_none_or(|program| is_here(&program)) {
                type_again(&name, &session);
            }
            count += 1;
        }
    }
    assert!(count >= 11, "few sessions, or the scan sees few: {count}");
}

/// A block of commands or of their output says whether a test types it, and if not, why.
#[test]
fn every_block_of_commands_is_typed_again_or_says_why_not() {
    let mut count = 0;
    for name in pages() {
        let text = document(&name);
        let mut before = "";
        let mut is_inside = false;
        for line in text.lines() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                is_inside = !is_inside;
                if is_inside && matches!(language, "" | "sh" | "bash" | "console") {
                    let says = before.starts_with(MARK) || before.starts_with("<!-- not run: ");
                    assert!(
                        says,
                        "{name}: the block after {before:?} has neither a test nor a reason"
                    );
                    count += 1;
                }
            }
            before = line.trim_start();
        }
    }
    assert!(count >= 20, "few blocks, or the scan sees few: {count}");
}

/// README, and each page of docs.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(checkout().join(&folder))
            .expect("list the pages")
            .flatten()
        {
            let name = format!("{folder}/{}", entry.file_name().display());
            match entry.path() {
                path if path.is_dir() => folders.push(name),
                path if path.extension().is_some_and(|ending| ending == "md") => pages.push(name),
                _ => {}
            }
        }
    }
    pages.sort();
    pages
}
