//! The tables of `docs/protocols` and of `docs/fleet.md`: each requirement of a protocol's document, promise of the
//! commands, or fault of a fleet, and the tests that show it.
//!
//! A page says how many rows it has at least, in a comment: `<!-- protocol-check: at least 60 rows -->`. Every table
//! under the line `| id | section | says | requirement | tests |` counts; other tables of the page do not. `make
//! protocol-check` runs what the rows name ([`run`](mod@run)); `make test` looks that it is there ([`sources`]).

pub mod named;
pub mod run;
pub mod sources;
mod table;

use std::fs;
use std::path::PathBuf;

pub use named::Named;
pub use table::{Page, Row};

/// Where the pages are.
pub fn directory() -> PathBuf {
    beadlock_testkit::skip::checkout().join("docs/protocols")
}

/// The page of claims across machines, which is not a protocol of a lock file and has the same table.
pub fn fleet() -> PathBuf {
    beadlock_testkit::skip::checkout().join("docs/fleet.md")
}

/// Every page, by name; or what is wrong with them, a line each.
pub fn pages() -> Result<Vec<Page>, Vec<String>> {
    let entries =
        fs::read_dir(directory()).map_err(|e| vec![format!("{}: {e}", directory().display())])?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "md"));
    files.push(fleet());
    files.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    let (mut pages, mut wrong) = (Vec::new(), Vec::new());
    for file in files {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text =
            fs::read_to_string(&file).map_err(|e| vec![format!("{}: {e}", file.display())])?;
        match Page::parse(&name, &text) {
            Ok(page) => pages.push(page),
            Err(lines) => wrong.extend(lines),
        }
    }
    if pages.is_empty() && wrong.is_empty() {
        wrong.push(format!("{} has no page", directory().display()));
    }
    if wrong.is_empty() {
        Ok(pages)
    } else {
        Err(wrong)
    }
}
