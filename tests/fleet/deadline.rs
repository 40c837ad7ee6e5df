//! Work in a fleet is ended at its deadline by the cycle runner of an agent and by the watchdog of a claim, each on
//! its own (docs/design.md#the-fleet).

use std::fs;
use std::io::{BufRead, BufReader, PipeReader, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use beadlock_base::deadline::{DeadlineSender, WorkDeadline};
use beadlock_base::{deadline::boottime, process::Stat, sys};
use beadlock_supervise::runner;
use beadlock_tests::{
    PATIENCE, Running, Scene, become_subreaper, binaries, lives, root, skip, tool, until,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A deadline in so many milliseconds, which begin when the programs are built.
pub fn deadline(ask: u64, kill: u64) -> WorkDeadline {
    binaries::agent();
    let at = |millis| boottime() + Duration::from_millis(millis);
    WorkDeadline {
        ask_at: at(ask),
        kill_at: at(kill),
    }
}

/// Longer than any test takes.
pub const FAR: u64 = 600_000;

/// A cycle runner at work, as an agent starts it.
pub struct RunnerAtWork {
    pub running: Running,
    pub later: DeadlineSender,
    words: BufReader<PipeReader>,
}

impl RunnerAtWork {
    /// Starts one for `sh -c SCRIPT`; `change` is made to its command line.
    pub fn start(
        scene: &Scene,
        first: WorkDeadline,
        script: &str,
        envs: &[(&str, &str)],
        wrap: &[&str],
    ) -> Self {
        become_subreaper();
        let (later_reader, later) = DeadlineSender::pipe().expect("a pipe");
        let later_reader = OwnedFd::from(later_reader);
        let (words, stderr) = pipe().expect("a pipe");
        let agent = binaries::agent();
        let mut command = match wrap {
            [] => scene.command(&agent),
            [program, args @ ..] => {
                let mut command = scene.command(program);
                command.args(args).arg(&agent);
                command
            }
        };
        command
            .arg(runner::ARGUMENT)
            .arg(std::process::id().to_string())
            .arg(FAR.to_string());
        command
            .arg(format!("{}:{first}", later_reader.as_raw_fd()))
            .arg(scene.beads());
        command
            .args(["/bin/sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command.envs(envs.iter().copied());
        sys::inherit(&mut command, later_reader);
        let running = Running::on(stderr, command);
        Self {
            running,
            later,
            words: BufReader::new(words),
        }
    }

    /// Its last word, once it has ended.
    pub fn ended(mut self) -> String {
        let mut line = String::new();
        self.words.read_line(&mut line).expect("a pipe");
        drop(self.words);
        self.running.wait(PATIENCE);
        line.trim_end().to_owned()
    }
}

/// A child that ignores TERM, one in a session of its own that ignores it too, and an orphan with a cleared
/// environment. The file `all` says that they are there.
const STUBBORN: &str = "trap '' TERM; echo $$ > command; \
     setsid sh -c 'trap \"\" TERM; echo $$ > session; while :; do sleep 0.05; done' & \
     setsid env -i /bin/sh -c 'trap \"\" TERM; (echo $$ > cleared; while :; do /bin/sleep 0.05; done) & wait' & \
     while ! test -s session || ! test -s cleared; do sleep 0.01; done; echo > all; while :; do sleep 0.05; done";

fn stubborn(scene: &Scene) -> [i32; 3] {
    until("all are there", || scene.file("all").exists());
    ["command", "session", "cleared"].map(|name| scene.pid_in(name))
}

#[test]
fn a_runner_kills_the_whole_tree_at_the_deadline_and_not_before() {
    let scene = Scene::new();
    let work = RunnerAtWork::start(&scene, deadline(FAR, FAR), STUBBORN, &[], &[]);
    let tree = stubborn(&scene);
    let RunnerAtWork {
        running,
        mut later,
        words,
    } = work;
    let told = deadline(100, 600);
    later.tell(told);
    until("the first one's end", || {
        tree.iter().any(|pid| !lives(*pid))
    });
    assert!(
        boottime() >= told.kill_at,
        "they ignore TERM, and KILL comes at the deadline"
    );
    until("the end of all", || tree.iter().all(|pid| !lives(*pid)));
    assert_eq!(
        RunnerAtWork {
            running,
            later,
            words
        }
        .ended(),
        "fleet-lost"
    );
}

#[test]
fn a_runner_asks_before_it_kills_and_a_new_deadline_counts() {
    let scene = Scene::new();
    let script = "trap 'echo > asked; exit 3' TERM; echo > ready; while :; do sleep 0.02; done";
    let mut work = RunnerAtWork::start(&scene, deadline(3_000, 6_000), script, &[], &[]);
    until("the command", || scene.file("ready").exists());
    work.later.tell(deadline(6_000, FAR));
    let renewed = boottime();
    until("TERM", || scene.file("asked").exists());
    assert!(
        boottime() - renewed >= Duration::from_millis(5_900),
        "by the first deadline, although it was renewed"
    );
    assert_eq!(work.ended(), "fleet-lost");
}

#[test]
fn a_runner_kills_at_once_when_the_session_is_gone() {
    let scene = Scene::new();
    let mut work = RunnerAtWork::start(&scene, deadline(FAR, FAR), STUBBORN, &[], &[]);
    let tree = stubborn(&scene);
    work.later.tell(WorkDeadline::PASSED);
    until("the end of all", || tree.iter().all(|pid| !lives(*pid)));
    assert_eq!(work.ended(), "fleet-lost");
}

#[test]
fn a_runner_without_its_agent_keeps_the_last_deadline() {
    let scene = Scene::new();
    let work = RunnerAtWork::start(&scene, deadline(800, 1_000), STUBBORN, &[], &[]);
    let RunnerAtWork {
        running,
        later,
        words,
    } = work;
    drop((later, words));
    let mut running = running;
    let tree = stubborn(&scene);
    until("the end of all", || tree.iter().all(|pid| !lives(*pid)));
    running.wait(PATIENCE);
}

/// Its command has no more anybody who would end it: the kernel does.
#[test]
fn a_command_ends_with_its_runner() {
    let scene = Scene::new();
    let script = "echo $$ > command; while :; do sleep 0.02; done";
    let work = RunnerAtWork::start(&scene, deadline(FAR, FAR), script, &[], &[]);
    let command = scene.pid_in("command");
    work.running.signal(Signal::SIGKILL);
    until("the command's end", || !lives(command));
}

/// Stopped, all of them at once, past the deadline: it is bounded from the moment on in which they go on.
#[test]
fn a_chain_that_was_stopped_past_the_deadline_ends_when_it_goes_on() {
    let scene = Scene::new();
    let work = RunnerAtWork::start(&scene, deadline(FAR, FAR), STUBBORN, &[], &[]);
    let tree = stubborn(&scene);
    let RunnerAtWork {
        running,
        mut later,
        words,
    } = work;
    let all: Vec<i32> = tree.into_iter().chain([running.pid()]).collect();
    let to_all = |signal| {
        all.iter().for_each(|pid| {
            let _ = kill(Pid::from_raw(*pid), signal);
        })
    };
    to_all(Signal::SIGSTOP);
    until("all stand still", || {
        all.iter()
            .all(|pid| Stat::read(*pid).is_some_and(|stat| stat.state == 'T'))
    });
    let told = deadline(0, 200);
    later.tell(told);
    until("the deadline", || boottime() > told.kill_at);
    assert!(tree.iter().all(|pid| lives(*pid)));
    to_all(Signal::SIGCONT);
    until("the end of all", || tree.iter().all(|pid| !lives(*pid)));
    assert_eq!(
        RunnerAtWork {
            running,
            later,
            words
        }
        .ended(),
        "fleet-lost"
    );
}

/// A control group in a mount that this thread alone sees. `None`: the machine lets us have none, and the test skips.
struct Freezer(PathBuf);

impl Freezer {
    fn new(scene: &Scene) -> Option<Self> {
        if !root() {
            return None;
        }
        let top = scene.file("groups");
        fs::create_dir(&top).expect("a directory");
        let none = None::<&str>;
        let private = unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none))
            .and_then(|()| mount(Some("none"), &top, Some("cgroup2"), MsFlags::empty(), none));
        let group = top.join(format!("beadlock-test-{}", std::process::id()));
        if private.is_err()
            || fs::create_dir(&group).is_err()
            || !group.join("cgroup.freeze").exists()
        {
            skip::cannot("needs a control group that freezes");
            return None;
        }
        Some(Self(group))
    }

    fn take(&self, pid: i32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).expect("it joins the group");
    }

    fn freeze(&self, frozen: bool) {
        let word = if frozen { "1" } else { "0" };
        fs::write(self.0.join("cgroup.freeze"), word).expect("it freezes");
        let events = || fs::read_to_string(self.0.join("cgroup.events")).unwrap_or_default();
        until("the group is told", || {
            events().contains(&format!("frozen {word}"))
        });
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // Under the mount the scene's directory could not be removed.
        let _ = umount2(self.0.parent().expect("the mount"), MntFlags::MNT_DETACH);
    }
}

/// All that belongs to the cycle stands still past the deadline, as in a machine that is paused: it ends on thaw.
#[test]
fn a_frozen_tree_ends_when_it_thaws() {
    let scene = Scene::new();
    let Some(freezer) = Freezer::new(&scene) else {
        return;
    };
    let work = RunnerAtWork::start(&scene, deadline(FAR, FAR), STUBBORN, &[], &[]);
    let tree = stubborn(&scene);
    let RunnerAtWork {
        running,
        mut later,
        words,
    } = work;
    tree.iter()
        .chain([&running.pid()])
        .for_each(|pid| freezer.take(*pid));
    freezer.freeze(true);
    let told = deadline(0, 200);
    later.tell(told);
    until("the deadline", || boottime() > told.kill_at);
    assert!(tree.iter().all(|pid| lives(*pid)), "they stand still");
    freezer.freeze(false);
    let thawed = boottime();
    until("the end of all", || tree.iter().all(|pid| !lives(*pid)));
    assert!(boottime() - thawed < Duration::from_secs(10));
    assert_eq!(
        RunnerAtWork {
            running,
            later,
            words
        }
        .ended(),
        "fleet-lost"
    );
}

/// Starts `sh -c SCRIPT` under a claim with this deadline, in the care of a watchdog.
pub fn warded(
    scene: &Scene,
    deadline: WorkDeadline,
    script: &str,
    envs: &[(&str, &str)],
) -> Running {
    become_subreaper();
    let mut command = scene.command(env!("CARGO_BIN_EXE_warded"));
    command
        .env("WARDED_DEADLINE", deadline.to_string())
        .envs(envs.iter().copied());
    command.args(["own", &FAR.to_string(), "--", "/bin/sh", "-c", script]);
    Running::start(command)
}

const IN_A_SESSION: &str = "trap '' TERM; echo $$ > command; \
     setsid sh -c 'trap \"\" TERM; echo $$ > session; while :; do sleep 0.05; done' & \
     while ! test -s session; do sleep 0.01; done; while :; do sleep 0.05; done";

#[test]
fn a_watchdog_kills_the_tree_at_the_deadline_although_its_parent_is_stopped() {
    let scene = Scene::new();
    let at = deadline(1_000, 1_500);
    let owner = warded(&scene, at, IN_A_SESSION, &[]);
    let tree = ["session", "command"].map(|name| scene.pid_in(name));
    owner.signal(Signal::SIGSTOP);
    until("the end of both", || tree.iter().all(|pid| !lives(*pid)));
    assert!(boottime() >= at.kill_at, "not before the deadline");
    owner.signal(Signal::SIGKILL);
}

/// Its parent is gone, and the grace would be over after the deadline.
#[test]
fn a_watchdog_kills_the_tree_at_the_deadline_although_its_parent_was_killed() {
    let scene = Scene::new();
    let at = deadline(1_000, 1_500);
    let owner = warded(&scene, at, IN_A_SESSION, &[]);
    let tree = ["session", "command"].map(|name| scene.pid_in(name));
    owner.signal(Signal::SIGKILL);
    until("the end of both", || tree.iter().all(|pid| !lives(*pid)));
    assert!(boottime() >= at.kill_at, "they ignore TERM");
}

#[test]
fn every_deadline_is_of_the_clock_that_counts_sleep() {
    if tool("strace").is_none() {
        return;
    }
    let scene = Scene::new();
    let trace = scene.file("trace");
    let trace = trace.to_str().expect("UTF-8");
    let wrap = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=timerfd_create,timerfd_settime",
        "-o",
        trace,
    ];
    let work = RunnerAtWork::start(
        &scene,
        deadline(3_000, 3_100),
        "while :; do sleep 0.02; done",
        &[],
        &wrap,
    );
    assert_eq!(work.ended(), "fleet-lost");
    let calls = scene.read("trace");
    let made: Vec<&str> = calls
        .lines()
        .filter(|line| line.contains("timerfd_create("))
        .collect();
    assert!(
        !made.is_empty() && made.iter().all(|line| line.contains("CLOCK_BOOTTIME")),
        "{calls}"
    );
    let set = calls
        .lines()
        .filter(|line| line.contains("timerfd_settime("));
    assert!(
        set.clone().count() > 0 && set.clone().all(|line| line.contains("TFD_TIMER_ABSTIME")),
        "{calls}"
    );
}
