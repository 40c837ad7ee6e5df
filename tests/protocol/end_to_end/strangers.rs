//! A PID namespace without a `/proc` of its own: the numbers there are those of other processes, and no name of theirs
//! is shown as a holder's.

use beadlock_tests::{Ended, Running, Scene, root, run};

const WITHOUT_PROC: [&str; 3] = ["--pid", "--fork", "--kill-child"];
const WITH_PROC: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// What the process is called that has the holder's PID outside.
const STRANGER: &str = "299.125";

/// What the holder is called.
const HOLDER: &str = "298.625";

/// The holder has the PID of a stranger outside; then everything that names processes.
const SCRIPT: &str = r#"
    echo $((STRANGER_PID - 1)) >/proc/sys/kernel/ns_last_pid || exit 77
    sleep HOLDER &
    [ $! = STRANGER_PID ] || exit 78
    "$BEADLOCK" -q acquire .beads --for $! >/dev/null || exit 79
    "$BEADLOCK" status -v .beads
    "$BEADLOCK" status --json .beads
    "$BEADLOCK" check --explain .beads
    "$BEADLOCK" hold .beads --no-wait -- true
    "$BEADLOCK" hold .beads --wait 500ms -- true
    "$BEADLOCK" wait .beads --wait 500ms
    "$BEADLOCK" list
    "$BEADLOCK" break .beads --holder x
    "$BEADLOCK" break .beads --holder "$(sed -n 's/.*"holder": "\(.*\)".*/\1/p' .beads/.exclusive-lock)" --even-if-live
    rm -f .beads/.exclusive-lock
    flock .beads sleep 3 &
    "$BEADLOCK" hold .beads --drain 500ms -- true
    "$BEADLOCK" status .beads
    kill STRANGER_PID
    wait
    exit 0
"#;

/// The claim of the process that calls, which has a stranger's PID as well.
const CALLER: &str = r#"
    echo $((STRANGER_PID - 1)) >/proc/sys/kernel/ns_last_pid || exit 77
    sh -c '[ $$ = STRANGER_PID ] || exit 78; "$BEADLOCK" acquire lock:build.lock; cat build.lock'
"#;

fn said(namespaces: &[&str], script: &str) -> Option<(String, i32)> {
    let scene = Scene::new();
    let mut sleep = scene.command("sleep");
    sleep.arg(STRANGER);
    let stranger = Running::start(sleep);
    let script = script
        .replace("STRANGER_PID", &stranger.pid().to_string())
        .replace("HOLDER", HOLDER);
    let ended: Ended = run(scene.in_namespaces(namespaces, &script)?).into();
    let said = format!("{}\n{}", ended.out, ended.err);
    assert_eq!(ended.code, 0, "{said}");
    Some((said, stranger.pid()))
}

#[test]
fn no_name_of_a_stranger_is_shown_for_a_holder() {
    if !root() {
        return;
    }
    let Some((said, pid)) = said(&WITHOUT_PROC, SCRIPT) else {
        return;
    };
    assert!(
        said.contains(&format!("PID {pid}")),
        "the holder is not named at all: {said}"
    );
    assert!(!said.contains(STRANGER), "{said}");
    assert!(
        !said.contains(HOLDER) && !said.contains("flock .beads"),
        "not even by its number outside: {said}"
    );
    let Some((said, _)) = self::said(&WITH_PROC, SCRIPT) else {
        return;
    };
    assert!(
        said.contains(HOLDER) && !said.contains(STRANGER),
        "where /proc is its own: {said}"
    );
}

#[test]
fn a_claim_is_not_called_as_a_stranger_is() {
    if !root() {
        return;
    }
    let Some((said, pid)) = said(&WITHOUT_PROC, CALLER) else {
        return;
    };
    assert!(said.contains(&format!("\"pid\": {pid}")), "{said}");
    assert!(
        !said.contains("\"holder\": \"sleep\""),
        "that is the stranger: {said}"
    );
    let Some((said, _)) = self::said(&WITH_PROC, CALLER) else {
        return;
    };
    assert!(
        said.contains("\"holder\": \"sh\""),
        "where /proc is its own: {said}"
    );
}
