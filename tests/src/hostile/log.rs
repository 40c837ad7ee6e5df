use std::fs;

use beadlock_base::escape::is_harmless;
use beadlock_claim::environment::Environment;
use beadlock_console::talk::Talk;
use beadlock_log::LogArgs;
use serde_json::Value;

use super::{is_fit_to_be_said, scratch};

/// Whatever is in a log, `beadlock log` sums it up: no line is counted twice or as two things, and what is printed of
/// it forges nothing.
pub fn log(bytes: &[u8]) {
    let Some((text, data)) = summed_up(bytes) else {
        return;
    };
    assert!(
        text.chars().all(|c| is_harmless(c) || c == '\n'),
        "{text:?}"
    );
    let count = |value: &Value| value.as_u64().expect("a count");
    let lines = &data["lines"];
    let written = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .count() as u64;
    assert!(
        count(&lines["all"]) + count(&lines["outside"]) <= written,
        "{written}: {lines}"
    );
    let databases = data["databases"].as_array().expect("databases");
    let counted = |database: &Value| {
        let cycles =
            ["complete", "failed", "timed_out"].map(|word| count(&database["cycles"][word]));
        cycles.iter().sum::<u64>() + count(&database["skips"])
    };
    let counted = databases.iter().map(counted).sum::<u64>() + count(&lines["other"]);
    assert!(
        counted <= count(&lines["all"]),
        "{counted} events: {data:#}"
    );
    let size = data.to_string().len();
    assert!(
        size <= 20_000 + 40 * bytes.len(),
        "{size} bytes of JSON from {}",
        bytes.len()
    );
}

/// The report on a log of these bytes, for people and in JSON; `None` when it is said that they are none.
pub(super) fn summed_up(bytes: &[u8]) -> Option<(String, Value)> {
    let path = scratch("a.log");
    fs::write(&path, bytes).expect("a file");
    let answers = beadlock_log::run(
        &LogArgs::of(&path),
        &Environment::default(),
        &Talk::silent(),
    );
    let (text, data, errors) = (answers.text, answers.data, answers.errors);
    errors
        .iter()
        .for_each(|error| is_fit_to_be_said(&error.to_string()));
    assert_eq!(data.len() + errors.len(), 1, "{errors:?}");
    data.into_iter().next().map(|data| (text, data))
}
