//! `beadlock write`: all of it or none, whatever stands in the way.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use beadlock_tests::{Running, Scene, root, tool, wait_until};
use nix::fcntl::{Flock, FlockArg};

use crate::support::{Files, with_input};

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn creates_replaces_and_keeps_five_backups() {
    let scene = Scene::new();
    for number in 0..8 {
        let ended = scene.given(
            format!("{{\"n\":{number}}}\n"),
            &["write", "file:todo.json"],
        );
        assert_eq!(ended.code, 0, "{ended:?}");
        let word = if number == 0 {
            "beadlock: created "
        } else {
            "beadlock: wrote "
        };
        assert!(
            ended.err.starts_with(word) && ended.out.is_empty(),
            "{ended:?}"
        );
        assert_eq!(ended.err.contains("todo.json.1"), number > 0, "{ended:?}");
    }
    assert_eq!(scene.text("todo.json"), "{\"n\":7}\n");
    for number in 1..=5 {
        let backup = format!("todo.json.{number}");
        assert_eq!(
            scene.text(&backup),
            format!("{{\"n\":{}}}\n", 7 - number),
            "{backup}"
        );
    }
    assert_eq!(
        scene.files().len(),
        7,
        "the file, its lock file, five backups: {:?}",
        scene.files()
    );
    assert_eq!(scene.text("todo.json.lock"), "", "never used as data");
}

#[test]
fn backups_as_many_as_asked_for() {
    let scene = Scene::new();
    for number in 0..4 {
        let ended = scene.given(
            number.to_string(),
            &["write", "-q", "file:a.json", "--backups", "2"],
        );
        assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    }
    assert_eq!(
        scene.files(),
        ["a.json", "a.json.1", "a.json.2", "a.json.lock"]
    );
    let none = scene.given("9", &["write", "-q", "file:a.json", "--backups", "0"]);
    assert_eq!(
        (none.code, scene.text("a.json.1").as_str()),
        (0, "2"),
        "none is made, none is touched"
    );
    let mut of_variable = scene.beadlock(&["write", "-q", "file:b.json"]);
    of_variable.env("BEADLOCK_BACKUPS", "0");
    scene.put("b.json", "0");
    assert_eq!(with_input(of_variable, b"1").code, 0);
    assert_eq!(scene.text("b.json.1"), "(none)");
    let wrong = scene.given("9", &["write", "file:a.json", "--backups", "many"]);
    assert_eq!((wrong.code, scene.text("a.json").as_str()), (2, "9"));
}

#[test]
fn content_that_is_not_what_it_has_to_be_changes_nothing() {
    let scene = Scene::new();
    scene.put("todo.json", "{\"n\":0}\n");
    scene.put("log.jsonl", "{}\n");
    for (content, options, words) in [
        (
            "",
            &["file:todo.json"][..],
            "standard input is empty, which is no JSON",
        ),
        (
            "{\"n\":",
            &["file:todo.json"],
            "not valid JSON: EOF while parsing a value at line 1 column 5",
        ),
        (
            "{} {}",
            &["file:todo.json"],
            "not valid JSON: trailing characters at line 1 column 4",
        ),
        (
            "\"\u{1}\"",
            &["file:todo.json"],
            "not valid JSON: control character",
        ),
        (
            &"[".repeat(128),
            &["file:todo.json"],
            "nested more than 127 levels deep near byte 127",
        ),
        (
            "{}\n{\n",
            &["file:log.jsonl"],
            "not valid JSON Lines: line 2",
        ),
        (
            "{\n}",
            &["file:log.jsonl", "--format", "jsonl"],
            "not valid JSON Lines: line 1",
        ),
    ] {
        let ended = scene.given(content, &[&["write"][..], options].concat());
        assert_eq!(ended.code, 1, "{content}: {ended:?}");
        assert!(
            ended.err.contains(words) && ended.err.contains("stays as it was"),
            "{content}: {ended:?}"
        );
        assert_eq!(
            scene.files(),
            ["log.jsonl", "todo.json"],
            "not even a lock file was needed"
        );
    }
    assert_eq!(
        (
            scene.text("todo.json").as_str(),
            scene.text("log.jsonl").as_str()
        ),
        ("{\"n\":0}\n", "{}\n")
    );
    let (code, envelope) = {
        let ended = scene.given("{", &["write", "file:todo.json", "--json"]);
        (
            ended.code,
            serde_json::from_str::<serde_json::Value>(&ended.out).expect("an envelope"),
        )
    };
    assert_eq!((code, &envelope["error"]["code"]), (1, &"IO".into()));
    assert_eq!(envelope["error"]["detail"], "invalid_content");
    for (content, format, name) in [
        ("no json\0", "any", "todo.json"),
        ("1\n2\n", "jsonl", "todo.json"),
        ("{}", "json", "log.jsonl"),
    ] {
        let ended = scene.given(
            content,
            &["write", "-q", &format!("file:{name}"), "--format", format],
        );
        assert_eq!(
            (ended.code, scene.text(name).as_str()),
            (0, content),
            "{ended:?}"
        );
    }
}

/// With the feature: `integration/cli/tests/schema.rs`.
#[test]
fn without_the_feature_a_schema_is_refused_before_anything() {
    let scene = Scene::new();
    scene.put("schema.json", "{}");
    scene.put("x.json", "1");
    let update = [
        "update",
        "file:x.json",
        "--schema",
        "schema.json",
        "--",
        "cat",
    ];
    for args in [
        &["write", "file:x.json", "--schema", "schema.json"][..],
        &["append", "file:x.json", "--schema", "schema.json"],
        &["write", "file:x.json", "--schema", "nowhere.json"],
        &update,
    ] {
        let ended = scene.given("2\n", args);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:?}");
        let words = "--schema needs the cargo feature validate-schema, and this beadlock was built without it; build it \
                     with: cargo install --locked --path integration/cli --features validate-schema";
        assert!(ended.err.contains(words), "{ended:?}");
        assert_eq!(
            (scene.text("x.json").as_str(), scene.files().len()),
            ("1", 2)
        );
    }
    for command in ["write", "update", "append"] {
        let help = scene.given("", &[command, "--help"]).out;
        let help: Vec<&str> = help.split_whitespace().collect();
        assert!(
            help.join(" ").contains("--features validate-schema"),
            "{command}"
        );
    }
}

#[test]
fn mode_and_owner_are_the_files_own() {
    let scene = Scene::new();
    scene.put("secret.json", "1");
    let path = scene.path().join("secret.json");
    for mode in [0o600, 0o640, 0o444, 0o4755] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
        if root() {
            std::os::unix::fs::chown(&path, Some(4711), Some(4712)).expect("chown");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
        }
        assert_eq!(
            scene.given("2", &["write", "-q", "file:secret.json"]).code,
            0
        );
        let meta = fs::metadata(&path).expect("it is there");
        assert_eq!(meta.mode() & 0o7777, mode);
        if root() {
            assert_eq!((meta.uid(), meta.gid()), (4711, 4712));
        }
    }
    let mut new = scene.shell("umask 027; exec \"$@\"");
    new.arg("sh")
        .arg(beadlock_tests::binaries::beadlock())
        .args(["write", "-q", "file:new.json"]);
    assert_eq!(with_input(new, b"1").code, 0);
    assert_eq!(
        fs::metadata(scene.path().join("new.json"))
            .expect("new")
            .mode()
            & 0o777,
        0o640
    );
}

#[test]
fn an_owner_that_cannot_be_kept_is_a_refusal() {
    let scene = Scene::new();
    scene.put("todo.json", "1");
    let Some(command) = scene.beadlock_as_mortal(&["write", "file:todo.json"]) else {
        return;
    };
    // Without root there is no file of another user.
    if !root() {
        return;
    }
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o777)).expect("chmod");
    let ended = with_input(command, b"2");
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended
            .err
            .contains("it belongs to UID 0, GID 0; write it as that user"),
        "{ended:?}"
    );
    assert_eq!(
        (
            scene.text("todo.json").as_str(),
            scene.text("todo.json.tmp").as_str()
        ),
        ("1", "(none)")
    );
}

#[test]
fn a_symbolic_link_stays_one() {
    let scene = Scene::new();
    fs::create_dir(scene.path().join("real")).expect("mkdir");
    scene.put("real/todo.json", "1");
    symlink("real/todo.json", scene.path().join("todo.json")).expect("symlink");
    assert_eq!(scene.given("2", &["write", "-q", "file:todo.json"]).code, 0);
    assert!(
        fs::symlink_metadata(scene.path().join("todo.json"))
            .expect("it is there")
            .is_symlink()
    );
    assert_eq!(
        (
            scene.text("real/todo.json").as_str(),
            scene.text("real/todo.json.1").as_str()
        ),
        ("2", "1")
    );
    assert_eq!(
        scene.files(),
        ["real", "todo.json"],
        "lock file and backups are beside the file"
    );
    symlink("real/later.json", scene.path().join("later.json")).expect("symlink");
    assert_eq!(
        scene.given("3", &["write", "-q", "file:later.json"]).code,
        0
    );
    assert_eq!(
        scene.text("real/later.json"),
        "3",
        "where the link leads to"
    );
}

#[test]
fn other_hard_links_keep_the_old_content_and_that_is_said() {
    let scene = Scene::new();
    scene.put("todo.json", "1");
    fs::hard_link(
        scene.path().join("todo.json"),
        scene.path().join("other.json"),
    )
    .expect("link");
    let ended = scene.given("2", &["write", "-q", "file:todo.json"]);
    assert_eq!(ended.code, 0);
    assert!(
        ended
            .err
            .contains("had 1 other hard link: the old content is still there"),
        "{ended:?}"
    );
    assert_eq!(
        (
            scene.text("other.json").as_str(),
            scene.text("todo.json").as_str()
        ),
        ("1", "2")
    );
}

#[test]
fn what_a_crash_has_left_is_gone_after_the_next_operation() {
    for (name, operation) in [
        ("todo.json", &["write", "-q", "file:todo.json"][..]),
        (
            "todo.json",
            &["update", "-q", "file:todo.json", "--", "cat"],
        ),
        ("log.jsonl", &["append", "-q", "file:log.jsonl"]),
    ] {
        let scene = Scene::new();
        scene.put(name, "1\n");
        let stage = format!("{name}.tmp");
        scene.put(&stage, "half");
        assert_eq!(scene.given("2", operation).code, 0);
        assert_eq!(scene.text(&stage), "(none)", "{operation:?}");
    }
}

#[test]
fn in_the_way() {
    let scene = Scene::new();
    scene.put("a.json", "1");
    fs::create_dir(scene.path().join("a.json.tmp")).expect("mkdir");
    scene.put("b.json", "1");
    fs::create_dir(scene.path().join("b.json.1")).expect("mkdir");
    fs::create_dir(scene.path().join("c.json")).expect("mkdir");
    for (name, code, words) in [
        (
            "a.json",
            1,
            "a.json.tmp is a directory; move it out of the way",
        ),
        (
            "b.json",
            1,
            "b.json.1 is a directory; move it out of the way",
        ),
        ("c.json", 2, "is a directory"),
        (
            "nowhere/x.json",
            1,
            "/nowhere does not exist; make it first: mkdir -p /",
        ),
        (
            "~/x.json",
            1,
            "/~ does not exist; a shell leaves a ~ as it is there, so type $HOME for it",
        ),
    ] {
        let ended = scene.given("2", &["write", &format!("file:{name}")]);
        assert_eq!(ended.code, code, "{name}: {ended:?}");
        assert!(ended.err.contains(words), "{name}: {ended:?}");
    }
    assert_eq!(
        (scene.text("a.json").as_str(), scene.text("b.json").as_str()),
        ("1", "1")
    );
    assert_eq!(scene.text("b.json.tmp"), "(none)");
}

#[test]
fn a_name_that_is_as_long_as_a_name_can_be_with_its_lock_file() {
    let scene = Scene::new();
    let name = "n".repeat(255 - ".lock".len());
    for number in ["1", "2"] {
        let ended = scene.given(number, &["write", "-q", &format!("file:{name}")]);
        assert_eq!(
            (ended.code, scene.text(&name).as_str()),
            (0, number),
            "{ended:?}"
        );
    }
    assert_eq!(scene.text(&format!("{name}.1")), "1");
}

#[test]
fn a_directory_that_may_not_be_written_is_named_as_the_reason() {
    let scene = Scene::new();
    scene.put("todo.json", "1");
    scene.put("todo.json.lock", "");
    let Some(command) = scene.beadlock_as_mortal(&["write", "file:todo.json"]) else {
        return;
    };
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o555)).expect("chmod");
    let ended = with_input(command, b"2");
    assert_eq!(
        (ended.code, scene.text("todo.json").as_str()),
        (1, "1"),
        "{ended:?}"
    );
    assert!(
        ended
            .err
            .contains("todo.json.tmp: permission denied; its directory must be writable"),
        "{ended:?}"
    );
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
}

#[test]
fn a_file_system_that_may_not_be_written_is_named_as_the_reason() {
    let scene = Scene::new();
    scene.put("todo.json", "1\n");
    scene.put("todo.json.lock", "");
    let script = "mount --bind . . && cd \"$PWD\" && mount -o remount,bind,ro . || exit 99
        echo 2 | $BEADLOCK write file:todo.json; echo $?; echo 2 | $BEADLOCK append file:todo.json; echo $?
        $BEADLOCK hold -q file:todo.json -- cat todo.json";
    let Some(command) = scene.in_namespaces(&["--mount"], script) else {
        return;
    };
    let ended = beadlock_tests::Ended::from(beadlock_tests::run(command));
    assert_eq!(ended.out, "1\n1\n1\n", "{ended:?}");
    assert!(
        ended
            .err
            .contains("todo.json.tmp: read-only file system; its directory must be writable"),
        "{ended:?}"
    );
    assert!(
        ended.err.contains("failed to open") && ended.err.contains("todo.json: read-only"),
        "{ended:?}"
    );
}

#[test]
fn usage() {
    let scene = Scene::new();
    for (words, code, said) in [
        (
            &["write"][..],
            2,
            "no file; name one: beadlock write file:todo.json",
        ),
        (
            &["write", "todo.json"],
            2,
            "name a file: beadlock write file:todo.json",
        ),
        (
            &["write", "tower:x"],
            2,
            "name a file: beadlock write file:todo.json",
        ),
        (
            &["update", "file:x.json"],
            2,
            "type: beadlock update file:PATH -- CMD",
        ),
        (
            &["update", "file:x.json", "cat"],
            2,
            "did you mean: beadlock update file:x.json -- cat",
        ),
        (
            &["append", "file:x.json", "--format", "json"],
            2,
            "--format jsonl",
        ),
    ] {
        let ended = scene.given("{}", words);
        assert_eq!(ended.code, code, "{words:?}: {ended:?}");
        assert!(ended.err.contains(said), "{words:?}: {ended:?}");
    }
    assert!(scene.files().is_empty());
    let mut found = scene.beadlock(&["write", "-q"]);
    found.env("BEADLOCK_TARGET", "file:of-variable.json");
    assert_eq!(with_input(found, b"1").code, 0);
    assert_eq!(scene.text("of-variable.json"), "1");
}

#[test]
fn waits_for_the_lock_without_what_it_reads() {
    let scene = Scene::new();
    let lock_file = fs::File::create(scene.path().join("todo.json.lock")).expect("a lock file");
    let held = Flock::lock(lock_file, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| errno)
        .expect("free");
    for (wait, words) in [
        (
            &["--wait", "200ms"][..],
            "Failed to acquire lock (timeout after 0.2s)",
        ),
        (
            &["--no-wait"],
            "Cannot acquire lock on todo.json (another process may be active)",
        ),
    ] {
        let ended = scene.given("1", &[&["write", "file:todo.json"][..], wait].concat());
        assert!(ended.code == 8 && ended.err.contains(words), "{ended:?}");
        let ended = scene.given("1", &[&["append", "file:todo.json"][..], wait].concat());
        assert!(ended.code == 8 && ended.err.contains(words), "{ended:?}");
        let ended = scene.run(&[&["update", "file:todo.json"][..], wait, &["--", "cat"]].concat());
        assert!(ended.code == 8 && ended.err.contains(words), "{ended:?}");
    }
    let other = scene.given("1", &["write", "-q", "file:other.json", "--no-wait"]);
    assert_eq!(other.code, 0, "another file is another lock: {other:?}");
    let invalid = scene.given("{", &["write", "file:todo.json"]);
    assert_eq!(invalid.code, 1, "said without a wait: {invalid:?}");
    scene.put("new", "2");
    let mut waiting = scene.beadlock(&["write", "-q", "file:todo.json"]);
    waiting.stdin(fs::File::open(scene.path().join("new")).expect("there"));
    let mut waiting = Running::start(waiting);
    let lock = fs::canonicalize(scene.path().join("todo.json.lock")).expect("there");
    wait_until(PATIENCE, "it has the lock file open", || {
        let fds = fs::read_dir(format!("/proc/{}/fd", waiting.pid()))
            .into_iter()
            .flatten()
            .flatten();
        fds.map(|fd| fs::read_link(fd.path()))
            .any(|path| path.is_ok_and(|path| path == lock))
    });
    assert_eq!(scene.text("todo.json"), "(none)");
    drop(held);
    assert!(waiting.wait(PATIENCE).success());
    assert_eq!(scene.text("todo.json"), "2");
}

#[test]
fn a_slow_writer_keeps_nobody_waiting() {
    let scene = Scene::new();
    scene.put("todo.json", "0");
    // The content of the first comes only when the second has written: were the lock taken first, both would wait.
    let script = format!(
        "(echo 1 | {0} write -q file:todo.json; echo 2) | {0} write -q file:todo.json --wait 5s",
        beadlock_tests::binaries::beadlock().display()
    );
    let ended = beadlock_tests::Ended::from(beadlock_tests::run(scene.shell(&script)));
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(
        (
            scene.text("todo.json").as_str(),
            scene.text("todo.json.1").as_str()
        ),
        ("2\n", "1\n")
    );
}

#[test]
fn fifty_at_once_and_each_reader_sees_whole_json() {
    let scene = Scene::new();
    scene.put("todo.json", "{\"n\":0}");
    let long = "x".repeat(20_000);
    let writers: Vec<Running> = (1..=50)
        .map(|number| {
            scene.put(
                &format!("new-{number}"),
                format!("{{\"n\":{number},\"long\":\"{long}\"}}"),
            );
            let mut writer = scene.beadlock(&["write", "-q", "file:todo.json", "--wait", "60s"]);
            let file = fs::File::open(scene.path().join(format!("new-{number}"))).expect("there");
            writer.stdin(file);
            Running::start(writer)
        })
        .collect();
    let mut seen = 0;
    for mut writer in writers {
        while writer.is_running() {
            let value: serde_json::Value =
                serde_json::from_str(&scene.text("todo.json")).expect("whole JSON");
            assert!(value["n"].is_u64());
            seen += 1;
        }
        assert!(writer.wait(PATIENCE).success());
    }
    assert!(seen > 0);
    assert!(
        !scene.files().contains(&"todo.json.tmp".to_owned()),
        "{:?}",
        scene.files()
    );
}

#[test]
fn the_audit_has_what_happened_to_the_lock() {
    let scene = Scene::new();
    let audited = |input: &str, args: &[&str]| {
        scene
            .given(input, &[args, &["--audit", "audit.jsonl"]].concat())
            .code
    };
    assert_eq!(audited("1", &["write", "-q", "file:todo.json"]), 0);
    assert_eq!(audited("1", &["append", "-q", "file:todo.json"]), 0);
    let events = || {
        let event = |line: &str| {
            serde_json::from_str::<serde_json::Value>(line).expect("JSON")["event"].to_string()
        };
        scene
            .text("audit.jsonl")
            .lines()
            .map(event)
            .collect::<Vec<_>>()
    };
    let (acquired, released) = ("\"lock_acquired\"", "\"lock_released\"");
    assert_eq!(events(), [acquired, released, acquired, released]);
}

#[test]
fn a_lock_that_is_lost_meanwhile_is_no_lock() {
    let scene = Scene::new();
    scene.put("todo.json", "1");
    for script in [
        "rm todo.json.lock; echo 2",
        "mv todo.json.lock x; : > todo.json.lock; echo 2",
    ] {
        let ended = scene.run(&["update", "file:todo.json", "--", "sh", "-c", script]);
        assert_eq!(ended.code, 9, "{ended:?}");
        assert_eq!(
            (
                scene.text("todo.json").as_str(),
                scene.text("todo.json.1").as_str()
            ),
            ("1", "(none)")
        );
        assert_eq!(scene.text("todo.json.tmp"), "(none)");
    }
    let others = "rm todo.json.lock; echo 3 > todo.json.tmp; echo 2";
    let ended = scene.run(&["update", "file:todo.json", "--", "sh", "-c", others]);
    assert_eq!(
        ended.code, 9,
        "whose work is in the way is not the reason: {ended:?}"
    );
    assert_eq!(
        (
            scene.text("todo.json").as_str(),
            scene.text("todo.json.tmp").as_str()
        ),
        ("1", "3\n")
    );
}

#[test]
fn a_lock_that_is_lost_while_it_is_written_is_said() {
    let Some(strace) = tool("strace") else { return };
    let scene = Scene::new();
    scene.put("todo.json", "1");
    scene.put("new", "2");
    let mut command = scene.command(strace);
    // It is long on its way back from the rename.
    command.args([
        "-f",
        "-o",
        "/dev/null",
        "-e",
        "inject=renameat:delay_exit=2000000:when=1",
    ]);
    command
        .arg(beadlock_tests::binaries::beadlock())
        .args(["write", "file:todo.json"]);
    command.stdin(fs::File::open(scene.path().join("new")).expect("there"));
    let writing = Running::start(command);
    wait_until(PATIENCE, "it is renamed", || scene.text("todo.json") == "2");
    fs::remove_file(scene.path().join("todo.json.lock")).expect("it is there");
    let ended = beadlock_tests::Ended::from(writing.finish(PATIENCE));
    assert_eq!(ended.code, 9, "{ended:?}");
    assert!(
        ended.err.contains("error: wrote ") && ended.err.contains(".lock vanished"),
        "{ended:?}"
    );
}
