//! `--json` prints one envelope, with the same fields, types and words for every protocol.

use beadlock_tests::{Ended, Running};
use serde_json::Value;

use crate::envelope::{checked, is_answer, is_error, is_whole, keys, shown};
use crate::protocol::{Breaking, HOLDER};
use crate::site::{Site, UNTIL_GO};

pub fn tell(site: &Site) {
    a_free_lock(site);
    a_held_lock(site);
    a_claim_over_several_commands(site);
    a_wrong_word(site);
    a_report_of_a_command(site);
}

fn a_free_lock(site: &Site) {
    let (code, envelope) = site.json("check", &[]);
    let answer = checked(&envelope);
    assert_eq!(
        (code, &answer["target"], &answer["path"]),
        (0, &site.protocol.shown.into(), &site.lock_path().into())
    );
    let words = [
        &answer["decision"],
        &answer["verdict"],
        &answer["reason"],
        &answer["message"],
    ];
    assert_eq!(
        words,
        [
            &Value::from("proceed"),
            &"free".into(),
            &"no_lock".into(),
            &"".into()
        ]
    );
    assert!(
        answer["holder"].is_null() && answer["id"].is_null() && answer["removed"] == false,
        "{answer}"
    );
    let (code, envelope) = site.json("wait", &[]);
    assert_eq!(code, 0);
    is_answer(&envelope);
}

fn a_held_lock(site: &Site) {
    let holding = site.holding(&[], UNTIL_GO);
    let refusal = &site.protocol.refusal;
    for command in ["hold", "acquire"] {
        let ended = claim(site, command, &["--no-wait", "--json"]);
        assert_eq!(ended.code, refusal.exit_code, "{ended:?}");
        let envelope = ended.json();
        let more = if refusal.lock_object.is_empty() {
            &[][..]
        } else {
            &["lock"]
        };
        let error = is_error(&envelope, refusal.error_code, more);
        assert_eq!(
            (&envelope["data"], &error["retryable"]),
            (&Value::Null, &true.into())
        );
        let message = error["message"].as_str().unwrap_or_default();
        assert!(
            ended.err.contains(message),
            "stderr has the message, too: {ended:?}"
        );
        assert_eq!(detail_keys(error), refusal.detail, "{error}");
        if !more.is_empty() {
            assert_eq!(keys(&error["lock"]), refusal.lock_object);
        }
    }
    let (code, envelope) = site.json("wait", &["--wait", "100ms"]);
    assert_eq!(code, 4);
    let more = if refusal.lock_object.is_empty() {
        &[][..]
    } else {
        &["lock"]
    };
    is_error(&envelope, "LOCK_HELD", more);
    let (code, envelope) = site.json("check", &[]);
    let answer = checked(&envelope);
    let words = (
        code,
        &answer["decision"],
        &answer["verdict"],
        &answer["reason"],
    );
    assert_eq!(
        words,
        (4, &"skip".into(), &"held".into(), &refusal.reason.into())
    );
    assert_eq!(
        answer["holder"].as_str(),
        site.protocol.holder_key.map(|_| HOLDER)
    );
    assert!(
        answer["id"].is_string() && answer["message"] != "",
        "{answer}"
    );
    shown(&site.json("status", &[]).1);
    site.go();
    assert_eq!(holding.beadlock.end().code, 0);
}

/// The keys of `error.detail`, which is `KEY=VALUE KEY=VALUE`; the paths of the tests have no spaces.
#[track_caller]
fn detail_keys(error: &Value) -> Vec<&str> {
    let detail = error["detail"].as_str().expect("a detail");
    detail
        .split(' ')
        .map(|pair| pair.split_once('=').expect("KEY=VALUE").0)
        .collect()
}

/// `hold` of a command that does nothing, or `acquire`.
#[track_caller]
fn claim(site: &Site, command: &str, options: &[&str]) -> Ended {
    let work = if command == "hold" {
        &["--", "true"][..]
    } else {
        &[]
    };
    Running::apart(site.command(command, &[site.protocol.claim, options, work].concat())).end()
}

const CLAIM: [&str; 12] = [
    "target",
    "path",
    "holder",
    "id",
    "nested",
    "pid",
    "exit_code",
    "signal",
    "waited_ms",
    "held_ms",
    "released",
    "left_behind",
];

fn a_claim_over_several_commands(site: &Site) {
    let ended = claim(site, "acquire", &["--detach", "--json"]);
    let envelope = ended.json();
    is_answer(&envelope);
    let data = &envelope["data"];
    assert_eq!((ended.code, keys(data)), (0, CLAIM.to_vec()));
    assert_eq!(
        (&data["target"], &data["path"]),
        (&site.protocol.shown.into(), &site.lock_path().into())
    );
    assert_eq!(
        (&data["nested"], &data["released"]),
        (&false.into(), &false.into())
    );
    let id = data["id"].as_str().expect("an id");
    if site.protocol.breaking == Breaking::ById {
        let (code, envelope) = site.json("break", &["--id", id]);
        assert_eq!(code, 4);
        is_error(&envelope, "LOCK_HELD", &[]);
    }
    let (code, envelope) = site.json("release", &["--id", "1:2:3"]);
    assert_eq!(code, 9);
    is_error(&envelope, "LOCK_LOST", &[]);
    for is_released in [true, false] {
        let (code, envelope) = site.json("release", &["--id", id, "--missing-ok"]);
        is_answer(&envelope);
        let data = &envelope["data"];
        assert_eq!(
            (code, &data["released"]),
            (0, &is_released.into()),
            "{envelope}"
        );
        assert_eq!(keys(data), ["target", "path", "id", "released", "held_ms"]);
        let warnings = envelope["warnings"].as_array().map_or(0, Vec::len);
        assert_eq!(warnings, usize::from(!is_released), "{envelope}");
    }
    site.until_still();
}

fn a_wrong_word(site: &Site) {
    let (code, envelope) = site.json("hold", &["--wait", "soon", "--", "true"]);
    assert_eq!(code, 2);
    is_error(&envelope, "USAGE", &[]);
}

/// While the command runs stdout is its own, so the envelope goes into a file.
fn a_report_of_a_command(site: &Site) {
    let ended = site.hold(&["--json", "--report", "report"], "echo mine; exit 5");
    assert_eq!((ended.code, ended.out.as_str()), (5, "mine\n"), "{ended:?}");
    let report: Value = serde_json::from_str(&site.scene.read("report")).expect("a report");
    is_whole(&report);
    let data = &report["data"];
    assert_eq!(keys(data), CLAIM);
    assert_eq!(
        (&data["exit_code"], &data["released"]),
        (&5.into(), &true.into()),
        "{report}"
    );
    assert!(
        data["held_ms"].is_u64() && data["waited_ms"].is_u64(),
        "{report}"
    );
}
