//! The tables of docs/protocols and docs/fleet.md do not rot: each row names tests that are there. That they pass is
//! seen where they are run, and row by row by `make protocol-check`.

use std::collections::BTreeMap;

use beadlock_tests::skip::checkout;
use xtask::protocol::sources::look_for;
use xtask::protocol::{Named, pages};

#[test]
fn every_row_of_every_protocol_names_tests_that_exist() {
    let pages = pages().unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
    let mut rows = BTreeMap::<&Named, Vec<String>>::new();
    for page in &pages {
        for row in &page.rows {
            for test in &row.tests {
                rows.entry(test).or_default().push(format!("{} {}", page.name, row.id));
            }
        }
    }
    let missing = |(test, rows): (&&Named, &Vec<String>)| {
        let why = look_for(&checkout(), test).err()?;
        Some(format!("{test} ({}): {why}", rows.join(", ")))
    };
    let missing: Vec<String> = rows.iter().filter_map(missing).collect();
    assert!(missing.is_empty(), "{} tests are missing:\n{}", missing.len(), missing.join("\n"));
}
