//! The document's example, line for line, and a tool that was written from the documentation alone.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, Scene, binaries, shared, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{AT_ONCE, Bench, answer, died_of};

/// The answer to the second `tool deploy --env prod`, in the document's order: with N for what differs from one time to the
/// next, and LOCKS for the directory.
const ANSWER: &str = concat!(
    r#"{"ok":false,"data":null,"error":{"code":"LOCK_HELD","#,
    r#""message":"Resource lock held by PID N (age: Ns) — acquisition timed out after Ns","#,
    r#""retryable":true,"retry_after_ms":N,"detail":"lock_file=LOCKS/deploy.lock holder_pid=N holder_age_ms=N"},"#,
    r#""warnings":[],"meta":{"duration_ms":N,"request_id":"N"}}"#,
);

/// The envelope that the document shows, as one line; None, and said so, where the document is absent.
fn of_the_document() -> Option<String> {
    let text = fs::read_to_string(shared()?.join("seeds/req-f-033-lock-timeout.md"))
        .expect("the document");
    let begin = text.find("{\n\"ok\": false").expect("it shows an envelope");
    let end = begin + text[begin..].find("\n}\n").expect("and its end") + 2;
    let value: Value = serde_json::from_str(&text[begin..end]).expect("it is JSON");
    Some(value.to_string())
}

/// What differs from one time to the next, replaced.
fn alike(envelope: &str, locks: &str) -> String {
    let mut line = envelope.replace(locks, "LOCKS");
    for before in [
        "held by PID ",
        "(age: ",
        "timed out after ",
        "holder_pid=",
        "holder_age_ms=",
        "\"retry_after_ms\":",
        "\"duration_ms\":",
        "\"request_id\":\"",
    ] {
        let at = line
            .find(before)
            .unwrap_or_else(|| panic!("{before:?} is in {line}"))
            + before.len();
        let varies = |c: char| {
            if before.ends_with('"') {
                c != '"'
            } else {
                c.is_ascii_digit()
            }
        };
        let end = at + line[at..].find(|c| !varies(c)).unwrap_or(line.len() - at);
        assert!(end > at, "something stands behind {before:?}: {line}");
        line.replace_range(at..end, "N");
    }
    // Ours is given as `400ms` where the document waits ten seconds.
    line.replace("timed out after Nms", "timed out after Ns")
}

/// `XDG_RUNTIME_DIR` is the scene's.
fn example(scene: &Scene, name: &str, words: &[&str]) -> Command {
    let mut command = scene.command(binaries::example(name));
    command.args(words).env("XDG_RUNTIME_DIR", scene.path());
    command
}

#[test]
fn the_answer_here_is_the_one_of_the_document() {
    let Some(told) = of_the_document() else {
        return;
    };
    assert_eq!(alike(&told, "/tmp/mytool/locks"), ANSWER);
}

#[test]
fn the_documents_example_line_for_line() {
    let scene = Scene::new();
    let deploy = ["deploy", "--env", "prod"];
    let lock: PathBuf = scene.path().join("mytool/locks/deploy.lock");

    // $ tool deploy --env prod &
    let first = Running::start(example(&scene, "deploy_tool", &deploy));
    wait_until(PATIENCE, "the lock", || lock.exists());

    // $ tool deploy --env prod
    let second = example(
        &scene,
        "deploy_tool",
        &[&deploy[..], &["--timeout", "400ms"]].concat(),
    );
    let output = Running::start(second).finish(AT_ONCE);
    assert_eq!(answer(&output).1, 4);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let locks = scene.path().join("mytool/locks").display().to_string();
    assert_eq!(
        alike(printed.strip_suffix('\n').expect("a line"), &locks),
        ANSWER
    );
    let pid = format!("held by PID {} (", first.pid());
    assert!(printed.contains(&pid), "{printed}");

    // $ kill 9001
    first.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &first.finish(AT_ONCE));
    assert!(!lock.exists(), "the lock is still there");

    let third = example(
        &scene,
        "deploy_tool",
        &[&deploy[..], &["--for", "10ms"]].concat(),
    );
    let (json, code) = answer(&Running::start(third).finish(AT_ONCE));
    assert_eq!((code, &json["data"]["deployed"]), (0, &Value::Bool(true)));
}

/// Ten seconds, where nobody says otherwise: neither the example's own option, nor a tool that has none.
#[test]
fn the_example_waits_for_ten_seconds_by_itself() {
    let bench = Bench::new();
    let holder = bench.start(&["sleep"]);
    let tool = Running::start(bench.command(&["return"]));
    let scene = Scene::new();
    let first = Running::start(example(&scene, "deploy_tool", &["deploy", "--env", "prod"]));
    wait_until(PATIENCE, "the lock", || {
        scene.path().join("mytool/locks/deploy.lock").exists()
    });
    let second = Running::start(example(&scene, "deploy_tool", &["deploy", "--env", "prod"]));
    for waiting in [second, tool] {
        let (json, code) = answer(&waiting.finish(Duration::from_secs(40)));
        assert_eq!(code, 4);
        let took = json["meta"]["duration_ms"].as_u64();
        assert!(
            took.is_some_and(|took| (10_000..20_000).contains(&took)),
            "{json}"
        );
        let message = json["error"]["message"].as_str();
        assert!(
            message.is_some_and(|words| words.ends_with("timed out after 10s")),
            "{json}"
        );
    }
    drop((first, holder));
}

/// The shortest tool has all of it: two are never at once, the envelope, the exit codes, the release.
#[test]
fn a_tool_written_from_the_documentation_has_all_of_it() {
    let scene = Scene::new();
    let lock = scene.path().join("embed_lock/locks/run.lock");
    let run = |words: &[&str]| {
        answer(&Running::start(example(&scene, "embed_lock", words)).finish(AT_ONCE))
    };
    let (json, code) = run(&["sh", "-c", "echo this is no envelope"]);
    assert_eq!(
        (code, &json["data"]["lock"]),
        (0, &lock.display().to_string().into())
    );
    assert_eq!((run(&["sh", "-c", "exit 3"]).1, run(&[]).1), (3, 2));
    let inside = binaries::example("embed_lock").display().to_string();
    assert_eq!(run(&[&inside, "true"]).1, 0, "under its own lock");

    let script = "trap 'sleep 0.3; test -e \"$0\" && echo there > seen; exit' TERM; echo > begun; while :; do sleep 0.02; done";
    let words = ["sh", "-c", script, &lock.display().to_string()];
    let holder = Running::start(example(&scene, "embed_lock", &words));
    wait_until(PATIENCE, "the command", || {
        scene.path().join("begun").exists()
    });
    let (json, code) = run(&["true"]);
    assert_eq!((code, &json["error"]["code"]), (4, &"LOCK_HELD".into()));
    holder.signal(Signal::SIGTERM);
    died_of(Signal::SIGTERM, &holder.finish(AT_ONCE));
    assert_eq!(
        fs::read_to_string(scene.path().join("seen")).expect("the command was waited for"),
        "there\n"
    );
    assert!(!lock.exists(), "the lock is still there");

    let mut holder = Running::start(example(&scene, "embed_lock", &["sleep", "1000"]));
    wait_until(PATIENCE, "the lock", || lock.exists());
    holder.signal(Signal::SIGKILL);
    holder.wait(AT_ONCE);
    assert_eq!(run(&["true"]).1, 0, "taken over at once");
    assert!(!lock.exists(), "the lock is still there");
}
