//! What hostile input reaches, for our own tests and fuzz targets. No part of the API.

use std::path::Path;

use serde_json::Value;

use beadlock_claim::environment::Environment;
use beadlock_console::talk::Talk;
use beadlock_log::{self as log, LogArgs};

/// The file at `path` as `beadlock log` sums it up: for people without colours, in JSON, and what was wrong with it.
pub fn log(path: &Path) -> (String, Vec<Value>, Vec<String>) {
    let environment = Environment::default();
    let talk = Talk::silent();
    let answers = log::run(&LogArgs::of(path), &environment, &talk);
    (
        answers.text,
        answers.data,
        answers.errors.iter().map(ToString::to_string).collect(),
    )
}
