//! `schemas [--check]`: the JSON Schemas of `beadlock schema`, and `docs/json.md`, which is made of them.
//!
//! The JSON is described here, and not by the types that write it: most of it is written key by key, and the crates of
//! the programs stay without schemars. That a description is true is shown by the tests, which validate every JSON that
//! they see (`tests/testkit/src/schema.rs`).
//!
//! ```text
//! answers.rs    the data of each command's envelope
//! looks.rs      the rows about locks, and what a verdict rests on
//! log.rs        the answer of `beadlock log`
//! agent.rs      the status page of an agent, and its configuration
//! records.rs    lock files
//! lines.rs      audit lines and log lines
//! words.rs      closed lists, from the crates that have them
//! page.rs       docs/json.md
//! ```

pub mod agent;
pub mod answers;
pub mod lines;
pub mod log;
pub mod looks;
mod page;
pub mod records;
pub mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// A schema, as it is printed by `beadlock schema NAME`.
pub struct Described {
    /// The name by which it is asked for.
    pub name: &'static str,
    /// One line about what it describes.
    pub title: &'static str,
    /// What the page has it under.
    group: Group,
    /// The schema itself.
    pub schema: Value,
}

/// The parts of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Answer,
    Line,
    LockFile,
    Page,
}

impl Described {
    fn of<T: JsonSchema>(name: &'static str, title: &'static str, group: Group) -> Self {
        let settings = SchemaSettings::draft07().for_serialize();
        let mut schema = settings.into_generator().into_root_schema_for::<T>();
        schema.insert("title".to_owned(), json!(title));
        Self {
            name,
            title,
            group,
            schema: ordered(plain(schema)),
        }
    }
}

/// Without the formats that JSON Schema does not know, such as `uint64`: strict readers refuse them.
fn plain(schema: Schema) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(map) => {
                let is_number = |format: &Value| {
                    let known = ["date-time"];
                    format
                        .as_str()
                        .is_some_and(|format| !known.contains(&format))
                };
                if map.get("format").is_some_and(is_number) {
                    map.remove("format");
                }
                map.values_mut().for_each(walk);
            }
            Value::Array(list) => list.iter_mut().for_each(walk),
            _ => {}
        }
    }
    let mut value = schema.to_value();
    walk(&mut value);
    value
}

/// What the schema is comes first, and the definitions last.
fn ordered(schema: Value) -> Value {
    let Value::Object(mut rest) = schema else {
        return schema;
    };
    let mut ordered = serde_json::Map::new();
    for key in ["$schema", "title", "description", "type"] {
        if let Some(value) = rest.shift_remove(key) {
            ordered.insert(key.to_owned(), value);
        }
    }
    let definitions = rest.shift_remove("definitions");
    ordered.extend(rest);
    ordered.extend(definitions.map(|all| ("definitions".to_owned(), all)));
    Value::Object(ordered)
}

/// How wide a line of a schema may be.
const COLUMNS: usize = 110;

/// JSON with what fits into a line in one line: the programs carry these files.
fn indented(value: &Value, depth: usize, text: &mut String) {
    let short = value.to_string();
    if 2 * depth + short.len() <= COLUMNS {
        *text += &short;
        return;
    }
    let line = |depth: usize| format!("\n{}", "  ".repeat(depth));
    match value {
        Value::Object(map) => {
            text.push('{');
            for (at, (key, value)) in map.iter().enumerate() {
                *text += if at == 0 { "" } else { "," };
                *text += &line(depth + 1);
                *text += &format!("{}: ", json!(key));
                indented(value, depth + 1, text);
            }
            *text += &line(depth);
            text.push('}');
        }
        Value::Array(list) => {
            text.push('[');
            for (at, value) in list.iter().enumerate() {
                *text += if at == 0 { "" } else { "," };
                *text += &line(depth + 1);
                indented(value, depth + 1, text);
            }
            *text += &line(depth);
            text.push(']');
        }
        _ => *text += &short,
    }
}

/// All of them, in the order in which they are listed.
pub fn all() -> Vec<Described> {
    let mut all = answers::all();
    all.extend(lines::all());
    all.extend(records::all());
    all.extend(agent::all());
    all
}

/// The folder of the schemas in a checkout.
const FOLDER: &str = "integration/cli/schemas";
const PAGE: &str = "docs/json.md";

/// Every file that is made, below the checkout, with its text.
fn files() -> Vec<(PathBuf, String)> {
    let all = all();
    let mut files: Vec<(PathBuf, String)> = all
        .iter()
        .map(|one| {
            let mut text = String::new();
            indented(&one.schema, 0, &mut text);
            text.push('\n');
            (Path::new(FOLDER).join(format!("{}.json", one.name)), text)
        })
        .collect();
    files.push((PAGE.into(), page::text(&all)));
    files
}

/// The files that are not as they would be made, and those in the folder that would not be made at all.
pub fn stale(checkout: &Path) -> Vec<PathBuf> {
    let files = files();
    let mut stale: Vec<PathBuf> = files
        .iter()
        .filter(|(path, text)| fs::read_to_string(checkout.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path.clone())
        .collect();
    let made: BTreeSet<&Path> = files.iter().map(|(path, _)| path.as_path()).collect();
    let there = fs::read_dir(checkout.join(FOLDER)).into_iter().flatten();
    let there = there
        .flatten()
        .map(|entry| Path::new(FOLDER).join(entry.file_name()));
    stale.extend(there.filter(|path| !made.contains(path.as_path())));
    stale
}

/// The task: writes the files, or with `--check` says which are not as they should be.
pub fn run(words: &[String]) -> ExitCode {
    let checkout = beadlock_testkit::skip::checkout();
    match words {
        [] => {}
        [word] if word == "--check" => {
            let stale = stale(&checkout);
            for path in &stale {
                println!(
                    "{} is not up to date; type: cargo xtask schemas",
                    path.display()
                );
            }
            return match stale.is_empty() {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            };
        }
        _ => {
            eprintln!("cargo xtask schemas [--check]");
            return ExitCode::from(2);
        }
    }
    for path in stale(&checkout) {
        if !files().iter().any(|(made, _)| *made == path) {
            eprintln!("{} is not made any more; remove it", path.display());
        }
    }
    for (path, text) in files() {
        if let Err(error) = fs::write(checkout.join(&path), text) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
