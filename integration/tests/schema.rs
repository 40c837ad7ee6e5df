//! `file::Schema`, with the feature `validate-schema`: `cargo test -p beadlock --features validate-schema --test schema`.

#![forbid(unsafe_code)]
#![cfg(test)]

use std::fs;

use beadlock::file::{FileLock, Rules, Schema};
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

#[test]
fn from_rust_a_schema_is_one_of_the_rules() {
    let dir = scene(&[("schema.json", NEEDS_N)]);
    let path = dir.path().join("todo.json");
    let rules = Rules::default().schema(Schema::read(&dir.path().join("schema.json")).unwrap());
    let lock = FileLock::exclusive(&path).unwrap();
    let error = lock.write_with(&b"{}"[..], &rules).unwrap_err();
    assert!(
        error.to_string().contains("\"n\" is a required property"),
        "{error}"
    );
    assert_eq!(lock.read().unwrap(), None);
    lock.write_with(&br#"{"n": 1}"#[..], &rules).unwrap();
    lock.release().unwrap();
}
