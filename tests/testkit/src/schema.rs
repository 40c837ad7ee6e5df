//! The schemas of beadlock's JSON, and the look of every test at the JSON that passes by: what a program prints, what a
//! test reads from a file, and what lies in a scene at its end.
//!
//! A text is gone through value by value. What is an answer, an audit line, a line of a log, a status page or a lock file
//! of beadlock, by the keys that none of them lacks, has to be as `beadlock schema` says. Anything else is left alone.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::Value;

use crate::is_request_id;

/// The folder of the schemas.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../integration/cli/schemas");

/// A schema of `beadlock schema`, by its name.
///
/// # Panics
///
/// When there is none.
pub fn schema(name: &str) -> Value {
    let path = Path::new(FOLDER).join(format!("{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).expect("a schema is JSON")
}

/// The names of all schemas, sorted.
pub fn names() -> Vec<String> {
    let entries = fs::read_dir(FOLDER).expect("the folder of the schemas");
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.strip_suffix(".json")?.to_owned())
        })
        .collect();
    names.sort();
    names
}

/// The validators that were needed so far.
static VALIDATORS: LazyLock<Mutex<BTreeMap<String, &'static Validator>>> =
    LazyLock::new(Mutex::default);

fn validator(name: &str) -> &'static Validator {
    let mut all = VALIDATORS
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = all.get(name) {
        return known;
    }
    let made = jsonschema::draft7::options()
        .should_validate_formats(true)
        .build(&schema(name));
    let made: &Validator = Box::leak(Box::new(made.expect("a schema is one of draft-07")));
    all.insert(name.to_owned(), made);
    made
}

/// What is wrong with a value by the schema of this name, a line each.
pub fn errors(name: &str, value: &Value) -> Vec<String> {
    let error =
        |error: jsonschema::ValidationError<'_>| format!("{}: {error}", error.instance_path());
    validator(name).iter_errors(value).map(error).collect()
}

/// The schemas that a value may have.
fn kinds(value: &Value) -> Vec<String> {
    let has = |keys: &[&str]| keys.iter().all(|key| value.get(key).is_some());
    let one = |name: &str| vec![name.to_owned()];
    if has(&["ok", "data", "error", "warnings", "meta"]) {
        let version = value["meta"]["schema"].as_str().unwrap_or_default();
        // A tool that embeds a lock has an envelope of its own.
        if !version.starts_with("beadlock/") {
            return Vec::new();
        }
        return names().into_iter().filter(|name| is_answer(name)).collect();
    }
    if has(&["event", "request_id", "timestamp", "lock_name"]) {
        return one(if has(&["by"]) {
            "audit-line"
        } else {
            "audit-line-tower"
        });
    }
    if has(&["time", "level", "db", "event", "message"]) {
        return one("log-line");
    }
    if has(&["version", "served", "states", "databases"]) {
        return one("agent-status");
    }
    if value["beadlock"]["id"].is_string() {
        if has(&["holder", "hostname"]) {
            return one("lock-beads");
        }
        if has(&["session_id"]) {
            return one("lock-memory");
        }
    }
    // Others write named locks too, with keys of their own. Ours has an id that beadlock has made.
    if value["lock_version"] == "v1" && is_request_id(&value["request_id"]) {
        return one("lock-tower");
    }
    Vec::new()
}

fn is_answer(name: &str) -> bool {
    name != "agent-status"
        && name != "agent-toml"
        && !["audit-", "log-line", "lock-"]
            .iter()
            .any(|beginning| name.starts_with(beginning))
}

/// Looks at the JSON in a text: at the whole of it, else at each line.
///
/// # Panics
///
/// When there is JSON of beadlock's that is not as its schema has it.
#[track_caller]
pub fn see(text: &str) {
    for value in values(text) {
        let kinds = kinds(&value);
        if !kinds.is_empty() {
            is_one_of(&kinds, &value);
        }
    }
}

/// Looks at what a program has printed: the answer of `beadlock`, if these are its arguments, is that of its command,
/// and what `beadlock-agent --print-config` prints is a configuration.
///
/// # Panics
///
/// As [`see`] does, and when an answer of beadlock's says no version.
#[track_caller]
pub fn see_printed<'a>(program: &OsStr, args: impl Iterator<Item = &'a OsStr>, text: &str) {
    let program = Path::new(program).file_name().unwrap_or_default();
    let args: Vec<&str> = args.map(|arg| arg.to_str().unwrap_or_default()).collect();
    if program == "beadlock-agent" && args.contains(&"--print-config") {
        let table: Option<toml::Table> = text.parse().ok();
        let value = table.map(|table| serde_json::to_value(table).expect("TOML is JSON"));
        return value
            .iter()
            .for_each(|value| is_one_of(&["agent-toml".to_owned()], value));
    }
    // Behind a `--` stands a command, whose output this may be.
    if program != "beadlock" || args.contains(&"--") {
        return see(text);
    }
    for value in values(text) {
        let kinds = kinds(&value);
        let is_envelope = value.get("ok").is_some() && value.get("meta").is_some();
        if is_envelope {
            is_one_of(&[answer_of(&args).to_owned()], &value);
        } else if !kinds.is_empty() {
            is_one_of(&kinds, &value);
        }
    }
}

/// The schema of the answer to this command line.
fn answer_of(args: &[&str]) -> String {
    let mut words = args.iter().enumerate().filter(|(at, word)| {
        let before = at.checked_sub(1).and_then(|at| args.get(at));
        let is_value = before.is_some_and(|word| ["--color", "--lock-dir"].contains(word));
        !word.starts_with('-') && !is_value
    });
    let command = words.next().map_or("status", |(_, word)| *word);
    let below = words.next().map(|(_, word)| *word);
    let name = match (command, below) {
        ("status", _) if args.iter().any(|word| word.starts_with("--agent")) => {
            "status-agent".to_owned()
        }
        ("doctor", _) if args.contains(&"--fleet") => "doctor-fleet".to_owned(),
        ("setup" | "fleet", Some(below)) => format!("{command}-{below}"),
        _ => command.to_owned(),
    };
    match Path::new(FOLDER).join(format!("{name}.json")).exists() {
        true => name,
        false => "error".to_owned(),
    }
}

/// Looks at every regular file below a directory, where it is not large. A copy of the sources has snapshots in it, which
/// hide values.
#[track_caller]
pub(crate) fn see_below(dir: &Path) {
    const LARGEST: u64 = 1024 * 1024;
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        if folder.join("Cargo.lock").exists() {
            continue;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let is_small = || entry.metadata().is_ok_and(|meta| meta.len() <= LARGEST);
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && is_small() {
                let bytes = fs::read(entry.path()).unwrap_or_default();
                if let Ok(text) = std::str::from_utf8(&bytes) {
                    see(text);
                }
            }
        }
    }
}

#[track_caller]
fn is_one_of(names: &[String], value: &Value) {
    let tried = names.iter().map(|name| (errors(name, value), name));
    let Some((errors, name)) = tried.min_by_key(|(errors, _)| errors.len()) else {
        return;
    };
    assert!(
        errors.is_empty(),
        "not as `beadlock schema {name}` says (tests/xtask/src/schemas):\n{}\n{value}",
        errors.join("\n")
    );
}

/// The objects that a text is, or has one a line.
fn values(text: &str) -> Vec<Value> {
    let parse = |text: &str| {
        let is_object = text.trim_start().starts_with('{');
        let value = is_object.then(|| serde_json::from_str(text).ok()).flatten();
        value.filter(Value::is_object)
    };
    match parse(text) {
        Some(value) => vec![value],
        None => text.lines().filter_map(parse).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// The definition that a `$ref` names, else the schema itself.
    fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(path) => root
                .pointer(path.trim_start_matches('#'))
                .expect("a definition"),
            None => schema,
        }
    }

    /// The values that a schema describes: with every key, one for each way that it can be.
    fn examples(schema: &Value, root: &Value) -> Vec<Value> {
        let schema = resolved(schema, root);
        for word in ["anyOf", "oneOf", "allOf"] {
            if let Some(several) = schema.get(word).and_then(Value::as_array) {
                return several.iter().flat_map(|one| examples(one, root)).collect();
            }
        }
        if let Some(word) = schema.get("const") {
            return vec![word.clone()];
        }
        if let Some(words) = schema.get("enum").and_then(Value::as_array) {
            return words.first().cloned().into_iter().collect();
        }
        let kind = match &schema["type"] {
            Value::Array(several) => several[0].as_str(),
            kind => kind.as_str(),
        };
        match kind {
            Some("object") => objects(schema, root),
            Some("array") if schema["maxItems"] == 0 => vec![json!([])],
            Some("array") => examples(&schema["items"], root)
                .into_iter()
                .map(|item| json!([item]))
                .collect(),
            Some("string") if schema["format"] == "date-time" => {
                vec![json!("2026-01-01T00:00:00Z")]
            }
            Some("string") => vec![json!("req_0123456789ab")],
            Some("integer" | "number") => vec![json!(1)],
            Some("boolean") => vec![json!(true)],
            Some("null") => vec![Value::Null],
            _ => vec![json!({})],
        }
    }

    /// As many objects as its key with the most ways has.
    fn objects(schema: &Value, root: &Value) -> Vec<Value> {
        let empty = Map::new();
        let keys = schema["properties"].as_object().unwrap_or(&empty);
        let keys: Vec<(&String, Vec<Value>)> = keys
            .iter()
            .map(|(key, value)| (key, examples(value, root)))
            .collect();
        let most = keys.iter().map(|(_, ways)| ways.len()).max().unwrap_or(1);
        let object = |at: usize| {
            let field = |(key, ways): &(&String, Vec<Value>)| {
                ((*key).clone(), ways[at.min(ways.len() - 1)].clone())
            };
            Value::Object(keys.iter().map(field).collect())
        };
        (0..most).map(object).collect()
    }

    /// Where the objects of a value are.
    fn places(value: &Value, here: &str, places: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                places.push(here.to_owned());
                for (key, value) in map {
                    self::places(value, &format!("{here}/{key}"), places);
                }
            }
            Value::Array(list) => {
                for (at, value) in list.iter().enumerate() {
                    self::places(value, &format!("{here}/{at}"), places);
                }
            }
            _ => {}
        }
    }

    /// What may have any keys: records as they were read, what holders add to theirs, counts by state.
    fn is_open(name: &str, place: &str, object: &Value) -> bool {
        match place.rsplit('/').next() {
            Some("lock" | "previous_lock") => name == "audit-line",
            Some("record") => object.get("holder").is_none(),
            Some("metadata" | "states") => true,
            _ => false,
        }
    }

    #[test]
    fn a_key_that_is_not_in_the_schema_fails_wherever_it_stands() {
        for name in names() {
            let root = schema(&name);
            let examples = examples(&root, &root);
            assert!(!examples.is_empty(), "{name}");
            let mut tried = 0;
            for example in examples {
                assert_eq!(
                    errors(&name, &example),
                    Vec::<String>::new(),
                    "{name}: {example}"
                );
                let mut places = Vec::new();
                self::places(&example, "", &mut places);
                let is_closed = |place: &&String| {
                    let object = example.pointer(place).expect("an object");
                    !is_open(&name, place, object)
                };
                for place in places.iter().filter(is_closed) {
                    let mut mutant = example.clone();
                    let object = mutant.pointer_mut(place).expect("an object");
                    object["mutant"] = json!(1);
                    assert_ne!(
                        errors(&name, &mutant),
                        Vec::<String>::new(),
                        "{name} at {place:?}: {mutant}"
                    );
                    tried += 1;
                }
            }
            assert!(tried > 0, "{name}");
        }
    }

    #[test]
    fn a_key_that_is_missing_fails() {
        for name in names().into_iter().filter(|name| name != "agent-toml") {
            let root = schema(&name);
            for example in examples(&root, &root) {
                let keys: Vec<String> = example
                    .as_object()
                    .expect("an object")
                    .keys()
                    .cloned()
                    .collect();
                let mut failed = 0;
                for key in &keys {
                    let mut mutant = example.clone();
                    mutant.as_object_mut().expect("an object").remove(key);
                    failed += usize::from(!errors(&name, &mutant).is_empty());
                }
                assert!(failed > 3, "{name}: {failed} of {keys:?}");
            }
        }
    }

    #[test]
    fn each_kind_of_json_is_known_by_its_keys() {
        for name in names().into_iter().filter(|name| name != "agent-toml") {
            let root = schema(&name);
            for example in examples(&root, &root) {
                assert!(kinds(&example).contains(&name), "{name}: {example}");
            }
        }
    }

    fn panics(look: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(look).is_err()
    }

    #[test]
    fn what_passes_by_is_looked_at() {
        let root = schema("wait");
        let mut answer = examples(&root, &root).remove(0);
        let printed = |answer: &Value, args: &[&str]| {
            let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
            let text = format!("claimed\n{answer}\n");
            panics(move || see_printed(OsStr::new("/bin/beadlock"), args.into_iter(), &text))
        };
        assert!(!printed(&answer, &["--json", "wait", "lock:x"]));
        assert!(
            printed(&answer, &["list", "--json"]),
            "it is not that command's"
        );
        answer["data"]["mutant"] = json!(1);
        assert!(printed(&answer, &["wait"]));
        assert!(printed(&answer, &["hold", "--", "beadlock", "wait"]));
        let text = answer.to_string();
        assert!(panics(move || see(&text)));
        answer["meta"] = json!({});
        assert!(printed(&answer, &["wait"]), "it says no version");
        let of_a_tool = answer.to_string();
        see(&of_a_tool);
        see("{\"ok\":true}\n{\n not JSON");
    }

    #[test]
    fn the_schema_of_an_answer_is_that_of_its_command() {
        for (line, name) in [
            ("--json", "status"),
            ("--color never status --json x", "status"),
            ("status --agent unix:x --json", "status-agent"),
            ("doctor --fleet", "doctor-fleet"),
            ("fleet join x", "fleet-join"),
            ("setup git", "setup-git"),
            ("--json wait", "wait"),
            ("frobnicate", "error"),
            ("completions tcsh", "error"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert_eq!(answer_of(&words), name, "{line}");
        }
    }
}
