//! Whose claims stand: those whom the next checks name, one after the other.

use std::fs;

use beadlock_checker::{Options, check, should_skip_database};
use beadlock_tests::{Kind, Scene};

/// The process that says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checker {
    /// The library, in this process.
    Library,
    /// The program `beadlock check`.
    Program,
}

/// The holders whom a check names. Each ends its claim as soon as it is named, until the database is free.
pub fn standing(scene: &Scene, kind: Kind, checker: Checker) -> Vec<String> {
    let mut named = Vec::new();
    for _ in 0..5 {
        let message = match (checker, kind) {
            (Checker::Library, Kind::Beads) => should_skip_database(scene.beads()).to_string(),
            (Checker::Library, _) => {
                check(&kind.place(&scene.beads()), &Options::default()).to_string()
            }
            (Checker::Program, _) => kind.run(scene, &["check"]).out,
        };
        if !message.starts_with("Skipping") {
            named.sort();
            return named;
        }
        let (_, holder) = message
            .split_once("locked by ")
            .unwrap_or(("", message.trim_end()));
        named.push(holder.trim_end().trim_end_matches(')').to_owned());
        let _ = fs::remove_file(kind.lock(scene));
    }
    panic!("never free: {named:?}, {:?}", scene.names());
}

/// What is in the database's directory: names and contents.
pub fn contents(scene: &Scene) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = fs::read(scene.beads().join(&name)).unwrap_or_default();
        (name, bytes)
    };
    scene.names().into_iter().map(read).collect()
}
