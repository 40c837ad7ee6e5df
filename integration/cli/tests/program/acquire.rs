//! A claim that spans several commands: whose it is, what is printed of it, and every way it does not come to be.

mod not_claimed;
mod printed;
mod twice;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use beadlock_base::helper::kind_of;
use beadlock_testkit::process::marked_by;
use beadlock_testkit::{
    Ended, Running, Scene, as_nobody, dead_pid, has_program, lives, skip, until,
};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

/// What names a claim, as it was printed: lines for `eval` or of a file of variables, and nothing else.
#[derive(Debug)]
pub struct Printed {
    pub target: String,
    pub id: String,
    pub pid: i32,
}

impl Printed {
    #[track_caller]
    pub fn of(ended: &Ended) -> Self {
        let lines: Vec<(&str, &str)> = ended
            .out
            .lines()
            .filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='))
            .collect();
        let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
        let expected = [
            "BEADLOCK_TARGET",
            "BEADLOCK_ID",
            "BEADLOCK_PID",
            "BEADLOCK_UNTIL",
        ];
        assert!(names == expected || names == expected[..3], "{ended:?}");
        assert_eq!(
            (ended.out.lines().count(), ended.out.ends_with('\n')),
            (lines.len(), true),
            "{ended:?}"
        );
        let plain = |at: usize| {
            let (_, quoted) = lines[at];
            let inner = quoted.strip_prefix('\'');
            let inner = inner.and_then(|rest| rest.strip_suffix('\''));
            inner.unwrap_or(quoted).to_owned()
        };
        Self {
            target: plain(0),
            id: plain(1),
            pid: plain(2).parse().unwrap(),
        }
    }
}

/// The keepers of this scene.
pub fn keepers(scene: &Scene) -> Vec<i32> {
    let is_keeper = |pid: &i32| kind_of(*pid).as_deref() == Some("LeaseKeeper");
    marked_by(scene)
        .into_iter()
        .map(Pid::as_raw)
        .filter(is_keeper)
        .collect()
}

/// The processes of this scene that have this word in their command line.
pub fn with_word(scene: &Scene, wanted: &str) -> Vec<i32> {
    let has_it = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|word| word == wanted.as_bytes())
    };
    marked_by(scene)
        .into_iter()
        .map(Pid::as_raw)
        .filter(has_it)
        .collect()
}

/// A sleeping process, killed and reaped at the end.
pub struct Sleeper(std::process::Child);

impl Sleeper {
    pub fn start() -> Self {
        Self(
            Command::new("sleep")
                .arg("300")
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
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
    let scene = crate::a_scene();
    for shell in ["/bin/sh", "/bin/dash", "/bin/bash"]
        .into_iter()
        .filter(|shell| Path::new(shell).exists())
    {
        for form in forms {
            let script = format!(
                "{form}\n. ./out\ntest \"$BEADLOCK_PID\" = $$ || exit 3\n\
                 grep -q \"\\\"pid\\\": $$,\" .beads/.exclusive-lock || exit 4\n\
                 \"$BEADLOCK\" release -q --id \"$BEADLOCK_ID\" || exit 5\nexit 0\n"
            );
            fs::write(scene.file("script"), script).unwrap();
            let ended = Running::apart(scene.shell(&format!("exec {shell} ./script"))).end();
            let of_the_shell = format!("beadlock: warning: for {shell} ./script (PID ");
            assert!(
                ended.code == 0
                    && ended
                        .err
                        .lines()
                        .all(|line| line.starts_with(&of_the_shell)),
                "{shell}: {form}: {ended:?}"
            );
            assert!(scene.names().is_empty(), "{shell}: {form}");
        }
    }
}

#[test]
fn for_a_program_that_is_no_shell_it_is_exactly_the_parent() {
    if !has_program("python3") {
        return;
    }
    let scene = crate::a_scene();
    let script = "import os, subprocess\n\
        def pid():\n    \
            out = subprocess.check_output([os.environ['BEADLOCK'], 'acquire', '-q'], text=True)\n    \
            values = {name: value.strip(chr(39)) for name, value in (line.removeprefix('export ').split('=', 1) for line in out.splitlines())}\n    \
            subprocess.check_call([os.environ['BEADLOCK'], 'release', '-q', '--id', values['BEADLOCK_ID']])\n    \
            return int(values['BEADLOCK_PID'])\n\
        assert pid() == os.getpid()\n\
        child = os.fork()\n\
        if child == 0:\n    \
            os._exit(0 if pid() == os.getpid() else 1)\n\
        assert os.waitpid(child, 0)[1] == 0\n";
    fs::write(scene.file("script"), script).unwrap();
    let ended = Running::apart(scene.shell("exec python3 script")).end();
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
}

/// Nobody is wedged by a script that was killed.
#[test]
fn a_killed_script_leaves_a_lock_that_is_stale_at_once() {
    let scene = crate::a_scene();
    let script = "eval \"$(\"$BEADLOCK\" acquire -q --holder deploy)\"; echo > ready; while :; do sleep 0.01; done";
    for next in [
        &["hold", "--wait", "1h", "--", "touch", "ran"][..],
        &["check"],
    ] {
        let holding = Running::apart(scene.shell(script));
        until("it is claimed", || scene.file("ready").exists());
        fs::write(scene.file("ready"), "").unwrap();
        scene.run(&["check"]).expect(4, &[]);
        let waiting = (next[0] == "hold").then(|| {
            let waiting = Running::apart(scene.beadlock(next));
            until("it waits", || waiting.err().contains("waiting"));
            waiting
        });
        holding.signal(Signal::SIGKILL);
        holding.end().expect(137, &[]);
        match waiting {
            Some(waiting) => {
                waiting
                    .end()
                    .expect(0, &["removed stale lock of deploy (PID ", ", pid_gone)"]);
            }
            None => {
                let ended = scene.run(next).expect(0, &[]);
                assert_eq!(
                    ended.out,
                    "Removed stale lock (deploy), proceeding with sync\n"
                );
            }
        }
        assert!(scene.names().is_empty());
        let _ = Running::apart(scene.shell("rm ready")).end();
    }
}

#[test]
fn a_process_that_is_named_is_the_one_that_the_claim_is_for() {
    let scene = crate::a_scene();
    let sleeper = Sleeper::start();
    let ended = scene.run(&["acquire", "--for", &sleeper.pid()]);
    let words = format!(
        "claimed .beads for sleep (PID {}), for as long as that process lives\n",
        sleeper.pid()
    );
    let printed = Printed::of(&ended.expect(0, &[&words]));
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    assert_eq!(record["pid"], printed.pid);
    assert_eq!(
        (&record["holder"], &record["beadlock"]["id"]),
        (&"sleep".into(), &printed.id.as_str().into())
    );
    assert_eq!(
        scene.run(&["check"]).expect(4, &[]).out,
        "Skipping database (locked by sleep)\n"
    );
    drop(sleeper);
    let ended = scene.run(&["check"]).expect(0, &[]);
    assert_eq!(
        ended.out,
        "Removed stale lock (sleep), proceeding with sync\n"
    );
    for pid in ["0", "-1", "-2147483648", "x", "4294967296"] {
        let ended = scene
            .run(&["acquire", &format!("--for={pid}")])
            .expect(2, &[pid]);
        assert_eq!(ended.out, "");
    }
    let mut zombie = Command::new("true").spawn().unwrap();
    let number = zombie.id().to_string();
    until("it has ended", || !lives(zombie.id().cast_signed()));
    scene
        .run(&["acquire", "--for", &number])
        .expect(1, &[&format!("PID {number} is gone")]);
    zombie.wait().unwrap();
    let gone = dead_pid().to_string();
    scene
        .run(&["acquire", "--for", &gone])
        .expect(1, &[&format!("PID {gone} is gone")]);
    assert!(scene.names().is_empty());
}

#[test]
fn a_process_of_another_user_is_alive_too() {
    let scene = crate::a_scene();
    fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(scene.beads(), fs::Permissions::from_mode(0o777)).unwrap();
    let me = std::process::id().to_string();
    let mut command = scene.beadlock(&["acquire", "--for", &me]);
    if !as_nobody(&mut command) {
        return;
    }
    let printed = Printed::of(&Running::apart(command).end().expect(0, &[]));
    assert_eq!(printed.pid.to_string(), me);
    let mut check = scene.beadlock(&["check", "--json"]);
    as_nobody(&mut check);
    let json = Running::apart(check).end().expect(4, &[]).json();
    assert_eq!(json["data"][0]["reason"], "pid_not_permitted", "{json}");
    let mut release = scene.beadlock(&["release", "--id", &printed.id]);
    as_nobody(&mut release);
    Running::apart(release)
        .end()
        .expect(0, &["released .beads"]);
    assert!(scene.names().is_empty());
}

#[test]
fn a_caller_that_is_not_to_be_seen_must_be_named() {
    let scene = crate::a_scene();
    let unshare = |script: &str| scene.shell(&format!("exec unshare --pid --fork {script}"));
    if Running::apart(unshare("true")).end().code != 0 {
        return skip::cannot("needs a PID namespace");
    }
    Running::apart(unshare("\"$BEADLOCK\" acquire"))
        .end()
        .expect(
            2,
            &[
                "the process that called is not of this PID namespace; name the one",
                "--for PID, or --detach",
            ],
        );
    assert!(scene.names().is_empty());
}
