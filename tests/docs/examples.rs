//! The examples show what a reader may use: nothing that docs.rs hides.

use std::fs;

use beadlock_tests::skip::checkout;

use super::document;

/// What only our own crates use: the two engine crates, and modules of libraries that are public and hidden.
fn hidden() -> Vec<String> {
    let mut names = vec!["beadlock_base".to_owned(), "beadlock_core".to_owned()];
    for library in ["integration", "integration/fleet"] {
        let text = document(&format!("{library}/src/lib.rs"));
        let after = text.split("#[doc(hidden)]\npub mod ").skip(1);
        names.extend(after.map(|rest| rest.split(';').next().unwrap_or_default().to_owned()));
    }
    names
}

/// The hidden modules that are in a path of this text.
fn used<'n>(text: &str, hidden: &'n [String]) -> Vec<&'n str> {
    let is_used = |name: &&str| {
        text.match_indices(*name).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + name.len()..]);
            !before.ends_with(is_of_a_word)
                && (after.starts_with("::")
                    || before.ends_with("::") && !after.starts_with(is_of_a_word))
        })
    };
    hidden.iter().map(String::as_str).filter(is_used).collect()
}

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[test]
fn no_example_uses_a_hidden_path() {
    let hidden = hidden();
    for (text, found) in [
        ("use beadlock_base::duration;", &["beadlock_base"][..]),
        (
            "use beadlock_core::{Cycle, gate::Gate};",
            &["beadlock_core"],
        ),
        ("let run = beadlock::run::x();", &["run"]),
        ("lock.run(|running| running.is_ending())", &[]),
        ("the_run::word beadlock::runs", &[]),
    ] {
        assert_eq!(used(text, &hidden), found, "the control: {text}");
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
            used(&text, &hidden),
            Vec::<&str>::new(),
            "{}",
            name.display()
        );
    }
}
