//! CONTRIBUTING lists each condition of a `cfg` with the build that checks it, and the branches that no build checks.
//! These lists are those of the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use beadlock_tests::skip::checkout;

use super::document;

/// The cells of the table under this head, a row each. Backticks are left out.
fn rows(text: &str, head: &str) -> Vec<(String, String)> {
    let (_, rest) = text.split_once(head).unwrap_or_else(|| panic!("there is a table {head}"));
    let cells = |line: &str| {
        let (left, right) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        Some((left.replace('`', ""), right.replace('`', "")))
    };
    rest.trim_start().lines().skip(1).map_while(cells).collect()
}

/// Every file with this ending below a folder; not what a build has left there.
fn below(folder: &Path, ending: &str, each: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("list the sources").flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            below(&path, ending, each);
        } else if path.extension().is_some_and(|found| found == ending) {
            each(&path, &fs::read_to_string(&path).expect("read a source"));
        }
    }
}

/// What stands in the parentheses of each `cfg` of a source; of `cfg_attr` the condition alone.
fn conditions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for begin in ["#[cfg(", "#![cfg(", "cfg!(", "cfg_attr("] {
        for (_, rest) in text.match_indices(begin).map(|(at, begin)| text.split_at(at + begin.len())) {
            let mut depth = 0;
            let end = rest.find(|c: char| {
                depth += match c {
                    '(' => 1,
                    ')' => -1,
                    _ => 0,
                };
                depth < 0 || (depth == 0 && c == ',' && begin == "cfg_attr(")
            });
            let condition = &rest[..end.expect("a condition ends")];
            found.push(condition.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    found
}

#[test]
fn contributing_lists_every_condition_of_a_cfg() {
    let mut found = BTreeSet::new();
    let mut files = 0;
    let of_tests = fs::read_dir(checkout().join("tests")).expect("list the tests").flatten().map(|entry| entry.path());
    // This file has conditions in its texts.
    let of_tests = of_tests.filter(|path| path.is_dir() && !path.ends_with("docs"));
    let crates = ["checker", "integration", "agent", "examples", "fuzz"].map(|name| checkout().join(name));
    for folder in crates.into_iter().chain(of_tests) {
        below(&folder, "rs", &mut |path, text| {
            files += 1;
            for word in ["cfg_select!", "cfg_if!"] {
                assert!(!text.contains(word), "{}: {word} is not read by this test", path.display());
            }
            found.extend(conditions(text));
        });
        below(&folder, "toml", &mut |path, text| {
            assert!(!text.contains("target.'cfg("), "{}: a dependency for some targets is in no list", path.display());
        });
    }
    let listed = rows(&document("CONTRIBUTING.md"), "| condition | checked by |");
    let listed: BTreeSet<String> = listed.into_iter().map(|(condition, _)| condition).collect();
    assert_eq!(listed, found, "the list of CONTRIBUTING.md, and the sources");
    assert!(files > 300, "few files, or the scan sees few: {files}");
}

/// What a shell library does only on another system: BSD's `stat`, or a question for the system's name.
#[test]
fn contributing_lists_every_branch_of_a_shell_library_for_another_system() {
    let mut found = BTreeSet::new();
    below(&checkout().join("integration/shell"), "sh", &mut |path, text| {
        let file = path.strip_prefix(checkout()).expect("below the checkout").display().to_string();
        for (_, rest) in text.match_indices("stat -f ").map(|(at, _)| text.split_at(at)) {
            let words: Vec<&str> = rest.split_whitespace().take(3).collect();
            found.insert((file.clone(), words.join(" ")));
        }
        for word in ["uname", "OSTYPE", "MACHTYPE"] {
            assert!(!text.contains(word), "{file}: {word} begins a branch that is in no list");
        }
    });
    let listed: BTreeSet<_> = rows(&document("CONTRIBUTING.md"), "| file | branch |").into_iter().collect();
    assert_eq!(listed, found, "the list of CONTRIBUTING.md, and the libraries");
    assert!(!found.is_empty());
}

#[test]
fn conditions_are_read_as_they_are_written() {
    let text =
        "#[cfg(all(unix,\n    not(target_os = \"linux\")))] mod a; #![cfg_attr(windows, expect(x))] if cfg!(test) {}";
    assert_eq!(conditions(text), ["all(unix, not(target_os = \"linux\"))", "test", "windows"]);
}

/// Each platform that a protocol's document names has its row in README.
#[test]
fn readme_says_what_is_true_for_each_platform_of_the_documents() {
    let rows = rows(&document("README.md"), "| platform | what is true |");
    for platform in ["Linux", "WSL 2", "WSL 1", "macOS", "BSD", "Windows"] {
        let named = rows.iter().filter(|(names, _)| names.split(", ").any(|name| name == platform));
        assert_eq!(named.count(), 1, "{platform} in {rows:?}");
    }
}
