//! A claim that spans several commands: whose it is, what is printed of it, and every way it does not come to be.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use beadlock_checker::Gate;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{
    Ended, Running, Scene, as_nobody, children, dead_pid, has_program, lives, this_host, until,
};

/// What names a claim, as it was printed: three lines and nothing else.
#[derive(Debug)]
pub struct Printed {
    pub target: String,
    pub id: String,
    pub pid: i32,
}

impl Printed {
    #[track_caller]
    pub fn of(ended: &Ended) -> Self {
        let names = ["BEADLOCK_TARGET=", "BEADLOCK_ID=", "BEADLOCK_PID="];
        let values: Vec<&str> =
            ended.out.lines().zip(names).filter_map(|(line, name)| line.strip_prefix(name)).collect();
        let [target, id, pid] = values[..] else { panic!("{ended:?}") };
        assert_eq!((ended.out.lines().count(), ended.out.ends_with('\n')), (3, true), "{ended:?}");
        Self { target: target.to_owned(), id: id.to_owned(), pid: pid.parse().unwrap() }
    }
}

/// The keepers of this scene.
pub fn keepers(scene: &Scene) -> Vec<i32> {
    let marker = format!("SCENE={}", scene.path().display());
    let has = |pid: i32, file: &str, wanted: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| has(*pid, "cmdline", "__keep") && has(*pid, "environ", &marker)).collect()
}

/// A sleeping process, killed and reaped at the end.
pub struct Sleeper(std::process::Child);

impl Sleeper {
    pub fn start() -> Self {
        Self(Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().unwrap())
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_script_is_meant_however_deep_in_it_the_call_is() {
    let forms = [
        r#""$BEADLOCK" acquire -q > out"#,
        r#"echo "$("$BEADLOCK" acquire -q)" > out"#,
        r#"echo "$("$BEADLOCK" acquire -q || exit 1)" > out"#,
        r#""$BEADLOCK" acquire -q | cat > out"#,
        r#"f() { "$BEADLOCK" acquire -q; }; x=$(f); echo "$x" > out"#,
        r#"( ( "$BEADLOCK" acquire -q; : ) ) > out"#,
        r#"x=$(echo "$("$BEADLOCK" acquire -q || :)" | cat); echo "$x" > out"#,
        r#""$BEADLOCK" acquire -q > out & wait"#,
        r#"eval "$("$BEADLOCK" acquire -q)"; env > all; set | grep ^BEADLOCK_ > out"#,
    ];
    let scene = Scene::new();
    for shell in ["/bin/sh", "/bin/dash", "/bin/bash"].into_iter().filter(|shell| Path::new(shell).exists()) {
        for form in forms {
            let script = format!(
                "{form}\n. ./out\ntest \"$BEADLOCK_PID\" = $$ || exit 3\n\
                 grep -q \"\\\"pid\\\": $$,\" .beads/.exclusive-lock || exit 4\n\
                 \"$BEADLOCK\" release -q --id \"$BEADLOCK_ID\" || exit 5\nexit 0\n"
            );
            fs::write(scene.file("script"), script).unwrap();
            let ended = Running::start(scene.shell(&format!("exec {shell} ./script"))).finish();
            assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{shell}: {form}: {ended:?}");
            assert!(scene.names().is_empty(), "{shell}: {form}");
        }
    }
}

#[test]
fn for_a_program_that_is_no_shell_it_is_exactly_the_parent() {
    if !has_program("python3") {
        return;
    }
    let scene = Scene::new();
    let script = "import os, subprocess\n\
        def pid():\n    \
            out = subprocess.check_output([os.environ['BEADLOCK'], 'acquire', '-q'], text=True)\n    \
            values = dict(line.split('=', 1) for line in out.splitlines())\n    \
            subprocess.check_call([os.environ['BEADLOCK'], 'release', '-q', '--id', values['BEADLOCK_ID']])\n    \
            return int(values['BEADLOCK_PID'])\n\
        assert pid() == os.getpid()\n\
        child = os.fork()\n\
        if child == 0:\n    \
            os._exit(0 if pid() == os.getpid() else 1)\n\
        assert os.waitpid(child, 0)[1] == 0\n";
    fs::write(scene.file("script"), script).unwrap();
    let ended = Running::start(scene.shell("exec python3 script")).finish();
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
}

/// Nobody is wedged by a script that was killed.
#[test]
fn a_killed_script_leaves_a_lock_that_is_stale_at_once() {
    let scene = Scene::new();
    let script =
        "eval \"$(\"$BEADLOCK\" acquire -q --holder deploy)\"; echo > ready; while :; do sleep 0.01; done";
    for next in [&["hold", "--wait", "1h", "--", "touch", "ran"][..], &["check"]] {
        let holding = Running::start(scene.shell(script));
        until("it is claimed", || scene.file("ready").exists());
        fs::write(scene.file("ready"), "").unwrap();
        scene.run(&["check"]).expect(4, &[]);
        let waiting = (next[0] == "hold").then(|| {
            let waiting = Running::start(scene.command(next));
            until("it waits", || waiting.err().contains("waiting"));
            waiting
        });
        holding.signal(Signal::SIGKILL);
        holding.finish().expect(137, &[]);
        match waiting {
            Some(waiting) => {
                waiting.finish().expect(0, &["removed stale lock of deploy (PID ", ", pid_gone)"]);
            }
            None => {
                let ended = scene.run(next).expect(0, &[]);
                assert_eq!(ended.out, "Removed stale lock (deploy), proceeding with sync\n");
            }
        }
        assert!(scene.names().is_empty());
        let _ = Running::start(scene.shell("rm ready")).finish();
    }
}

#[test]
fn a_process_that_is_named_is_the_one_that_the_claim_is_for() {
    let scene = Scene::new();
    let sleeper = Sleeper::start();
    let ended = scene.run(&["acquire", "--for", &sleeper.pid()]);
    let words =
        format!("claimed .beads for sleep (PID {}), for as long as that process lives\n", sleeper.pid());
    let printed = Printed::of(&ended.expect(0, &[&words]));
    let record: serde_json::Value = serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    assert_eq!(record["pid"], printed.pid);
    assert_eq!(
        (&record["holder"], &record["beadlock"]["id"]),
        (&"sleep".into(), &printed.id.as_str().into())
    );
    assert_eq!(scene.run(&["check"]).expect(4, &[]).out, "Skipping database (locked by sleep)\n");
    drop(sleeper);
    let ended = scene.run(&["check"]).expect(0, &[]);
    assert_eq!(ended.out, "Removed stale lock (sleep), proceeding with sync\n");
    for pid in ["0", "-1", "-2147483648", "x", "4294967296"] {
        let ended = scene.run(&["acquire", &format!("--for={pid}")]).expect(2, &[pid]);
        assert_eq!(ended.out, "");
    }
    let mut zombie = Command::new("true").spawn().unwrap();
    let number = zombie.id().to_string();
    until("it has ended", || !lives(zombie.id().cast_signed()));
    scene.run(&["acquire", "--for", &number]).expect(1, &[&format!("PID {number} is gone")]);
    zombie.wait().unwrap();
    let gone = dead_pid().to_string();
    scene.run(&["acquire", "--for", &gone]).expect(1, &[&format!("PID {gone} is gone")]);
    assert!(scene.names().is_empty());
}

#[test]
fn a_process_of_another_user_is_alive_too() {
    let scene = Scene::new();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o777)).unwrap();
    let me = std::process::id().to_string();
    let mut command = scene.command(&["acquire", "--for", &me]);
    if !as_nobody(&mut command) {
        return;
    }
    let printed = Printed::of(&Running::start(command).finish().expect(0, &[]));
    assert_eq!(printed.pid.to_string(), me);
    let mut check = scene.command(&["check", "--json"]);
    as_nobody(&mut check);
    let json = Running::start(check).finish().expect(4, &[]).json();
    assert_eq!(json["data"][0]["reason"], "pid_not_permitted", "{json}");
    let mut release = scene.command(&["release", "--id", &printed.id]);
    as_nobody(&mut release);
    Running::start(release).finish().expect(0, &["released .beads"]);
    assert!(scene.names().is_empty());
}

#[test]
fn a_caller_that_is_not_to_be_seen_must_be_named() {
    let scene = Scene::new();
    let unshare = |script: &str| scene.shell(&format!("exec unshare --pid --fork {script}"));
    if Running::start(unshare("true")).finish().code != 0 {
        eprintln!("skipped: no PID namespace for us");
        return;
    }
    Running::start(unshare("\"$BEADLOCK\" acquire")).finish().expect(
        2,
        &["the process that called is not of this PID namespace; name the one", "--for PID, or --detach"],
    );
    assert!(scene.names().is_empty());
}

/// As the README has it: what is not exported reaches neither the hold nor the release.
#[test]
fn what_is_exported_reaches_hold_and_release() {
    let scene = Scene::new();
    let script = |eval: &str| {
        let script = format!(
            "claim=$(\"$BEADLOCK\" acquire -q) || exit 3; {eval}; \"$BEADLOCK\" hold -q --no-wait -- true || exit 4; \
             \"$BEADLOCK\" release -q"
        );
        Running::start(scene.shell(&script)).finish()
    };
    script("set -a; eval \"$claim\"; set +a").expect(0, &[]);
    assert!(scene.names().is_empty());
    script("eval \"$claim\"").expect(4, &["is held by "]);
}

/// Whatever the directory is called, the lines are three, and both a shell and a file of variables lead back to it.
#[test]
fn odd_names_survive_a_shell_and_a_file_of_variables() {
    let scene = Scene::new();
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
        let (name, shown) =
            (OsStr::from_bytes(name), String::from_utf8_lossy(name).escape_debug().to_string());
        let has_control = name.as_bytes().iter().any(u8::is_ascii_control);
        let dir = scene.path().join(name).join(".beads");
        fs::create_dir_all(&dir).unwrap();
        let claim = || {
            let mut command = scene.command(&["acquire", "-q"]);
            let output = command.arg(&dir).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{shown}: {output:?}");
            fs::write(scene.file("out"), &output.stdout).unwrap();
            let lines: Vec<Vec<u8>> =
                output.stdout.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            assert_eq!(lines.len(), 4, "{shown}");
            let value = |at: usize, name: &str| lines[at].strip_prefix(name.as_bytes()).unwrap().to_vec();
            (OsString::from_vec(value(0, "BEADLOCK_TARGET=")), OsString::from_vec(value(1, "BEADLOCK_ID=")))
        };
        // Of the shells only some know what a line break in a name takes.
        let shell = if has_control { "/bin/bash" } else { "/bin/sh" };
        if Path::new(shell).exists() {
            claim();
            let script = "eval \"$(cat out)\"; export BEADLOCK_TARGET BEADLOCK_ID; cd / && exec \"$BEADLOCK\" release -q";
            fs::write(scene.file("script"), script).unwrap();
            let ended = Running::start(scene.shell(&format!("exec {shell} ./script"))).finish();
            assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{shown}: {ended:?}");
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{shown}");
        }
        let (target, id) = claim();
        let command = |args: &[&str]| {
            let mut command = scene.command(args);
            command.current_dir("/").env("BEADLOCK_TARGET", &target).env("BEADLOCK_ID", &id);
            Running::start(command).finish()
        };
        command(&["check"]).expect(4, &[]);
        command(&["hold", "-q", "--", "true"]).expect(0, &[]);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "{shown}: the nested one released it");
        // `release "$BEADLOCK_TARGET"`: typed it comes with its quotes too.
        let mut release = scene.command(&["release", "-q"]);
        release.arg(&target).current_dir("/").env("BEADLOCK_ID", &id);
        Running::start(release).finish().expect(0, &[]);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{shown}");
    }
    assert!(!scene.file("x").exists() && !scene.file("y").exists());
}

#[test]
fn a_redirect_is_followed_and_the_name_leads_there_again() {
    let scene = Scene::new();
    let other = scene.file("other/.beads");
    fs::create_dir_all(&other).unwrap();
    fs::write(scene.beads().join("redirect"), "other/.beads\n").unwrap();
    let printed = Printed::of(&scene.run(&["acquire", "-q"]).expect(0, &[]));
    assert!(other.join(".exclusive-lock").exists() && !scene.lock().exists());
    let mut release = scene.command(&["release"]);
    release.current_dir("/").env("BEADLOCK_TARGET", &printed.target).env("BEADLOCK_ID", &printed.id);
    Running::start(release).finish().expect(0, &["released "]);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
}

#[test]
fn json_and_the_report_have_the_claim() {
    let scene = Scene::new();
    let ended =
        scene.run(&["acquire", "--json", "--holder", "ci", "--report", "report"]).expect(0, &["claimed"]);
    let json = ended.json();
    assert_eq!(ended.out.lines().count(), 1);
    let record: serde_json::Value = serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    let (data, written) =
        (&json["data"], &serde_json::from_str::<serde_json::Value>(&scene.read("report")).unwrap());
    assert_eq!((&json["ok"], &json["error"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!((&data["target"], &data["holder"]), (&"beads:.beads".into(), &"ci".into()));
    assert_eq!((&data["id"], &data["pid"]), (&record["beadlock"]["id"], &record["pid"]));
    assert_eq!((&data["nested"], &data["released"], data), (&false.into(), &false.into(), &written["data"]));
    let ended =
        scene.run(&["acquire", "--json", "--no-wait", "--report", "report"]).expect(4, &["is held by ci"]);
    let (json, written) =
        (ended.json(), serde_json::from_str::<serde_json::Value>(&scene.read("report")).unwrap());
    assert_eq!((&json["ok"], &json["data"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!((&json["error"]["code"], &json["error"]), (&"LOCK_HELD".into(), &written["error"]));
}

/// Who cannot be told of the claim could not release it.
#[test]
fn what_cannot_be_printed_is_not_claimed() {
    let scene = Scene::new();
    for words in [&[][..], &["--json"], &["--detach"]] {
        let words = [&["acquire"], words].concat();
        for kind in ["full", "closed", "unread"] {
            let mut command = match kind {
                "closed" => scene.shell(&format!("exec \"$BEADLOCK\" {} >&-", words.join(" "))),
                _ => scene.command(&words),
            };
            match kind {
                "full" => drop(command.stdout(File::options().write(true).open("/dev/full").unwrap())),
                "unread" => drop(command.stdout(std::io::pipe().unwrap().1)),
                _ => {}
            }
            let output = command.stderr(Stdio::piped()).output().unwrap();
            let ended = crate::support::ended(&output);
            ended.expect(1, &["failed to write to stdout, so nothing is claimed: "]);
            assert!(scene.names().is_empty(), "{words:?} {kind}: {:?}", scene.names());
            until("the keeper is gone", || keepers(&scene).is_empty());
        }
    }
}

#[test]
fn every_wrong_word_is_exit_2_and_nothing_is_claimed() {
    let scene = Scene::new();
    for (args, word) in [
        (&["--for", "1", "--detach"][..], "--detach"),
        (&["--max-hold", "5s"], "--detach"),
        (&["--max-hold", "5s", "--for", "1"], "--max-hold"),
        (&["--detach", "--max-hold", "0"], "--max-hold"),
        (&["--detach", "--max-hold", "soon"], "is no duration"),
        (&["--holder", "a\nb"], r"a\nb"),
        (&["tower:x"], "unknown scheme"),
        (&[".", "x"], "x"),
        (&["--", "make", "release"], "release"),
        (&["--wait", "soon"], "is no duration"),
        (&["--on-loss", "warn"], "--on-loss"),
    ] {
        let ended = scene.run(&[&["acquire"], args].concat()).expect(2, &[word]);
        assert_eq!(ended.out, "", "{args:?}");
        scene.run(&[&["acquire", "--own-exit-code", "99"], args].concat()).expect(99, &[word]);
    }
    assert!(scene.names().is_empty());
}

#[test]
fn a_claim_that_cannot_be_had_says_why_and_touches_nothing() {
    let scene = Scene::new();
    let me = i64::from(std::process::id());
    scene.write_lock("vc", me, &this_host());
    let before = fs::read(scene.lock()).unwrap();
    for words in [&[][..], &["--detach"]] {
        let run = |more: &[&str]| scene.run(&[&["acquire"], words, more].concat());
        let ended = run(&["--wait", "100ms"]).expect(4, &["is held by vc (PID ", "gave up after 100ms"]);
        assert_eq!(ended.out, "");
        run(&["--no-wait", "--conflict-exit-code", "75"]).expect(75, &["did not wait"]);
        run(&["--no-wait", "--own-exit-code", "99"]).expect(99, &[]);
        let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
        let ended = run(&["--drain", "100ms", "--json"]).expect(4, &["the gate did not open within 100ms"]);
        assert_eq!(ended.json()["error"]["code"], "DRAIN_TIMEOUT");
        drop(gate);
        run(&["nowhere"]).expect(1, &["nowhere"]);
        assert!(keepers(&scene).is_empty());
    }
    assert_eq!(fs::read(scene.lock()).unwrap(), before);
    fs::write(scene.lock(), "").unwrap();
    let ended = scene.run(&["acquire", "--json"]).expect(5, &["malformed lock file"]);
    assert_eq!(ended.json()["error"]["code"], "LOCK_UNREADABLE");
    assert_eq!((fs::read(scene.lock()).unwrap(), scene.names().len()), (Vec::new(), 1));
}

#[test]
fn a_signal_ends_the_wait() {
    let scene = Scene::new();
    scene.write_lock("vc", i64::from(std::process::id()), &this_host());
    let before = fs::read(scene.lock()).unwrap();
    for (signal, code, died) in
        [(Signal::SIGTERM, 143, None), (Signal::SIGHUP, 129, None), (Signal::SIGINT, 130, Some(2))]
    {
        for words in [&["acquire", "--wait", "1h"][..], &["acquire", "--wait", "1h", "--detach"]] {
            let waiting = Running::start(scene.command(words));
            until("it waits", || waiting.err().contains("waiting"));
            let below = children(waiting.pid());
            waiting.signal(signal);
            let ended = waiting.finish().expect(code, &["nothing is claimed"]);
            assert_eq!((ended.signal, ended.out.as_str()), (died, ""), "{words:?}");
            until("the keeper is gone", || !below.iter().any(|pid| lives(*pid)));
        }
    }
    assert_eq!(fs::read(scene.lock()).unwrap(), before);
}

#[test]
fn a_keeper_that_is_killed_while_it_waits_is_said() {
    let scene = Scene::new();
    scene.write_lock("vc", i64::from(std::process::id()), &this_host());
    let waiting = Running::start(scene.command(&["acquire", "--wait", "1h", "--detach"]));
    until("it waits", || waiting.err().contains("waiting"));
    let [keeper] = children(waiting.pid())[..] else { panic!("one keeper") };
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    waiting.finish().expect(1, &["the keeper was killed before there was a claim to keep"]);
}

/// Crash it anywhere: what is there then is a whole record of a living process or nothing, and the next one works.
#[test]
fn a_crash_at_any_moment_wedges_nobody() {
    let scene = Scene::new();
    for round in 0..24_u64 {
        let sleeper = Sleeper::start();
        let pid = sleeper.pid();
        let words = if round % 2 == 0 { vec!["--detach", "--max-hold", "1h"] } else { vec!["--for", &pid] };
        let running = Running::start(scene.command(&[&["acquire", "-q"], words.as_slice()].concat()));
        std::thread::sleep(Duration::from_micros(1500 * round));
        running.signal(Signal::SIGKILL);
        let ended = running.finish();
        assert!([0, 137].contains(&ended.code), "{round}: {ended:?}");
        drop(sleeper);
        let was_told = ended.out.lines().count() == 3;
        if was_told {
            // All was said: by whoever was told it can be released, if the keeper has not seen it first.
            let printed = Printed::of(&ended);
            scene.run(&["release", "-q", "--id", &printed.id]).expect(0, &[]);
        }
        scene.run(&["hold", "-q", "--wait", "20s", "--", "true"]).expect(0, &[]);
        assert!(scene.names().is_empty(), "{round}: {:?}", scene.names());
        until("the keeper is gone", || keepers(&scene).is_empty());
    }
}

/// With eight at once, for every way to claim.
#[test]
fn of_many_at_once_exactly_one_has_it() {
    let scene = Scene::new();
    for words in [&["acquire", "-q", "--wait", "0"][..], &["acquire", "-q", "--wait", "0", "--detach"]] {
        let contenders: Vec<Running> = (0..8).map(|_| Running::start(scene.command(words))).collect();
        let ended: Vec<Ended> = contenders.into_iter().map(Running::finish).collect();
        let (winners, losers): (Vec<&Ended>, Vec<&Ended>) = ended.iter().partition(|ended| ended.code == 0);
        let [winner] = winners[..] else { panic!("{ended:?}") };
        assert!(losers.iter().all(|loser| loser.code == 4 && loser.out.is_empty()), "{losers:?}");
        scene.run(&["release", "-q", "--id", &Printed::of(winner).id]).expect(0, &[]);
        assert!(scene.names().is_empty(), "{:?}", scene.names());
        until("the keepers are gone", || keepers(&scene).is_empty());
    }
}

/// The trail that was asked for comes first.
#[test]
fn a_report_or_an_audit_that_cannot_be_is_said() {
    let scene = Scene::new();
    std::os::unix::fs::symlink("elsewhere", scene.file("link")).unwrap();
    let ended =
        scene.run(&["acquire", "--audit", "link"]).expect(1, &["the audit file", "is a symbolic link"]);
    assert_eq!((ended.out.as_str(), scene.names().len()), ("", 0));
    let ended = scene.run(&["acquire", "--report", "link"]).expect(0, &["failed to write the report link"]);
    Printed::of(&ended);
    assert!(!scene.file("elsewhere").exists());
}
