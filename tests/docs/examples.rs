//! The examples show what a reader may use: the two faces, and nothing of the engine.

use std::fs;

use beadlock_tests::skip::checkout;

/// The crates of the engine, which only our own crates use.
fn engine() -> Vec<String> {
    let names = [
        "base",
        "claim",
        "cli",
        "console",
        "core",
        "explain",
        "files",
        "fleet",
        "git",
        "log",
        "oncall",
        "records",
        "session",
        "supervise",
        "trust",
    ];
    names.map(|name| format!("beadlock_{name}")).to_vec()
}

/// Those that are in a path of this text.
fn used<'n>(text: &str, engine: &'n [String]) -> Vec<&'n str> {
    let is_used = |name: &&str| {
        text.match_indices(*name).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + name.len()..]);
            !before.ends_with(is_of_a_word)
                && (after.starts_with("::")
                    || before.ends_with("::") && !after.starts_with(is_of_a_word))
        })
    };
    engine.iter().map(String::as_str).filter(is_used).collect()
}

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[test]
fn no_example_uses_the_engine() {
    let engine = engine();
    for (text, found) in [
        ("use beadlock_base::duration;", &["beadlock_base"][..]),
        (
            "use beadlock_core::{Cycle, gate::Gate};",
            &["beadlock_core"],
        ),
        (
            "let run = beadlock_claim::target::x();",
            &["beadlock_claim"],
        ),
        ("lock.run(|running| running.is_ending())", &[]),
        (
            "the_beadlock_claim::word beadlock_claims beadlock::Claim",
            &[],
        ),
    ] {
        assert_eq!(used(text, &engine), found, "the control: {text}");
    }
    let examples = fs::read_dir(checkout().join("examples/examples"))
        .expect("the examples")
        .flatten();
    let texts: Vec<_> = examples
        .map(|entry| {
            (
                entry.file_name(),
                fs::read_to_string(entry.path()).expect("UTF-8"),
            )
        })
        .collect();
    assert!(texts.len() >= 4, "{}", texts.len());
    for (name, text) in texts {
        assert_eq!(
            used(&text, &engine),
            Vec::<&str>::new(),
            "{}",
            name.display()
        );
    }
}
