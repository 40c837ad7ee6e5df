//! `beadlock-agent --once`: exit code, what is said, and the log.

use std::fs;
use std::os::unix::fs::symlink;

use beadlock_tests::{skip, this_host, tool};

use super::play_with_logs;
use crate::setting::{Line, Setting, old_lock};

#[test]
fn free() {
    let setting = || {
        let setting = Setting::free();
        setting.scene.database("other");
        fs::create_dir(setting.scene.file("empty")).expect("an empty directory");
        setting
    };
    play_with_logs(
        "agent/once/free",
        setting,
        &[
            (
                "contract-action-none",
                "beadlock-agent --once --action none",
            ),
            (
                "contract-action-none-json",
                "beadlock-agent --once --action none --log-format json",
            ),
            (
                "contract-exec",
                "beadlock-agent --once --exec 'echo work; echo more >&2'",
            ),
            (
                "contract-exec-json",
                "beadlock-agent --once --exec 'echo work; echo more >&2' --log-format json",
            ),
            (
                "contract-exec-fails",
                "beadlock-agent --once --exec 'echo work; exit 3'",
            ),
            (
                "contract-exec-fails-json",
                "beadlock-agent --once --exec 'echo work; exit 3' --log-format json",
            ),
            (
                "contract-exec-killed",
                "beadlock-agent --once --exec 'kill -KILL $$'",
            ),
            (
                "contract-exec-too-slow",
                "beadlock-agent --once --exec 'exec sleep 60' --cycle-timeout 200ms",
            ),
            (
                "exec-not-found",
                "beadlock-agent --once --exec 'no-such-program 2>/dev/null'",
            ),
            (
                "exec-output-like-ours",
                r"beadlock-agent --once --exec 'printf %s\\n State:\ synced x:\ Sync\ cycle\ complete \|\ x'",
            ),
            (
                "exec-output-control",
                r"beadlock-agent --once --exec 'printf \\033[2J\\r\\nno-end'",
            ),
            (
                "exec-directory-replaced",
                "beadlock-agent --once --exec 'mv .beads old; mkdir .beads; exec sleep 60' --log-file all.log",
            ),
            (
                "exec-directory-removed",
                "beadlock-agent --once --exec 'mv .beads old; exec sleep 60' --log-file all.log",
            ),
            ("git-no-repository", "beadlock-agent --once"),
            (
                "contract-several",
                "beadlock-agent --once --action none --db .beads --db other/.beads",
            ),
            (
                "contract-log-file",
                "beadlock-agent --once --action none --db .beads --db other/.beads --log-file all.log; sort -k 3 all.log; rm all.log",
            ),
            (
                "contract-root-log-file",
                "beadlock-agent --once --exec 'echo work' --root other --log-file all.log",
            ),
            (
                "contract-root",
                "beadlock-agent --once --action none --root other",
            ),
            (
                "root-empty",
                "beadlock-agent --once --action none --root empty",
            ),
            (
                "root-empty-log-file",
                "beadlock-agent --once --action none --root empty --log-file all.log",
            ),
            (
                "redirected",
                "echo other/.beads >.beads/redirect; beadlock-agent --once --action none",
            ),
            (
                "redirected-nowhere",
                "echo nowhere/.beads >.beads/redirect; beadlock-agent --once --action none",
            ),
            (
                "log-is-a-link",
                "ln -s ../elsewhere .beads/daemon.log; beadlock-agent --once --action none",
            ),
            (
                "log-file-cannot-be-opened",
                "beadlock-agent --once --action none --log-file nowhere/all.log",
            ),
            (
                "log-is-full",
                "beadlock-agent --once --exec 'seq 300' --log-size 4KiB --log-keep 1; head -n 1 .beads/daemon.log.1; tail -n 2 .beads/daemon.log >all.log; rm .beads/daemon.log",
            ),
            (
                "audit-cannot-be-opened",
                "beadlock-agent --once --action none --audit nowhere/audit.jsonl",
            ),
            (
                "log-level-debug",
                "beadlock-agent --once --exec 'exit 3' --jobs 7 --log-level debug 2>err; code=$?; LC_ALL=C sort err; rm err; exit $code",
            ),
            (
                "log-level-debug-held",
                "echo '{' >.beads/.exclusive-lock; beadlock-agent --once --action none --jobs 7 --log-level debug 2>err; code=$?; LC_ALL=C sort err; rm err; exit $code",
            ),
        ],
    );
}

/// What is typed while somebody has the lock, or may have it.
const TYPED: &[Line] = &[
    ("contract-exec", "beadlock-agent --once --exec 'echo work'"),
    (
        "contract-exec-json",
        "beadlock-agent --once --exec 'echo work' --log-format json",
    ),
];

#[test]
fn held() {
    play_with_logs("agent/once/held", Setting::held, TYPED);
}

#[test]
fn stale() {
    let more: &[Line] = &[(
        "action-none",
        "beadlock-agent --once --action none; ls -A .beads",
    )];
    play_with_logs("agent/once/stale", Setting::stale, &[TYPED, more].concat());
}

#[test]
fn of_another_host() {
    play_with_logs("agent/once/elsewhere", Setting::elsewhere, TYPED);
}

#[test]
fn with_a_name_for_a_terminal() {
    let setting = || {
        let mut setting = Setting::free();
        let pid = setting.holder();
        setting.scene.write_lock(old_lock(
            "a\u{202e}b\u{1b}[2J\nState: synced",
            pid,
            &this_host(),
        ));
        setting
    };
    play_with_logs("agent/once/odd-name", setting, TYPED);
}

#[test]
fn malformed() {
    play_with_logs(
        "agent/once/malformed",
        || Setting::of("{\"holder\":\"release-job\",\"pid\":"),
        TYPED,
    );
}

#[test]
fn empty() {
    play_with_logs("agent/once/empty", || Setting::of(""), TYPED);
}

#[test]
fn a_link() {
    let setting = || {
        let setting = Setting::free().with("elsewhere", "");
        symlink("../elsewhere", setting.scene.lock()).expect("a link");
        setting
    };
    play_with_logs("agent/once/link", setting, TYPED);
}

#[test]
fn behind_a_shut_gate() {
    let Some(_) = tool("flock") else { return };
    play_with_logs(
        "agent/once/gate",
        || Setting::free().with_the_gate_shut(),
        TYPED,
    );
}

/// Of several, the worst counts.
#[test]
fn several_of_which_one_is_held() {
    let setting = || {
        let setting = Setting::held();
        let other = setting.scene.database("other").join(".exclusive-lock");
        fs::write(other, "{").expect("write a lock");
        setting
    };
    play_with_logs(
        "agent/once/several",
        setting,
        &[
            (
                "contract-held-and-malformed",
                "beadlock-agent --once --action none --db .beads --db other/.beads",
            ),
            (
                "contract-held-and-failing",
                "rm other/.beads/.exclusive-lock; beadlock-agent --once --exec 'exit 3' --db .beads --db other/.beads",
            ),
        ],
    );
}

/// The directory of a database, and the repository around one, that another user owns.
#[test]
fn of_another_user() {
    if !skip::may_be_root() {
        return skip::cannot("only root can give a directory away");
    }
    play_with_logs(
        "agent/once/owner",
        || Setting::free().given("54321"),
        &[
            (
                "contract-database",
                "chown 54321 .beads; beadlock-agent --once --exec 'echo work'",
            ),
            (
                "directory-above",
                "mkdir a; mv .beads a; chown 54321 a; beadlock-agent --once --db a/.beads --exec 'echo work' --log-file all.log",
            ),
            (
                "below-a-root",
                "chown 54321 .beads; beadlock-agent --once --root . --exec 'echo work'",
            ),
            (
                "allowed",
                "chown 54321 .beads; beadlock-agent --once --exec 'echo work' --allow-foreign-owner",
            ),
        ],
    );
}
