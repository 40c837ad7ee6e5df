//! The lines of the real programs, in directories and repositories, and beside locks and logs, with hostile names.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_base::shell::{Part, to_type};
use beadlock_tests::{Ended, Scene, lock_text, run, this_host};
use serde_json::Value;

use super::recorder::{Argv, Recorder, shells};

/// Names that a directory may have.
const HOSTILE: [&[u8]; 12] = [
    b"x;touch${IFS}PWN",
    b"$(touch PWN)",
    b"`touch PWN`",
    b"a\nb'c;touch PWN;'",
    b"it's \"quoted\"",
    b"-rf",
    b"*",
    b"~root",
    b"!!",
    b"\x1b[2J\xff%s",
    b"\xe2\x80\xaetxt",
    b"=ls&&touch PWN",
];

/// What stands between `from` and the end of the line.
#[track_caller]
fn after<'a>(text: &'a str, from: &str) -> &'a str {
    let (_, rest) = text
        .split_once(from)
        .unwrap_or_else(|| panic!("no {from:?} in {text}"));
    rest.lines().next().unwrap_or_default()
}

#[track_caller]
fn pastes(recorder: &Recorder, line: &str, meant: &[&[&OsStr]]) {
    let meant: Vec<Argv> = meant
        .iter()
        .map(|call| call.iter().map(OsString::from).collect())
        .collect();
    for shell in shells() {
        assert_eq!(
            recorder.paste(shell, &[line.to_owned()]),
            meant,
            "{shell}: {line}"
        );
    }
}

fn words(text: &str) -> Vec<&OsStr> {
    text.split(' ').map(OsStr::new).collect()
}

/// `words`, and the path behind them.
#[track_caller]
fn leads_to(recorder: &Recorder, line: &str, before: &str, path: &Path, after: &str) {
    let mut call = words(before);
    call.push(path.as_os_str());
    if !after.is_empty() {
        call.extend(words(after));
    }
    pastes(recorder, line, &[&call]);
}

fn ended(command: Command) -> Ended {
    run(command).into()
}

/// A database in a directory with this name, claimed by this process.
fn claimed(scene: &Scene, name: &[u8]) -> PathBuf {
    let dir = scene.path().join(OsStr::from_bytes(name)).join(".beads");
    fs::create_dir_all(&dir).expect("make a database");
    let lock = lock_text("ann", i64::from(std::process::id()), &this_host());
    fs::write(dir.join(".exclusive-lock"), lock).expect("write a lock");
    fs::write(dir.join("issues.jsonl"), "").expect("write issues");
    dir
}

#[test]
fn what_beadlock_says_about_a_claim_leads_to_its_directory() {
    let (scene, recorder) = (Scene::new(), Recorder::new());
    for (number, name) in HOSTILE.into_iter().enumerate() {
        let dir = claimed(&scene, name);
        let beadlock = |words: &[&str], rest: &[&str]| {
            let mut command = scene.beadlock(words);
            command.arg(&dir).args(rest);
            ended(command)
        };
        let status: Value =
            serde_json::from_str(&beadlock(&["status", "--json"], &[]).out).expect("JSON");
        let next = status["data"][0]["next"].as_str().expect("next");
        leads_to(&recorder, next, "beadlock wait --wait 10m", &dir, "");
        let held = beadlock(&["hold", "--no-wait"], &["--", "true"]);
        assert_eq!(held.code, 4, "{held:?}");
        leads_to(
            &recorder,
            after(&held.err, "who and why: "),
            "beadlock status",
            &dir,
            "",
        );
        let broken = beadlock(&["break", "--holder", "ann"], &[]);
        let all_the_same = after(&broken.err, "to break it all the same: ");
        let id = status["data"][0]["id"].as_str().expect("an id");
        leads_to(
            &recorder,
            all_the_same,
            "beadlock break",
            &dir,
            &format!("--id {id} --even-if-live"),
        );
        // A malformed lock is looked at for two seconds.
        if number > 1 {
            continue;
        }
        fs::write(dir.join(".exclusive-lock"), "{").expect("write a malformed lock");
        let held = beadlock(&["hold", "--no-wait"], &["--", "true"]);
        let line = after(&held.err, "look at it: ").replace("when nobody needs it: ", "");
        let raw: Vec<_> = [words("beadlock status --raw"), vec![dir.as_os_str()]].concat();
        let malformed: Vec<_> = [
            words("beadlock break"),
            vec![dir.as_os_str()],
            words("--malformed"),
        ]
        .concat();
        pastes(&recorder, &line, &[&raw, &malformed]);
    }
}

/// What `acquire` prints goes through `eval`, of whatever shell.
#[test]
fn what_acquire_prints_is_evaluated_to_the_target() {
    let scene = Scene::new();
    for name in HOSTILE {
        let dir = claimed(&scene, name);
        fs::remove_file(dir.join(".exclusive-lock")).expect("free it");
        for shell in shells() {
            let mut command = scene.command(shell);
            let script = r#"claim=$("$1" -q acquire "$2") || exit; eval "$claim"; export BEADLOCK_ID
                "$1" -q release "$BEADLOCK_TARGET" >/dev/null || exit; printf %s "$BEADLOCK_TARGET""#;
            command
                .args(["-c", script, "sh"])
                .arg(beadlock_tests::binaries::beadlock())
                .arg(&dir);
            let output = run(command);
            let target = [b"beads:", dir.as_os_str().as_bytes()].concat();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(
                OsString::from_vec(output.stdout),
                OsString::from_vec(target),
                "{shell}: {said}"
            );
            assert!(
                !dir.join(".exclusive-lock").exists() && !scene.path().join("PWN").exists(),
                "{said}"
            );
        }
        // Out of a file of environment variables it comes as it was printed.
        let printed = ended({
            let mut command = scene.beadlock(&["-q", "acquire"]);
            command.arg(&dir);
            command
        });
        let id = after(&printed.out, "BEADLOCK_ID=").trim_matches('\'');
        let target = after(&printed.out, "BEADLOCK_TARGET=");
        let mut release = scene.beadlock(&["-q", "release", "--id", id]);
        release.env("BEADLOCK_TARGET", target);
        let released = ended(release);
        assert!(
            released.code == 0 && !dir.join(".exclusive-lock").exists(),
            "{target}: {released:?}"
        );
    }
}

/// A log is untrusted: a lock of another host says what it likes.
#[test]
fn what_beadlock_log_says_about_a_hostile_host_and_holder_is_harmless() {
    let (scene, recorder) = (Scene::new(), Recorder::new());
    for name in [
        "h;touch${IFS}PWN",
        "$(touch PWN)",
        "`touch PWN`",
        "-oProxyCommand=touch",
        "it's",
    ] {
        let log = scene.beads().join("daemon.log");
        let lines = format!(
            "[2026-01-01 00:00:00] Starting sync cycle...\n[2026-01-01 00:00:00] Skipping database (locked by {name})\n\
             [2026-01-01 00:00:00] Held since 2026-01-01T00:00:00Z by PID 77 on {name} (other_host)\n"
        );
        fs::write(&log, lines).expect("write a log");
        let answer = ended(scene.beadlock(&["log", "--json", "--until", "2026-01-01T00:00:05Z"]));
        let answer: Value = serde_json::from_str(&answer.out).expect("JSON");
        let next = answer["data"][0]["databases"][0]["answer"]["next"]
            .as_array()
            .expect("next")
            .clone();
        let command = |at: usize| next[at]["command"].as_str().unwrap_or_default().to_owned();
        // Whether the lock may be broken, and by which id, status says.
        assert_eq!(next.len(), 2, "{answer}");
        let ssh = [words("ssh --"), vec![OsStr::new(name)], words("ps -p 77")].concat();
        pastes(&recorder, &command(1), &[&ssh]);
    }
}

/// The branch, the repository and the files of a git repository are somebody else's words.
#[test]
fn what_the_agent_says_about_a_repository_leads_to_it() {
    let recorder = Recorder::new();
    for (repository, branch) in [
        (&b"plain"[..], "x;touch${IFS}PWN"),
        (b"$(touch PWN)", "$(touch${IFS}PWN)"),
        (b"a'b;touch PWN;'", "it's`touch${IFS}PWN`"),
        (b"~ *", "{a,b}&touch${IFS}PWN"),
    ] {
        let scene = Scene::new();
        let top = scene.path().join(OsStr::from_bytes(repository));
        fs::create_dir_all(top.join(".beads")).expect("make a database");
        fs::write(top.join(".beads/issues.jsonl"), "1\n").expect("write issues");
        let git = |words: &[&str]| {
            let mut command = scene.command("git");
            command
                .arg("-C")
                .arg(&top)
                .args(["-c", "user.name=a", "-c", "user.email=a@b"])
                .args(words);
            let ended = ended(command);
            assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
        };
        let once = |says: &str| {
            let mut command = scene.agent(&["--once", "--db"]);
            command.arg(top.join(".beads"));
            for who in ["AUTHOR", "COMMITTER"] {
                command
                    .env(format!("GIT_{who}_NAME"), "a")
                    .env(format!("GIT_{who}_EMAIL"), "a@b");
            }
            let ended = ended(command);
            let log = fs::read_to_string(top.join(".beads/daemon.log")).expect("a log");
            after(&log, says).to_owned() + if ended.code > 1 { "?" } else { "" }
        };
        git(&["init", "-q", "-b", branch]);
        let mut first = words("git -C");
        first.push(top.as_os_str());
        first.extend(words("commit --allow-empty -m"));
        first.push(OsStr::new("first commit"));
        pastes(&recorder, &once("has no commit yet; type: "), &[&first]);
        git(&["add", ".beads/issues.jsonl"]);
        git(&["commit", "-qm", "1"]);
        git(&["remote", "add", "origin", "nowhere"]);
        let push = [
            words("git -C"),
            vec![top.as_os_str()],
            words("push -u origin"),
            vec![OsStr::new(branch)],
        ];
        let push = push.concat();
        pastes(&recorder, &once("has no upstream; type: "), &[&push]);
        // It is of SQLite only beside its database.
        fs::write(top.join(".beads/x;touch PWN"), "").expect("write it");
        let tracked = ".beads/x;touch PWN-wal";
        fs::write(top.join(tracked), "").expect("write it");
        git(&["add", "-f", tracked]);
        let remove = [
            words("git -C"),
            vec![top.as_os_str()],
            words("rm --cached --"),
            vec![OsStr::new(tracked)],
        ];
        pastes(
            &recorder,
            &once("an open database; type: "),
            &[&remove.concat()],
        );
        git(&["rm", "-q", "--cached", tracked]);
        git(&["checkout", "-q", "--detach"]);
        let switch = [
            words("git -C"),
            vec![top.as_os_str(), OsStr::new("switch"), OsStr::new(branch)],
        ];
        pastes(
            &recorder,
            &once("on no branch; type: "),
            &[&switch.concat()],
        );
        assert!(!top.join("PWN").exists() && !scene.path().join("PWN").exists());
    }
}

/// A name of which no shell can be given exactly these bytes has no command.
#[test]
fn a_name_that_ends_in_a_line_break_has_no_command() {
    let (scene, recorder) = (Scene::new(), Recorder::new());
    let lock = scene.path().join("x;touch PWN\n");
    fs::write(
        &lock,
        lock_text("ann", i64::from(std::process::id()), &this_host()),
    )
    .expect("write a lock");
    let mut command = scene.beadlock(&["status", "--json"]);
    command.arg({
        let mut target = OsString::from("lock:");
        target.push(&lock);
        target
    });
    let status: Value = serde_json::from_str(&ended(command).out).expect("JSON");
    let next = status["data"][0]["next"].as_str().expect("next");
    assert!(
        next.starts_with("# no command to paste: a name in it ends in a line break"),
        "{next}"
    );
    pastes(&recorder, next, &[]);
    assert_eq!(to_type("ls {}", &[Part::Path(Path::new("a"))]), "ls a");
}
