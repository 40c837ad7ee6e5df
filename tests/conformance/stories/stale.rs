//! A lock whose holder is provably gone is taken as its protocol says; every other lock stays.

use serde_json::Value;

use crate::protocol::{Dead, Doubtful, GARBAGE, Takeover};
use crate::site::Site;

pub fn tell(site: &Site) {
    assert_eq!(
        site.protocol.dead.is_empty(),
        site.protocol.takeover == Takeover::Never
    );
    for dead in site.protocol.dead {
        a_dead_lock_stays_while_the_gate_is_shut(site, dead);
        a_dead_lock_is_taken(site, dead);
    }
    for doubtful in site.protocol.doubtful {
        a_doubtful_lock_is_held(site, doubtful);
    }
    if site.protocol.takeover == Takeover::Never {
        a_lock_file_that_is_left_over_is_free(site);
    }
    a_lock_file_that_cannot_be_read_is_what_its_protocol_says(site);
}

fn a_dead_lock_is_taken(site: &Site, dead: &Dead) {
    let pid = site.gone();
    let text = (dead.text)(pid);
    site.put(&text);
    let (code, envelope) = site.json("status", &[]);
    let shown = crate::envelope::shown(&envelope);
    assert_eq!(
        (code, word(shown, "verdict"), word(shown, "reason")),
        (0, "stale", dead.reason),
        "{shown}"
    );
    assert_eq!(
        site.bytes(),
        Some(text.clone().into_bytes()),
        "{}: a look changes nothing",
        dead.what
    );

    let removes = site.protocol.takeover == Takeover::ByAnyone;
    let (code, envelope) = site.json("check", &[]);
    let checked = crate::envelope::checked(&envelope);
    let decision = if removes { ("proceed", 0) } else { ("skip", 4) };
    assert_eq!(
        (word(checked, "decision"), code),
        decision,
        "{}: {checked}",
        dead.what
    );
    assert_eq!(checked["removed"], removes, "{checked}");
    let message = (dead.checked)(pid);
    assert!(
        word(checked, "message").starts_with(&message),
        "{checked} does not begin with {message:?}"
    );
    assert_eq!(site.bytes().is_none(), removes, "{}", dead.what);

    site.put(&text);
    if let Takeover::OnlyWith(option) = site.protocol.takeover {
        let ended = site.hold(&[], "touch ran");
        assert_eq!(
            (ended.code, site.scene.file("ran").exists()),
            (4, false),
            "{ended:?}"
        );
        assert!(
            ended.err.contains(option),
            "the message names the option: {ended:?}"
        );
        assert_eq!(site.bytes(), Some(text.into_bytes()), "{}", dead.what);
    }
    let options = site.protocol.takeover.options();
    let ended = site.hold(
        &[&["--no-wait"], options.as_slice()].concat(),
        "echo has it",
    );
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "has it\n"),
        "{}: {ended:?}",
        dead.what
    );
    let words = (dead.taken)(pid);
    assert!(ended.err.contains(&words), "no {words:?} in {ended:?}");
    site.assert_tidy();
}

/// Another program may be replacing the lock at this moment.
fn a_dead_lock_stays_while_the_gate_is_shut(site: &Site, dead: &Dead) {
    let text = (dead.text)(site.gone());
    site.put(&text);
    let gate = site.shut_gate();
    let (code, envelope) = site.json("check", &[]);
    let checked = crate::envelope::checked(&envelope);
    let removes = site.protocol.takeover == Takeover::ByAnyone;
    let reason = if removes { "gate_busy" } else { dead.reason };
    assert_eq!(
        (code, word(checked, "decision"), word(checked, "reason")),
        (4, "skip", reason),
        "{checked}"
    );
    let options = site.protocol.takeover.options();
    let ended = site.hold(&[&["--no-wait"], options.as_slice()].concat(), "touch ran");
    assert_eq!(
        (ended.code, site.scene.file("ran").exists()),
        (4, false),
        "{}: {ended:?}",
        dead.what
    );
    assert_eq!(site.bytes(), Some(text.into_bytes()), "{}", dead.what);
    drop(gate);
}

fn a_doubtful_lock_is_held(site: &Site, doubtful: &Doubtful) {
    let text = (doubtful.text)(site.gone());
    site.put(&text);
    assert_eq!(
        site.verdict(),
        ("held".to_owned(), doubtful.reason.to_owned()),
        "{}",
        doubtful.what
    );
    assert_eq!(site.run("check", &[]).code, 4, "{}", doubtful.what);
    let options = site.protocol.takeover.options();
    let ended = site.hold(&[&["--no-wait"], options.as_slice()].concat(), "touch ran");
    assert_eq!(
        (ended.code, site.scene.file("ran").exists()),
        (4, false),
        "{}: {ended:?}",
        doubtful.what
    );
    assert_eq!(site.bytes(), Some(text.into_bytes()), "{}", doubtful.what);
    std::fs::remove_file(site.lock()).expect("it is there");
}

fn a_lock_file_that_is_left_over_is_free(site: &Site) {
    site.put("");
    site.assert_free();
    let ended = site.hold(&["--no-wait"], "echo has it");
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "has it\n"),
        "{ended:?}"
    );
    site.assert_tidy();
}

fn a_lock_file_that_cannot_be_read_is_what_its_protocol_says(site: &Site) {
    site.put(GARBAGE);
    let garbage = &site.protocol.garbage;
    let (code, envelope) = site.json("check", &["--dry-run"]);
    let checked = crate::envelope::checked(&envelope);
    let answer = (code, word(checked, "verdict"), word(checked, "reason"));
    assert_eq!(
        answer,
        (garbage.exit_code, garbage.verdict, garbage.reason),
        "{checked}"
    );
    let ended = site.hold(&["--no-wait"], "echo has it");
    assert_eq!(ended.code, garbage.exit_code, "{ended:?}");
    assert_eq!(ended.out == "has it\n", garbage.exit_code == 0, "{ended:?}");
    if garbage.exit_code != 0 {
        assert_eq!(
            site.bytes(),
            Some(GARBAGE.into()),
            "what cannot be understood stays"
        );
    }
    let _ = std::fs::remove_file(site.lock());
    std::fs::create_dir(site.lock()).expect("a directory in the lock's place");
    if garbage.a_directory_is_locked {
        site.hold(&["--no-wait"], "echo has it").expect(0, &[]);
        return;
    }
    let (code, envelope) = site.json("check", &[]);
    let checked = crate::envelope::checked(&envelope);
    assert_eq!(
        (code, word(checked, "verdict"), word(checked, "reason")),
        (5, "unreadable", "unreadable")
    );
    assert_eq!(site.run("status", &[]).code, 0, "it could look");
    let ended = site.hold(&["--no-wait"], "touch ran");
    assert!(
        ended.code == 5 || ended.code == site.protocol.refusal.exit_code,
        "{ended:?}"
    );
    assert!(
        site.lock().is_dir() && !site.scene.file("ran").exists(),
        "{ended:?}"
    );
}

#[track_caller]
fn word<'v>(object: &'v Value, key: &str) -> &'v str {
    object[key]
        .as_str()
        .unwrap_or_else(|| panic!("no text {key} in {object}"))
}
