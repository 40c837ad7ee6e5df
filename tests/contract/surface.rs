//! What is there to be typed and read: help, manual pages, completions, variables, and how helpers show themselves.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use beadlock_tests::process::marked_by;
use beadlock_tests::skip::checkout;
use beadlock_tests::{Running, Scene, until};
use nix::sys::signal::{Signal, kill};
use regex::Regex;

use crate::answer::{indented, visible, whole};
use crate::book::Book;
use crate::hide::{hidden, without_version};
use crate::setting::Setting;

#[test]
fn help() {
    let mut book = Book::open("help");
    let setting = Setting::free();
    let mut pin = |name: &str, line: &str| {
        book.pin(name, &without_version(&whole(line, &setting.run(line))));
    };
    pin("beadlock", "beadlock --help");
    pin("beadlock-agent", "beadlock-agent --help");
    for command in [
        "hold",
        "acquire",
        "release",
        "renew",
        "wait",
        "cycle",
        "check",
        "status",
        "list",
        "top",
        "log",
        "doctor",
        "write",
        "update",
        "append",
        "merge",
        "setup",
        "fleet",
        "break",
        "help",
        "man",
        "completions",
        "schema",
    ] {
        pin(command, &format!("beadlock {command} --help"));
    }
    pin("contract-schemas", "beadlock schema");
    for command in ["create", "join", "leave", "status", "evict", "destroy"] {
        pin(
            &format!("fleet-{command}"),
            &format!("beadlock fleet {command} --help"),
        );
    }
    pin("setup-git", "beadlock setup git --help");
    for protocol in ["beads", "dir", "lock", "tower", "memory", "file", "flock"] {
        pin(
            &format!("protocol-{protocol}"),
            &format!("beadlock help {protocol}"),
        );
    }
    pin("hold-of-tower", "beadlock hold tower:app-prod --help");
    pin("acquire-of-memory", "beadlock acquire memory:state --help");
    book.close();
}

#[test]
fn manual_pages() {
    let mut book = Book::open("man");
    let setting = Setting::free();
    setting
        .run("mkdir man && beadlock man man && beadlock-agent --man man")
        .expect(0, &[]);
    let mut pages: Vec<_> = fs::read_dir(setting.scene.file("man"))
        .expect("pages")
        .flatten()
        .collect();
    pages.sort_by_key(fs::DirEntry::file_name);
    for page in pages {
        let text = fs::read_to_string(page.path()).expect("a page");
        book.pin(&page.file_name().to_string_lossy(), &without_version(&text));
    }
    book.close();
}

#[test]
fn completions() {
    let mut book = Book::open("completions");
    let setting = Setting::free();
    for shell in ["bash", "zsh", "fish"] {
        for (program, line) in [
            ("beadlock", "beadlock completions"),
            ("beadlock-agent", "beadlock-agent --completions"),
        ] {
            let script = setting.run(&format!("{line} {shell}")).expect(0, &[]).out;
            book.pin(&format!("{program}.{shell}"), &visible(&script));
        }
    }
    book.close();
}

/// Every variable of ours that the programs read or set.
#[test]
fn names_of_variables() {
    let name =
        Regex::new(r#""((?:BEADLOCK|BEADS|CLAWDBOT)_[A-Z_]+|BEADLOCK_)""#).expect("an expression");
    let mut found = BTreeSet::new();
    let mut look = |path: &Path| {
        let text = fs::read_to_string(path).expect("a source");
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        found.extend(name.captures_iter(text).map(|groups| groups[1].to_owned()));
    };
    for folder in [
        "checker/base/src",
        "checker/core/src",
        "checker/supervise/src",
        "integration/src",
        "integration/claim/src",
        "integration/cli/src",
        "integration/console/src",
        "integration/explain/src",
        "integration/files/src",
        "integration/fleet/src",
        "integration/log/src",
        "integration/oncall/src",
        "integration/session/src",
        "agent/src",
        "agent/git/src",
        "agent/repository/src",
        "agent/trust/src",
    ] {
        sources(&checkout().join(folder), &mut look);
    }
    assert!(
        found.len() > 40,
        "few names, or the scan sees few: {found:?}"
    );
    let mut book = Book::open("variables");
    book.pin(
        "contract-names",
        &found
            .into_iter()
            .map(|name| name + "\n")
            .collect::<String>(),
    );
    book.close();
}

fn sources(dir: &Path, look: &mut impl FnMut(&Path)) {
    for path in fs::read_dir(dir)
        .expect("a directory")
        .flatten()
        .map(|entry| entry.path())
    {
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_tests {
            sources(&path, look);
        } else if path.extension().is_some_and(|kind| kind == "rs") && !is_tests {
            look(&path);
        }
    }
}

/// The name and the command line of each helper process, by which `ps` shows it and other versions find it.
#[test]
fn helpers() {
    let mut book = Book::open("helpers");
    let wait = "-- sh -c 'echo >ready; until test -e go; do sleep 0.01; done'";
    let tower = "tower:app-prod --lock-dir locks --intent-name deploy --intent-version 1";
    for (name, line) in [
        (
            "contract-watchdog-tower",
            format!("beadlock hold {tower} {wait}"),
        ),
        (
            "contract-watchdog-memory",
            format!("beadlock hold memory:. {wait}"),
        ),
        (
            "contract-watchdog-file",
            format!("beadlock hold file:todo.json {wait}"),
        ),
        ("contract-gate-keeper", format!("beadlock cycle {wait}")),
    ] {
        let setting = Setting::free().variable("ACTOR", "ann");
        let running =
            Running::start(setting.command(&line.replacen("beadlock", "exec beadlock", 1)));
        until("the command runs", || setting.scene.file("ready").exists());
        until("there is one helper", || {
            helpers_of(&setting.scene).len() == 1
        });
        book.pin(name, &described(&setting));
        setting.scene.write("go", "");
        running.end().expect(0, &[]);
    }
    for (name, line) in [
        (
            "contract-keeper-beads",
            "beadlock acquire --detach --holder ci --max-hold 1h".to_owned(),
        ),
        (
            "contract-keeper-tower",
            format!("beadlock acquire --detach {tower} --max-hold 1h"),
        ),
        (
            "contract-keeper-memory",
            "beadlock acquire --detach memory:. --session-id s1 --max-hold 1h".to_owned(),
        ),
        (
            "contract-keeper-file",
            "beadlock acquire --detach file:todo.json --max-hold 1h --audit audit.jsonl".to_owned(),
        ),
    ] {
        let setting = Setting::free().variable("ACTOR", "ann");
        setting.run(&line).expect(0, &[]);
        until("there is one helper", || {
            helpers_of(&setting.scene).len() == 1
        });
        book.pin(name, &described(&setting));
        for pid in helpers_of(&setting.scene) {
            kill(pid, Signal::SIGTERM).expect("it is ours");
        }
        until("it is gone", || helpers_of(&setting.scene).is_empty());
    }
    book.close();
}

fn helpers_of(scene: &Scene) -> Vec<nix::unistd::Pid> {
    let is_one =
        |pid: &nix::unistd::Pid| words_of(*pid).get(1).is_some_and(|word| word == "__helper");
    marked_by(scene).into_iter().filter(is_one).collect()
}

fn words_of(pid: nix::unistd::Pid) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// The helpers of a setting as text. Paths are lists of bytes there.
fn described(setting: &Setting) -> String {
    let bytes = Regex::new(r"\[\d+(?:,\d+){5,}\]").expect("an expression");
    let mut text = String::new();
    for pid in helpers_of(&setting.scene) {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        text += &format!("comm: {comm}");
        for word in words_of(pid) {
            let word = bytes.replace_all(&word, |list: &regex::Captures<'_>| {
                let numbers: Vec<u8> = serde_json::from_str(&list[0]).expect("bytes");
                format!("\"the bytes of {}\"", String::from_utf8_lossy(&numbers))
            });
            let word = if word.starts_with('{') {
                indented(&word)
            } else {
                word.into_owned()
            };
            text += &(word + "\n");
        }
    }
    hidden(&text, &setting.known)
}
