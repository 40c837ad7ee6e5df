//! `cargo xtask words`: finds sentences that are hard to read, in the documents and in the comments. `make lint` runs
//! it.
//!
//! It sees five patterns ([`Pattern`]). The documents and the `--help` texts must have none of them. The comments of
//! Rust files may have [`COMMENTS_AT_MOST`] altogether.
//!
//! It reads markdown as far as this needs ([`Prose`]) and knows no grammar: a rare sentence is counted wrongly, and is
//! then easier to change than the rule.

mod find;
mod prose;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use find::{Finding, Pattern, find};
pub use prose::{Passage, Prose, Word};

/// How many findings the comments of all Rust files may have: a tenth of those at the first count, which were 427. This
/// number may only fall.
pub const COMMENTS_AT_MOST: usize = 42;

/// What the texts of one kind have.
#[derive(Debug, Default)]
struct Tally {
    files: usize,
    findings: Vec<(PathBuf, Finding)>,
}

impl Tally {
    fn read(&mut self, path: &Path, prose: &Prose) {
        self.files += 1;
        self.findings.extend(find(prose).into_iter().map(|finding| (path.to_path_buf(), finding)));
    }

    fn print(&self) {
        for (path, finding) in &self.findings {
            println!("{}:{}: {}: {}", path.display(), finding.line, finding.pattern, finding.text);
        }
    }
}

/// Prints each finding in the documents and the help texts, and the totals. With `--comments` also each finding in the
/// comments. Fails when a total is above its limit.
pub fn words(arguments: &[String]) -> ExitCode {
    let shows_comments = match arguments {
        [] => false,
        [one] if one == "--comments" => true,
        _ => {
            eprintln!("words: the only argument is --comments");
            return ExitCode::from(2);
        }
    };
    let top = beadlock_testkit::skip::checkout();
    let (mut documents, mut help, mut comments) = (Tally::default(), Tally::default(), Tally::default());
    let read = below(&top, Path::new(""), &mut |path, text| {
        if is_document(path) {
            documents.read(path, &Prose::of_page(text));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            if is_help(text) {
                help.read(path, &Prose::of_help(text));
            }
            comments.read(path, &Prose::of_comments(text));
        }
    });
    if let Err(error) = read {
        eprintln!("words: {error}");
        return ExitCode::FAILURE;
    }
    documents.print();
    help.print();
    let found = comments.findings.len();
    if shows_comments || found > COMMENTS_AT_MOST {
        comments.print();
    }
    println!("words: {} in {} documents (at most 0)", documents.findings.len(), documents.files);
    println!("words: {} in the help texts of {} files (at most 0)", help.findings.len(), help.files);
    println!("words: {found} in the comments of {} files (at most {COMMENTS_AT_MOST})", comments.files);
    if documents.findings.is_empty() && help.findings.is_empty() && found <= COMMENTS_AT_MOST {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Calls `each` with every Rust file and every page below the folder, by its path from the top. Hidden files and what
/// builds leave in `target` are left out.
fn below(top: &Path, folder: &Path, each: &mut impl FnMut(&Path, &str)) -> io::Result<()> {
    let said = |error: io::Error, path: &Path| io::Error::other(format!("{}: {error}", path.display()));
    let entries = fs::read_dir(top.join(folder)).map_err(|error| said(error, folder))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|error| said(error, folder))?.file_name());
    }
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let is_left_out = name == "target" || name.to_string_lossy().starts_with('.');
        if !is_left_out && top.join(&path).is_dir() {
            below(top, &path, each)?;
        } else if !is_left_out && path.extension().is_some_and(|ending| ending == "rs" || ending == "md") {
            let text = fs::read_to_string(top.join(&path)).map_err(|error| said(error, &path))?;
            each(&path, &text);
        }
    }
    Ok(())
}

/// Whether the rules for documents hold for the file of this path from the top.
fn is_document(path: &Path) -> bool {
    let is_page = path.extension().is_some_and(|ending| ending == "md");
    let is_of_top = path.components().count() == 1;
    is_page
        && (is_of_top || path.starts_with("docs") || (path.starts_with("integration") && path.ends_with("README.md")))
}

/// Whether clap makes a `--help` text of this file's `///` comments.
fn is_help(text: &str) -> bool {
    let derives = text.lines().filter_map(|line| line.trim_start().strip_prefix("#[derive("));
    let mut names = derives.flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
    names.any(|name| ["Args", "Parser", "Subcommand", "ValueEnum"].contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_the_pages_for_users() {
        for page in ["README.md", "CHANGELOG.md", "docs/design.md", "docs/guide/ci.md", "integration/systemd/README.md"]
        {
            assert!(is_document(Path::new(page)), "{page}");
        }
        for page in ["tests/README.md", "integration/notes.md", "docs/performance.svg", "README"] {
            assert!(!is_document(Path::new(page)), "{page}");
        }
    }

    #[test]
    fn a_help_text_is_a_file_with_a_derive_of_clap() {
        assert!(is_help("#[derive(Debug, clap::Args)]\npub struct Hold;"));
        assert!(is_help("    #[derive(Subcommand)]\nenum Command {}"));
        assert!(!is_help("#[derive(Debug, Clone)]\npub struct Args;"));
    }

    #[test]
    fn files_are_found_below_folders_and_not_in_hidden_ones() {
        let top = tempfile::tempdir().expect("a directory");
        for folder in ["docs/guide", "target/debug", ".git"] {
            fs::create_dir_all(top.path().join(folder)).expect("a folder");
        }
        for file in ["README.md", "docs/guide/ci.md", "docs/plot.svg", "target/debug/x.rs", ".git/y.md", "a.rs"] {
            fs::write(top.path().join(file), file).expect("a file");
        }
        let mut seen = Vec::new();
        below(top.path(), Path::new(""), &mut |path, text| {
            assert_eq!(path, Path::new(text));
            seen.push(text.to_owned());
        })
        .expect("read them");
        assert_eq!(seen, ["README.md", "a.rs", "docs/guide/ci.md"]);
    }
}
