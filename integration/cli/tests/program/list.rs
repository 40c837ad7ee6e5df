//! `beadlock list`: every lock below a directory, and nothing that makes it fail.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use beadlock_core::gate::Gate;
use beadlock_testkit::{Ended, Running, Scene, as_nobody, dead_pid, shell_lock_text, this_host};
use serde_json::Value;

use crate::terminal::{BEADLOCK, Terminal};

/// A database at `dir` in the scene, with a lock of this host's.
fn lock(scene: &Scene, dir: &str, holder: &str, pid: i64) {
    fs::create_dir_all(scene.file(dir)).unwrap();
    fs::write(
        scene.file(dir).join(".exclusive-lock"),
        shell_lock_text(holder, pid, &this_host()),
    )
    .unwrap();
}

fn me() -> i64 {
    i64::from(std::process::id())
}

/// The targets of the lines.
fn targets(ended: &Ended) -> Vec<&str> {
    ended
        .out
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[test]
fn finds_every_lock_wherever_it_is() {
    let scene = crate::a_scene();
    assert_eq!(
        scene
            .run(&["list"])
            .expect(0, &["beadlock: 0 locks in 2 directories\n"])
            .out,
        ""
    );
    fs::write(scene.file(".gitignore"), "*\n").unwrap();
    fs::write(scene.file(".ignore"), "*\n").unwrap();
    fs::create_dir(scene.file(".git")).unwrap();
    for dir in ["b/.beads", ".hidden/.git/x", "a/node_modules/deep/.beads"] {
        lock(&scene, dir, "vc", me());
    }
    lock(
        &scene,
        "b",
        "a holder's \u{1b}[2J name",
        i64::from(dead_pid()),
    );
    fs::create_dir(scene.file("orphan")).unwrap();
    fs::write(scene.file("orphan/.exclusive-lock.aside"), "").unwrap();
    fs::create_dir_all(scene.file("c/.exclusive-lock/.exclusive-lock")).unwrap();
    symlink(scene.file("b"), scene.file("link")).unwrap();
    fs::create_dir(scene.file("dangling")).unwrap();
    symlink("nowhere", scene.file("dangling/.exclusive-lock")).unwrap();
    let ended = scene.run(&["list"]).expect(0, &["beadlock: 7 locks in "]);
    assert!(
        ended
            .err
            .ends_with(": 3 held, 1 stale, 2 unreadable, 1 set aside\n"),
        "{ended:?}"
    );
    let expected = [
        ".hidden/.git/x",
        "a/node_modules/deep/.beads",
        "lock:b/.exclusive-lock",
        "b/.beads",
        "c",
        "dangling",
        "orphan",
    ];
    assert_eq!(targets(&ended), expected);
    let columns: Vec<&str> = ended
        .out
        .lines()
        .map(|line| &line[line.find("  ").unwrap()..])
        .collect();
    assert!(
        columns[0].contains("held")
            && columns[0].contains("vc")
            && columns[0].ends_with("pid_alive"),
        "{ended:?}"
    );
    assert!(
        columns[2].contains(r"a holder's \u{1b}[2J name") && !ended.out.contains('\u{1b}'),
        "{ended:?}"
    );
    let verdicts: Vec<Option<usize>> = ended
        .out
        .lines()
        .map(|line| line.find("pid_alive"))
        .collect();
    assert_eq!(verdicts[0], verdicts[1], "in columns: {}", ended.out);
    assert_eq!(scene.run(&["list", "-q"]).expect(0, &[]).err, "");
    assert_eq!(scene.run(&["list", "."]).out, ended.out);
}

/// A lock at a path is known by its record, whatever else has such a name.
#[test]
fn a_lock_at_a_path_is_listed_by_its_record() {
    let scene = crate::a_scene();
    fs::create_dir_all(scene.file("ci")).unwrap();
    let record = |holder: &str, pid| shell_lock_text(holder, pid, &this_host());
    fs::write(scene.file("ci/build.lock"), record("make", me())).unwrap();
    fs::write(
        scene.file("ci/deploy-lock"),
        record("gone", i64::from(dead_pid())),
    )
    .unwrap();
    fs::write(scene.file("set-aside.lock.aside"), record("make", me())).unwrap();
    for (name, text) in [
        ("Cargo.lock", "version = 4\n"),
        ("package-lock.json", "{\"lockfileVersion\": 3}"),
        ("clock", &record("make", me())),
        ("empty.lock", ""),
        ("data.lock", "{\"pid\": 7}"),
    ] {
        fs::write(scene.file(name), text).unwrap();
    }
    let ended = scene
        .run(&["list"])
        .expect(0, &["3 locks in ", "1 held, 1 stale"]);
    assert_eq!(
        targets(&ended),
        [
            "lock:ci/build.lock",
            "lock:ci/deploy-lock",
            "lock:set-aside.lock"
        ]
    );
    let json = scene.run(&["list", "--json", "ci"]).expect(0, &[]).json();
    assert_eq!(
        (&json["data"][0]["target"], &json["data"][0]["holder"]),
        (&"lock:ci/build.lock".into(), &"make".into())
    );
    let status = scene
        .run(&["status", "--json", "lock:ci/build.lock"])
        .expect(0, &[])
        .json();
    assert_eq!(status["data"][0]["id"], json["data"][0]["id"]);
}

/// A name that `list` shows leads to that lock, whatever the directory is called and holds.
#[test]
fn what_it_shows_can_be_typed() {
    let scene = crate::a_scene();
    for dir in [
        "a:b/.beads",
        "-dash",
        "sp ace/.beads",
        "above/.beads",
        "above",
        "moved/.beads",
        "new\nline",
    ] {
        lock(&scene, dir, dir, me());
    }
    fs::write(scene.file("moved/.beads/redirect"), "../above/.beads\n").unwrap();
    let data = scene.run(&["list", "--json"]).expect(0, &[]).json()["data"].clone();
    let data = data.as_array().unwrap();
    assert_eq!(data.len(), 7);
    for each in data {
        let next = each["next"].as_str().unwrap();
        let typed = next
            .strip_prefix("beadlock wait --wait 10m ")
            .unwrap()
            .split("   # ")
            .next()
            .unwrap();
        let script = format!("$BEADLOCK status --json {typed}");
        let mut command = scene.shell("exec bash -c \"$SCRIPT\"");
        command.env("SCRIPT", script);
        let status = Running::apart(command).end().expect(0, &[]).json()["data"][0].clone();
        // A name that cannot be shown as it is has a longer one that can be typed.
        let is_shown = !each["target"].as_str().unwrap().contains('\\');
        let names = if is_shown {
            &["target", "next"][..]
        } else {
            &[]
        };
        for key in [
            "path", "holder", "id", "verdict", "reason", "record", "message",
        ]
        .iter()
        .chain(names)
        {
            assert_eq!(status[key], each[key], "{key} of {typed}");
        }
        let keys = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(&status), keys(each), "exactly the fields of status");
        assert_eq!(keys(&status["witnesses"]), keys(&each["witnesses"]));
    }
}

#[test]
fn roots_are_answered_one_by_one() {
    let scene = crate::a_scene();
    lock(&scene, "one/.beads", "vc", me());
    lock(&scene, "two", "vc", me());
    let ended = scene.run(&[
        "list",
        "two",
        "nowhere",
        "one",
        "beads:one/.beads",
        "./two/../one",
    ]);
    let ended = ended.expect(
        1,
        &[
            "nowhere does not exist; name a directory to look below",
            "2 locks in ",
        ],
    );
    assert_eq!(targets(&ended), ["one/.beads", "two"], "each once");
    fs::write(scene.file("file"), "").unwrap();
    scene
        .run(&["list", "file"])
        .expect(1, &["file is not a directory"]);
    scene
        .run(&["list", "lock:two/x"])
        .expect(2, &["beadlock status lock:two/x"]);
    scene
        .run(&["list", "no:scheme"])
        .expect(2, &["./no:scheme"]);
    let json = scene
        .run(&["list", "--json", "nowhere", "two"])
        .expect(1, &[])
        .json();
    assert_eq!(
        (&json["ok"], &json["error"]["code"]),
        (&false.into(), &"NO_TARGET".into())
    );
    assert_eq!(json["data"][0]["target"], "beads:two");
    symlink("two", scene.file("link")).unwrap();
    assert_eq!(
        targets(&scene.run(&["list", "link"]).expect(0, &[])),
        ["link"],
        "a root may be a link"
    );
    let json = scene.run(&["list", "--json", "one"]).expect(0, &[]).json();
    assert_eq!(
        (&json["ok"], json["data"].as_array().unwrap().len()),
        (&true.into(), 1)
    );
}

#[test]
fn what_may_not_be_read_is_a_warning() {
    let scene = crate::a_scene();
    lock(&scene, "open/.beads", "vc", 1);
    for number in 0..13 {
        fs::create_dir(scene.file(&format!("shut{number:02}"))).unwrap();
        fs::set_permissions(
            scene.file(&format!("shut{number:02}")),
            fs::Permissions::from_mode(0o000),
        )
        .unwrap();
    }
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = scene.beadlock(&["list", "--json"]);
    if !as_nobody(&mut command) {
        return;
    }
    let ended = Running::apart(command)
        .end()
        .expect(0, &["shut00 was not read: permission denied"]);
    let json = ended.json();
    assert_eq!(
        (&json["ok"], json["data"].as_array().unwrap().len()),
        (&true.into(), 1)
    );
    let warnings = json["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 11, "{warnings:?}");
    assert_eq!(warnings[10], "3 more below were not read");
    assert!(
        warnings[9].as_str().unwrap().contains("shut09"),
        "the first by path: {warnings:?}"
    );
    let mut command = scene.beadlock(&["list", "shut00", "."]);
    assert!(as_nobody(&mut command));
    let ended = Running::apart(command)
        .end()
        .expect(1, &["cannot read shut00: permission denied"]);
    assert_eq!(
        targets(&ended),
        ["open/.beads"],
        "the other root is answered"
    );
}

#[test]
fn stays_on_its_file_system_unless_told_otherwise() {
    let scene = crate::a_scene();
    lock(&scene, "here/.beads", "vc", me());
    fs::create_dir(scene.file("mount")).unwrap();
    fs::create_dir(scene.file("again")).unwrap();
    let script = "mount -t tmpfs none mount && mkdir mount/.beads && cp here/.beads/.exclusive-lock mount/.beads/ && \
                  mount --bind here again && $BEADLOCK list -q && echo -- && $BEADLOCK list -q --all-file-systems";
    let Some(command) = scene.in_namespaces(&["--mount"], script) else {
        return;
    };
    let ended = Running::apart(command).end().expect(0, &[]);
    // The one that is mounted twice is one, by its first path.
    assert_eq!(
        targets(&ended),
        ["again/.beads", "--", "again/.beads", "mount/.beads"],
        "{ended:?}"
    );
}

#[test]
fn v_shows_the_witnesses_and_all_gates_at_once() {
    let scene = crate::a_scene();
    lock(&scene, "shut/.beads", "vc", me());
    lock(&scene, "open/.beads", "vc", i64::from(dead_pid()));
    let gate = Gate::try_take(&scene.file("shut/.beads")).unwrap().unwrap();
    let ended = scene.run(&["list", "-v"]).expect(0, &[]);
    let (open, shut) = ended.out.split_once("\nshut/.beads").unwrap();
    assert!(
        open.contains("\n  why: its process is gone\n") && open.contains("  gate: open"),
        "{ended:?}"
    );
    // Not always alone: what another test has forked has it too until it is executed.
    let gate_of = shut
        .lines()
        .find(|line| line.starts_with("  gate: shut by "))
        .unwrap_or_default();
    assert!(gate_of.contains(&format!("PID {} (", me())), "{ended:?}");
    assert!(
        shut.contains("\n  next: beadlock wait --wait 10m shut/.beads"),
        "{ended:?}"
    );
    drop(gate);
    assert_eq!(scene.run(&["list"]).out.lines().count(), 2);
}

/// Locks and directories come and go while they are looked for.
#[test]
fn what_vanishes_meanwhile_is_no_error() {
    let scene = crate::a_scene();
    lock(&scene, "stays/.beads", "vc", me());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in ["x", "y"] {
            let (scene, done) = (&scene, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let dirs: Vec<String> =
                        (0..20).map(|number| format!("{name}{number}")).collect();
                    for dir in &dirs {
                        lock(scene, &format!("{dir}/.beads"), "vc", me());
                    }
                    for dir in &dirs {
                        fs::remove_dir_all(scene.file(dir)).unwrap();
                    }
                }
            });
        }
        let ended: Vec<Ended> = (0..30).map(|_| scene.run(&["list"])).collect();
        done.store(true, Ordering::Relaxed);
        for ended in ended {
            let ended = ended.expect(0, &[]);
            assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
            assert!(
                ended.out.contains("stays/.beads") && !ended.out.contains("free"),
                "{ended:?}"
            );
        }
    });
}

/// Where a user may have no more processes there is no parallel walk, and the same answer.
#[test]
fn without_another_thread_it_finds_the_same() {
    let scene = crate::a_scene();
    lock(&scene, "a/.beads", "vc", 1);
    fs::create_dir_all(scene.file("b/.exclusive-lock/x/.exclusive-lock")).unwrap();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // A user that nobody else is, for the limit counts all of a user's processes.
    let mut command = scene.shell("exec bash -c 'ulimit -u 1 && exec $BEADLOCK list'");
    if !as_nobody(&mut command) {
        return;
    }
    std::os::unix::process::CommandExt::uid(&mut command, 64_321);
    let ended = Running::apart(command)
        .end()
        .expect(0, &["beadlock: 2 locks in "]);
    assert_eq!(targets(&ended), ["a/.beads", "b"], "{ended:?}");
}

#[test]
fn a_terminal_is_told_how_far_it_is_and_nobody_else() {
    let scene = crate::a_scene();
    // One below the other, so that the same leaves are seen again and again: long enough for a look at the clock.
    let roots: Vec<String> = (1..=120).map(|depth| vec!["d"; depth].join("/")).collect();
    let deepest = roots.last().unwrap();
    (0..500).for_each(|leaf| fs::create_dir_all(scene.file(&format!("{deepest}/{leaf}"))).unwrap());
    lock(&scene, &format!("{deepest}/.beads"), "vc", me());
    let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
    let program = [&[BEADLOCK, "list"], roots.as_slice()].concat();
    let ended = Terminal::start(&scene, &program).end();
    let said = ended.out;
    assert!(
        ended.code == 0 && said.contains(" directories seen, "),
        "{said:?}"
    );
    let mut last = said.lines().rev();
    let (count, row) = (last.next().unwrap(), last.next().unwrap());
    assert!(
        count.starts_with("beadlock: 1 lock in "),
        "the count comes last: {said:?}"
    );
    assert!(
        row.contains("/.beads  ") && row.ends_with("pid_alive"),
        "{said:?}"
    );
    assert_eq!(
        said.matches("pid_alive").count(),
        1,
        "once, though every root leads to it: {said:?}"
    );
    for args in [&["list"][..], &["list", "-q"], &["list", "--json"]] {
        let ended = scene.run(&[args, &roots[..30]].concat()).expect(0, &[]);
        assert!(
            !format!("{}{}", ended.err, ended.out).contains(" seen"),
            "{ended:?}"
        );
    }
}
