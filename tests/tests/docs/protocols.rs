//! The tables of docs/protocols do not rot: each row names tests that are there. That they pass is seen where they are
//! run, and row by row by `make protocol-check`.

use beadlock_tests::protocol::pages;
use beadlock_tests::protocol::sources::look_for;
use beadlock_tests::skip::checkout;

#[test]
fn every_row_of_every_protocol_names_tests_that_exist() {
    let pages = pages().unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
    let mut missing = Vec::new();
    for page in &pages {
        for row in &page.rows {
            for test in &row.tests {
                if let Err(why) = look_for(&checkout(), test) {
                    missing.push(format!("{} {} ({}): {test}: {why}", page.name, row.id, row.section));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{} tests are missing:\n{}", missing.len(), missing.join("\n"));
}
