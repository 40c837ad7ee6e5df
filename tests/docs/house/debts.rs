//! What is still against the rules of the house. Each list and each figure is what is measured, so that it can only
//! shrink: one that grows fails, and one that has shrunk has to be written down here.

use std::collections::BTreeSet;

use super::workspace::Workspace;
use super::{seam, sizes};

/// The enums of the protocols that are written by hand. `Dialect` and `Record` are made from the list in
/// checker/src/dialect/mod.rs.
const ENUMS: &[&str] = &["checker/target.rs: Scheme"];

/// Places outside its folders that name a protocol.
const PLACES: &[(&str, usize)] = &[];

/// Functions above 80 lines.
const FUNCTIONS: &[&str] = &[];

/// Files above 400 lines.
const FILES: &[&str] = &[];

/// Lines above 120 columns.
const WIDE_LINES: usize = 0;

/// The most lines that each crate may have in `src`, without unit tests. It may have fewer.
const LINES: &[(&str, usize)] =
    &[("checker", 10900), ("integration", 33700), ("integration/fleet", 4700), ("agent", 15000)];

#[test]
fn the_enums_of_the_protocols_are_those_that_are_known() {
    let found = seam::enums(&Workspace::read());
    let found: Vec<String> = found.into_iter().map(|one| format!("{}: {}", one.file, one.name)).collect();
    assert_eq!(found, ENUMS, "see ENUMS in tests/docs/house/debts.rs");
}

#[test]
fn no_more_places_name_a_protocol() {
    let places = seam::places(&Workspace::read());
    let mut wrong = Vec::new();
    for protocol in seam::protocols() {
        let files = places.get(protocol);
        let count = files.map_or(0, |files| files.values().map(BTreeSet::len).sum());
        let known = PLACES.iter().find(|(name, _)| *name == protocol).map_or(0, |(_, places)| *places);
        if count != known {
            wrong.push(format!("{protocol} is named in {count} places, and PLACES says {known}: {files:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_function_no_file_and_no_line_grows_too_long() {
    let workspace = Workspace::read();
    // Without its length: a known one may still change.
    let functions: Vec<String> = sizes::long_functions(&workspace).iter().map(|found| without_length(found)).collect();
    assert_eq!(functions, FUNCTIONS, "see FUNCTIONS in tests/docs/house/debts.rs");
    let files: Vec<String> = sizes::long_files(&workspace).iter().map(|found| without_length(found)).collect();
    assert_eq!(files, FILES, "see FILES in tests/docs/house/debts.rs");
    assert_eq!(sizes::wide_lines(&workspace), WIDE_LINES, "see WIDE_LINES in tests/docs/house/debts.rs");
}

fn without_length(found: &str) -> String {
    found.rsplit_once(' ').map_or(found, |(name, _)| name).to_owned()
}

#[test]
fn no_crate_has_more_lines() {
    let mut wrong = Vec::new();
    for (name, lines) in sizes::lines(&Workspace::read()) {
        let limit = LINES.iter().find(|(known, _)| *known == name).map_or(0, |(_, lines)| *lines);
        if lines > limit {
            wrong.push(format!("{name} has {lines} lines in src, and LINES allows {limit}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
