//! How long a change takes to the remote and to another clone, with the settings that are built in: each clone has an
//! agent, and the remote is a path. Also after an outage of the remote, and what an idle agent costs.
//!
//! `GITWATCH` and `GIT_SYNC` may name these programs: they are measured in the same way, each on both clones.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_tests::{Running, Scene, Spread, run};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::table::{Table, Unit};

const CHANGES: usize = 15;
/// How long the remote is away.
const OUTAGE: Duration = Duration::from_secs(45);
/// How long the idle agent is watched.
const WATCHED: Duration = Duration::from_secs(120);
/// What does not come within this time counts as this.
const BOUND: Duration = Duration::from_secs(60);

const TO_THE_REMOTE: f64 = 0.3;
const TO_THE_OTHER: f64 = 6.0;
const AFTER_AN_OUTAGE: f64 = 7.0;
/// 60 ms of a minute.
const IDLE_PERCENT: f64 = 0.1;

pub fn measure(table: &mut Table) {
    let agent = |clones: &Clones, clone: &str| {
        let mut command = clones.scene.agent(&["--db"]);
        command.arg(clones.path(clone).join(".beads"));
        command
    };
    travel(table, "agent", &Clones::new(), agent, true);
    idle(table, &Clones::new());
    for (name, variable, script) in [
        (
            "gitwatch",
            "GITWATCH",
            "exec \"$PROGRAM\" -s 0 -r origin -b main -R .",
        ),
        (
            "git-sync each 2 s",
            "GIT_SYNC",
            "while :; do \"$PROGRAM\"; sleep 2; done",
        ),
    ] {
        match std::env::var_os(variable) {
            None => table.not_here(
                &format!("{name}, a change"),
                &format!("{variable} is not set"),
            ),
            Some(program) => {
                let start = |clones: &Clones, clone: &str| {
                    let mut command = clones.scene.shell(script);
                    command
                        .current_dir(clones.path(clone))
                        .env("PROGRAM", &program);
                    command
                };
                travel(table, name, &Clones::new(), start, false);
            }
        }
    }
}

/// A remote and two clones.
struct Clones {
    scene: Scene,
}

impl Clones {
    fn new() -> Self {
        let scene = Scene::new();
        let settings = "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n\
            [branch \"main\"]\n\tsync = true\n\tsyncNewFiles = true\n[pull]\n\trebase = true\n";
        fs::write(scene.path().join(".gitconfig"), settings).expect("write .gitconfig");
        let made = run(scene.shell(
            "git init -q --bare r.git && git clone -q r.git a && cd a && mkdir .beads && echo '{\"id\":\"x\"}' >.beads/issues.jsonl \
             && printf 'daemon.log*\\n.exclusive-lock*\\n' >.beads/.gitignore && git add . && git commit -qm first \
             && git push -qu origin main && git clone -q ../r.git ../b",
        ));
        assert!(made.status.success(), "{made:?}");
        Self { scene }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scene.path().join(name)
    }

    fn at_remote(&self) -> String {
        fs::read_to_string(self.path("r.git/refs/heads/main")).unwrap_or_default()
    }

    fn append(&self, id: &str) {
        let file = self.path("a/.beads/issues.jsonl");
        let text = fs::read_to_string(&file).expect("records");
        let line = format!("{{\"id\":\"{id}\",\"created_at\":\"2026-01-01T00:00:00Z\"}}\n");
        fs::write(file, text + &line).expect("write a record");
    }

    fn has(&self, clone: &str, id: &str) -> bool {
        let file = self.path(clone).join(".beads/issues.jsonl");
        fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("\"{id}\"")))
    }
}

/// A program and all that it has started.
struct Group(Child);

impl Group {
    fn start(mut command: Command) -> Self {
        use std::os::unix::process::CommandExt;
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// How long it takes until that is seen, at most [`BOUND`].
fn seen(begun: Instant, what: impl Fn() -> bool) -> f64 {
    while !what() && begun.elapsed() < BOUND {
        sleep(Duration::from_millis(5));
    }
    begun.elapsed().as_secs_f64()
}

fn travel(
    table: &mut Table,
    name: &str,
    clones: &Clones,
    start: impl Fn(&Clones, &str) -> Command,
    is_ours: bool,
) {
    let programs = ["a", "b"].map(|clone| Group::start(start(clones, clone)));
    sleep(Duration::from_secs(if table.is_short { 2 } else { 12 }));
    let (mut remote, mut other) = (Vec::new(), Vec::new());
    let pulls = name != "gitwatch";
    let changes = if table.is_short { 1 } else { CHANGES };
    for change in 0..changes {
        // At another moment of the interval each time, the same ones in each run.
        sleep(Duration::from_millis(1000 + 3700 * change as u64 % 11_000));
        let (before, begun, id) = (clones.at_remote(), Instant::now(), format!("n-{change}"));
        clones.append(&id);
        remote.push(seen(begun, || {
            !["", &before].contains(&clones.at_remote().as_str())
        }));
        if pulls {
            other.push(seen(begun, || clones.has("b", &id)));
        }
    }
    let limit = |limit| is_ours.then_some(limit);
    let mut row = |what: &str, at_most, found: Vec<f64>| {
        let spread = Spread::of(found);
        table.value(
            &format!("{name}, a change, {what}"),
            Unit::Seconds,
            limit(at_most),
            spread.median(),
            Some(&spread),
        );
    };
    row("to the remote", TO_THE_REMOTE, remote);
    if pulls {
        row("to the other clone", TO_THE_OTHER, other);
    }
    if table.is_short {
        return;
    }
    let outage = |number: usize| {
        let (remote, away) = (clones.path("r.git"), clones.path("away"));
        fs::rename(&remote, &away).expect("take the remote away");
        sleep(Duration::from_secs(1));
        clones.append(&format!("during-{number}"));
        sleep(OUTAGE - Duration::from_secs(1));
        fs::rename(&away, &remote).expect("bring it back");
        let (before, begun) = (clones.at_remote(), Instant::now());
        clones.append(&format!("after-{number}"));
        let took = seen(begun, || clones.at_remote() != before);
        sleep(Duration::from_secs(5));
        took
    };
    let spread = Spread::of((0..2).map(outage));
    let figure = format!("{name}, a change after 45 s without the remote");
    table.value(
        &figure,
        Unit::Seconds,
        limit(AFTER_AN_OUTAGE),
        spread.median(),
        Some(&spread),
    );
    drop(programs);
}

/// An agent of a repository whose last commit is more than an hour old.
fn idle(table: &mut Table, clones: &Clones) {
    let aged = run(clones.scene.shell(
        "cd a && export GIT_COMMITTER_DATE='2026-01-01 00:00:00 +0000' && git commit -q --amend --no-edit && git push -qf",
    ));
    assert!(aged.status.success(), "{aged:?}");
    let mut command = clones.scene.agent(&["--db"]);
    command.arg(clones.path("a/.beads"));
    let agent = Running::start(command);
    let (first, watched) = match table.is_short {
        true => (1, Duration::from_secs(2)),
        false => (20, WATCHED),
    };
    sleep(Duration::from_secs(first));
    // With its children that have ended, in ticks of 10 ms.
    let used = || -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", agent.pid())).expect("it runs");
        let (_, fields) = stat.rsplit_once(") ").expect("the name ends");
        let ticks = fields.split(' ').skip(11).take(4);
        ticks
            .map(|ticks| ticks.parse::<f64>().expect("ticks") / 100.0)
            .sum()
    };
    let before = used();
    sleep(watched);
    let share = 100.0 * (used() - before) / watched.as_secs_f64();
    table.value(
        "agent, an hour after the last change, CPU of a core, with fetches",
        Unit::Percent,
        Some(IDLE_PERCENT),
        share,
        None,
    );
    agent.signal(Signal::SIGTERM);
    agent.finish(Duration::from_secs(20));
}
