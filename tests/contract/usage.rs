//! Wrong command lines: what is wrong, and what to type instead.

use crate::setting::{Setting, play};

#[test]
fn wrong_words() {
    play(
        "usage/words",
        Setting::free,
        &[
            ("hold-nothing", "beadlock hold"),
            ("hold-forgotten-dashes", "beadlock hold make release"),
            (
                "hold-forgotten-dashes-option",
                "beadlock hold --wait 5s make -v",
            ),
            (
                "hold-holder-control",
                "beadlock hold --holder \"$(printf 'a\\033[2J')\" -- true",
            ),
            ("hold-holder-empty", "beadlock hold --holder '' -- true"),
            ("hold-wait-soon", "beadlock hold --wait soon -- true"),
            ("hold-drain-negative", "beadlock hold --drain=-1s -- true"),
            (
                "hold-exit-code-large",
                "beadlock hold --conflict-exit-code 300 -- true",
            ),
            ("hold-unknown-option", "beadlock hold --wiat 5s -- true"),
            (
                "hold-wait-and-no-wait",
                "beadlock hold --wait 5s --no-wait -- true",
            ),
            ("hold-unknown-scheme", "beadlock hold ftp:x -- true"),
            ("hold-directory-above", "beadlock hold . -- true"),
            (
                "hold-target-twice",
                "beadlock hold .beads --and .beads -- true",
            ),
            ("hold-tower-option", "beadlock hold --ttl 5s -- true"),
            ("check-empty", "beadlock check ''"),
            ("check-unknown-option", "beadlock check --nonsense"),
            ("status-colour", "beadlock status --color mauve"),
            ("acquire-command", "beadlock acquire -- make"),
            (
                "acquire-for-and-detach",
                "beadlock acquire --for 1 --detach",
            ),
            ("acquire-for-nothing", "beadlock acquire --for 0"),
            ("break-nothing-said", "beadlock break"),
            ("break-two-said", "beadlock break --id x --holder y"),
            ("log-since", "beadlock log --since soon"),
            ("top-no-terminal", "beadlock top"),
            ("unknown-command", "beadlock frobnicate"),
            ("unknown-command-near", "beadlock stauts"),
            ("unknown-help", "beadlock help frobnicate"),
            ("unknown-shell", "beadlock completions tcsh"),
            ("write-no-file", "beadlock write"),
            ("write-beads", "beadlock write .beads </dev/null"),
            ("update-no-command", "beadlock update file:x"),
            ("fleet-join-nothing", "beadlock fleet join"),
            ("unknown-schema", "beadlock schema stauts"),
            ("agent-no-interval", "beadlock-agent --interval 0s --once"),
            ("agent-unknown-option", "beadlock-agent --nonsense"),
            (
                "agent-two-actions",
                "beadlock-agent --action none --exec true --once",
            ),
        ],
    );
}

#[test]
fn no_database() {
    let setting = || {
        let setting = Setting::free().with("plain", "");
        std::fs::remove_dir_all(setting.scene.beads()).expect("remove the database");
        setting
    };
    play(
        "usage/no-database",
        setting,
        &[
            ("bare", "beadlock"),
            ("check", "beadlock check"),
            ("hold", "beadlock hold -- true"),
            ("status-missing", "beadlock status nowhere/.beads"),
            ("hold-missing", "beadlock hold nowhere/.beads -- true"),
            ("hold-plain-file", "beadlock hold plain -- true"),
            ("status-lock-without-name", "beadlock status lock:."),
            (
                "status-file-missing-directory",
                "beadlock status file:nowhere/x",
            ),
            ("status-memory-missing", "beadlock status memory:nowhere"),
            ("status-tower-wrong-name", "beadlock status tower:A"),
            ("agent", "beadlock-agent --once"),
            ("agent-missing", "beadlock-agent --db nowhere/.beads --once"),
        ],
    );
}

#[test]
fn wrong_variables() {
    let room = |name: &str, variable: &'static str, value: &'static str| {
        play(
            &format!("usage/{name}"),
            || Setting::free().variable(variable, value),
            &[
                ("hold", "beadlock hold -- true"),
                ("check", "beadlock check"),
            ],
        );
    };
    room("variable-wait", "BEADLOCK_WAIT", "soon");
    room("variable-json", "BEADLOCK_JSON", "maybe");
    room("variable-target", "BEADLOCK_TARGET", "ftp:x");
    room(
        "variable-target-missing",
        "BEADLOCK_TARGET",
        "beads:nowhere",
    );
    room("variable-beads-dir", "BEADS_DIR", "nowhere");
}
