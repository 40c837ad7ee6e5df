//! `docs/json.md`, made of the schemas.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Described, Group};

const HEAD: &str = "# JSON

Every answer, line and file in JSON has a schema, and `beadlock schema NAME` prints it: JSON Schema, draft-07, as
SchemaStore takes it. `beadlock schema` lists the names. This page says the same for people. `cargo xtask schemas` makes
both: change `tests/xtask/src/schemas`, not this page.

The version of this contract is `beadlock/1`, and `meta.schema` of each answer has it. What is promised of a version:

- No key goes away, changes its type or its meaning. A word of a closed list keeps its meaning, too.
- A key may come. The schemas are those of one release, and refuse keys that this release does not have. Programs that
  read answers leave alone what they do not know.

A key that is *left out* where it does not apply is marked so. Every other key is always there, and `null` where its
value is not known. Times are RFC 3339 in UTC, `_ms` are whole milliseconds, and paths are text: bytes that are not
UTF-8 are replaced.

<!-- session -->
```
$ beadlock status --json | jq -r .meta.schema
beadlock/1
$ beadlock schema status > status.schema.json
$ jq -r .title status.schema.json
The answer of status
```

An editor that knows JSON Schema checks `agent.toml` by `beadlock schema agent-toml`. `--schema` of `write`, `update` and
`append` is another thing: a schema of your own, for the file that is written.
";

/// The whole page.
pub fn text(all: &[Described]) -> String {
    let mut text = HEAD.to_owned();
    let of = |group: Group| all.iter().filter(move |one| one.group == group);
    let objects = objects(all);

    text += "\n## The envelope\n\n";
    if let Some(any) = all.first() {
        let _ = writeln!(text, "{}\n", description(&any.schema));
        table(&mut text, &any.schema, &["data"]);
    }

    text += "\n## Answers\n\nWhat `data` is, by command. It is `null` where there is no answer.\n\n\
             | schema | `data` |\n|---|---|\n";
    for one in of(Group::Answer) {
        let data = &one.schema["properties"]["data"];
        let _ = writeln!(text, "| `{}` | {} |", one.name, shape(data));
    }

    for (group, title) in [
        (Group::Line, "Lines"),
        (Group::LockFile, "Lock files"),
        (Group::Page, "The agent"),
    ] {
        let _ = writeln!(text, "\n## {title}");
        for one in of(group) {
            let _ = writeln!(
                text,
                "\n### `{}`\n\n{}: {}\n",
                one.name,
                one.title,
                lowered(&description(&one.schema))
            );
            match one.schema.get("properties") {
                Some(_) => table(&mut text, &one.schema, &[]),
                None => {
                    let _ = writeln!(text, "It is {}.", shape(&one.schema));
                }
            }
        }
    }

    text += "\n## Objects\n\nThe objects inside of answers, lines and files, by name.\n";
    for (name, schema) in objects {
        let _ = writeln!(text, "\n### {name}\n\n{}\n", description(schema));
        match schema.get("properties") {
            Some(_) => table(&mut text, schema, &[]),
            None if schema.get("anyOf").or(schema.get("oneOf")).is_some() => {
                let _ = writeln!(text, "It is {}.", shape(&without_description(schema)));
                for variant in variants(schema).filter(|one| one.get("properties").is_some()) {
                    let _ = writeln!(text, "\n{}\n", description(variant));
                    table(&mut text, variant, &[]);
                }
            }
            None => text += "It is an object with any keys.\n",
        }
    }
    text
}

fn without_description(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(map) = schema.as_object_mut() {
        map.remove("description");
    }
    schema
}

fn variants(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"]
        .into_iter()
        .filter_map(|word| schema.get(word)?.as_array())
        .flatten()
}

/// The definitions of all schemas. Two of one name are the same.
fn objects(all: &[Described]) -> BTreeMap<&str, &Value> {
    let mut objects = BTreeMap::new();
    for one in all {
        let there = one.schema.get("definitions").and_then(Value::as_object);
        for (name, schema) in there.into_iter().flatten() {
            let before = objects.insert(name.as_str(), schema);
            assert!(
                before.is_none_or(|before| before == schema),
                "two objects are called {name}; the second is in {}",
                one.name
            );
        }
    }
    objects
}

fn description(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .replace('\n', " ")
}

fn lowered(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_lowercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// A line for each key of an object.
fn table(text: &mut String, schema: &Value, without: &[&str]) {
    let empty = Map::new();
    let keys = schema["properties"].as_object().unwrap_or(&empty);
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    *text += "| key | value | meaning |\n|---|---|---|\n";
    for (key, value) in keys {
        let shape = if without.contains(&key.as_str()) {
            "see below".to_owned()
        } else {
            shape(value)
        };
        let left_out = if required.contains(&key.as_str()) {
            ""
        } else {
            ", or left out"
        };
        let about = description(value).replace('|', "\\|");
        let _ = writeln!(text, "| `{key}` | {shape}{left_out} | {about} |");
    }
}

/// What a value is, in words.
fn shape(schema: &Value) -> String {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or(name);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some([one]) = schema
        .get("allOf")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
    {
        return shape(one);
    }
    let several: Vec<String> = variants(schema).map(shape).collect();
    if !several.is_empty() {
        return either(unique(several));
    }
    if let Some(word) = schema.get("const") {
        return format!("`{}`", plain(word));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words = words.iter().map(|word| match word {
            Value::Null => "null".to_owned(),
            word => format!("`{}`", plain(word)),
        });
        return either(words.collect());
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec!["any"],
    };
    let one = |word: &&str| match *word {
        "array" if schema["maxItems"] == 0 => "`[]`".to_owned(),
        "array" => format!("list of {}", shape(&schema["items"])),
        "string" if schema["format"] == "date-time" => "time".to_owned(),
        "object" => match schema.get("additionalProperties") {
            Some(of @ Value::Object(_)) => format!("object of {}", shape(of)),
            _ => "object".to_owned(),
        },
        "boolean" => "true or false".to_owned(),
        word => word.to_owned(),
    };
    either(types.iter().map(one).collect())
}

fn plain(word: &Value) -> String {
    word.as_str()
        .map_or_else(|| word.to_string(), str::to_owned)
}

fn unique(words: Vec<String>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for word in words {
        if !seen.contains(&word) {
            seen.push(word);
        }
    }
    seen
}

fn either(words: Vec<String>) -> String {
    match words.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        words => words.join(""),
    }
}
