//! `--schema`, in a beadlock built with the feature `validate-schema`:
//! `cargo test -p beadlock-cli --features validate-schema --test schema`.

#![forbid(unsafe_code)]
#![cfg(test)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const NEEDS_N: &str = r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}"#;

/// A directory with these files.
fn scene(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// `beadlock ARGS` in `dir`, with this on its standard input: its exit code, and what it says.
fn beadlock(dir: &Path, args: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_beadlock"));
    command
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    // It need not read it.
    let _ = running.stdin.take().unwrap().write_all(input.as_bytes());
    let ended = running.wait_with_output().unwrap();
    (
        ended.status.code(),
        String::from_utf8_lossy(&ended.stderr).into_owned(),
    )
}

#[test]
fn content_that_does_not_conform_changes_nothing() {
    let files = [
        ("log.jsonl", "{}\n"),
        ("schema.json", NEEDS_N),
        ("todo.json", "{\"n\":0}\n"),
    ];
    let dir = scene(&files);
    for (content, words, reason) in [
        (
            "{\"n\":\"x\"}",
            &["write", "file:todo.json"][..],
            "\"x\" is not of type \"integer\" at /n",
        ),
        (
            "{\"n\":\"x\"}",
            &["write", "file:todo.json"],
            "standard input is not what schema.json asks for",
        ),
        (
            "[]",
            &["write", "file:todo.json"],
            "is not of type \"object\" at its top",
        ),
        (
            "[] x",
            &["write", "file:todo.json"],
            "trailing characters at line 1 column 4",
        ),
        ("{\"n\":1}\n{}\n", &["write", "file:log.jsonl"], "(line 2)"),
        ("{\"n\":1}\n[]\n", &["append", "file:log.jsonl"], "(line 2)"),
    ] {
        let (code, said) = beadlock(
            dir.path(),
            &[words, &["--schema", "schema.json"]].concat(),
            content,
        );
        assert_eq!(code, Some(1), "{content}: {said}");
        assert!(
            said.contains(reason) && said.contains("stays as it was"),
            "{content}: {said}"
        );
        for (name, text) in files {
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), text);
        }
        assert_eq!(
            names(dir.path()).len(),
            3,
            "not even a lock file was needed"
        );
    }
    let update = [
        "update",
        "file:todo.json",
        "--schema",
        "schema.json",
        "--",
        "sed",
        "s/0/1.5/",
    ];
    let (code, said) = beadlock(dir.path(), &update, "");
    assert!(
        code == Some(1) && said.contains("1.5 is not of type \"integer\" at /n"),
        "{said}"
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("todo.json")).unwrap(),
        "{\"n\":0}\n"
    );
}

#[test]
fn content_that_conforms_is_written() {
    let dir = scene(&[("schema.json", NEEDS_N)]);
    for (content, words) in [
        ("{\"n\":1}", &["write", "file:todo.json"][..]),
        ("{\"n\":1}\n{\"n\":2}\n", &["write", "file:log.jsonl"]),
        ("{\"n\":3}\n", &["append", "file:log.jsonl"]),
    ] {
        let (code, said) = beadlock(
            dir.path(),
            &[words, &["--schema", "schema.json"]].concat(),
            content,
        );
        assert_eq!(code, Some(0), "{said}");
    }
    let lines = fs::read_to_string(dir.path().join("log.jsonl")).unwrap();
    assert_eq!(lines, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
}

#[test]
fn what_is_not_a_schema_is_refused_before_anything() {
    let dir = scene(&[("none.json", r#"{"type":7}"#)]);
    for (options, expected, words) in [
        (&["--schema", "none.json"][..], 2, "no JSON Schema"),
        (
            &["--schema", "nowhere.json"],
            1,
            "failed to read the schema nowhere.json",
        ),
        (
            &["--schema", "none.json", "--format", "any"],
            2,
            "--schema is for JSON",
        ),
        (
            &["--schema", "/dev/zero"],
            2,
            "/dev/zero is no JSON Schema that could be used: it has more than 16 MiB",
        ),
    ] {
        let (code, said) = beadlock(
            dir.path(),
            &[&["write", "file:x.json"], options].concat(),
            "{}",
        );
        assert_eq!(code, Some(expected), "{said}");
        assert!(said.contains(words), "{said}");
        assert_eq!(names(dir.path()), ["none.json"]);
    }
}
