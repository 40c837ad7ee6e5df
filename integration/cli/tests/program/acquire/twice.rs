//! A script that acquires twice, and one that a wrapper stands before.

use std::fs;
use std::time::{Duration, Instant};

use beadlock_testkit::write_program;
use beadlock_testkit::{Ended, Running, Scene, has_program, skip, this_host};

use super::Sleeper;

#[track_caller]
fn script(scene: &Scene, script: &str) -> Ended {
    Running::apart(scene.shell(script)).end()
}

fn id(scene: &Scene) -> String {
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(scene.lock()).unwrap()).unwrap();
    record["beadlock"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_second_claim_is_refused_at_once_and_says_what_to_export() {
    for target in [".beads", "lock:build.lock"] {
        let scene = crate::a_scene();
        let begun = Instant::now();
        let ended = script(
            &scene,
            &format!(
                r#"eval "$("$BEADLOCK" acquire {target})"; env -u BEADLOCK_ID "$BEADLOCK" acquire {target} --json; echo "exit $? $BEADLOCK_ID""#
            ),
        );
        // It would wait for half a minute.
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{:?}",
            begun.elapsed()
        );
        let (json, last) = ended.out.trim_end().rsplit_once('\n').unwrap();
        let id = last.strip_prefix("exit 4 ").unwrap();
        let words = format!("; this process holds it already: export BEADLOCK_ID={id}\n");
        assert!(ended.err.contains(&words), "{ended:?}");
        let error = serde_json::from_str::<serde_json::Value>(json).unwrap()["error"].clone();
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&"LOCK_HELD".into(), &false.into()),
            "{error}"
        );
        assert_eq!(error["retry_after_ms"], serde_json::Value::Null, "{error}");
    }
}

#[test]
fn what_it_says_to_type_makes_the_second_claim_a_nested_one() {
    let scene = crate::a_scene();
    let ended = script(
        &scene,
        r#"eval "$("$BEADLOCK" acquire -q 2>/dev/null)"; unset BEADLOCK_ID
refused=$("$BEADLOCK" acquire 2>&1 >/dev/null) && exit 3
eval "${refused##*: }"
second=$("$BEADLOCK" acquire -q) || exit 5
case $second in *"BEADLOCK_ID='nested:"*) ;; *) exit 6 ;; esac
"$BEADLOCK" release -q"#,
    );
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    assert!(scene.names().is_empty());
}

/// Only the very process is told so: another one waits, and so does one that has the PID of a process that has ended.
#[test]
fn another_process_waits_as_ever() {
    let scene = crate::a_scene();
    let (first, second) = (Sleeper::start(), Sleeper::start());
    scene
        .run(&["acquire", "--for", &first.pid()])
        .expect(0, &[]);
    let again = |pid: &str| scene.run(&["acquire", "--wait", "100ms", "--for", pid]);
    again(&first.pid()).expect(
        4,
        &[&format!(
            "this process holds it already: export BEADLOCK_ID={}",
            id(&scene)
        )],
    );
    again(&second.pid()).expect(4, &["gave up after 100ms"]);
    scene
        .run(&["acquire", "--wait", "100ms", "--detach"])
        .expect(4, &["gave up after 100ms"]);
    let written = fs::read_to_string(scene.lock()).unwrap();
    for (key, other) in [
        ("start_ticks\": ", "1"),
        ("boot_id\": \"", "b"),
        ("pid_ns\": \"", "p"),
    ] {
        fs::write(
            scene.lock(),
            written.replacen(key, &format!("{key}{other}"), 1),
        )
        .unwrap();
        again(&first.pid()).expect(4, &["gave up after 100ms"]);
    }
    scene.write_shell_lock("vc", first.pid().parse().unwrap(), &this_host());
    again(&first.pid()).expect(4, &["gave up after 100ms"]);
}

#[test]
fn the_same_pid_of_another_namespace_is_another_process() {
    let scene = crate::a_scene();
    let inside = r#""$BEADLOCK" acquire -q --for 1 --no-wait >one 2>&1; echo "exit $?""#;
    let Some(first) = scene.in_namespaces(
        &["--pid", "--fork", "--mount-proc"],
        &format!("{inside}; sleep 300"),
    ) else {
        return;
    };
    let _first = Running::apart(first);
    beadlock_testkit::until("it is claimed", || scene.lock().exists());
    let Some(second) = scene.in_namespaces(&["--pid", "--fork", "--mount-proc"], inside) else {
        return;
    };
    assert_eq!(Running::apart(second).end().out, "exit 4\n");
    let said = scene.read("one");
    assert!(
        said.contains("did not wait") && !said.contains("this process"),
        "{said}"
    );
}

#[test]
fn a_wrapper_is_named_as_what_the_claim_stands_for() {
    let scene = crate::a_scene();
    fs::create_dir(scene.file("memory")).unwrap();
    for (words, name) in [
        ("timeout 60", "timeout"),
        ("echo x | xargs -I{}", "xargs"),
        ("setsid --fork --wait", "setsid"),
        ("sudo -n", "sudo"),
        ("/usr/bin/time", "time"),
    ] {
        let program = words.split(' ').find(|word| word.ends_with(name)).unwrap();
        let is_there = Running::apart(scene.shell(&format!("command -v {program}")))
            .end()
            .code
            == 0;
        if !is_there {
            skip::cannot(&format!("needs {program}"));
            continue;
        }
        for (target, more) in [
            (".beads", ""),
            ("memory:memory", ""),
            ("file:data.json", ""),
        ] {
            let ended = script(
                &scene,
                &format!(r#"{words} "$BEADLOCK" acquire {target} {more}"#),
            );
            let warning = format!("warning: the claim stands for {name} (PID ");
            let advice = format!(
                ") and ends with it; to claim for the script that calls {name}: beadlock acquire --for $$\n"
            );
            assert!(
                ended.code == 0 && ended.err.contains(&warning) && ended.err.contains(&advice),
                "{words}: {ended:?}"
            );
        }
    }
}

/// What executes the program in its own place is not there any more, and a script may be called like a wrapper.
#[test]
fn what_is_no_wrapper_any_more_is_not_warned_of() {
    let scene = crate::a_scene();
    let acquire = r#"exec "$BEADLOCK" release -q --id "$("$BEADLOCK" acquire -q | sed -n "s/.*BEADLOCK_ID='\(.*\)'/\1/p")""#;
    write_program(
        &scene.file("timeout"),
        format!("#!/bin/sh\n{acquire}\n").as_bytes(),
    );
    fs::write(scene.file("script"), acquire).unwrap();
    for words in [
        "./timeout",
        "nice sh script",
        "env sh script",
        "nohup sh script",
        "timeout 60 sh script",
    ] {
        if !has_program(
            words
                .split(' ')
                .next()
                .filter(|word| !word.starts_with('.'))
                .unwrap_or("sh"),
        ) {
            continue;
        }
        let ended = script(&scene, words);
        assert!(!ended.err.contains("stands for"), "{words}: {ended:?}");
    }
    let ended = script(&scene, r#"timeout 60 "$BEADLOCK" acquire --for $$"#);
    assert!(
        ended.code == 0 && !ended.err.contains("warning"),
        "{ended:?}"
    );
    let ended = script(
        &scene,
        r#"timeout 60 "$BEADLOCK" acquire lock:x --detach --max-hold 3s"#,
    );
    assert!(
        ended.code == 0 && !ended.err.contains("warning"),
        "{ended:?}"
    );
}
