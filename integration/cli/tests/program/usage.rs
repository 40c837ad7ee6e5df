//! The command line: what is wrong is named, with what to type instead.

use std::process::Stdio;

use beadlock_testkit::{Ended, Running, this_host};

#[test]
fn a_forgotten_double_dash_is_pointed_out() {
    let scene = crate::a_scene();
    for (words, meant) in [
        (&["make"][..], "hold -- make"),
        (&["make", "release"], "hold -- make release"),
        (
            &["make", "-j4", "--keep-going"],
            "hold -- make -j4 --keep-going",
        ),
        (&["--wait", "5s", "make", "-v"], "hold --wait 5s -- make -v"),
        (
            &[".beads", "make", "release"],
            "hold .beads -- make release",
        ),
    ] {
        let args = [&["hold"], words].concat();
        scene
            .run(&args)
            .expect(2, &[&format!("did you mean: beadlock {meant}\n")]);
    }
    let json = scene
        .run(&["hold", "--json", "make", "release"])
        .expect(2, &[])
        .json();
    assert_eq!(
        (&json["error"]["code"], &json["ok"]),
        (&"USAGE".into(), &false.into())
    );
    scene
        .run(&["hold", "--own-exit-code", "99", "make", "release"])
        .expect(99, &[]);
    let wrong = scene
        .run(&["hold", "--wiat", "5s", "--", "make"])
        .expect(2, &["--wiat"]);
    assert!(!wrong.err.contains("did you mean"), "{wrong:?}");
    scene
        .run(&["hold"])
        .expect(2, &["no command; type: beadlock hold -- CMD"]);
    assert!(scene.names().is_empty());
}

#[test]
fn every_wrong_word_is_exit_2_and_says_why() {
    let scene = crate::a_scene();
    let long = "x".repeat(10 * 1024);
    for (args, word) in [
        (
            &["hold", "--holder", "a\nb\u{1b}[2J", "--", "true"][..],
            r"a\nb\u{1b}[2J",
        ),
        (
            &["hold", "--holder", &long, "--", "true"],
            "this one has 10240",
        ),
        (
            &["hold", "--holder", "", "--", "true"],
            "1 to 128 printable characters",
        ),
        (
            &["hold", "--wait", "soon", "--", "true"],
            "examples: 10s, 500ms, 1h30m",
        ),
        (&["hold", "--drain=-1s", "--", "true"], "is no duration"),
        (
            &["hold", "--conflict-exit-code", "300", "--", "true"],
            "300",
        ),
        (
            &["hold", "ftp:x", "--", "true"],
            "unknown scheme ftp: (known: beads:DIR, dir:PATH, lock:PATH, tower:NAME, memory:DIR, file:PATH, flock:PATH)",
        ),
        (
            &["hold", ".", "--", "true"],
            ". is not a beads database; did you mean ./.beads?",
        ),
        (&["check", ""], "the target is empty"),
        (&["check", "--nonsense"], "--nonsense"),
        (&["status", "--color", "mauve"], "mauve"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let ended = scene.run(args).expect(2, &[word]);
        assert!(!ended.err.contains('\u{1b}'), "{ended:?}");
    }
    // An option that a command has not: never its 0.
    scene
        .run(&["check", "--own-exit-code", "0"])
        .expect(2, &["--own-exit-code"]);
    scene
        .run(&[
            "cycle",
            "--own-exit-code",
            "99",
            "--wait",
            "1",
            "--",
            "true",
        ])
        .expect(99, &["--wait"]);
    for (name, value) in [
        ("BEADLOCK_WAIT", "soon"),
        ("BEADLOCK_JSON", "maybe"),
        ("BEADLOCK_COLOR", "mauve"),
    ] {
        let mut command = scene.beadlock(&["hold", "--", "true"]);
        command.env(name, value);
        Running::apart(command)
            .end()
            .expect(2, &[&format!("${name}: ")]);
        let mut command = scene.beadlock(&["hold", "--own-exit-code", "99", "--", "true"]);
        command.env(name, value);
        Running::apart(command)
            .end()
            .expect(99, &[&format!("${name}: ")]);
    }
    let mut command = scene.beadlock(&["check"]);
    command
        .env("BEADLOCK_JSON", "1")
        .env("BEADLOCK_COLOR", "mauve");
    let json = Running::apart(command).end().expect(2, &[]).json();
    assert_eq!(
        (&json["ok"], &json["error"]["code"]),
        (&false.into(), &"USAGE".into())
    );
    assert!(scene.names().is_empty());
}

#[test]
fn no_target_is_exit_1_and_says_where_it_looked() {
    let scene = crate::a_scene();
    std::fs::remove_dir(scene.beads()).unwrap();
    let words = [
        "no .beads here or above (looked in ",
        "name one: beadlock hold path/.beads -- …",
    ];
    for args in [&["hold", "--", "true"][..], &["check"], &["status"], &[]] {
        let ended = scene.run(args).expect(1, &words);
        assert!(!ended.err.contains("claim it"), "{ended:?}");
    }
    for (name, value) in [
        ("BEADLOCK_TARGET", "beads:nowhere"),
        ("BEADS_DIR", "nowhere"),
    ] {
        let mut command = scene.beadlock(&["check"]);
        command.env(name, value);
        Running::apart(command)
            .end()
            .expect(1, &[&format!("${name}: nowhere does not exist")]);
    }
    scene
        .run(&["hold", "nowhere/.beads", "--", "true"])
        .expect(1, &["nowhere/.beads does not exist"]);
    std::fs::write(scene.file("plain"), "").unwrap();
    scene
        .run(&["hold", "plain", "--", "true"])
        .expect(1, &["plain is not a directory"]);
    let json = scene.run(&["check", "--json"]).expect(1, &[]).json();
    assert_eq!(
        (&json["ok"], &json["error"]["code"]),
        (&false.into(), &"NO_TARGET".into())
    );
}

#[test]
fn a_target_of_the_environment_that_is_wrong_names_its_variable() {
    let scene = crate::a_scene();
    for (target, code, words) in [
        ("beads:nowhere", 1, "nowhere does not exist"),
        ("lock:.", 2, "lock:. names no file"),
        ("tower:A", 2, "tower:A: a lock's name has only"),
        ("memory:/dev/null", 1, "memory:/dev/null is not a directory"),
        ("file:.", 2, "file:. names no file"),
        ("file:nowhere/x", 1, "does not exist; make it first"),
        ("flock:nowhere/x", 1, "does not exist; make it first"),
        ("lock:nowhere/x", 1, "does not exist; make it first"),
        ("ftp:x", 2, "unknown scheme ftp:"),
    ] {
        for args in [
            &["status"][..],
            &["hold", "--", "true"],
            &["release", "--id", "x"],
            &["wait"],
        ] {
            let mut command = scene.beadlock(args);
            command.env("BEADLOCK_TARGET", target);
            let ended = Running::apart(command).end().expect(code, &[words]);
            assert!(
                ended.err.starts_with("beadlock: error: $BEADLOCK_TARGET: "),
                "{args:?} {ended:?}"
            );
        }
    }
    let mut command = scene.beadlock(&["status", "file:."]);
    command.env("BEADLOCK_TARGET", "beads:nowhere");
    let ended = Running::apart(command)
        .end()
        .expect(2, &["file:. names no file"]);
    assert!(
        !ended.err.contains("BEADLOCK_TARGET"),
        "what is typed beats it: {ended:?}"
    );
}

#[test]
fn help_and_version_are_answers() {
    let scene = crate::a_scene();
    assert!(scene.run(&["--help"]).expect(0, &[]).out.contains("hold"));
    let help = scene.run(&["hold", "--help"]).expect(0, &[]).out;
    for word in [
        "--holder",
        "--wait",
        "--no-wait",
        "--drain",
        "--kill-after",
        "--wait-group",
        "--report",
        "BEADLOCK_WAIT",
    ] {
        assert!(help.contains(word), "{word} in {help}");
    }
    assert!(
        scene
            .run(&["--version"])
            .expect(0, &[])
            .out
            .starts_with("beadlock ")
    );
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let scene = crate::a_scene();
    scene.write_shell_lock("live", i64::from(std::process::id()), "elsewhere");
    for (args, code) in [
        (&["status"][..], 0),
        (&["check"], 4),
        (&["--help"], 0),
        (&["status", "--json"], 0),
    ] {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let mut command = scene.beadlock(args);
        command.stdout(Stdio::from(writer)).stderr(Stdio::piped());
        Ended::of(&command.output().unwrap()).expect(code, &[]);
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let scene = crate::a_scene();
    let run = |args: &[&str], code| {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let mut command = scene.beadlock(args);
        command.stdout(full).stderr(Stdio::piped());
        Ended::of(&command.output().unwrap()).expect(
            code,
            &["failed to write to stdout: no space left on device"],
        );
    };
    for args in [
        &["--help"][..],
        &["--version"],
        &["status"],
        &["status", "--json"],
        &["wait", "--json"],
        &["release", "--id", "x", "--json", "--missing-ok"],
        &["break", "--malformed", "--json"],
    ] {
        run(args, 1);
    }
    // A failure stays the one that it is.
    scene.write_shell_lock("vc", i64::from(std::process::id()), &this_host());
    for (args, code) in [
        (&["wait", "--wait", "0", "--json"][..], 4),
        (&["break", "--holder", "vc", "--json"], 4),
        (&["cycle", "--json", "--", "true"], 4),
        (&["hold", "--no-wait", "--json", "--", "true"], 4),
        (&["release", "--id", "x", "--json"], 9),
    ] {
        run(args, code);
    }
}

/// Else it would ask without a pause.
#[test]
fn the_time_between_two_looks_is_not_nothing() {
    let scene = crate::a_scene();
    let args = ["status", "--agent", "127.0.0.1:1", "--watch", "--interval"];
    for interval in ["0s", "99ms", "soon"] {
        scene
            .run(&[&args[..], &[interval]].concat())
            .expect(2, &["--interval"]);
        scene
            .run(&["top", "--interval", interval])
            .expect(2, &["--interval"]);
    }
}
