//! A file system that does not answer: every command ends within its bound, says what to do, and runs no command.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use beadlock_base::helper::request_of;
use beadlock_claim::remote::Lookup;
use beadlock_testkit::{Ended, PATIENCE, Running, Scene, skip, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How much longer than its bound a command may take on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

/// A directory seen through FUSE, for as long as this is there.
struct Mirror {
    bindfs: Child,
    point: PathBuf,
    /// Gone, it ends the hang after a while: what hangs for good could not even be killed.
    relief: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Mirror {
    /// `None`, with a line, where nothing can be mounted.
    fn of(source: &Path, point: &Path) -> Option<Self> {
        std::fs::create_dir_all(point).unwrap();
        let mut bindfs = Command::new(skip::tool("bindfs")?);
        let bindfs = bindfs
            .arg("-f")
            .args([source, point])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut mirror = Self {
            bindfs,
            point: point.to_owned(),
            relief: None,
        };
        let is_mounted = || {
            let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
            mounts.contains(&format!(" {} fuse", point.display()))
        };
        let begun = Instant::now();
        while !is_mounted() {
            assert!(
                begun.elapsed() < PATIENCE,
                "neither a mount nor an end of bindfs"
            );
            if mirror.bindfs.try_wait().unwrap().is_some() {
                skip::cannot("needs bindfs, which may not mount here");
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(mirror)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.bindfs.id().cast_signed()), signal).unwrap();
    }

    /// Stops it. A thread that has not stopped yet would still take a request and keep it, and what asks could not be
    /// killed.
    fn stop(&self) {
        self.signal(Signal::SIGSTOP);
        until("all its threads stand still", || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.bindfs.id())).unwrap();
            tasks.flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit_once(')')
                    .is_none_or(|(_, rest)| rest.trim_start().starts_with('T'))
            })
        });
    }

    /// From here on nothing that asks it gets an answer.
    fn hang(&mut self) {
        self.stop();
        let pid = Pid::from_raw(self.bindfs.id().cast_signed());
        let (end, has_ended) = channel();
        let relief = std::thread::spawn(move || {
            if has_ended.recv_timeout(PATIENCE * 2) == Err(RecvTimeoutError::Timeout) {
                let _ = kill(pid, Signal::SIGCONT);
            }
        });
        self.relief = Some((end, relief));
        assert!(
            stat_hangs(&self.point),
            "the control: stat waits for the file system"
        );
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some((end, relief)) = self.relief.take() {
            drop(end);
            let _ = relief.join();
        }
        if self.bindfs.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.signal(Signal::SIGCONT);
        }
        let _ = Command::new("umount")
            .arg("-l")
            .arg(&self.point)
            .stderr(Stdio::null())
            .status();
        let _ = self.bindfs.kill();
        let _ = self.bindfs.wait();
    }
}

/// Whether a plain `stat` does not return for longer than a command is to wait.
fn stat_hangs(path: &Path) -> bool {
    let mut stat = Command::new("stat")
        .arg("-f")
        .arg(path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    let hangs = stat.try_wait().unwrap().is_none();
    stat.kill().unwrap();
    std::thread::spawn(move || stat.wait());
    hangs
}

/// A scene with a database `mirror/.beads` on the file system of the mirror.
fn scene() -> Option<(Scene, Mirror)> {
    let scene = crate::a_scene();
    std::fs::create_dir_all(scene.file("source/.beads")).unwrap();
    std::fs::create_dir_all(scene.file("source/run")).unwrap();
    std::fs::write(scene.file("source/todo.json"), "{}\n").unwrap();
    let mirror = Mirror::of(&scene.file("source"), &scene.file("mirror"))?;
    Some((scene, mirror))
}

/// Runs it, and sees it end within the bound of the command and some slack.
#[track_caller]
fn timed(command: Command, bound: Duration) -> Ended {
    let begun = Instant::now();
    let ended = Running::apart(command).end();
    let took = begun.elapsed();
    assert!(took < bound + SLACK, "took {took:?}: {}", ended.err);
    assert!(
        took >= bound.mul_f32(0.9),
        "it has waited: {took:?} {} {}",
        ended.out,
        ended.err
    );
    ended
}

fn says_what_hangs(ended: &Ended, scene: &Scene) {
    let point = scene.file("mirror");
    let (point, text) = (point.display(), format!("{}{}", ended.out, ended.err));
    assert!(
        text.contains(&format!(
            "the file system fuse at {point} does not answer (waited "
        )),
        "{text}"
    );
    assert!(
        text.contains(&format!("look at its server, or type: umount -l {point}")),
        "{text}"
    );
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn every_command_ends_within_its_bound_and_runs_nothing() {
    let Some((scene, mut mirror)) = scene() else {
        return;
    };
    let db = "mirror/.beads";
    scene
        .run(&["hold", db, "--", "true"])
        .expect(0, &["released"]);
    mirror.hang();
    let touch = &["--", "touch", "ran"][..];
    let rows: &[(&[&str], &[&str], u64, i32)] = &[
        (&["hold", db, "--wait", "3s"], touch, 3, 5),
        (&["hold", db, "--no-wait"], touch, 1, 5),
        (&["hold", db, "--drain", "2s"], touch, 2, 5),
        (
            &["hold", db, "--wait", "1s", "--own-exit-code", "77"],
            touch,
            1,
            77,
        ),
        (
            &["hold", "lock:mirror/run/x.lock", "--wait", "1s"],
            touch,
            1,
            5,
        ),
        (&["hold", "memory:mirror/run", "--wait", "1s"], touch, 1, 5),
        (
            &["hold", "file:mirror/todo.json", "--wait", "1s"],
            touch,
            1,
            5,
        ),
        (
            &[
                "hold",
                "tower:x",
                "--lock-dir",
                "mirror/run",
                "--actor",
                "a",
            ],
            touch,
            1,
            5,
        ),
        (&["acquire", db, "--wait", "1s"], &[], 1, 5),
        (&["wait", db, "--wait", "1s"], &[], 1, 5),
        (&["cycle", db], touch, 2, 5),
        (&["check", db], &[], 2, 5),
        (&["status", db], &[], 2, 5),
        (&["break", db, "--malformed"], &[], 2, 5),
        (&["release", db, "--id", "x"], &[], 2, 5),
        (&["doctor", db], &[], 2, 5),
        (&["list", "mirror"], &[], 2, 1),
        (&["log", "mirror/.beads/daemon.log"], &[], 2, 1),
        (
            &["append", "file:mirror/todo.json", "--wait", "1s"],
            &[],
            1,
            5,
        ),
    ];
    let started: Vec<_> = rows
        .iter()
        .map(|(args, command, seconds, code)| {
            let command = scene.beadlock(&[*args, *command].concat());
            (
                args,
                std::thread::spawn({
                    let bound = SECOND * u32::try_from(*seconds).unwrap();
                    move || timed(command, bound)
                }),
                code,
            )
        })
        .collect();
    for (args, ended, code) in started {
        let ended = ended.join().unwrap();
        assert_eq!(ended.code, *code, "{args:?}: {} {}", ended.out, ended.err);
        says_what_hangs(&ended, &scene);
    }
    assert!(!scene.file("ran").exists(), "no command was run");
    mirror.signal(Signal::SIGCONT);
    scene
        .run(&["hold", db, "--", "touch", "ran"])
        .expect(0, &["released"]);
    assert!(scene.file("ran").exists());
    scene.run(&["check", db]).expect(0, &[]);
}

#[test]
fn json_says_it_as_of_an_unreadable_lock() {
    let Some((scene, mut mirror)) = scene() else {
        return;
    };
    mirror.hang();
    let json = |args: &[&str], seconds: u32| -> Value {
        let ended = timed(scene.beadlock(args), SECOND * seconds);
        serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{args:?}: {}", ended.out))
    };
    let check = json(&["check", "mirror/.beads", ".beads", "--json"], 2);
    assert_eq!(
        (&check["ok"], &check["error"]),
        (&true.into(), &Value::Null),
        "{check}"
    );
    let [hung, other] = &check["data"].as_array().unwrap()[..] else {
        panic!("{check}")
    };
    assert_eq!(
        (
            &hung["decision"],
            &hung["verdict"],
            &hung["reason"],
            &hung["removed"],
            &hung["target"]
        ),
        (
            &"skip".into(),
            &"unreadable".into(),
            &"unreadable".into(),
            &false.into(),
            &"beads:mirror/.beads".into()
        )
    );
    assert!(
        hung["path"]
            .as_str()
            .unwrap()
            .ends_with("/mirror/.beads/.exclusive-lock"),
        "{hung}"
    );
    assert_eq!(
        (&other["decision"], &other["verdict"]),
        (&"proceed".into(), &"free".into())
    );
    for target in ["memory:mirror/run", "file:mirror/todo.json"] {
        let check = json(&["check", target, "--json"], 2);
        let message = check["data"][0]["message"].as_str().unwrap();
        assert!(
            message.starts_with("Skipping (lock check failed: failed to read lock file: "),
            "{check}"
        );
    }
    for args in [
        &[
            "hold",
            "mirror/.beads",
            "--no-wait",
            "--json",
            "--",
            "touch",
            "ran",
        ][..],
        &["acquire", "mirror/.beads", "--no-wait", "--json"],
        &["wait", "mirror/.beads", "--wait", "1", "--json"],
        &["status", "mirror/.beads", "--json"],
    ] {
        let answer = json(args, 1);
        let error = &answer["error"];
        assert_eq!(
            (&answer["ok"], &error["code"]),
            (&false.into(), &"LOCK_UNREADABLE".into()),
            "{answer}"
        );
        assert_eq!(error["retryable"], true, "{answer}");
        assert!(
            error["message"]
                .as_str()
                .unwrap()
                .contains("does not answer (waited "),
            "{answer}"
        );
        assert!(
            error["detail"].as_str().unwrap().starts_with("mount="),
            "{answer}"
        );
    }
    let answer = json(&["list", "mirror", "--json"], 2);
    assert_eq!(
        (&answer["ok"], &answer["error"]["code"]),
        (&false.into(), &"IO".into()),
        "{answer}"
    );
    assert!(!scene.file("ran").exists());
}

#[test]
fn a_target_that_leads_there_in_another_way_hangs_no_command() {
    let Some((scene, mut mirror)) = scene() else {
        return;
    };
    std::fs::create_dir_all(scene.file("led/.beads")).unwrap();
    std::fs::write(scene.file("led/.beads/redirect"), "../mirror/.beads\n").unwrap();
    std::fs::create_dir(scene.file("above")).unwrap();
    std::os::unix::fs::symlink("../mirror/.beads", scene.file("above/.beads")).unwrap();
    mirror.hang();
    let here = |dir: &str, args: &[&str]| {
        let mut command = scene.beadlock(args);
        command.current_dir(scene.file(dir));
        command
    };
    // By a link, found from the directory.
    let ended = timed(here("above", &["check"]), SECOND * 2);
    assert_eq!(ended.code, 5, "{}", ended.err);
    says_what_hangs(&ended, &scene);
    // By a redirect.
    let ended = timed(scene.beadlock(&["check", "led/.beads"]), SECOND * 2);
    assert_eq!(ended.code, 5, "{}", ended.err);
    assert!(
        ended
            .out
            .contains("led/.beads leads to does not answer (waited 2s)"),
        "{}",
        ended.out
    );
    // By the environment, also where another database is named.
    for name in ["BEADS_DIR", "BEADLOCK_TARGET"] {
        let mut command = scene.beadlock(&["check"]);
        command.env(name, scene.file("mirror/.beads"));
        assert_eq!(timed(command, SECOND * 2).code, 5, "{name}");
    }
    let mut command = scene.beadlock(&["check", ".beads"]);
    command.env("BEADS_DIR", scene.file("mirror/.beads"));
    assert_eq!(timed(command, SECOND * 2).code, 5);
    // The working directory itself lies there.
    mirror.signal(Signal::SIGCONT);
    let script = "cd mirror && touch ../there && while ! test -e ../go; do sleep 0.01; done; exec $BEADLOCK check";
    let running = Running::apart(scene.shell(script));
    until("it is there", || scene.file("there").exists());
    mirror.stop();
    std::fs::write(scene.file("go"), "").unwrap();
    let ended = running.end();
    assert_eq!(ended.code, 5, "{}", ended.err);
    says_what_hangs(&ended, &scene);
    // What is written beside the claim lies there.
    let args = [
        "hold",
        "--report",
        "mirror/report",
        "--no-wait",
        "--",
        "touch",
        "ran",
    ];
    let ended = timed(scene.beadlock(&args), SECOND);
    assert_eq!(ended.code, 5, "{}", ended.err);
    assert!(!scene.file("ran").exists());
    // A target elsewhere does not wait for it.
    let begun = Instant::now();
    scene
        .run(&["hold", ".beads", "--", "true"])
        .expect(0, &["released"]);
    scene.run(&["check"]).expect(0, &[]);
    assert!(begun.elapsed() < SLACK, "{:?}", begun.elapsed());
}

#[test]
fn a_file_is_not_written_while_its_audit_file_or_schema_does_not_answer() {
    let Some((scene, mut mirror)) = scene() else {
        return;
    };
    mirror.hang();
    for option in ["--audit", "--schema"] {
        for command in [&["write"][..], &["append"], &["update"]] {
            let mut args = command.to_vec();
            args.extend(["file:todo.json", "--no-wait", option, "mirror/beside"]);
            if command == ["update"] {
                args.extend(["--", "touch", "ran"]);
            }
            let ended = timed(scene.beadlock(&args), SECOND);
            assert_eq!(ended.code, 5, "{args:?}: {}", ended.err);
            says_what_hangs(&ended, &scene);
            assert!(!scene.file("todo.json").exists());
            assert!(!scene.file("ran").exists());
        }
    }
}

#[test]
fn a_list_leaves_out_what_does_not_answer_and_names_it() {
    let Some((scene, mut mirror)) = scene() else {
        return;
    };
    scene.write_shell_lock(
        "vc",
        i64::from(std::process::id()),
        &beadlock_testkit::this_host(),
    );
    std::fs::create_dir_all(scene.file("led/.beads")).unwrap();
    std::fs::write(scene.file("led/.beads/redirect"), "../mirror/.beads\n").unwrap();
    std::fs::copy(scene.lock(), scene.file("led/.beads/.exclusive-lock")).unwrap();
    mirror.hang();
    let point = scene.file("mirror");
    // Other file systems are left out in any case.
    let ended = timed(scene.beadlock(&["list"]), Duration::ZERO);
    assert!(ended.expect(0, &[]).out.contains("vc"));
    let ended = timed(scene.beadlock(&["list", "--all-file-systems"]), SECOND * 2).expect(0, &[]);
    assert!(ended.out.contains("vc"), "{}", ended.out);
    assert!(
        ended
            .err
            .contains(&format!("{} was left out: ", point.display())),
        "{}",
        ended.err
    );
    assert!(
        ended.err.contains("does not answer (waited 2s)"),
        "{}",
        ended.err
    );
    mirror.signal(Signal::SIGCONT);
    std::fs::copy(scene.lock(), scene.file("source/.beads/.exclusive-lock")).unwrap();
    let ended = scene.run(&["list", "--all-file-systems"]).expect(0, &[]);
    assert!(ended.out.contains("mirror/.beads"), "{}", ended.out);
    assert!(!ended.err.contains("left out"), "{}", ended.err);
}

/// The server has taken the request and keeps it: a process that asks stays in the kernel, and no signal ends it.
#[test]
fn a_helper_that_cannot_be_killed_is_left_behind() {
    let Some((scene, mut inner)) = scene() else {
        return;
    };
    let outer = Mirror::of(&scene.file("mirror"), &scene.file("outer")).unwrap();
    inner.hang();
    let helpers = || {
        let is_one = |pid: &i32| runs_as_helper(*pid, &scene.file("outer"));
        beadlock_testkit::process::pids()
            .into_iter()
            .filter(is_one)
            .collect::<Vec<_>>()
    };
    let ended = timed(scene.beadlock(&["check", "outer/.beads"]), SECOND * 2);
    assert_eq!(ended.code, 5, "{}", ended.err);
    let words = format!(
        "the file system fuse at {} does not answer",
        outer.point.display()
    );
    assert!(ended.out.contains(&words), "{}", ended.out);
    let [left] = helpers()[..] else {
        panic!("one is left behind: {:?}", helpers())
    };
    let link = |name: &str| std::fs::read_link(format!("/proc/{left}/{name}")).unwrap();
    assert_eq!(link("cwd"), Path::new("/"));
    for name in ["fd/0", "fd/2"] {
        assert_eq!(link(name), Path::new("/dev/null"));
    }
    assert_eq!(
        nix::unistd::getsid(Some(Pid::from_raw(left)))
            .unwrap()
            .as_raw(),
        left,
        "a session of its own"
    );
    inner.signal(Signal::SIGCONT);
    beadlock_testkit::process_is_gone(left);
    scene
        .run(&["hold", "outer/.beads", "--", "true"])
        .expect(0, &["released"]);
}

fn runs_as_helper(pid: i32, path: &Path) -> bool {
    let Some(Lookup::Path(looked_at)) = request_of(pid, "Lookup") else {
        return false;
    };
    Path::new(&looked_at).starts_with(path)
}

/// A shell that asks for completion gets an answer: what lies there is left out.
#[test]
fn completion_never_waits_for_it() {
    let scene = crate::a_scene();
    std::fs::create_dir_all(scene.file("real/.beads")).unwrap();
    std::fs::create_dir_all(scene.file("near/.beads")).unwrap();
    let Some(mut mirror) = Mirror::of(&scene.file("real"), &scene.file("far")) else {
        return;
    };
    let answer = |words: &[&str]| {
        let mut command = scene.beadlock(&[&["--", "beadlock"], words].concat());
        command.env("BEADLOCK_COMPLETE", "fish");
        let begun = Instant::now();
        let ended = Running::apart(command).end().expect(0, &[]);
        assert!(begun.elapsed() < SLACK, "{words:?}: {:?}", begun.elapsed());
        ended.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    mirror.hang();
    until("an answer with what is near", || {
        answer(&["hold", "n"]) == ["near/.beads", "near/"]
    });
    for words in [
        &["hold", "far/"][..],
        &["hold", "memory:far/"],
        &["hold", "--report", "far/"],
        &["hold", "--report=far/"],
        &["break", "far/.beads", "--id", ""],
        &["--lock-dir", "far", "hold", "tower:"],
        &["doctor", "far/"],
    ] {
        assert_eq!(answer(words), [""; 0], "{words:?}");
    }
}
