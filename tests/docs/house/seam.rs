//! Where a protocol is named outside its folders. Naming is: a path with the segment `protocol::NAME` or
//! `dialect::NAME`, or with a module imported from there; a variant of an enum of the protocols; a string that begins
//! with `NAME:`.

use std::collections::{BTreeMap, BTreeSet};

use beadlock_core::target::Scheme;

use super::lexer::{Kind, Lexeme, Source, end_of_item};
use super::workspace::{File, Workspace};

/// The protocols, as their modules are called: the product's own list.
fn protocols() -> impl Iterator<Item = &'static str> {
    Scheme::ALL
        .into_iter()
        .map(|scheme| scheme.prefix().trim_end_matches(':'))
}

/// Rooms that are a protocol's folder, or delegate to them.
const FOLDERS: [&str; 3] = [
    "checker/core/dialect",
    "integration/protocol",
    "integration/cli/targets",
];

/// Files that may name a protocol: the target's own syntax, the records of claims to be, what a Rust program uses of one
/// protocol, commands for files, and the list of what is explained of each.
const ALLOWED: [&str; 9] = [
    "checker/core/target",
    "integration/claim/draft",
    "integration/api/framework",
    "integration/api/file_lock",
    "integration/api/memory_lock",
    "integration/explain/by_protocol",
    "integration/commands/write",
    "integration/commands/append",
    "integration/commands/update",
];

/// The enums of the protocols that are written by hand, each after its file. `Dialect` and `Record` are made from the
/// list in checker/core/src/dialect/mod.rs.
const ENUMS: [&str; 2] = [
    "checker/core/target.rs: Scheme",
    "integration/claim/draft.rs: RecordDraft",
];

/// An enum with at least two of the protocols for variants.
#[derive(Debug, PartialEq, Eq)]
struct ProtocolEnum {
    file: String,
    name: String,
}

/// The variant of a protocol.
fn variant(protocol: &str) -> String {
    let (first, rest) = protocol.split_at(1);
    first.to_uppercase() + rest
}

/// The enums of the protocols.
fn enums(workspace: &Workspace) -> Vec<ProtocolEnum> {
    let of_file = |file: &File| {
        let names = enums_of(&file.source);
        names
            .into_iter()
            .map(|name| ProtocolEnum {
                file: file.path.clone(),
                name,
            })
            .collect::<Vec<_>>()
    };
    workspace.files().flat_map(of_file).collect()
}

fn enums_of(source: &Source) -> Vec<String> {
    let all = &source.lexemes;
    let mut found = Vec::new();
    for at in 0..all.len() {
        let name = all.get(at + 1).and_then(Lexeme::word);
        let (Some("enum"), Some(name)) = (all[at].word(), name) else {
            continue;
        };
        let variants = variants(&all[at..=end_of_item(all, at)]);
        let is_protocol = |protocol: &&str| variants.contains(variant(protocol).as_str());
        if protocols().filter(is_protocol).count() >= 2 {
            found.push(name.to_owned());
        }
    }
    found
}

/// The words of an enum at the depth of its variants.
fn variants(item: &[Lexeme]) -> BTreeSet<&str> {
    let mut depth = 0;
    let mut found = BTreeSet::new();
    for lexeme in item {
        match &lexeme.kind {
            Kind::Sign('{' | '(' | '[') => depth += 1,
            Kind::Sign('}' | ')' | ']') => depth -= 1,
            Kind::Word(word) if depth == 1 => {
                found.insert(word.as_str());
            }
            _ => {}
        }
    }
    found
}

/// The places that name each protocol: the files, and the lines in each.
type Places = BTreeMap<&'static str, BTreeMap<String, BTreeSet<usize>>>;

/// All places outside the folders that are not allowed.
fn places(workspace: &Workspace) -> Places {
    let enums: BTreeSet<String> = enums(workspace)
        .into_iter()
        .map(|found| found.name)
        .collect();
    let mut places = Places::new();
    for file in workspace.files().filter(|file| !is_free(&file.path)) {
        let is_agent = file.path.starts_with("agent/");
        for (protocol, line) in named(&file.source, &enums) {
            if !(is_agent && protocol == "beads") {
                places
                    .entry(protocol)
                    .or_default()
                    .entry(file.path.clone())
                    .or_default()
                    .insert(line);
            }
        }
    }
    places
}

fn is_free(path: &str) -> bool {
    let is_at = |place: &&str| {
        let rest = path.strip_prefix(*place);
        rest.is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    };
    FOLDERS.iter().chain(&ALLOWED).any(is_at)
}

/// What a source names, and in which line.
fn named(source: &Source, enums: &BTreeSet<String>) -> Vec<(&'static str, usize)> {
    let all = &source.lexemes;
    let imported = imported(all);
    let owns_an_enum = !enums_of(source).is_empty();
    let mut found = Vec::new();
    for protocol in protocols() {
        let variant = variant(protocol);
        for (at, lexeme) in all.iter().enumerate() {
            let before = |back: usize| at.checked_sub(back).and_then(|at| all.get(at));
            let follows_path = before(1).is_some_and(|lexeme| lexeme.kind == Kind::Path);
            let owner = before(2).and_then(Lexeme::word).filter(|_| follows_path);
            let leads = all
                .get(at + 1)
                .is_some_and(|lexeme| lexeme.kind == Kind::Path);
            let is_named = match &lexeme.kind {
                Kind::Text(text) => text
                    .strip_prefix(protocol)
                    .is_some_and(|rest| rest.starts_with(':')),
                Kind::Word(word) if *word == variant => owner
                    .is_some_and(|owner| enums.contains(owner) || owner == "Self" && owns_an_enum),
                Kind::Word(word) if word == protocol => {
                    owner.is_some_and(is_folder)
                        || !follows_path && leads && imported.contains(protocol)
                }
                _ => false,
            };
            if is_named {
                found.push((protocol, lexeme.line));
            }
        }
        found.extend(in_groups(all, protocol).map(|line| (protocol, line)));
    }
    found
}

/// The modules whose children are the protocols. Of the integration these are still at the top.
fn is_folder(module: &str) -> bool {
    ["protocol", "dialect", "crate"].contains(&module)
}

/// Lines where a `use` has the protocol in braces: `use crate::{error, tower}`.
fn in_groups<'l>(all: &'l [Lexeme], protocol: &'l str) -> impl Iterator<Item = usize> + 'l {
    groups(all).flat_map(move |group| {
        let mut depth = 0;
        group.iter().enumerate().filter_map(move |(at, lexeme)| {
            match &lexeme.kind {
                Kind::Sign('{') => depth += 1,
                Kind::Sign('}') => depth -= 1,
                Kind::Word(word) if word == protocol && depth == 1 => {
                    let begins = at
                        .checked_sub(1)
                        .is_some_and(|at| group[at].is('{') || group[at].is(','));
                    return begins.then_some(lexeme.line);
                }
                _ => {}
            }
            None
        })
    })
}

/// The braces after `crate::`, `protocol::` and `dialect::` in a `use`.
fn groups(all: &[Lexeme]) -> impl Iterator<Item = &[Lexeme]> {
    (2..all.len()).filter_map(|at| {
        let is_group = all[at].is('{') && all[at - 1].kind == Kind::Path;
        let owner = all[at - 2].word().filter(|_| is_group)?;
        is_folder(owner).then(|| &all[at..=end_of_item(all, at)])
    })
}

/// The protocols whose modules a file has imported by their own name.
fn imported(all: &[Lexeme]) -> BTreeSet<&'static str> {
    let is_imported = |protocol: &&'static str| {
        let by_path = all.windows(3).any(|three| {
            three[0].word().is_some_and(is_folder)
                && three[1].kind == Kind::Path
                && three[2].word() == Some(*protocol)
        });
        by_path || in_groups(all, protocol).next().is_some()
    };
    protocols().filter(is_imported).collect()
}

#[test]
fn the_enums_of_the_protocols_are_those_that_are_known() {
    let found = enums(&Workspace::read());
    let found: Vec<String> = found
        .into_iter()
        .map(|one| format!("{}: {}", one.file, one.name))
        .collect();
    assert_eq!(found, ENUMS);
}

#[test]
fn no_place_outside_its_folders_names_a_protocol() {
    assert_eq!(
        places(&Workspace::read()),
        Places::new(),
        "protocol, file, lines"
    );
}

#[test]
fn each_way_of_naming_is_seen_and_nothing_else() {
    let enums: BTreeSet<String> = ["Target".to_owned()].into();
    let text = r#"
        use crate::{error::file, tower::{self, Name}, words};
        use beadlock_core::dialect::memory;
        fn f() { tower::g(); memory::judge(); Target::File(path); File::open(path); Other::Tower; file::close() }
        const S: [&str; 3] = ["lock:run", "a lock: this", "file is"]; // tower: "tower:x"
        #[cfg(test)]
        mod tests { const T: &str = "memory:x"; }
    "#;
    let mut found = named(&Source::read(text), &enums);
    found.sort_unstable();
    found.dedup();
    let expected = [
        ("file", 4),
        ("lock", 5),
        ("memory", 3),
        ("memory", 4),
        ("tower", 2),
        ("tower", 4),
    ];
    assert_eq!(found, expected);
}

#[test]
fn an_enum_of_the_protocols_has_two_of_them() {
    let text = "enum On { Beads(PathBuf), Memory { file: File } } enum Got { Lock(u8), Other } enum Io { File(File) }";
    assert_eq!(enums_of(&Source::read(text)), ["On"]);
}
