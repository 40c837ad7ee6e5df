//! The schemas of `beadlock schema`, and docs/json.md, are what `cargo xtask schemas` makes.

use std::path::PathBuf;

use beadlock_tests::skip::checkout;

#[test]
fn the_schemas_and_their_page_are_as_the_task_makes_them() {
    let stale = xtask::schemas::stale(&checkout());
    assert_eq!(stale, Vec::<PathBuf>::new(), "type: cargo xtask schemas");
}
