//! What the git action costs: while nothing happens, and for one change. Beside `git status` alone, and beside the
//! usual loop in sh.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, Scene, Spread, run, wait_until, write_program};
use nix::sys::signal::Signal;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::agents::children;
use super::ratio::Ratios;
use super::table::{Table, Unit};

/// How many repositories there are.
const COUNTS: [usize; 3] = [1, 50, 500];
/// How long the idle ones are watched, and in how many parts.
const WATCHED: Duration = Duration::from_secs(60);
const PARTS: u32 = 4;
/// How long their gits are counted.
const COUNTED: Duration = Duration::from_secs(150);
const CHANGES: usize = 7;

const IDLE_PERCENT: f64 = 0.05;
const ALL_PERCENT: f64 = 10.0;
const FETCHES_A_MINUTE: f64 = 1.5;
/// One of them is for the versions of a record file that its writer may have read, and two prove that it is synced.
const GITS_OF_A_CHANGE: f64 = 9.0;

/// What is usually written to sync a directory through git.
const LOOP: &str = "git add --all && git commit --quiet --message sync && git pull --quiet --rebase && git push --quiet";

pub fn measure(table: &mut Table) {
    for count in COUNTS {
        let count = if table.is_short { count.min(3) } else { count };
        idle(table, &Site::new(count));
    }
    processes(table, &Site::new(1));
    change(table, &Site::new(1));
}

/// Repositories with a database each, and a remote each.
struct Site {
    scene: Scene,
    count: usize,
}

struct Agent {
    process: Running,
}

impl Site {
    fn new(count: usize) -> Self {
        let scene = Scene::new();
        let site = Self { scene, count };
        let settings =
            "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n";
        fs::write(site.path().join(".gitconfig"), settings).expect("write .gitconfig");
        site.shell(
            site.path(),
            "mkdir first && cd first && git init -q --bare remote.git && git init -q repo && cd repo && mkdir .beads src \
             && echo '{}' >.beads/issues.jsonl && echo x >src/x && printf 'daemon.log*\\n' >.beads/.gitignore && git add . \
             && git commit -qm first && git remote add origin ../remote.git && git push -qu origin main",
        );
        site.shell(
            site.path(),
            &format!("mkdir all && for n in $(seq {count}); do cp -r first all/$n; done"),
        );
        site
    }

    fn path(&self) -> &Path {
        self.scene.path()
    }

    fn repo(&self) -> PathBuf {
        self.path().join("all/1/repo")
    }

    fn shell(&self, dir: &Path, script: &str) {
        let mut command = self.scene.shell(script);
        command.current_dir(dir);
        let ended = run(command);
        assert!(ended.status.success(), "{script}: {ended:?}");
    }

    /// An agent that has synced all of them, and needs no git any more.
    fn serve(&self, fetch_interval: &str, wrapper: Option<&Path>) -> Agent {
        self.shell(self.path(), "rm -f all/*/repo/.beads/daemon.log");
        let mut command: Command =
            self.scene
                .agent(&["--root", "all", "--action", "git", "--interval", "5s"]);
        command.args(["--fetch-interval", fetch_interval]);
        if let Some(bin) = wrapper {
            let path = std::env::var("PATH").expect("PATH");
            command.env("PATH", format!("{}:{path}", bin.display()));
        }
        let agent = Agent {
            process: Running::start(command),
        };
        let logs: Vec<_> = (1..=self.count)
            .map(|n| self.path().join(format!("all/{n}/repo/.beads/daemon.log")))
            .collect();
        let cycles = |log: &PathBuf| {
            fs::read_to_string(log)
                .unwrap_or_default()
                .matches("Sync cycle complete")
                .count()
        };
        wait_until(Duration::from_secs(600), "five cycles each", || {
            logs.iter().all(|log| cycles(log) >= 5)
        });
        agent
    }

    fn log(&self) -> String {
        fs::read_to_string(self.repo().join(".beads/daemon.log")).unwrap_or_default()
    }
}

impl Agent {
    /// What the agent itself has used of processors, in seconds; its children not.
    fn cpu(&self) -> f64 {
        let clock = clock_getcpuclockid(Pid::from_raw(self.process.pid())).expect("it runs");
        Duration::from(clock_gettime(clock).expect("a clock of the processor")).as_secs_f64()
    }

    /// The same with its children that have ended, in ticks of 10 ms.
    fn cpu_of_all(&self) -> f64 {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.process.pid())).expect("it runs");
        let fields = stat.rsplit_once(") ").expect("the name ends").1.split(' ');
        fields
            .skip(11)
            .take(4)
            .map(|ticks| ticks.parse::<f64>().expect("ticks") / 100.0)
            .sum()
    }

    fn end(mut self) {
        self.process.signal(Signal::SIGTERM);
        assert!(
            self.process.wait(PATIENCE * 4).success(),
            "the agent ends well"
        );
    }
}

fn idle(table: &mut Table, site: &Site) {
    let watched = if table.is_short {
        Duration::from_secs(4)
    } else {
        WATCHED
    };
    let agent = site.serve("10h", None);
    let share = |_| {
        let before = agent.cpu();
        std::thread::sleep(watched / PARTS);
        100.0 * (agent.cpu() - before) / (watched / PARTS).as_secs_f64()
    };
    let shares = Spread::of((0..PARTS).map(share));
    agent.end();
    let count = site.count;
    let limit = match count {
        500 => Some(ALL_PERCENT),
        count => Some(IDLE_PERCENT * count as f64),
    };
    let repositories = if count == 1 {
        "1 idle repository".to_owned()
    } else {
        format!("{count} idle repositories")
    };
    let figure = format!("git, {repositories}, CPU of a core");
    table.value(
        &figure,
        Unit::Percent,
        limit,
        shares.median(),
        Some(&shares),
    );
}

/// A git in front of git, which writes a line for each call.
fn wrapper(site: &Site) -> PathBuf {
    let bin = site.path().join("bin");
    fs::create_dir_all(&bin).expect("a directory of programs");
    let path = std::env::var("PATH").expect("PATH");
    let calls = site.path().join("calls");
    let text = format!(
        "#!/bin/sh\necho \" $* \" >>'{}'\nPATH='{path}' exec git \"$@\"\n",
        calls.display()
    );
    write_program(&bin.join("git"), text.as_bytes());
    bin
}

fn calls(site: &Site) -> Vec<String> {
    let text = fs::read_to_string(site.path().join("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The gits of an idle repository, by the clock that it has when nothing is said.
fn processes(table: &mut Table, site: &Site) {
    let counted = if table.is_short {
        Duration::from_secs(4)
    } else {
        COUNTED
    };
    let agent = site.serve("1m", Some(&wrapper(site)));
    let (before, cpu) = (calls(site).len(), agent.cpu_of_all());
    std::thread::sleep(counted);
    let used = agent.cpu_of_all() - cpu;
    let since = calls(site).split_off(before);
    agent.end();
    let fetches = since.iter().filter(|call| call.contains(" fetch ")).count();
    let minutes = counted.as_secs_f64() / 60.0;
    let figure = |what: &str| format!("git, 1 idle repository, {what}");
    table.value(
        &figure("gits but fetches"),
        Unit::Count,
        Some(0.0),
        (since.len() - fetches) as f64,
        None,
    );
    // Not a whole number of minutes: one more or less counts much.
    table.value(
        &figure("fetches a minute"),
        Unit::Count,
        Some(FETCHES_A_MINUTE),
        fetches as f64 / minutes,
        None,
    );
    let share = 100.0 * used / counted.as_secs_f64();
    table.value(
        &figure("CPU of a core, with fetches"),
        Unit::Percent,
        None,
        share,
        None,
    );
}

/// One line more in a file, until it is at the remote.
fn change(table: &mut Table, site: &Site) {
    let changes = if table.is_short { 2 } else { CHANGES };
    let repo = site.repo();
    let agent = site.serve("10h", None);
    let mut ours = Vec::new();
    for _ in 0..changes {
        let (before, pushed) = (
            agent.cpu_of_all(),
            site.log().matches("Pushed 1 commit").count(),
        );
        site.shell(&repo, "echo '{}' >>.beads/issues.jsonl");
        wait_until(PATIENCE, "a push", || {
            site.log().matches("Pushed 1 commit").count() > pushed
        });
        // With the look after it, which finds nothing more to do.
        std::thread::sleep(Duration::from_secs(11));
        ours.push(agent.cpu_of_all() - before);
    }
    agent.end();
    let agent = site.serve("10h", Some(&wrapper(site)));
    let mut gits = Vec::new();
    for _ in 0..=changes.min(3) {
        std::thread::sleep(Duration::from_secs(11));
        let (before, pushed) = (
            calls(site).len(),
            site.log().matches("Pushed 1 commit").count(),
        );
        site.shell(&repo, "echo '{}' >>.beads/issues.jsonl");
        wait_until(PATIENCE, "a push", || {
            site.log().matches("Pushed 1 commit").count() > pushed
        });
        let since = calls(site).split_off(before);
        let push = since
            .iter()
            .position(|call| call.contains(" push "))
            .expect("a push");
        gits.push((push + 1) as f64);
    }
    agent.end();
    // The first one finds out what is known to the others.
    let gits = Spread::of(gits.into_iter().skip(1));
    let figure = "git, commit and push of one change, gits";
    table.value(
        figure,
        Unit::Count,
        Some(GITS_OF_A_CHANGE),
        gits.median(),
        Some(&gits),
    );
    for (other, script) in [
        ("git status", "git status --porcelain >/dev/null"),
        ("sh: add, commit, pull, push", LOOP),
    ] {
        let cost = |_| {
            site.shell(&repo, "echo '{}' >>.beads/issues.jsonl");
            let before = children();
            site.shell(&repo, script);
            children() - before
        };
        let others: Vec<f64> = (0..changes).map(cost).collect();
        let mine = Spread::of(ours.iter().copied()).median();
        let theirs = Spread::of(others.iter().copied()).median();
        let ratios = Spread::of(others.iter().map(|other| mine / other));
        let found = Ratios {
            ratios,
            ours: mine,
            theirs,
        };
        table.ratios(
            "git, commit and push of one change, CPU",
            other,
            None,
            &found,
        );
    }
}
