//! Whatever goes wrong is 129, and OURS is as it was. Git takes every code from 1 to 128 for a conflict whose markers
//! are in OURS, and would commit ours as the result.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use beadlock_testkit::{Ended, Running, Scene, as_nobody, has_program, may_be_root, skip, until};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::{in_conflict, record};

/// The bytes and the inode of OURS, and the names beside it.
fn state(scene: &Scene) -> (Vec<u8>, Vec<String>) {
    let mut names: Vec<String> = fs::read_dir(scene.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    (fs::read(scene.file("ours")).unwrap(), names)
}

/// Runs it, and looks at the code, the words, and that nothing was touched.
#[track_caller]
fn refused(scene: &Scene, command: Command, words: &[&str]) -> Ended {
    let before = state(scene);
    let ended = Running::apart(command).end().expect(129, words);
    assert_eq!(state(scene), before, "{ended:?}");
    assert!(!ended.err.is_empty() && ended.out.is_empty(), "{ended:?}");
    ended
}

#[test]
fn every_wrong_command_line_is_129() {
    let scene = in_conflict();
    let files = ["base", "ours", "theirs"];
    let with = |before: &[&'static str], after: &[&'static str]| [before, &files, after].concat();
    let m = "merge";
    let table: [(Vec<&str>, &str); 27] = [
        (vec![m], "required arguments"),
        (vec![m, "ours"], "required arguments"),
        (vec![m, "base", "ours"], "required arguments"),
        (vec![m, "base", "ours", ""], "a value is required"),
        (with(&[m], &["path", "more"]), "unexpected argument 'more'"),
        (with(&[m, "--bogus"], &[]), "unexpected argument '--bogus'"),
        (with(&[m, "-x"], &[]), "unexpected argument '-x'"),
        (with(&["--bogus", m], &[]), "unexpected argument '--bogus'"),
        (with(&["--color", "blue", m], &[]), "--color"),
        (with(&[m, "--color", "blue"], &[]), "--color"),
        (with(&[m, "--quiet=perhaps"], &[]), "perhaps"),
        (with(&[m], &["--marker-size"]), "a value is required"),
        (with(&[m, "--marker-size", "x"], &[]), "--marker-size"),
        (with(&[m, "--marker-size=0"], &[]), "--marker-size"),
        (with(&[m, "--marker-size=-1"], &[]), "--marker-size"),
        (with(&[m, "--marker-size=65536"], &[]), "--marker-size"),
        (with(&[m, "--marker-size=%L"], &[]), "--marker-size"),
        (with(&[m], &["--ours"]), "a value is required"),
        (with(&[m], &["--help"]), "nothing was merged"),
        (with(&[m, "-h"], &[]), "nothing was merged"),
        (with(&["--help", m], &[]), "nothing was merged"),
        (with(&["--version", m], &[]), "nothing was merged"),
        (with(&["-V", m], &[]), "nothing was merged"),
        (
            with(&[m], &["--version"]),
            "unexpected argument '--version'",
        ),
        (vec![m, "--version"], "unexpected argument '--version'"),
        (
            with(&[m, "--wait", "3"], &[]),
            "unexpected argument '--wait'",
        ),
        (with(&[m, "help"], &["path"]), "unexpected argument"),
    ];
    for (words, said) in table {
        refused(&scene, scene.beadlock(&words), &["beadlock: error: ", said]);
    }
}

#[test]
fn a_variable_that_is_wrong_is_129() {
    let scene = in_conflict();
    for (name, value) in [("BEADLOCK_QUIET", "perhaps"), ("BEADLOCK_COLOR", "blue")] {
        let mut command = scene.beadlock(&["merge", "base", "ours", "theirs"]);
        command.env(name, value);
        refused(&scene, command, &[name]);
    }
}

#[test]
fn help_without_files_is_an_answer() {
    let scene = in_conflict();
    for words in [
        &["merge", "--help"][..],
        &["merge", "-h"],
        &["--help", "merge"],
        &["merge", "-q", "--help"],
    ] {
        assert!(
            scene
                .run(words)
                .expect(0, &[])
                .out
                .contains("Usage: beadlock")
        );
    }
    assert!(
        scene
            .run(&["help", "merge"])
            .expect(0, &[])
            .out
            .contains("129")
    );
    let mut command = scene.beadlock(&["merge", "--help"]);
    command.stdout(File::options().write(true).open("/dev/full").unwrap());
    command.stderr(Stdio::piped());
    Ended::of(&command.output().unwrap()).expect(129, &["no space left on device"]);
}

#[test]
fn a_file_that_cannot_be_read_is_129() {
    let scene = in_conflict();
    fs::create_dir(scene.file("dir")).unwrap();
    mkfifo(&scene.file("fifo"), Mode::S_IRWXU).unwrap();
    let long = "x".repeat(300);
    let table = [
        (
            ["nowhere", "ours", "theirs"],
            "failed to read nowhere: no such file",
        ),
        (
            ["base", "nowhere", "theirs"],
            "failed to read nowhere: no such file",
        ),
        (
            ["base", "ours", "nowhere"],
            "failed to read nowhere: no such file",
        ),
        (
            ["dir", "ours", "theirs"],
            "failed to read dir: is a directory",
        ),
        (["base", "dir", "theirs"], "dir is not a regular file"),
        (
            ["base", "ours", "dir"],
            "failed to read dir: is a directory",
        ),
        (["base", "fifo", "theirs"], "fifo is not a regular file"),
        (
            ["base", "/dev/null", "theirs"],
            "/dev/null is not a regular file",
        ),
        (["base/x", "ours", "theirs"], "not a directory"),
        ([&long, "ours", "theirs"], "file name too long"),
    ];
    for (files, said) in table {
        let words = [&["merge"], &files[..]].concat();
        refused(&scene, scene.beadlock(&words), &[said]);
    }
}

#[test]
fn a_file_without_permission_is_129() {
    let scene = in_conflict();
    fs::set_permissions(scene.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scene.file("base"), Permissions::from_mode(0o600)).unwrap();
    let mut command = scene.beadlock(&["merge", "base", "ours", "theirs"]);
    if !as_nobody(&mut command) {
        return;
    }
    refused(&scene, command, &["failed to read base: permission denied"]);
    fs::set_permissions(scene.file("base"), Permissions::from_mode(0o644)).unwrap();
    let mut command = scene.beadlock(&["merge", "base", "ours", "theirs"]);
    assert!(as_nobody(&mut command));
    refused(
        &scene,
        command,
        &["permission denied", "its directory must be writable"],
    );
    // It cannot be given to its owner.
    fs::set_permissions(scene.path(), Permissions::from_mode(0o777)).unwrap();
    let mut command = scene.beadlock(&["merge", "base", "ours", "theirs"]);
    assert!(as_nobody(&mut command));
    refused(&scene, command, &["operation not permitted"]);
}

#[test]
fn more_than_is_merged_is_129() {
    let scene = in_conflict();
    let large = File::create(scene.file("large")).unwrap();
    large.set_len((512 << 20) + 1).unwrap();
    let command = scene.beadlock(&["merge", "base", "ours", "large", "issues.jsonl"]);
    refused(&scene, command, &["large: 512 MiB are too much to merge"]);
}

#[test]
fn names_that_are_not_utf_8_are_merged() {
    let scene = in_conflict();
    let name = OsStr::from_bytes(b"o\xffurs");
    fs::copy(scene.file("ours"), scene.path().join(name)).unwrap();
    let mut command = scene.beadlock(&["merge", "base"]);
    command
        .arg(name)
        .arg("theirs")
        .arg(OsStr::from_bytes(b"p\xfeath\n"))
        .arg("--ours");
    command.arg(OsStr::from_bytes(b"l\xfdabel"));
    Running::apart(command)
        .end()
        .expect(1, &["merge p\u{fffd}ath\\n: bd-1"]);
    let merged = fs::read(scene.path().join(name)).unwrap();
    assert!(
        merged.starts_with(b"<<<<<<< l\xfdabel\n"),
        "{}",
        merged.escape_ascii()
    );
}

/// A limit below what the result has, which it meets as it would meet the end of a disk.
#[test]
fn a_result_that_finds_no_room_is_129() {
    let scene = in_conflict();
    let long = record("bd-9", &"x".repeat(100_000), 2);
    scene.write("theirs", scene.read("theirs") + &long);
    let command = scene.shell("ulimit -f 8; exec \"$BEADLOCK\" merge base ours theirs");
    refused(
        &scene,
        command,
        &["failed to write the new content of", "file too large"],
    );
}

#[test]
fn a_full_disk_is_129() {
    if !has_program("unshare") || !has_program("mount") {
        return;
    }
    let scene = in_conflict();
    scene.write(
        "theirs",
        scene.read("theirs") + &record("bd-9", &"x".repeat(40_000), 2),
    );
    let root = if may_be_root() { "" } else { "--map-root-user" };
    let mount = "mkdir disk && mount -t tmpfs -o size=64k tmpfs disk";
    let in_namespace = |script: &str| {
        let mut command = scene.shell(&format!("exec unshare {root} --mount sh -c \"$SCRIPT\""));
        command.env("SCRIPT", script);
        Running::apart(command).end()
    };
    let probe = in_namespace(&format!(
        "{mount} && rmdir disk || true; umount disk && rmdir disk"
    ));
    if probe.code != 0 {
        return skip::cannot(&format!("cannot mount: {}", probe.err.trim()));
    }
    let script = format!(
        "{mount} && cp base ours theirs disk && cd disk && ! cat /dev/zero 2>/dev/null >rest
         \"$BEADLOCK\" merge base ours theirs; code=$?
         cmp ours ../ours && [ \"$(ls -A)\" = \"$(printf 'base\\nours\\nrest\\ntheirs')\" ] || exit 7
         exit $code"
    );
    in_namespace(&script).expect(129, &["failed to write", "no space left on device"]);
}

/// Nothing that is said can be heard, and the merge is the same.
#[test]
fn closed_streams_change_nothing() {
    for (streams, code) in [
        (">&- 2>&-", 1),
        ("<&- >&- 2>&-", 1),
        (">/dev/full 2>/dev/full", 1),
        ("--json >/dev/full", 1),
    ] {
        let scene = in_conflict();
        let script = format!("exec \"$BEADLOCK\" merge base ours theirs {streams}");
        Running::apart(scene.shell(&script)).end().expect(code, &[]);
        assert!(
            scene.read("ours").starts_with("<<<<<<< ours\n"),
            "{streams}"
        );
        let script = format!("exec \"$BEADLOCK\" merge nowhere ours theirs {streams}");
        let before = state(&scene);
        Running::apart(scene.shell(&script)).end().expect(129, &[]);
        assert_eq!(state(&scene), before, "{streams}");
    }
}

/// Not enough memory: it says so, or is ended by the signal of an allocation that failed. Both are above 128.
#[test]
fn without_memory_ours_is_as_it_was() {
    let scene = in_conflict();
    let large = File::create(scene.file("large")).unwrap();
    large.set_len(500 << 20).unwrap();
    let before = state(&scene);
    let script = "ulimit -v 300000; exec \"$BEADLOCK\" merge large ours theirs";
    let ended = Running::apart(scene.shell(script)).end();
    assert!(ended.code > 128, "{ended:?}");
    assert_eq!(state(&scene), before, "{ended:?}");
}

#[test]
fn a_signal_ends_it_as_a_signal_and_ours_is_as_it_was() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let scene = in_conflict();
        mkfifo(&scene.file("fifo"), Mode::S_IRWXU).unwrap();
        let before = state(&scene);
        let running = scene.start(&["merge", "base", "ours", "fifo"]);
        // It has come to THEIRS when a writer finds a reader.
        let open = || {
            use std::os::unix::fs::OpenOptionsExt;
            File::options()
                .write(true)
                .custom_flags(nix::libc::O_NONBLOCK)
                .open(scene.file("fifo"))
        };
        let mut writer = None;
        until("a reader of the fifo", || {
            writer = open().ok();
            writer.is_some()
        });
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.code, 128 + signal as i32, "{ended:?}");
        assert_eq!(state(&scene), before);
    }
}
