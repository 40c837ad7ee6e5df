//! A claim over several steps, from a script as people write it: what is written down of it, and what a step says
//! whose claim is gone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use beadlock_testkit::{Ended, Running, Scene, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::acquire::keepers;

/// The claims of these tests, one of each kind that has a keeper: a scene, and what is typed after `acquire`.
const KEPT: [(&str, &str); 4] = [
    (
        "tower:app",
        "tower:app --intent-name deploy --intent-version 1",
    ),
    (
        "tower:app",
        "tower:app --detach --intent-name deploy --intent-version 1",
    ),
    ("memory:mem", "memory:mem"),
    (".beads", ".beads --detach"),
];

/// A scene with the directories of every kind of lock.
fn a_scene() -> Scene {
    let scene = crate::a_scene();
    for dir in ["locks", "mem"] {
        fs::create_dir(scene.file(dir)).unwrap();
        fs::set_permissions(scene.file(dir), fs::Permissions::from_mode(0o700)).unwrap();
    }
    scene
}

/// Runs the script by `sh`, with the program in its `PATH`.
fn script(scene: &Scene, script: &str) -> Ended {
    script_by(scene, "sh", script)
}

fn script_by(scene: &Scene, shell: &str, script: &str) -> Ended {
    let bin = scene.file("bin");
    if !bin.exists() {
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_beadlock"), bin.join("beadlock")).unwrap();
    }
    scene.write("script", script);
    let mut command = scene.command(shell);
    command
        .arg("script")
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
        .env("BEADLOCK_LOCK_DIR", scene.file("locks"))
        .env("ACTOR", "ann");
    Running::apart(command).end()
}

fn events(scene: &Scene) -> Vec<String> {
    let of_line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["event"].as_str().unwrap_or_default().to_owned()
    };
    scene.read("audit").lines().map(of_line).collect()
}

/// T072, T093, T101, M050: and nothing else. Whatever ends the keeper's watch first: the lock's end, its process's, or
/// the next claim of the same name.
#[test]
fn a_clean_end_is_a_claim_and_a_release_and_nothing_else() {
    let ways = [
        ("the script ends with the release", "exit 0"),
        ("it goes on", "sleep 0.3"),
        (
            "the next one claims at once",
            "eval \"$(beadlock acquire -q $W)\"; beadlock release -q $T",
        ),
    ];
    for (target, words) in KEPT {
        for (way, then) in ways {
            let scene = a_scene();
            for _ in 0..3 {
                let ended = script(
                    &scene,
                    &format!(
                        "set -a; T={target} W='{words}' BEADLOCK_AUDIT=audit\neval \"$(beadlock acquire -q $W)\"\n\
                         beadlock release -q $T\n{then}"
                    ),
                );
                assert_eq!(ended.code, 0, "{ended:?}");
            }
            until("the keepers have ended", || keepers(&scene).is_empty());
            let claims = if way.starts_with("the next") { 6 } else { 3 };
            let expected = ["lock_acquired", "lock_released"].repeat(claims);
            assert_eq!(events(&scene), expected, "{words}: {way}");
        }
    }
}

/// A heartbeat that puts a new file in the lock's place does not hide the release from its keeper, and a lock that
/// was removed by hand is lost.
#[test]
fn after_heartbeats_a_release_is_a_release_and_rm_a_loss() {
    for (end, last) in [
        ("beadlock release -q", "lock_released"),
        (
            "rm locks/app.lock; until grep -q lock_lost audit; do sleep 0.05; done",
            "lock_lost",
        ),
    ] {
        let scene = a_scene();
        let ended = script(
            &scene,
            &format!(
                "set -a; BEADLOCK_AUDIT=audit\n\
                 eval \"$(beadlock acquire -q tower:app --ttl 3 --intent-name i --intent-version 1)\"\n\
                 exec 7<locks/app.lock; beat() {{ sed -n 's/.*last_heartbeat_at\": *//p' locks/app.lock; }}\n\
                 first=$(beat); while [ \"$first\" = \"$(beat)\" ]; do sleep 0.1; done\n{end}"
            ),
        );
        assert_eq!(ended.code, 0, "{ended:?}");
        until("the keeper has ended", || keepers(&scene).is_empty());
        assert_eq!(events(&scene), ["lock_acquired", last], "{end}");
    }
}

/// `acquire --detach`, then `then` as the steps of the job, each a shell of its own; the answer is what the last says.
fn job(scene: &Scene, words: &str, then: &[&str]) -> Ended {
    script(scene, &format!("beadlock acquire -q --detach {words} >env")).expect(0, &[]);
    let (last, before) = then.split_last().unwrap();
    before.iter().for_each(|then| drop(step(scene, then)));
    step(scene, last)
}

fn step(scene: &Scene, step: &str) -> Ended {
    script(scene, &format!("set -a; . ./env; set +a\n{step}"))
}

const TOWER: &str = "tower:app --intent-name i --intent-version 1";

const LOSE: &str = "rm .beads/.exclusive-lock";

#[test]
fn a_claim_that_is_lost_between_two_steps_is_not_green() {
    for (what, code) in [
        ("beadlock hold -- touch ran", 9),
        ("beadlock hold .beads -- touch ran", 9),
        ("cd sub; beadlock hold ../.beads -- touch ../ran", 9),
        ("cd sub; beadlock hold ../link -- touch ../ran", 9),
        ("beadlock hold --and lock:x -- touch ran", 9),
        ("beadlock cycle -- touch ran", 9),
        ("beadlock hold lock:other -- true", 0),
        ("BEADLOCK_TARGET= beadlock hold .beads -- true", 0),
        ("unset BEADLOCK_ID; beadlock hold -- true", 0),
        (
            "beadlock hold --new-claim -- sh -c 'beadlock hold -- true'",
            0,
        ),
        ("beadlock cycle --new-claim -- true", 0),
        (
            "eval \"$(beadlock acquire)\"; beadlock hold -- true; eval \"$(beadlock release)\"",
            0,
        ),
        ("beadlock status --id \"$BEADLOCK_ID\"", 9),
        ("beadlock release", 9),
        ("beadlock release --missing-ok", 0),
    ] {
        for lose in [
            LOSE,
            "beadlock break --even-if-live --id \"$BEADLOCK_ID\"",
            "kill -9 $BEADLOCK_PID",
        ] {
            let scene = a_scene();
            fs::create_dir(scene.file("sub")).unwrap();
            std::os::unix::fs::symlink(".beads", scene.file("link")).unwrap();
            job(&scene, "", &["beadlock status --id \"$BEADLOCK_ID\"", lose]).expect(0, &[]);
            let env = scene.read("env");
            let pid = env
                .split("BEADLOCK_PID=")
                .nth(1)
                .unwrap()
                .lines()
                .next()
                .unwrap();
            if lose.starts_with("kill") {
                beadlock_testkit::process_is_gone(pid.parse().unwrap());
            }
            let ended = step(&scene, what);
            // The lock of a keeper that was killed is there still, and `release` may end it.
            let is_left = lose.starts_with("kill") && what.starts_with("beadlock release");
            assert_eq!(
                ended.code,
                if is_left { 0 } else { code },
                "{lose}: {what}: {ended:?}"
            );
            if code == 9 && !is_left {
                assert!(!scene.file("ran").exists(), "{what}");
                assert!(ended.err.contains("was lost: "), "{what}: {ended:?}");
            }
            if lose.starts_with("beadlock break") && code == 9 {
                assert!(
                    ended.err.contains("it was broken at 20"),
                    "{what}: {ended:?}"
                );
            }
        }
    }
}

/// Each line that the refusal says to type is typed.
#[test]
fn what_a_lost_claim_says_to_type_goes_on() {
    for (begin, end) in [
        ("go on with a new claim: ", "; if it was"),
        ("if it was released: ", "\n"),
    ] {
        let scene = a_scene();
        let ended = job(&scene, "", &[LOSE, "beadlock hold -q -- touch 'a b'"]).expect(9, &[]);
        let advice = ended
            .err
            .split_once(begin)
            .unwrap()
            .1
            .split_once(end)
            .unwrap()
            .0;
        let ended = script(
            &scene,
            &format!(
                "set -a; . ./env; set +a; {advice}\nbeadlock hold -q -- true; test $? = 9 -o -z \"$BEADLOCK_ID\""
            ),
        );
        ended.expect(0, &[]);
        assert_eq!(
            scene.file("a b").exists(),
            begin.starts_with("go on"),
            "{advice}"
        );
    }
}

#[test]
fn a_max_hold_that_ran_out_is_named_with_its_time() {
    for (words, target) in [
        ("", ".beads"),
        (TOWER, TOWER),
        ("memory:mem", "memory:mem"),
        ("file:todo.json", "file:todo.json"),
    ] {
        for step in [
            format!("beadlock hold {target} -- true"),
            "beadlock release".to_owned(),
        ] {
            let scene = a_scene();
            let wait = "while beadlock status -q --id $BEADLOCK_ID; do sleep 0.1; done; sleep 1";
            let ended = job(&scene, &format!("{words} --max-hold 1s"), &[wait, &step]);
            let until = scene.read("env");
            let until = until.split("BEADLOCK_UNTIL=").nth(1).unwrap().trim();
            let words = format!("its --max-hold was over at {until}");
            let is_told = ended.code == 9 && ended.err.contains(&words);
            assert!(is_told, "{target}: {step}: {ended:?}");
        }
    }
}

/// Of a file too: the release writes what it has done into its own trail, and nobody writes it twice.
#[test]
fn the_release_of_a_file_is_written_down_once() {
    for (acquire, release) in [
        ("--audit audit", "--audit audit"),
        ("--audit audit", ""),
        ("", "--audit audit"),
        // Into a file that cannot be written, and into another one: the keeper writes into its own all the same.
        ("--audit audit", "--audit nowhere/audit"),
        ("--audit audit", "--audit other"),
    ] {
        let scene = a_scene();
        job(
            &scene,
            &format!("file:x {acquire}"),
            &[&format!("beadlock release {release}")],
        )
        .expect(0, &[]);
        until("the keeper has ended", || keepers(&scene).is_empty());
        let expected: &[&str] = match acquire {
            "" => &["lock_released"],
            _ => &["lock_acquired", "lock_released"],
        };
        assert_eq!(events(&scene), expected, "{acquire} {release}");
        if release.ends_with("other") {
            assert_eq!(scene.read("other").matches("lock_released").count(), 1);
        }
    }
}

/// A keeper that stood still, and whose lock was taken for stale: what that leaves is not a release.
#[test]
fn a_lock_that_was_taken_for_stale_is_lost_and_not_released() {
    let scene = a_scene();
    let acquire = [
        "acquire",
        "memory:mem",
        "--detach",
        "-q",
        "--audit",
        "audit",
    ];
    scene.run(&acquire).expect(0, &[]);
    let [keeper] = keepers(&scene)[..] else {
        panic!("one keeper");
    };
    kill(Pid::from_raw(keeper), Signal::SIGSTOP).unwrap();
    let hold = [
        "hold",
        "-q",
        "memory:mem",
        "--stale-after",
        "7s",
        "--wait",
        "30s",
        "--",
        "true",
    ];
    scene.run(&hold).expect(0, &[]);
    kill(Pid::from_raw(keeper), Signal::SIGCONT).unwrap();
    until("the keeper has ended", || keepers(&scene).is_empty());
    assert_eq!(events(&scene), ["lock_acquired", "lock_lost"]);
}

/// A process of the job that goes on is named; neither the caller's own pipe, nor what runs without the claim.
#[test]
fn a_release_names_what_still_runs_under_the_claim() {
    for words in ["", "file:todo.json"] {
        let scene = a_scene();
        let step = "sleep 301 & a=$!; env -u BEADLOCK_ID sleep 302 & b=$!; sleep 0.3; beadlock release | cat; kill $a $b";
        let ended = job(&scene, words, &[step]).expect(
            0,
            &["still running under the claim that is released now: PID "],
        );
        assert!(
            ended.err.contains("(sleep 301)") && !ended.err.contains("302"),
            "{ended:?}"
        );
        let line = ended
            .err
            .lines()
            .find(|line| line.contains("still running"))
            .unwrap();
        assert_eq!(line.matches("PID").count(), 1, "{line}");
        let ended = job(&scene, words, &["beadlock release | cat"]).expect(0, &[]);
        assert!(!ended.err.contains("still running"), "{ended:?}");
    }
}

/// A nested hold that its outer one leaves behind is told, and the next claim does not work beside it.
#[test]
fn a_nested_hold_ends_with_the_claim_that_it_stands_under() {
    for target in [".beads", TOWER, "memory:mem"] {
        let scene = a_scene();
        scene.write("work", "echo began; sleep 300; echo survived");
        let nested = format!("beadlock hold -q {target} -- sh ./work; echo $? >code");
        let ended = script(
            &scene,
            &format!(
                "beadlock hold -q {target} -- sh -c '({nested}) >said 2>&1 & until grep -q began said; do sleep 0.02; \
                 done; sleep 0.3'"
            ),
        );
        ended.expect(0, &[]);
        until("the nested one has ended", || {
            scene.file("code").exists() && !scene.read("code").is_empty()
        });
        assert_eq!(scene.read("code").trim(), "9", "{}", scene.read("said"));
        assert!(!scene.read("said").contains("survived"));
    }
}

#[test]
fn a_pipe_gets_lines_for_eval_and_a_file_variables() {
    for shell in ["sh", "bash", "dash"] {
        if !beadlock_testkit::has_program(shell) {
            continue;
        }
        let scene = a_scene();
        let text = "eval \"$(beadlock acquire -q)\"\ntest \"$BEADLOCK_PID\" = $$ || exit 3\n\
            beadlock check; test $? = 4 || exit 4\nsh -c 'beadlock hold -q -- true' || exit 5\n\
            eval \"$(beadlock release -q)\" || exit 6\ntest -z \"$BEADLOCK_ID$BEADLOCK_TARGET$BEADLOCK_PID\" || exit 7\n\
            beadlock hold -q -- true || exit 8\n\
            beadlock acquire -q --detach >env; grep -q ^BEADLOCK_ID= env && grep -q ^BEADLOCK_UNTIL= env || exit 9\n\
            set -a; . ./env; set +a; beadlock release -q >>env; grep -c '^BEADLOCK_.*=$' env >count\n\
            . ./env; test -z \"$BEADLOCK_ID$BEADLOCK_UNTIL\" || exit 10\n";
        let ended = script_by(&scene, shell, text);
        assert_eq!(ended.code, 0, "{shell}: {ended:?}");
        assert_eq!(scene.read("count").trim(), "4");
        assert!(scene.names().is_empty());
    }
}

/// `eval "$(…)"` drops the exit code, and `set -e` would go on.
#[test]
fn a_failure_in_a_pipe_stops_a_script() {
    for (failing, code) in [
        ("acquire --no-wait", 4),
        ("acquire --no-such-option", 2),
        ("acquire --color purple", 2),
        ("acquire --no-wait --own-exit-code 77", 77),
        ("acquire nowhere", 1),
        ("release", 2),
        ("release --id x", 9),
    ] {
        for shell in ["sh", "bash"] {
            let scene = a_scene();
            scene.claim("other", std::process::id());
            let text = format!("set -e\neval \"$(beadlock {failing})\"\ntouch ran\n");
            let ended = script_by(&scene, shell, &text);
            assert!(
                ended.code == code && !scene.file("ran").exists(),
                "{failing}: {ended:?}"
            );
            let ended = script(
                &scene,
                &format!(
                    "beadlock {failing} --json | cat; beadlock {failing} >file || :; test ! -s file"
                ),
            );
            assert!(
                !ended.out.contains("(exit") && ended.code == 0,
                "{failing}: {ended:?}"
            );
        }
    }
}

#[test]
fn a_claim_for_a_shell_that_ends_soon_says_so() {
    let scene = a_scene();
    let advice = "): the claim ends with that shell; --for PID or --detach outlives it\n";
    for (shell, script_words, name) in [
        (
            "sh",
            "sh -c 'beadlock acquire -q lock:a; exit'",
            Some("for sh -c … (PID "),
        ),
        (
            "sh",
            "bash --norc -ec 'beadlock acquire -q lock:b; exit'",
            Some("for bash -c … (PID "),
        ),
        (
            "sh",
            "beadlock acquire -q lock:c",
            Some("for sh script (PID "),
        ),
        (
            "sh",
            "beadlock acquire -q file:c",
            Some("for sh script (PID "),
        ),
        (
            "sh",
            "sh -c 'beadlock acquire -q --for $$ lock:d; exit'",
            None,
        ),
        (
            "sh",
            "sh -c 'beadlock acquire -q --detach --max-hold 1s lock:e; exit'",
            None,
        ),
    ] {
        let ended = script_by(&scene, shell, script_words).expect(0, &[]);
        match name {
            Some(name) => assert!(
                ended.err.contains(name) && ended.err.contains(advice),
                "{script_words}: {ended:?}"
            ),
            None => assert_eq!(ended.err, "", "{script_words}"),
        }
    }
    // At a terminal a script goes on after its line.
    let (mut child, _terminal) = crate::keeper::on_pty(
        &scene,
        "echo '\"$BEADLOCK\" acquire -q lock:f >out' >s; sh s 2>err; touch done",
    );
    until("it has ended", || scene.file("done").exists());
    child.wait().unwrap();
    assert_eq!(scene.read("err"), "");
}

/// Each command line is typed as the message says it.
#[test]
fn what_was_meant_is_said_and_works_as_typed() {
    for (line, meant) in [
        (
            "hold file:x -c 'echo it; touch ran'",
            "hold file:x -- sh -c 'echo it; touch ran'",
        ),
        ("hold -q -c 'touch ran'", "hold -q -- sh -c 'touch ran'"),
        ("cycle -c 'touch ran'", "cycle -- sh -c 'touch ran'"),
        ("run touch ran", "hold -- touch ran"),
        ("exec .beads -- touch ran", "hold .beads -- touch ran"),
        ("lock .beads", "acquire .beads"),
    ] {
        let scene = a_scene();
        let refused = script(&scene, &format!("beadlock {line}")).expect(2, &[]);
        let advice = format!("did you mean: beadlock {meant}");
        assert_eq!(
            refused.err.trim(),
            format!("beadlock: error: {advice}"),
            "{line}"
        );
        script(&scene, &format!("beadlock {meant}")).expect(0, &[]);
        assert_eq!(scene.file("ran").exists(), line != "lock .beads", "{line}");
    }
    let scene = a_scene();
    let refused = script(&scene, "beadlock acquire --and file:x .beads").expect(2, &[]);
    let hold = refused.err.trim().rsplit_once(": ").unwrap().1;
    assert_eq!(hold, "beadlock hold --and file:x .beads -- CMD");
    script(&scene, &hold.replace("CMD", "touch ran")).expect(0, &[]);
    assert!(scene.file("ran").exists());
    let claimed = job(
        &scene,
        "",
        &["beadlock unlock || test $? = 2 && beadlock release"],
    );
    claimed.expect(0, &["did you mean: beadlock release"]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_done() {
    let scene = a_scene();
    scene.write("file", "");
    for (line, code, words) in [
        (
            "hold --wait -5 -- touch ran",
            2,
            "--wait -5: it cannot be below zero; --wait forever has no end",
        ),
        ("wait --wait -1s", 2, "--wait -1s: it cannot be below zero"),
        (
            "acquire --detach --max-hold -5",
            2,
            "--max-hold -5: it cannot be below zero",
        ),
        (
            "hold --own-exit-code 0 -- touch ran",
            2,
            "0 is not in 1..=255",
        ),
        (
            "cycle --own-exit-code=0 -- touch ran",
            2,
            "0 is not in 1..=255",
        ),
        (
            "update file:x --own-exit-code 0 -- touch ran",
            2,
            "0 is not in 1..=255",
        ),
        (
            "hold --report nowhere/x -- touch ran",
            1,
            "the report nowhere/x cannot be written: no such file",
        ),
        (
            "hold --report file/x -- touch ran",
            1,
            "the report file/x cannot be written: ",
        ),
        (
            "hold --report .beads -- touch ran",
            1,
            "the report .beads cannot be written: ",
        ),
        (
            "acquire --report nowhere/x",
            1,
            "the report nowhere/x cannot be written: no such file",
        ),
    ] {
        let ended = script(&scene, &format!("beadlock {line}")).expect(code, &[words]);
        assert!(!ended.err.contains("tip:"), "{ended:?}");
        assert!(
            !scene.file("ran").exists() && scene.names().is_empty(),
            "{line}"
        );
    }
    script(&scene, "beadlock hold --report new -- true; test -s new").expect(0, &[]);
}

#[test]
fn a_variable_that_is_not_known_is_named_once() {
    let scene = a_scene();
    let hold = "BEADLOCK_WIAT=5 BEADLOCK_TEST_X=1 beadlock hold";
    let ended = script(&scene, &format!("{hold} -- true")).expect(0, &[]);
    let named =
        "beadlock: $BEADLOCK_WIAT is not a variable of beadlock; did you mean $BEADLOCK_WAIT?\n";
    assert_eq!(ended.err.matches(named).count(), 1, "{ended:?}");
    assert_eq!(
        ended.err.matches("is not a variable").count(),
        1,
        "{ended:?}"
    );
    assert_eq!(
        script(&scene, &format!("{hold} -q -- true"))
            .expect(0, &[])
            .err,
        ""
    );
}

/// `git commit` leaves its upkeep behind each time.
#[test]
fn gits_upkeep_in_the_background_is_not_warned_of() {
    let scene = a_scene();
    let left = |name: &str| {
        let command =
            format!("exec -a {name} bash -c 'sleep 2; :' maintenance run --auto --detach");
        scene.write(
            "leave",
            format!("({command}) >/dev/null 2>&1 &\nsleep 0.3\n"),
        );
        script(&scene, "beadlock hold -- bash leave")
            .expect(0, &[])
            .err
    };
    assert!(!left("git").contains("left processes behind"));
    assert!(left("other").contains("left processes behind"));
}

/// The examples of `acquire --help` and `release --help`, typed as they stand there.
#[test]
fn the_examples_of_the_help_work_as_typed() {
    let scene = a_scene();
    let examples = |command: &str| -> String {
        let help = script(&scene, &format!("beadlock {command} --help")).out;
        let after = help.split_once("Examples:\n").unwrap().1.to_owned();
        let lines = after
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with("  "));
        lines.map(|line| format!("{}\n", line.trim())).collect()
    };
    let (acquire, release) = (examples("acquire"), examples("release"));
    let first_of_release = release.lines().next().unwrap();
    let text = format!(
        "set -e\nmake() {{ beadlock hold -q -- touch made; }}\nGITHUB_ENV=env\n{acquire}\
         set -a; . ./env; set +a\n{first_of_release}\n\
         beadlock acquire -q tower:app-prod --intent-name i --intent-version 1 --request-id req_8f3a >/dev/null\n\
         {}\ntest ! -e locks/app-prod.lock\n",
        release.lines().nth(1).unwrap()
    );
    for shell in ["sh", "bash"] {
        script_by(&scene, shell, &text).expect(0, &[]);
        assert!(
            scene.file("made").exists() && scene.names().is_empty(),
            "{shell}"
        );
        scene.write("env", "");
    }
}
