//! A second run differs from the first one only where a snapshot hides something, and a snapshot hides nothing that is
//! always the same.

use std::collections::{BTreeMap, BTreeSet};

use beadlock_tests::until;

use crate::answer::whole;
use crate::hide::{Piece, pieces};
use crate::setting::{Setting, with_json};

/// What may be the same in two runs on one machine, and differs between machines, users and versions: their names, sizes
/// that depend on how long these are, and whole seconds, which differ on a slow machine.
const MAY_BE_THE_SAME: [&str; 9] = [
    "HOST",
    "MACHINE",
    "BOOT",
    "NAMESPACE",
    "UID",
    "USER",
    "VERSION",
    "SIZE",
    "SECONDS",
];

type MakeSetting = fn() -> Setting;

/// Lines that between them show every kind of value.
const LINES: [(MakeSetting, &str); 9] = [
    (Setting::held, "beadlock status -v"),
    (Setting::held, "beadlock hold --no-wait -- true"),
    (Setting::stale, "beadlock check --explain"),
    (Setting::stale, "beadlock break --holder release-job"),
    (Setting::elsewhere, "beadlock status"),
    (
        Setting::free,
        "beadlock hold --holder ci --audit audit.jsonl -- cat .beads/.exclusive-lock; cat audit.jsonl",
    ),
    (Setting::free, "beadlock hold -- beadlock status"),
    (
        Setting::free,
        "beadlock acquire --holder ci; beadlock --json status; rm .beads/.exclusive-lock",
    ),
    (
        Setting::free,
        "beadlock -q hold file:x -- beadlock --json status file:x",
    ),
];

/// The pieces of each answer, in text and in JSON.
fn answers() -> Vec<Vec<Piece>> {
    let mut all = Vec::new();
    for (setting, line) in LINES {
        for line in [Some(line.to_owned()), with_json(line)]
            .into_iter()
            .flatten()
        {
            let setting = setting().given(line.as_str());
            all.push(pieces(&whole(&line, &setting.run(&line)), &setting.known));
        }
    }
    all
}

#[test]
fn two_runs_differ_only_where_a_snapshot_hides_something() {
    let first = answers();
    let second = jiff::Timestamp::now().as_second();
    until("the next second has begun", || {
        jiff::Timestamp::now().as_second() > second
    });
    let mut differs = BTreeMap::<&str, bool>::new();
    for (one, other) in first.iter().zip(&answers()) {
        assert_eq!(one.len(), other.len(), "{one:#?}\n{other:#?}");
        for pair in one.iter().zip(other) {
            match pair {
                (
                    Piece::Hidden { word, was },
                    Piece::Hidden {
                        word: and,
                        was: now,
                    },
                ) if word == and => {
                    *differs.entry(word).or_default() |= was != now;
                }
                (one, other) => assert_eq!(one, other, "outside of what is hidden"),
            }
        }
    }
    let same: BTreeSet<&str> = differs
        .iter()
        .filter(|(_, differs)| !**differs)
        .map(|(word, _)| *word)
        .collect();
    let needless: Vec<_> = same
        .iter()
        .filter(|word| !MAY_BE_THE_SAME.contains(word))
        .collect();
    assert!(
        needless.is_empty(),
        "hidden, and the same in both runs: {needless:?}"
    );
    let unseen: Vec<_> = crate::hide::words()
        .into_iter()
        .filter(|word| !differs.contains_key(word))
        .collect();
    assert!(unseen.is_empty(), "no line here shows these: {unseen:?}");
}

#[test]
fn what_a_setting_gives_is_not_hidden() {
    let text = "PID 4711 for 2h, PID 4712 for 700ms";
    let known = crate::hide::Known {
        given: vec!["--wait 700ms, 4711".to_owned()],
        ..Default::default()
    };
    assert_eq!(
        crate::hide::hidden(text, &known),
        "PID 4711 for [AGE], PID [PID] for 700ms"
    );
}
