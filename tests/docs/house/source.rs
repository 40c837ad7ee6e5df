//! The sources of a crate as far as imports go: the paths that begin with `crate`, `super` or `self`, in a `use` or
//! elsewhere. Comments, strings and what is only there for tests or documentation are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::graph::Arrows;

/// A crate, read.
#[derive(Debug, Default)]
pub struct Crate {
    pub rooms: BTreeSet<String>,
    pub arrows: Arrows,
}

impl Crate {
    /// From the directory `src`.
    pub fn read(src: &Path) -> Self {
        let mut files = Vec::new();
        collect(src, src, &mut files);
        assert!(!files.is_empty(), "{} has no sources", src.display());
        files.sort();
        Self::of(&files)
    }

    /// From files with their paths below `src`.
    pub fn of(files: &[(PathBuf, String)]) -> Self {
        let modules: Vec<Module> = files
            .iter()
            .map(|(path, text)| Module::new(path, text))
            .collect();
        let mut read = Self {
            rooms: modules.iter().map(Module::room).collect(),
            ..Self::default()
        };
        let root = Facade::of(&modules);
        for module in &modules {
            let from = module.room();
            for to in module.paths() {
                let Some(first) = to.first() else { continue };
                let target = room_inside(&to).unwrap_or_else(|| root.leads_to(first));
                if from != target {
                    let place = format!("{} has {}", module.file, to.join("::"));
                    read.arrows
                        .entry((from.clone(), target))
                        .or_default()
                        .push(place);
                }
            }
        }
        read
    }
}

/// Folders inside a room that are rooms of their own.
const INSIDE: [[&str; 2]; 1] = [["cli", "targets"]];

/// The room of a path below such a folder.
fn room_inside(path: &[String]) -> Option<String> {
    let is_at = |folder: &&[&str; 2]| path.len() >= 2 && path[..2] == folder[..];
    Some(INSIDE.iter().find(is_at)?[1].to_owned())
}

/// A source file.
struct Module {
    /// Below `src`.
    file: String,
    /// `claim/loss.rs` is `claim::loss`; `lib.rs` and `main.rs` are the crate itself.
    path: Vec<String>,
    tokens: Vec<Token>,
}

impl Module {
    fn new(file: &Path, text: &str) -> Self {
        let mut path: Vec<String> = file
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let is_root = ["lib", "main"].contains(&path.join("/").as_str());
        if is_root || path.last().is_some_and(|last| last == "mod") {
            path.pop();
        }
        Self {
            file: file.display().to_string(),
            path,
            tokens: tokens(&code(text)),
        }
    }

    fn room(&self) -> String {
        room_inside(&self.path)
            .or_else(|| self.path.first().cloned())
            .unwrap_or_else(|| "lib".to_owned())
    }

    /// The paths into this crate, without `crate`.
    fn paths(&self) -> Vec<Vec<String>> {
        paths(&self.tokens, &self.path)
    }
}

/// What the crate itself shows of its rooms by a shorter name: `Hold` of the crate is `claim`'s.
struct Facade {
    rooms: BTreeSet<String>,
    exported: BTreeMap<String, String>,
}

impl Facade {
    fn of(modules: &[Module]) -> Self {
        let rooms: BTreeSet<String> = modules
            .iter()
            .filter_map(|module| module.path.first().cloned())
            .collect();
        let mut exported = BTreeMap::new();
        for module in modules.iter().filter(|module| module.path.is_empty()) {
            for (at, _) in module
                .tokens
                .iter()
                .enumerate()
                .filter(|(_, token)| token.is("use"))
            {
                for named in tree(&mut module.tokens[at + 1..].iter().peekable(), &[]) {
                    let is_prefix = |word: &&String| ["crate", "self"].contains(&word.as_str());
                    let named = &named[named.iter().take_while(is_prefix).count()..];
                    if let [room, .., name] = named
                        && rooms.contains(room)
                    {
                        exported.insert(name.clone(), room.clone());
                    }
                }
            }
        }
        Self { rooms, exported }
    }

    /// The room that a name belongs to, else the crate itself.
    fn leads_to(&self, name: &str) -> String {
        let room = self.rooms.get(name).or_else(|| self.exported.get(name));
        room.cloned().unwrap_or_else(|| "lib".to_owned())
    }
}

fn collect(src: &Path, dir: &Path, files: &mut Vec<(PathBuf, String)>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "tests" {
            collect(src, &path, files);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            files.push((path.strip_prefix(src).unwrap().to_path_buf(), text));
        }
    }
}

/// The text without comments, without what strings and characters say, and without items for tests or documentation.
fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let (mut code, mut at) = (String::new(), 0);
    let starts = |at: usize, what: &str| {
        what.chars()
            .enumerate()
            .all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    while let Some(&c) = chars.get(at) {
        let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        if starts(at, "//") {
            while chars.get(at).is_some_and(|c| *c != '\n') {
                at += 1;
            }
        } else if starts(at, "/*") {
            while at < chars.len() && !starts(at, "*/") {
                at += 1;
            }
            at += 2;
        } else if c == 'r'
            && !after_word
            && (starts(at, "r\"") || starts(at, "r#\"") || starts(at, "r##\""))
        {
            let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
            let end = format!("\"{}", "#".repeat(hashes));
            at += 2 + hashes;
            while at < chars.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
        } else if c == '"' {
            at += 1;
            while chars.get(at).is_some_and(|c| *c != '"') {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if c == '\'' && chars.get(at + 1) == Some(&'\\') {
            at += 3;
            while chars.get(at).is_some_and(|c| *c != '\'') {
                at += 1;
            }
            at += 1;
        } else if c == '\'' && chars.get(at + 2) == Some(&'\'') {
            at += 3;
        } else {
            code.push(c);
            at += 1;
        }
    }
    without_tests(code)
}

fn without_tests(mut code: String) -> String {
    for attribute in ["#[cfg(test)]", "#[cfg(doc)]"] {
        while let Some(begin) = code.find(attribute) {
            let end = end_of_item(&code, begin + attribute.len());
            code.replace_range(begin..end, "");
        }
    }
    code
}

/// The end of the item that begins at `at`: of a `use` and of a module in a file of its own its semicolon, else its
/// brace.
fn end_of_item(code: &str, at: usize) -> usize {
    let (mut depth, mut has_body) = (0, false);
    let item = code[at..].trim_start();
    let is_use = item.split_whitespace().take(2).any(|word| word == "use");
    for (offset, c) in code[at..].char_indices() {
        match c {
            '{' => {
                depth += 1;
                has_body = true;
            }
            '}' => depth -= 1,
            _ => {}
        }
        let is_end = if has_body && !is_use {
            c == '}' && depth == 0
        } else {
            c == ';' && depth == 0
        };
        if is_end {
            return at + offset + 1;
        }
    }
    code.len()
}

/// A word, `::`, or another sign.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Path,
    Sign(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(known) if known == word)
    }
}

fn tokens(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || c == '_' {
            let mut word = c.to_string();
            while let Some(c) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                word.push(c);
            }
            tokens.push(Token::Word(word));
        } else if c == ':' && chars.next_if_eq(&':').is_some() {
            tokens.push(Token::Path);
        } else if !c.is_whitespace() {
            tokens.push(Token::Sign(c));
        }
    }
    tokens
}

/// The paths into this crate, without `crate`.
fn paths(tokens: &[Token], module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        if token.is("use") {
            let mut rest = tokens[at..].iter().peekable();
            found.extend(tree(&mut rest, &[]));
            at = tokens.len() - rest.len();
        } else if ["crate", "super", "self"]
            .iter()
            .any(|first| token.is(first))
        {
            let mut path = Vec::new();
            let mut next = Some(token);
            while let Some(Token::Word(word)) = next {
                path.push(word.clone());
                next = None;
                if let (Some(Token::Path), Some(word)) = (tokens.get(at), tokens.get(at + 1)) {
                    (next, at) = (Some(word), at + 2);
                }
            }
            // By itself it is a visibility, or the value of a method.
            if path.len() > 1 {
                found.push(path);
            }
        }
    }
    found
        .into_iter()
        .filter_map(|path| absolute(&path, module))
        .filter(|path| !path.is_empty())
        .collect()
}

fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let supers = path.iter().take_while(|word| *word == "super").count();
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => Some(
            [
                module.get(..module.len().checked_sub(supers)?)?,
                path.get(supers..)?,
            ]
            .concat(),
        ),
        _ => None,
    }
}

/// The paths of a `use`, which is read to its end.
fn tree<'t>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t Token>>,
    before: &[String],
) -> Vec<Vec<String>> {
    let (mut found, mut path) = (Vec::new(), before.to_vec());
    let mut is_whole = false;
    while let Some(token) = tokens.peek() {
        match token {
            Token::Word(word) if word == "as" => {
                tokens.next();
            }
            Token::Word(word) if !is_whole => path.push(word.clone()),
            Token::Word(_) | Token::Sign('*') => {}
            Token::Path => {
                tokens.next();
                is_whole = false;
                continue;
            }
            Token::Sign('{') => {
                tokens.next();
                while !matches!(tokens.peek(), None | Some(Token::Sign('}'))) {
                    found.extend(tree(tokens, &path));
                    tokens.next_if(|token| **token == Token::Sign(','));
                }
                tokens.next();
                return found;
            }
            _ => break,
        }
        is_whole = true;
        tokens.next();
    }
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    found.push(path);
    found
}

#[test]
fn every_kind_of_path_is_seen_and_nothing_else() {
    let text = r##"
        //! crate::comment
        use std::fs; use crate::plain::Thing; pub use crate::{one, two::{self, Three as Four}, glob::*};
        #[cfg(doc)] use crate::doc::{A, B};
        fn f<'a>(x: &'a str) -> char { crate::called::run(super::above::X, "crate::string", '"'); '{' }
        const R: &str = r#"crate::raw " "#; /* crate::block */
        #[cfg(test)] mod tests { use crate::tested::X; fn g() { if x { } } }
        pub(super) fn last() { self::child::Y; self.field }
    "##;
    let module = ["room".to_owned(), "file".to_owned()];
    let found: Vec<String> = paths(&tokens(&code(text)), &module)
        .iter()
        .map(|path| path.join("::"))
        .collect();
    let expected = [
        "plain::Thing",
        "one",
        "two",
        "two::Three",
        "glob",
        "called::run",
        "room::above::X",
        "room::file::child::Y",
    ];
    assert_eq!(found, expected);
}
