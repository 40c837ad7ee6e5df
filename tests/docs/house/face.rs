//! What docs.rs shows of the checker: a page of names, and no type of another crate that beadlock may want to replace.

use std::fs;

use beadlock_tests::skip::checkout;

/// The whole page.
const PAGE: [&str; 17] = [
    "Cycle",
    "Decision",
    "Entered",
    "Error",
    "GateLoss",
    "Options",
    "Place",
    "Proceed",
    "Reason",
    "Record",
    "Removed",
    "Skip",
    "StartedAt",
    "Verdict",
    "Watched",
    "check",
    "should_skip_database",
];

/// Where these are.
const SOURCES: [&str; 9] =
    ["check", "decision", "dialect/mod", "dialect/time", "error", "gate_loss", "options", "place", "verdict"];

const HIDDEN: &str = "#[doc(hidden)]";

/// Types of these crates are in no signature that is documented.
const FOREIGN: [&str; 4] = ["jiff", "libc", "nix", "rustix"];

fn source(file: &str) -> String {
    fs::read_to_string(checkout().join(format!("checker/src/{file}.rs"))).unwrap()
}

/// The names and modules that docs.rs lists.
fn documented() -> Vec<String> {
    let text = source("lib");
    let mut names = Vec::new();
    for item in documented_lines(&text).join(" ").split(';') {
        let Some((_, item)) = item.split_once("pub ") else { continue };
        match item.strip_prefix("use ") {
            None => names.push(item.trim().to_owned()),
            Some(path) => {
                let (_, last) = path.rsplit_once("::").unwrap_or(("", path));
                let each = last.trim_matches(|c| "{} ".contains(c)).split(',');
                names.extend(each.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()));
            }
        }
    }
    names.sort();
    names
}

/// Lines of code, without the items after a `#[doc(hidden)]`, to the end of their line or signature, and without hidden
/// fields.
fn documented_lines(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut kept, mut is_hidden) = (Vec::new(), false);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if line == HIDDEN {
            is_hidden = true;
        } else if is_hidden {
            is_hidden = line.starts_with("#[") || !line.ends_with(['{', ';', ',', '}']);
        } else if let Some((shown, field)) = line.split_once(HIDDEN) {
            kept.push([shown, field.trim_start_matches(|c| !",)".contains(c))].concat());
        } else if !line.starts_with("#[") {
            kept.push(line.to_owned());
        }
    }
    kept
}

/// The signatures among these lines: what is public, and what is implemented.
fn signatures(lines: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].as_str();
        let begins = line.starts_with("pub ") && !line.starts_with("pub use ") || line.starts_with("impl");
        let mut signature = line.to_owned();
        // A field ends with a comma, an argument does not end its signature.
        let goes_on = |signature: &str| {
            let is_field = signature.ends_with(',') && !signature.contains('(');
            !signature.ends_with(['{', ';', '}']) && !is_field
        };
        while begins && goes_on(&signature) {
            at += 1;
            let Some(next) = lines.get(at) else { break };
            signature.push_str(next);
        }
        if begins {
            found.push(signature);
        }
        at += 1;
    }
    found
}

/// What a file has imported of the crates that are to stay out of sight, and these themselves.
fn foreign_names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = FOREIGN.iter().map(|name| format!("{name}::")).collect();
    let imports = text.split(';').filter_map(|item| item.trim().rsplit_once("use ")).map(|(_, path)| path);
    for path in imports.filter(|path| FOREIGN.iter().any(|name| path.starts_with(&format!("{name}::")))) {
        let words = path.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.extend(words.filter(|word| word.starts_with(char::is_uppercase)).map(str::to_owned));
    }
    names
}

/// The signatures of a file that show a type of another crate.
fn foreign_signatures(text: &str) -> Vec<String> {
    let names = foreign_names(text);
    let shows = |signature: &String| {
        let mut words = signature.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        words.any(|word| {
            names.iter().any(|name| word == name || name.ends_with("::") && word.starts_with(name.as_str()))
        })
    };
    signatures(&documented_lines(text)).into_iter().filter(shows).collect()
}

#[test]
fn the_checker_shows_one_page_of_names() {
    assert_eq!(documented(), PAGE);
}

#[test]
fn what_only_beadlock_uses_says_that_it_promises_nothing() {
    let text = source("internal");
    assert!(text.lines().next().is_some_and(|line| line.contains("It carries no stability promise")), "{text}");
    assert!(source("lib").contains("#[doc(hidden)]\npub mod internal;"));
}

#[test]
fn no_documented_signature_has_a_type_of_another_crate() {
    for file in SOURCES {
        assert_eq!(foreign_signatures(&source(file)), Vec::<String>::new(), "{file}.rs");
    }
}

/// The rule is tried on a small file.
#[test]
fn a_foreign_type_is_found_unless_it_is_hidden() {
    let text = "
        use jiff::SignedDuration;
        pub fn age() -> SignedDuration {
        }
        #[doc(hidden)]
        pub fn old() -> SignedDuration {
        }
        pub struct Pid(#[doc(hidden)] pub SignedDuration);
        impl From<nix::Error> for Pid {
        }
        pub fn fine(
            a: u32,
        ) {
        }
    ";
    let found = foreign_signatures(text);
    assert_eq!(found, ["pub fn age() -> SignedDuration {", "impl From<nix::Error> for Pid {"]);
}
