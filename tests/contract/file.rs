//! The lock of a file, `file:PATH` and `flock:PATH`, and the commands that write under the first.

use beadlock_tests::tool;

use crate::setting::{Line, Setting, play};

#[test]
fn nobody_has_it() {
    let Some(_) = tool("jq") else { return };
    play(
        "file/free",
        || Setting::free().with("todo.json", "{}\n"),
        &[
            ("contract-check", "beadlock check file:todo.json"),
            ("status", "beadlock status file:todo.json"),
            ("wait-once", "beadlock wait --wait 0 file:todo.json"),
            ("hold", "beadlock hold file:todo.json -- echo work"),
            (
                "contract-environment",
                "beadlock -q hold file:todo.json -- env | grep ^BEADLOCK_HELD_TARGET",
            ),
            ("break-holder", "beadlock break file:todo.json --holder x"),
            ("release", "beadlock release file:todo.json --id x"),
            (
                "write",
                "echo '{\"open\":1}' | beadlock write file:todo.json; cat todo.json todo.json.1",
            ),
            ("write-new", "echo '{}' | beadlock write file:new.json"),
            (
                "write-not-json",
                "echo '{' | beadlock write --format json file:todo.json; cat todo.json",
            ),
            (
                "append",
                "echo '{\"a\":1}' | beadlock append file:log.jsonl; cat log.jsonl",
            ),
            (
                "append-not-json",
                "printf '{\"a\":1}\\nx\\n' | beadlock append --format jsonl file:log.jsonl; ls",
            ),
            (
                "update",
                "beadlock update file:todo.json -- jq -c '.open = 2'; cat todo.json",
            ),
            (
                "update-fails",
                "beadlock update file:todo.json -- sh -c 'echo no >&2; exit 3'",
            ),
            (
                "update-not-found",
                "beadlock update file:todo.json -- no-such-program",
            ),
            (
                "update-too-slow",
                "beadlock update --filter-timeout 200ms --kill-after 1s file:todo.json -- sleep 60",
            ),
            (
                "contract-audit",
                "echo '{}' | beadlock -q write --audit audit.jsonl file:todo.json; cat audit.jsonl",
            ),
        ],
    );
}

/// Each of these lines is typed while another command holds the lock.
const TYPED: &[Line] = &[
    ("contract-check", "beadlock check file:todo.json"),
    ("wait-once", "beadlock wait --wait 0 file:todo.json"),
    (
        "hold-no-wait",
        "beadlock hold --no-wait file:todo.json -- true",
    ),
    (
        "hold-shared",
        "beadlock hold --no-wait --shared file:todo.json -- true",
    ),
    (
        "write-no-wait",
        "echo '{}' | beadlock write --no-wait file:todo.json",
    ),
    (
        "update-no-wait",
        "beadlock update --no-wait file:todo.json -- cat",
    ),
    (
        "hold-conflict-exit-code",
        "beadlock hold --no-wait --conflict-exit-code 75 file:todo.json -- true",
    ),
];

#[test]
fn somebody_has_it() {
    let Some(_) = tool("flock") else { return };
    let setting = || {
        Setting::free()
            .with("todo.json", "{}\n")
            .flocked("todo.json.lock")
    };
    play("file/held", setting, TYPED);
}

#[test]
fn a_file_is_locked_itself() {
    let Some(_) = tool("flock") else { return };
    let lines = &[
        ("contract-check", "beadlock check flock:x.lock"),
        ("contract-status", "beadlock status flock:x.lock"),
        ("list", "beadlock list flock:x.lock"),
        ("hold-beside", "beadlock hold file:x.lock -- true"),
        (
            "hold-no-wait",
            "beadlock hold --no-wait flock:x.lock -- true",
        ),
        (
            "hold-own-shell",
            "exec 9>y.lock; flock 9; beadlock hold --no-wait flock:y.lock -- true",
        ),
        (
            "hold-no-directory",
            "beadlock hold flock:nowhere/x.lock -- true",
        ),
        (
            "hold-of-lock-no-directory",
            "beadlock hold lock:nowhere/x.lock -- true",
        ),
        (
            "hold-gate",
            "beadlock hold flock:.beads --and .beads -- true",
        ),
        ("break", "beadlock break flock:x.lock"),
    ];
    play("flock", || Setting::free().flocked("x.lock"), lines);
}
