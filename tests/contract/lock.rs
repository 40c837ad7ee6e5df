//! A lock file at any path: `lock:PATH`.

use beadlock_tests::{dead_pid, this_host};

use crate::setting::{Line, Setting, old_lock, play};

const LINES: &[Line] = &[
    ("contract-check", "beadlock check lock:import.lock"),
    ("status", "beadlock status lock:import.lock"),
    ("wait-once", "beadlock wait --wait 0 lock:import.lock"),
    (
        "hold-no-wait",
        "beadlock hold --no-wait lock:import.lock -- echo work",
    ),
    ("cycle", "beadlock cycle lock:import.lock -- true"),
    (
        "break-holder",
        "beadlock break lock:import.lock --holder importer",
    ),
];

#[test]
fn nobody_has_it() {
    let more: &[Line] = &[
        (
            "contract-lock-file",
            "beadlock -q hold --holder importer lock:import.lock -- cat import.lock",
        ),
        (
            "contract-environment",
            "beadlock -q hold lock:import.lock -- env | grep ^BEADLOCK_ | grep -v SCENE | sort",
        ),
    ];
    play("lock/free", Setting::free, &[LINES, more].concat());
}

#[test]
fn somebody_has_it() {
    let setting = || {
        let mut setting = Setting::free();
        let pid = setting.holder();
        setting.with("import.lock", old_lock("importer", pid, &this_host()))
    };
    play("lock/held", setting, LINES);
}

#[test]
fn its_process_is_gone() {
    let setting = || {
        Setting::free().with(
            "import.lock",
            old_lock("importer", dead_pid().into(), &this_host()),
        )
    };
    play("lock/stale", setting, LINES);
}
