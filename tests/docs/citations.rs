//! The repository explains itself: every link into `docs` leads to a page and a heading that are there, and no
//! committed file cites a page that is not in the repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use beadlock_tests::skip::{self, checkout};
use beadlock_tests::{Ended, run, tool};

/// The pages that these words would cite lie beside the repository. In pieces, so that this file does not cite them.
const OUTSIDE: [&str; 5] = [
    concat!("DES", "IGN"),
    concat!("MOD", "EL"),
    concat!("the s", "eed"),
    concat!("FLEET", ".md"),
    concat!("STYLE", ".md"),
];

/// Documents and inputs that some tests look for. Only the code that does so may name the folder, and the page that
/// says it.
const FOLDER: &str = concat!("../", "shared");
const MAY_NAME_THE_FOLDER: [&str; 2] = ["skip.rs", "CONTRIBUTING.md"];

/// Every text of the repository that git would commit, by its name; `None` where there is no git, or no repository.
pub(super) fn committed() -> Option<BTreeMap<PathBuf, String>> {
    let top = checkout();
    let mut command = Command::new(tool("git")?);
    command
        .env_clear()
        .args(["-c", "safe.directory=*", "-C"])
        .arg(&top);
    command.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let listed = Ended::from(run(command));
    if listed.code != 0 || !top.join(".git").exists() {
        skip::cannot(&format!("needs a checkout of git: {}", listed.err.trim()));
        return None;
    }
    // Files that are not text, and those that are deleted and not committed yet, cite nothing.
    let text = |name: &str| {
        Some((
            PathBuf::from(name),
            fs::read_to_string(top.join(name)).ok()?,
        ))
    };
    Some(listed.out.split('\0').filter_map(text).collect())
}

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `word` is in the line, and not as a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !before.ends_with(is_of_a_word) && !after.starts_with(is_of_a_word)
    })
}

/// What is wrong with a line of the file of this name.
fn cites_outside(name: &Path, line: &str) -> bool {
    let lower = line.to_lowercase();
    let may_name_the_folder = MAY_NAME_THE_FOLDER.iter().any(|file| name.ends_with(file));
    OUTSIDE
        .iter()
        .any(|word| has_word(line, word) || (word.contains(' ') && has_word(&lower, word)))
        || (line.contains(FOLDER) && !may_name_the_folder)
}

#[test]
fn no_committed_file_cites_a_page_outside_the_repository() {
    let Some(files) = committed() else { return };
    let mut wrong = String::new();
    let mut count = 0;
    for (name, text) in &files {
        for (number, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| cites_outside(name, line))
        {
            count += 1;
            let _ = writeln!(wrong, "{}:{}: {}", name.display(), number + 1, line.trim());
        }
    }
    assert_eq!(
        count, 0,
        "lines that cite a page outside the repository:\n{wrong}"
    );
}

#[test]
fn what_cites_a_page_outside_is_seen() {
    for line in [
        "(DES?IGN 6.3)",
        "// MOD?EL V5",
        "as the s?eed has it",
        "The s?eed's words",
        "| DES?IGN 7 | states |",
    ] {
        assert!(
            cites_outside(Path::new("x.rs"), &line.replace('?', "")),
            "{line}"
        );
    }
    let folder = format!("in {FOLDER}/x");
    assert!(cites_outside(Path::new("x.rs"), &folder));
    assert!(!cites_outside(Path::new("CONTRIBUTING.md"), &folder));
    for line in [
        "DESIGNED",
        "a model",
        "docs/design.md#the-gate",
        "of_the_seed()",
        "the seedling",
        "a seed",
    ] {
        assert!(!cites_outside(Path::new("x.rs"), line), "{line}");
    }
}

/// A page and perhaps a heading of it, from the top of the repository.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    page: PathBuf,
    heading: Option<String>,
}

impl Link {
    /// `text` is what follows `docs/` in the line, or stands between the brackets of a link in a page.
    fn parse(folder: &Path, text: &str) -> Option<Self> {
        let end = text
            .find(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c)))
            .unwrap_or(text.len());
        let (path, rest) = text.split_at(end);
        // A full stop behind it ends a sentence.
        let path = path.trim_end_matches('.');
        let page = path.ends_with(".md").then(|| plain(&folder.join(path)))?;
        let heading = rest.strip_prefix('#').map(|rest| {
            rest.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '-' || *c == '_')
                .collect()
        });
        Some(Self { page, heading })
    }
}

/// Without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Every `docs/PAGE.md#heading` in any file, and in a page every link that is relative to it.
fn links(name: &Path, text: &str) -> BTreeSet<Link> {
    let is_inside = |before: &str| before.ends_with(|c: char| is_of_a_word(c) || "/-".contains(c));
    let named = text.match_indices("docs/").filter(|(at, _)| {
        let before = text[..*at].trim_end_matches("../");
        !is_inside(before)
    });
    let named =
        named.filter_map(|(at, found)| Link::parse(Path::new("docs"), &text[at + found.len()..]));
    let mut links: BTreeSet<Link> = named.collect();
    if name.extension().is_some_and(|extension| extension == "md") {
        let folder = name.parent().unwrap_or(Path::new(""));
        for (at, found) in text.match_indices("](") {
            let target = &text[at + found.len()..];
            let own = target
                .starts_with('#')
                .then(|| format!("{}{target}", name.display()));
            links.extend(match own {
                Some(own) => Link::parse(Path::new(""), &own),
                None if target
                    .split(')')
                    .next()
                    .is_some_and(|link| link.contains("://")) =>
                {
                    None
                }
                None => Link::parse(folder, target),
            });
        }
    }
    links
}

/// The anchors of a page's headings, as its readers' programs make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let mut anchors = BTreeSet::new();
    for line in page.lines() {
        in_code ^= line.starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase().replace(' ', "-");
        anchors.insert(
            kept.chars()
                .filter(|c| is_of_a_word(*c) || *c == '-')
                .collect(),
        );
    }
    anchors
}

#[test]
fn every_link_into_the_docs_leads_to_a_heading() {
    let Some(files) = committed() else { return };
    let pages: BTreeMap<&Path, BTreeSet<String>> = files
        .iter()
        .filter(|(name, _)| name.extension().is_some_and(|extension| extension == "md"))
        .map(|(name, page)| (name.as_path(), anchors(page)))
        .collect();
    let (mut wrong, mut with_heading) = (String::new(), 0);
    for (name, text) in files
        .iter()
        .filter(|(name, _)| !name.ends_with("docs/citations.rs"))
    {
        for link in links(name, text) {
            let headings = pages.get(link.page.as_path());
            with_heading += usize::from(link.heading.is_some());
            let is_there = headings
                .is_some_and(|all| link.heading.as_ref().is_none_or(|one| all.contains(one)));
            if !is_there {
                let heading = link
                    .heading
                    .map(|heading| format!("#{heading}"))
                    .unwrap_or_default();
                let _ = writeln!(
                    wrong,
                    "{} links to {}{heading}",
                    name.display(),
                    link.page.display()
                );
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{wrong}");
    assert!(
        with_heading > 100,
        "few links with a heading, or the scan sees few: {with_heading}"
    );
}

#[test]
fn links_and_headings_are_read_as_they_are_written() {
    let found =
        |name: &str, text: &str| links(Path::new(name), text).into_iter().collect::<Vec<_>>();
    let link = |page: &str, heading: Option<&str>| Link {
        page: page.into(),
        heading: heading.map(str::to_owned),
    };
    let gate = link("docs/design.md", Some("the-gate"));
    assert_eq!(
        found("x.rs", "//! The gate (docs/design.md#the-gate)."),
        [gate]
    );
    assert_eq!(
        found("x.rs", "see docs/protocols/file.md."),
        [link("docs/protocols/file.md", None)]
    );
    assert_eq!(
        found(
            "x.rs",
            "https://example.org/docs/x.md, a docs/ folder, [y](y.md)"
        ),
        []
    );
    let page = "[a](../README.md#exit-codes) [b](#b) [c](https://example.org/c.md)";
    let expected = [
        link("README.md", Some("exit-codes")),
        link("docs/page.md", Some("b")),
    ];
    assert_eq!(found("docs/page.md", page), expected);
    let headings = anchors("# `lock:PATH`, or not?\n```\n# no\n```\n### V3\n#no\n");
    assert_eq!(
        headings.into_iter().collect::<Vec<_>>(),
        ["lockpath-or-not", "v3"]
    );
}

/// What the page calls by a file's path is there, and so is each test that it calls by its name.
#[test]
fn the_page_of_the_model_names_only_files_and_tests_that_exist() {
    let page = crate::document("docs/model.md");
    let mut sources = String::new();
    for folder in ["tests/model", "checker/tests/takeover"] {
        crate::read_all(&checkout().join(folder), &mut sources);
    }
    let (mut files, mut tests) = (0, 0);
    for word in page
        .split("```")
        .step_by(2)
        .flat_map(|prose| prose.split('`').skip(1).step_by(2))
    {
        if ["checker/", "integration/", "tests/"]
            .iter()
            .any(|crate_| word.starts_with(crate_))
        {
            assert!(
                checkout().join(word).exists(),
                "docs/model.md names {word}, which is not there"
            );
            files += 1;
        } else if word.matches('_').count() > 3 && !word.contains(' ') {
            assert!(
                sources.contains(&format!("fn {word}(")),
                "docs/model.md names the test {word}, which is not there"
            );
            tests += 1;
        }
    }
    assert!(
        files >= 10 && tests >= 15,
        "few names, or the scan sees few: {files} files, {tests} tests"
    );
}
