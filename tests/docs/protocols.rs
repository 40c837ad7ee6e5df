//! The tables of docs/protocols and docs/fleet.md do not rot: each row names tests that are there. That they pass is
//! seen where they are run, and row by row by `make protocol-check`.

use std::collections::{BTreeMap, BTreeSet};

use beadlock_tests::skip::checkout;
use xtask::protocol::sources::look_for;
use xtask::protocol::{Named, pages};

use super::document;

#[test]
fn every_row_of_every_protocol_names_tests_that_exist() {
    let pages = pages().unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
    let mut rows = BTreeMap::<&Named, Vec<String>>::new();
    for page in &pages {
        for row in &page.rows {
            for test in &row.tests {
                rows.entry(test)
                    .or_default()
                    .push(format!("{} {}", page.name, row.id));
            }
        }
    }
    let missing = |(test, rows): (&&Named, &Vec<String>)| {
        let why = look_for(&checkout(), test).err()?;
        Some(format!("{test} ({}): {why}", rows.join(", ")))
    };
    let missing: Vec<String> = rows.iter().filter_map(missing).collect();
    assert!(
        missing.is_empty(),
        "{} tests are missing:\n{}",
        missing.len(),
        missing.join("\n")
    );
}

/// Scripts rely on two closed lists, the reasons and the error codes. A word without a row is a contract without a test.
#[test]
fn every_reason_and_every_error_code_has_its_row_in_the_contract() {
    let page = document("docs/protocols/contract.md");
    let mut words = BTreeSet::new();
    for (file, before, at_least) in [
        ("checker/core/src/verdict.rs", " = \"", 29),
        ("integration/claim/src/error/failure.rs", " = \"", 11),
    ] {
        let source = document(file);
        let found = source
            .split(before)
            .skip(1)
            .filter_map(|rest| rest.split_once('"'))
            .map(|(word, _)| word);
        let known = words.len();
        words.extend(found.map(str::to_owned));
        assert!(
            words.len() - known >= at_least,
            "few words in {file}, or the scan sees few: {words:?}"
        );
    }
    let missing: Vec<_> = words
        .iter()
        .filter(|word| !page.contains(&format!("| states | `{word}`: ")))
        .collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}
