//! A beads database: free, held, left behind, in doubt, behind a shut gate.

use std::fs;
use std::os::unix::fs::symlink;

use beadlock_tests::{this_host, tool};

use crate::setting::{Line, Setting, old_lock, play};

#[test]
fn free() {
    play(
        "beads/free",
        Setting::free,
        &[
            ("contract-check", "beadlock check"),
            ("contract-check-dry-run", "beadlock check --dry-run"),
            ("check-explain", "beadlock check --explain"),
            ("check-several", "beadlock check .beads nowhere/.beads"),
            ("status", "beadlock status"),
            ("status-verbose", "beadlock status -v"),
            ("contract-status-raw", "beadlock status --raw"),
            ("bare", "beadlock"),
            ("list", "beadlock list"),
            ("list-nowhere", "beadlock list nowhere"),
            ("contract-wait", "beadlock wait"),
            ("hold", "beadlock hold -- sh -c 'echo work; exit 3'"),
            ("hold-quiet", "beadlock -q hold -- echo work"),
            ("hold-signal", "beadlock hold -- sh -c 'kill -KILL $$'"),
            ("hold-not-found", "beadlock hold -- no-such-program"),
            (
                "hold-not-executable",
                "beadlock hold -- ./.beads/issues.jsonl",
            ),
            (
                "hold-own-exit-code",
                "beadlock hold --own-exit-code 99 -- no-such-program",
            ),
            (
                "contract-hold-report",
                "beadlock -q hold --holder ci --report report.json -- true; cat report.json",
            ),
            (
                "contract-hold-audit",
                "beadlock -q hold --holder ci --audit audit.jsonl -- true; cat audit.jsonl",
            ),
            (
                "contract-lock-file",
                "beadlock -q hold --holder ci --holder-version 7 -- cat .beads/.exclusive-lock",
            ),
            (
                "contract-environment",
                "beadlock -q hold -- env | grep ^BEADLOCK_ | grep -v SCENE | sort",
            ),
            (
                "contract-cycle-environment",
                "beadlock -q cycle -- env | grep '^BEAD' | grep -v SCENE | sort",
            ),
            ("cycle", "beadlock cycle -- sh -c 'echo work; exit 3'"),
            ("cycle-not-found", "beadlock cycle -- no-such-program"),
            (
                "acquire-for-a-dead-process",
                "beadlock acquire --for 2147483646",
            ),
            ("release-without-id", "beadlock release"),
            (
                "release-unknown",
                "beadlock release --id 00000000000000000000000000000000",
            ),
            ("break-malformed", "beadlock break --malformed --yes"),
            ("break-holder", "beadlock break --holder ci"),
            ("log-none", "beadlock log"),
        ],
    );
}

const LOCKED: &[Line] = &[
    ("contract-check", "beadlock check"),
    ("contract-check-dry-run", "beadlock check --dry-run"),
    ("check-explain", "beadlock check --explain"),
    ("status", "beadlock status"),
    ("status-verbose", "beadlock status -v"),
    ("list", "beadlock list"),
    ("wait-once", "beadlock wait --wait 0"),
    ("hold-no-wait", "beadlock hold --no-wait -- true"),
    ("acquire-no-wait", "beadlock acquire --no-wait"),
    ("contract-cycle", "beadlock cycle -- true"),
    (
        "release-other",
        "beadlock release --id 00000000000000000000000000000000",
    ),
    ("break-holder", "beadlock break --holder release-job"),
    ("break-other-holder", "beadlock break --holder somebody"),
    ("break-malformed", "beadlock break --malformed --yes"),
];

#[test]
fn held() {
    let more: &[Line] = &[
        ("bare", "beadlock"),
        (
            "contract-check-several",
            "beadlock check .beads other/.beads",
        ),
        ("hold-wait", "beadlock hold --wait 700ms -- true"),
        ("wait", "beadlock wait --wait 700ms"),
        (
            "hold-conflict-exit-code",
            "beadlock hold --no-wait --conflict-exit-code 75 -- true",
        ),
        (
            "contract-hold-audit",
            "beadlock -q hold --no-wait --audit audit.jsonl -- true; cat audit.jsonl",
        ),
        (
            "contract-hold-report",
            "beadlock -q hold --no-wait --report report.json -- true; cat report.json",
        ),
        (
            "break-even-if-live",
            "beadlock break --holder release-job --even-if-live --reason 'the job hangs'",
        ),
    ];
    let setting = || {
        let setting = Setting::held();
        setting.scene.database("other");
        setting
    };
    play("beads/held", setting, &[LOCKED, more].concat());
}

#[test]
fn stale() {
    let more: &[Line] = &[
        ("hold", "beadlock hold --holder next -- true"),
        (
            "contract-check-audit",
            "beadlock check --reap-proven-dead; ls -A .beads",
        ),
        (
            "break-audit",
            "beadlock -q break --holder release-job --audit audit.jsonl; cat audit.jsonl; ls -A .beads",
        ),
    ];
    play("beads/stale", Setting::stale, &[LOCKED, more].concat());
}

/// What is asked of a lock that cannot be proved dead.
const UNPROVED: &[Line] = &[
    ("contract-check", "beadlock check"),
    ("check-explain", "beadlock check --explain"),
    ("status", "beadlock status"),
    ("hold-no-wait", "beadlock hold --no-wait -- true"),
    ("break-holder", "beadlock break --holder release-job"),
];

#[test]
fn of_another_host() {
    play("beads/elsewhere", Setting::elsewhere, UNPROVED);
}

#[test]
fn with_a_pid_that_no_kernel_has() {
    let setting =
        || Setting::of(old_lock("release-job", 1 << 31, &this_host())).given("2147483648");
    play("beads/pid-unknown", setting, UNPROVED);
}

/// What a lock looks like that cannot be read, or not be understood.
const IN_DOUBT: &[Line] = &[
    ("contract-check", "beadlock check"),
    ("status", "beadlock status"),
    ("hold-no-wait", "beadlock hold --no-wait -- true"),
    ("break-malformed", "beadlock break --malformed --yes"),
];

#[test]
fn malformed() {
    let more: &[Line] = &[
        ("check-explain", "beadlock check --explain"),
        ("list", "beadlock list"),
        ("wait-once", "beadlock wait --wait 0"),
        ("contract-cycle", "beadlock cycle -- true"),
        ("break-holder", "beadlock break --holder release-job"),
    ];
    let setting = || Setting::of("{\"holder\":\"release-job\",\"pid\":");
    play("beads/malformed", setting, &[IN_DOUBT, more].concat());
}

#[test]
fn empty() {
    play("beads/empty", || Setting::of(""), IN_DOUBT);
}

#[test]
fn invalid() {
    play(
        "beads/invalid",
        || Setting::of(old_lock("", 4711000, &this_host())).given("4711000"),
        IN_DOUBT,
    );
}

#[test]
fn too_large() {
    play(
        "beads/too-large",
        || Setting::of(vec![b' '; 65 * 1024]),
        IN_DOUBT,
    );
}

#[test]
fn a_link() {
    let setting = || {
        let setting = Setting::free().with("elsewhere", "");
        symlink("../elsewhere", setting.scene.lock()).expect("a link");
        setting
    };
    play("beads/link", setting, IN_DOUBT);
}

#[test]
fn a_directory() {
    let setting = || {
        let setting = Setting::free();
        fs::create_dir(setting.scene.lock()).expect("a directory");
        setting
    };
    play("beads/directory", setting, IN_DOUBT);
}

#[test]
fn behind_a_shut_gate() {
    let Some(_) = tool("flock") else { return };
    play(
        "beads/gate",
        || Setting::stale().with_the_gate_shut(),
        &[
            ("contract-check", "beadlock check"),
            ("contract-check-dry-run", "beadlock check --dry-run"),
            ("contract-cycle", "beadlock cycle -- true"),
            (
                "hold-drain",
                "beadlock hold --no-wait --drain 200ms -- true",
            ),
            ("acquire-drain", "beadlock acquire --no-wait --drain 200ms"),
        ],
    );
}
