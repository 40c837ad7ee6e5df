//! What is printed of a claim: fit for a shell, for a file of variables and for programs, or there is no claim.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Stdio;

use beadlock_testkit::{Running, has_program, until};

use super::{Printed, keepers};

/// As the README has it: what is not exported reaches neither the hold nor the release.
#[test]
fn what_is_exported_reaches_hold_and_release() {
    let scene = crate::a_scene();
    let script = |eval: &str| {
        let script = format!(
            "claim=$(\"$BEADLOCK\" acquire -q) || exit 3; {eval}; \"$BEADLOCK\" hold -q --no-wait -- true || exit 4; \
             \"$BEADLOCK\" release -q"
        );
        Running::apart(scene.shell(&script)).end()
    };
    script("set -a; eval \"$claim\"; set +a").expect(0, &[]);
    assert!(scene.names().is_empty());
    script("eval \"$claim\"").expect(0, &[]);
    assert!(scene.names().is_empty());
    script("eval \"${claim#export }\"; unset BEADLOCK_ID").expect(4, &["is held by "]);
}

/// Whatever the directory is called, the lines are three, and both a shell and a file of variables lead back to it.
#[test]
fn odd_names_survive_a_shell_and_a_file_of_variables() {
    let scene = crate::a_scene();
    let names: [&[u8]; 7] = [
        b"plain",
        b"a b",
        b"it's 'q'",
        b"$(touch x)`touch y`\"z\\ #&;*",
        "sch\u{f6}n\u{202e}\u{2028}".as_bytes(),
        b"\xff\xfe.\xc3",
        b"a\nb\tc\x1b[2J\x7f",
    ];
    for name in names {
        let (name, shown) = (
            OsStr::from_bytes(name),
            String::from_utf8_lossy(name).escape_debug().to_string(),
        );
        let has_control = name.as_bytes().iter().any(u8::is_ascii_control);
        let dir = scene.path().join(name).join(".beads");
        fs::create_dir_all(&dir).unwrap();
        let claim = || {
            let mut command = scene.beadlock(&["acquire", "-q"]);
            let output = command.arg(&dir).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{shown}: {output:?}");
            fs::write(scene.file("out"), &output.stdout).unwrap();
            let lines: Vec<Vec<u8>> = output
                .stdout
                .split(|byte| *byte == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            assert_eq!(lines.len(), 4, "{shown}");
            let value =
                |at: usize, name: &str| lines[at].strip_prefix(name.as_bytes()).unwrap().to_vec();
            let id = value(1, "export BEADLOCK_ID='");
            (
                OsString::from_vec(value(0, "export BEADLOCK_TARGET=")),
                OsString::from_vec(id.strip_suffix(b"'").unwrap().to_vec()),
            )
        };
        // Of the shells only some know what a line break in a name takes.
        let shell = if has_control { "bash" } else { "sh" };
        if has_program(shell) {
            claim();
            let script = "eval \"$(cat out)\"; export BEADLOCK_TARGET BEADLOCK_ID; cd / && exec \"$BEADLOCK\" release -q";
            fs::write(scene.file("script"), script).unwrap();
            let ended = Running::apart(scene.shell(&format!("exec {shell} ./script"))).end();
            assert_eq!(
                (ended.code, ended.err.as_str()),
                (0, ""),
                "{shown}: {ended:?}"
            );
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{shown}");
        }
        let (target, id) = claim();
        let command = |args: &[&str]| {
            let mut command = scene.beadlock(args);
            command
                .current_dir("/")
                .env("BEADLOCK_TARGET", &target)
                .env("BEADLOCK_ID", &id);
            Running::apart(command).end()
        };
        command(&["check"]).expect(4, &[]);
        command(&["hold", "-q", "--", "true"]).expect(0, &[]);
        assert_eq!(
            fs::read_dir(&dir).unwrap().count(),
            1,
            "{shown}: the nested one released it"
        );
        // `release "$BEADLOCK_TARGET"`: typed it comes with its quotes too.
        let mut release = scene.beadlock(&["release", "-q"]);
        release
            .arg(&target)
            .current_dir("/")
            .env("BEADLOCK_ID", &id);
        Running::apart(release).end().expect(0, &[]);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{shown}");
    }
    assert!(!scene.file("x").exists() && !scene.file("y").exists());
}

#[test]
fn a_redirect_is_followed_and_the_name_leads_there_again() {
    let scene = crate::a_scene();
    let other = scene.file("other/.beads");
    fs::create_dir_all(&other).unwrap();
    fs::write(scene.beads().join("redirect"), "other/.beads\n").unwrap();
    let printed = Printed::of(&scene.run(&["acquire", "-q"]).expect(0, &[]));
    assert!(other.join(".exclusive-lock").exists() && !scene.lock().exists());
    let mut release = scene.beadlock(&["release"]);
    release
        .current_dir("/")
        .env("BEADLOCK_TARGET", &printed.target)
        .env("BEADLOCK_ID", &printed.id);
    Running::apart(release).end().expect(0, &["released "]);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
}

#[test]
fn json_and_the_report_have_the_claim() {
    let scene = crate::a_scene();
    let ended = scene
        .run(&["acquire", "--json", "--holder", "ci", "--report", "report"])
        .expect(0, &["claimed"]);
    let json = ended.json();
    assert_eq!(ended.out.lines().count(), 1);
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    let (data, written) = (
        &json["data"],
        &serde_json::from_str::<serde_json::Value>(&scene.read("report")).unwrap(),
    );
    assert_eq!(
        (&json["ok"], &json["error"]),
        (&true.into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&data["target"], &data["holder"]),
        (&"beads:.beads".into(), &"ci".into())
    );
    assert_eq!(
        (&data["id"], &data["pid"]),
        (&record["beadlock"]["id"], &record["pid"])
    );
    assert_eq!(
        (&data["nested"], &data["released"], data),
        (&false.into(), &false.into(), &written["data"])
    );
    let ended = scene
        .run(&["acquire", "--json", "--no-wait", "--report", "report"])
        .expect(4, &["is held by ci"]);
    let (json, written) = (
        ended.json(),
        serde_json::from_str::<serde_json::Value>(&scene.read("report")).unwrap(),
    );
    assert_eq!(
        (&json["ok"], &json["data"]),
        (&false.into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&json["error"]["code"], &json["error"]),
        (&"LOCK_HELD".into(), &written["error"])
    );
}

/// A caller that cannot be told of the claim could not release it.
#[test]
fn what_cannot_be_printed_is_not_claimed() {
    let scene = crate::a_scene();
    for words in [&[][..], &["--json"], &["--detach"]] {
        let words = [&["acquire"], words].concat();
        for kind in ["full", "closed", "unread"] {
            let mut command = match kind {
                "closed" => scene.shell(&format!("exec \"$BEADLOCK\" {} >&-", words.join(" "))),
                _ => scene.beadlock(&words),
            };
            match kind {
                "full" => {
                    let _ = command.stdout(File::options().write(true).open("/dev/full").unwrap());
                }
                "unread" => drop(command.stdout(std::io::pipe().unwrap().1)),
                _ => {}
            }
            let output = command.stderr(Stdio::piped()).output().unwrap();
            let ended = beadlock_testkit::Ended::of(&output);
            ended.expect(1, &["failed to write to stdout, so nothing is claimed: "]);
            assert!(
                scene.names().is_empty(),
                "{words:?} {kind}: {:?}",
                scene.names()
            );
            until("the keeper is gone", || keepers(&scene).is_empty());
        }
    }
}

/// The trail that was asked for comes first.
#[test]
fn a_report_or_an_audit_that_cannot_be_is_said() {
    let scene = crate::a_scene();
    std::os::unix::fs::symlink("elsewhere", scene.file("link")).unwrap();
    let ended = scene
        .run(&["acquire", "--audit", "link"])
        .expect(1, &["the audit file", "is a symbolic link"]);
    assert_eq!((ended.out.as_str(), scene.names().len()), ("", 0));
    let ended = scene.run(&["acquire", "--report", "link"]).expect(
        1,
        &["the report link cannot be written", "nothing is claimed"],
    );
    assert_eq!((ended.out.as_str(), scene.names().len()), ("", 0));
    assert!(!scene.file("elsewhere").exists());
}
