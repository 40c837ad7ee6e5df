//! A lock that git does not ignore: `hold` and `acquire` say so once a repository and day, `doctor` has rows for it,
//! and the line to type helps. With real repositories.

use std::fs;
use std::path::Path;
use std::process::Command;

use beadlock_testkit::{
    Ended, Running, Scene, as_nobody, dead_pid, has_program, lives, this_host, until,
};

/// What `bd init` writes into `.beads/.gitignore`, in the words that matter: everything but the lock.
const OF_BD: &str = "*.db\n*.db?*\n*.db-journal\n*.db-wal\n*.db-shm\ndaemon.lock\ndaemon.log\ndaemon.pid\nbd.sock\n\
                     .local_version\n!issues.jsonl\n!metadata.json\n";

const SAYS: &str = "beadlock: warning: git does not ignore .beads/.exclusive-lock, and git add -A would commit it; type: \
                    printf '%s\\n' '.exclusive-lock*' >> .beads/.gitignore\n";

fn repository() -> Option<Scene> {
    if !has_program("git") {
        return None;
    }
    let scene = crate::a_scene();
    git(&scene, &["init", "-q"]);
    fs::write(scene.beads().join(".gitignore"), OF_BD).unwrap();
    Some(scene)
}

#[track_caller]
fn git(scene: &Scene, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command
        .args(args)
        .current_dir(scene.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn hold(scene: &Scene) -> Ended {
    scene.run(&["hold", "--", "true"]).expect(0, &[])
}

fn stamp(scene: &Scene) -> std::path::PathBuf {
    scene.file(".git/beadlock.reminded")
}

/// The repository was last spoken of so many hours ago.
fn spoken_of(scene: &Scene, hours: u64) {
    let then = format!("{hours} hours ago");
    let touched = Command::new("touch")
        .args(["-d", &then])
        .arg(stamp(scene))
        .status()
        .unwrap();
    assert!(touched.success());
}

#[test]
fn a_hold_says_it_once_a_repository_and_day_and_the_line_helps() {
    let Some(scene) = repository() else { return };
    let first = hold(&scene);
    assert_eq!(first.err.matches(SAYS).count(), 1, "{first:?}");
    assert!(!hold(&scene).err.contains("git"), "once a day");
    fs::create_dir_all(scene.file("other/.beads")).unwrap();
    let other = scene
        .run(&["hold", "other/.beads", "--", "true"])
        .expect(0, &[]);
    assert!(!other.err.contains("git"), "once a repository: {other:?}");
    spoken_of(&scene, 23);
    assert!(!hold(&scene).err.contains("git"));
    spoken_of(&scene, 25);
    assert!(hold(&scene).err.contains(SAYS), "a day later");

    // The harm, and then what was typed.
    let added = "git add -A && git diff --cached --name-only";
    let script = ["hold", "--", "sh", "-c", added];
    let before = scene.run(&script).expect(0, &[]).out;
    assert!(before.contains(".beads/.exclusive-lock\n"), "{before}");
    git(&scene, &["rm", "-rq", "--cached", "."]);
    let typed = SAYS.trim_end().split_once("type: ").unwrap().1;
    assert_eq!(Running::apart(scene.shell(typed)).end().code, 0);
    let after = scene.run(&script).expect(0, &[]).out;
    assert!(!after.contains("exclusive-lock"), "{after}");
    spoken_of(&scene, 25);
    assert!(!hold(&scene).err.contains("git"));
}

#[test]
fn of_several_at_once_one_says_it() {
    let Some(scene) = repository() else { return };
    for round in ["new", "old"] {
        let holds = [0, 1, 2, 3, 4, 5].map(|n| {
            Running::apart(scene.beadlock(&["hold", &format!("lock:x{n}"), "--", "true"]))
        });
        let said = holds.map(|hold| {
            hold.end()
                .expect(0, &[])
                .err
                .matches("git does not ignore")
                .count()
        });
        assert_eq!(said.iter().sum::<usize>(), 1, "{round}: {said:?}");
        spoken_of(&scene, 25);
    }
}

#[test]
fn acquire_says_it_and_the_envelope_has_it() {
    let Some(scene) = repository() else { return };
    let pid = std::process::id().to_string();
    let ended = scene.run(&["acquire", "--for", &pid]).expect(0, &[SAYS]);
    assert!(!ended.out.contains("git"), "stdout is data: {ended:?}");
    fs::remove_dir_all(scene.file(".git")).unwrap();
    git(&scene, &["init", "-q"]);
    let warned =
        |json: &serde_json::Value| json["warnings"][0].as_str().unwrap_or_default().to_owned();
    let json = scene
        .run(&["acquire", "lock:x.lock", "--for", &pid, "--json"])
        .expect(0, &[])
        .json();
    assert!(
        warned(&json).starts_with("git does not ignore x.lock, and git add -A would commit it"),
        "{json}"
    );
    spoken_of(&scene, 25);
    scene
        .run(&["hold", "lock:y.lock", "--report", "report", "--", "true"])
        .expect(0, &["'/y.lock*' >> .gitignore"]);
    let report = serde_json::from_str(&scene.read("report")).unwrap();
    assert!(
        warned(&report).starts_with("git does not ignore y.lock"),
        "{report}"
    );
}

#[test]
fn nothing_is_said_where_there_is_nothing_to_say() {
    let Some(scene) = repository() else { return };
    let silent = |args: &[&str]| {
        let ended = scene.run(args).expect(0, &[]);
        assert!(
            !ended.err.contains("git does") && !stamp(&scene).exists(),
            "{ended:?}"
        );
    };
    silent(&["-q", "hold", "--", "true"]);
    fs::create_dir(scene.file("memory")).unwrap();
    silent(&["hold", "memory:memory", "--", "true"]);
    silent(&["hold", "file:todo.json", "--", "true"]);
    silent(&["hold", "lock:.git/x.lock", "--", "true"]);
    for (file, pattern) in [
        (".gitignore", ".beads/\n"),
        (".git/info/exclude", "*.lock\n.exclusive-lock\n"),
        (".gitignore", "*lock\n"),
    ] {
        fs::write(scene.file(file), pattern).unwrap();
        silent(&["hold", "--", "true"]);
        fs::write(scene.file(file), "").unwrap();
    }
    fs::write(
        scene.beads().join(".gitignore"),
        ".exclusive-lock\n.exclusive-lock.*\n",
    )
    .unwrap();
    silent(&["hold", "--", "true"]);
    let plain = crate::a_scene();
    assert!(!hold(&plain).err.contains("git"));
}

#[test]
fn the_line_helps_with_every_name() {
    let Some(scene) = repository() else { return };
    for name in [
        "a b",
        "it's",
        "*",
        "x*y?",
        "[z]",
        r"b\ck",
        "#h",
        "!n",
        " s",
        "t ",
        "é",
        "-d",
        "$(touch PWN)",
        "n\nl",
    ] {
        let dir = scene.file("dir");
        fs::create_dir_all(&dir).unwrap();
        // Without its last line break.
        fs::write(dir.join(".gitignore"), "*.o").unwrap();
        let _ = fs::write(stamp(&scene), "");
        spoken_of(&scene, 25);
        let ended = scene
            .run(&["hold", &format!("lock:dir/{name}"), "--", "true"])
            .expect(0, &["type: "]);
        assert_eq!(ended.err.lines().count(), 3, "one line: {ended:?}");
        let typed = ended
            .err
            .split_once("type: ")
            .unwrap()
            .1
            .lines()
            .next()
            .unwrap();
        assert_eq!(Running::apart(scene.shell(typed)).end().code, 0, "{typed}");
        for tail in [
            "",
            ".aside",
            ".broken-20260101T000000Z.json",
            ".tmp-7-0123abcd",
        ] {
            let path = format!("dir/{name}{tail}");
            git(&scene, &["check-ignore", "-q", "--", &path]);
        }
        assert_eq!(
            git(&scene, &["check-ignore", "dir/x.o"]),
            "dir/x.o\n",
            "{typed}"
        );
        assert!(!scene.file("PWN").exists());
    }
}

/// What the command sees is in place before it is asked, and what hangs holds up nothing.
#[test]
fn an_ignore_file_that_hangs_delays_nothing() {
    let Some(scene) = repository() else { return };
    let fifo = scene.beads().join(".gitignore");
    fs::remove_dir_all(scene.beads()).unwrap();
    fs::create_dir(scene.beads()).unwrap();
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ended = hold(&scene);
    assert!(
        !ended.err.contains("warning") && !scene.lock().exists(),
        "{ended:?}"
    );
    let mut command = scene.beadlock(&["hold", "--", "true"]);
    command.env("HOME", scene.path());
    nix::unistd::mkfifo(&scene.file(".gitconfig"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(scene.file("plain"), "").unwrap();
    fs::remove_dir_all(scene.beads()).unwrap();
    fs::create_dir(scene.beads()).unwrap();
    let ended = Running::apart(command).end().expect(0, &["released"]);
    assert!(
        !ended.err.contains("warning"),
        "there is no telling: {ended:?}"
    );
}

/// The git that is asked is our own process, and ends with us.
#[test]
fn a_git_that_does_not_answer_is_not_taken_for_a_process_of_the_command() {
    let Some(scene) = repository() else { return };
    use std::os::unix::fs::PermissionsExt;
    let bin = scene.file("bin");
    fs::create_dir(&bin).unwrap();
    let (git, pid) = (bin.join("git"), scene.file("pid"));
    let script = format!("#!/bin/sh\necho $$ > '{}'\nexec sleep 60\n", pid.display());
    fs::write(&git, script).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = scene.beadlock(&[
        "hold",
        "--wait-group",
        "--",
        "sh",
        "-c",
        "while [ ! -s pid ]; do sleep 0.01; done",
    ]);
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let ended = Running::apart(command).end().expect(0, &["released"]);
    assert!(
        !ended.err.contains("waiting for") && !ended.err.contains("left"),
        "{ended:?}"
    );
    let git = scene.read("pid").trim().parse().unwrap();
    until("git has ended, too", || !lives(git));
}

#[test]
fn another_users_repository_is_not_asked_and_not_written() {
    let Some(scene) = repository() else { return };
    use std::os::unix::fs::PermissionsExt;
    for dir in [scene.path(), &scene.beads()] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = scene.beadlock(&["hold", "--", "true"]);
    if !as_nobody(&mut command) {
        return;
    }
    let ended = Running::apart(command).end().expect(0, &[]);
    assert!(
        !ended.err.contains("git") && !stamp(&scene).exists(),
        "{ended:?}"
    );
    let mut command = scene.beadlock(&["doctor", ".beads"]);
    assert!(as_nobody(&mut command));
    let doctor = Running::apart(command).end().out;
    assert!(
        doctor.contains("the repository belongs to another user"),
        "{doctor}"
    );
}

#[test]
fn the_doctor_has_a_row_for_the_lock_and_one_for_the_files_beside_it() {
    let Some(scene) = repository() else { return };
    let ignore = |text: &str| fs::write(scene.beads().join(".gitignore"), text).unwrap();
    let row = |name: &str| {
        let json = scene.run(&["doctor", "--json"]).json();
        let trials = json["data"]["trials"].as_array().unwrap().clone();
        trials
            .into_iter()
            .find(|trial| trial["name"] == name)
            .unwrap()
    };
    let ok = |name: &str| row(name)["ok"].clone();
    assert_eq!(
        (ok("ignored_by_git"), ok("records_ignored")),
        (false.into(), false.into())
    );
    let command = "printf '%s\\n' '.exclusive-lock*' >> .beads/.gitignore";
    assert_eq!(row("records_ignored")["next"], command);
    let doctor = scene.run(&["doctor"]);
    let lines: Vec<&str> = doctor
        .out
        .lines()
        .filter(|line| line.ends_with(&format!("; type: {command}")))
        .collect();
    assert_eq!(lines.len(), 2, "nothing is pasted along: {doctor:?}");
    ignore(".exclusive-lock\n");
    assert_eq!(
        (ok("ignored_by_git"), ok("records_ignored")),
        (true.into(), false.into())
    );
    ignore(".exclusive-lock\n.exclusive-lock.*\n");
    assert_eq!(
        (ok("ignored_by_git"), ok("records_ignored")),
        (true.into(), true.into())
    );
    fs::remove_dir_all(scene.file(".git")).unwrap();
    assert_eq!(
        row("ignored_by_git")["detail"],
        "it is not in a git work tree"
    );
}

/// The lines for `.gitignore` in the clawdbot document name two files; its own programs make a third, and beadlock
/// more.
#[test]
fn the_doctor_says_what_makes_git_ignore_the_lock_of_a_memory_directory() {
    let Some(scene) = repository() else { return };
    fs::create_dir(scene.file("memory")).unwrap();
    let rows = |target: &str| {
        let json = scene.run(&["doctor", target, "--json"]).json();
        let trials = json["data"]["trials"].as_array().unwrap().clone();
        let row = |name: &str| {
            trials
                .iter()
                .find(|trial| trial["name"] == name)
                .unwrap()
                .clone()
        };
        [row("ignored_by_git"), row("records_ignored")]
    };
    let command = "printf '%s\\n' '/.lock*' >> memory/.gitignore";
    for row in rows("memory:memory") {
        assert_eq!(
            (&row["ok"], &row["next"]),
            (&false.into(), &command.into()),
            "{row}"
        );
    }
    let of_database = rows("memory");
    assert_eq!(
        of_database[0]["detail"], "git does not ignore .exclusive-lock",
        "no lock lies there"
    );
    let hold = Running::apart(scene.beadlock(&["hold", "memory:memory", "--", "sleep", "60"]));
    until("it is held", || scene.file("memory/.lock").exists());
    let held = rows("memory");
    assert_eq!(
        (&held[0]["detail"], &held[0]["next"]),
        (&"git does not ignore .lock".into(), &command.into())
    );
    assert_eq!(
        held[1]["detail"],
        "git does not ignore .lock.*, such as .lock.aside"
    );
    // By the document's own lines the lock is ignored, and not all that lies beside it.
    fs::write(scene.file(".gitignore"), "memory/.lock\nmemory/.lock.tmp\n").unwrap();
    let [lock, records] = rows("memory:memory");
    assert_eq!((&lock["ok"], &records["ok"]), (&true.into(), &false.into()));
    fs::write(scene.file(".gitignore"), "").unwrap();
    assert_eq!(Running::apart(scene.shell(command)).end().code, 0);
    for name in [
        ".lock",
        ".lock.tmp",
        ".lock.lock.tmp",
        ".lock.aside",
        ".lock.broken-20260101T000000Z.json",
    ] {
        git(&scene, &["check-ignore", "-q", &format!("memory/{name}")]);
    }
    for row in rows("memory:memory") {
        assert_eq!(
            (&row["ok"], &row["next"]),
            (&true.into(), &serde_json::Value::Null),
            "{row}"
        );
    }
    drop(hold);
}

#[test]
fn the_record_that_break_keeps_is_covered_by_the_pattern() {
    let Some(scene) = repository() else { return };
    let status = |scene: &Scene| git(scene, &["status", "--porcelain", "-uall"]);
    fs::write(
        scene.beads().join(".gitignore"),
        ".gitignore\n.exclusive-lock*\n",
    )
    .unwrap();
    scene.write_shell_lock("gone", i64::from(dead_pid()), &this_host());
    scene
        .run(&["break", ".beads", "--holder", "gone"])
        .expect(0, &[]);
    assert_eq!(status(&scene), "");
    assert!(
        scene
            .names()
            .iter()
            .any(|name| name.starts_with(".exclusive-lock.broken-")),
        "{:?}",
        scene.names()
    );
    fs::write(scene.file(".gitignore"), "/.gitignore\n/build.lock*\n").unwrap();
    fs::write(scene.file("build.lock"), "").unwrap();
    scene
        .run(&["break", "lock:build.lock", "--malformed"])
        .expect(0, &[]);
    assert!(!Path::new(&scene.file("build.lock")).exists());
    assert_eq!(status(&scene), "");
}
