//! A person who has only `beadlock log` and `beadlock status`: in each of eight situations both name the cause and
//! what to type, what must not be typed is not there, and docs/guide/on-call.md shows what they say.

use std::fs;
use std::time::Duration;

use beadlock_tests::skip::checkout;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, run, shown, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

const AGENT: [&str; 6] = ["--db", ".beads", "--action", "none", "--interval", "1s"];

/// What the two commands have to say in a situation.
struct Situation<'a> {
    /// The heading of the page.
    name: &'a str,
    /// Each of these is in both.
    both: &'a [&'a str],
    log: &'a [&'a str],
    status: &'a [&'a str],
    /// In neither.
    never: &'a [&'a str],
}

impl Situation<'_> {
    #[track_caller]
    fn is_told(&self, scene: &Scene) {
        let log = scene.run(&["log"]);
        let status = scene.run(&["status"]);
        for (ended, words) in [(&log, self.log), (&status, self.status)] {
            assert_eq!(ended.code, 0, "{}: {ended:?}", self.name);
            for words in words.iter().chain(self.both) {
                assert!(
                    ended.out.contains(words),
                    "{}: {words:?} in {}",
                    self.name,
                    ended.out
                );
            }
            for words in self.never {
                assert!(
                    !ended.out.contains(words),
                    "{}: {words:?} in {}",
                    self.name,
                    ended.out
                );
            }
        }
        let is_unsafe =
            |line: &&str| line.contains("beadlock break") && !line.contains("--malformed");
        for line in log.out.lines().chain(status.out.lines()).filter(is_unsafe) {
            assert!(line.contains("--id "), "{}: {line}", self.name);
        }
    }

    /// What the page shows under the heading is what the commands say. Of `beadlock log` it shows the first lines, and
    /// `...` for the tables below them.
    #[track_caller]
    fn is_on_the_page(&self, scene: &Scene) {
        let page = fs::read_to_string(checkout().join("docs/guide/on-call.md")).expect("the page");
        let heading = format!("\n### {}\n", self.name);
        let (_, rest) = page.split_once(&heading).expect("a heading of the page");
        let block = rest.split("```").nth(1).unwrap_or_default().trim();
        let home = fs::canonicalize(scene.path()).expect("its path");
        let mut now = String::new();
        for command in ["log", "status"] {
            let said = shown::as_in_docs(&scene.run(&[command]).out, &home);
            let (first, tables) = said.split_once("\n\n").unwrap_or((&said, ""));
            let more = if tables.is_empty() { "" } else { "...\n" };
            now += &format!("$ beadlock {command}\n{}\n{more}", first.trim_end());
        }
        // An age is one word or two, and the number of skips is that of a moment.
        let line = |line: &str| {
            shown::plain(line)
                .replace("N N", "N")
                .replace(" skips", " skip")
        };
        let plain = |text: &str| text.lines().map(line).collect::<Vec<_>>();
        assert_eq!(plain(block), plain(&now), "{} is now\n{now}", self.name);
    }
}

fn skips(scene: &Scene, why: &str) {
    scene.wait_for_log("a skip", |log| {
        log.contains("] State: skipped since ") && log.contains(why)
    });
}

fn complete(scene: &Scene) {
    scene.wait_for_log("a cycle", |log| log.contains("] Sync cycle complete"));
}

fn record(scene: &Scene) -> Value {
    serde_json::from_str(&scene.lock_text()).expect("a record")
}

#[test]
fn a_stale_lock_of_another_machine() {
    let scene = Scene::new();
    scene.write_shell_lock("import", 4711, "build-3");
    let _agent = scene.start_agent(&AGENT);
    skips(&scene, "(other_host)");
    let ended = scene.run(&["status", "--json"]);
    let seen: Value = serde_json::from_str(&ended.out).expect("JSON");
    let id = seen["data"][0]["id"].as_str().expect("an id").to_owned();
    let remove = format!("beadlock break .beads --id {id} --even-if-live");
    let situation = Situation {
        name: "A lock of another machine",
        both: &[
            "held by import (PID 4711",
            "claimed on another host, build-3",
            "ssh -- build-3 ps -p 4711",
            &remove,
        ],
        log: &["Skipping since "],
        status: &[],
        never: &["ps -fp 4711"],
    };
    situation.is_told(&scene);
    situation.is_on_the_page(&scene);
    assert_eq!(
        scene
            .run(&["break", ".beads", "--id", &id, "--even-if-live"])
            .code,
        0
    );
    assert!(!scene.lock().exists(), "the line that both advise");
}

#[test]
fn a_holder_that_hangs() {
    let scene = Scene::new();
    let _holder = scene.hold(&["--holder", "make", "--", "sleep", "300"]);
    let _agent = scene.start_agent(&AGENT);
    skips(&scene, "(pid_alive)");
    let pid = record(&scene)["pid"].to_string();
    let (see, end) = (format!("ps -fp {pid}"), format!("kill {pid} "));
    let situation = Situation {
        name: "A holder that hangs",
        both: &[
            "held by make",
            "its process lives here",
            "beadlock wait --wait 10m .beads",
            &see,
        ],
        log: &["Skipping since ", &end],
        status: &[],
        never: &["kill -CONT", "beadlock break"],
    };
    situation.is_told(&scene);
    situation.is_on_the_page(&scene);
}

#[test]
fn a_holder_that_was_stopped() {
    let scene = Scene::new();
    let mut holder = scene.hold(&["--holder", "make", "--", "sleep", "300"]);
    let _agent = scene.start_agent(&AGENT);
    skips(&scene, "(pid_alive)");
    let pid = record(&scene)["pid"].as_i64().expect("a PID");
    let work = nix::unistd::Pid::from_raw(i32::try_from(pid).expect("a PID"));
    let stands = "stands still: it was stopped by a signal (state T)";
    for stopped in [work, nix::unistd::Pid::from_raw(holder.pid())] {
        nix::sys::signal::kill(stopped, Signal::SIGSTOP).expect("it lives");
        wait_until(PATIENCE, "it is stopped", || {
            let stat = fs::read_to_string(format!("/proc/{stopped}/stat")).unwrap_or_default();
            stat.contains(") T ")
        });
        let go_on = format!("kill -CONT {stopped} ");
        let situation = Situation {
            name: "A holder that was stopped",
            both: &[stands, &go_on],
            log: &["Skipping since "],
            status: &[],
            never: &["beadlock break"],
        };
        situation.is_told(&scene);
        if stopped == work {
            situation.is_on_the_page(&scene);
        }
        nix::sys::signal::kill(stopped, Signal::SIGCONT).expect("it lives");
    }
    assert!(holder.is_running());
}

#[test]
fn a_lock_of_a_container() {
    let scene = Scene::new();
    let script = "\"$BEADLOCK\" hold .beads --holder inside -- sleep 300";
    let namespaces = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let Some(command) = scene.in_namespaces(&namespaces, script) else {
        return;
    };
    let _inside = Running::start(command);
    scene.wait_for_lock();
    let _agent = scene.start_agent(&AGENT);
    skips(&scene, "(other_pid_namespace)");
    let record = record(&scene);
    let (pid, id) = (
        &record["pid"],
        record["beadlock"]["id"].as_str().expect("an id"),
    );
    let (in_it, by_id) = (
        format!("docker exec CONTAINER ps -p {pid}"),
        format!("--id {id} "),
    );
    let foreign = format!("ps -fp {pid} ");
    let situation = Situation {
        name: "A lock of a container",
        both: &[
            "held by inside",
            "claimed in a container of this machine",
            &in_it,
            &by_id,
        ],
        log: &["Skipping since "],
        status: &[],
        never: &[&foreign, "--holder"],
    };
    situation.is_told(&scene);
    situation.is_on_the_page(&scene);
}

#[test]
fn a_malformed_lock() {
    let scene = Scene::new();
    scene.write_lock("{\"holder\":");
    let _agent = scene.start_agent(&AGENT);
    skips(&scene, "malformed lock file");
    // A lock that was written a moment ago may still be being written.
    let old = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::options()
        .write(true)
        .open(scene.lock())
        .and_then(|file| file.set_modified(old))
        .expect("the lock");
    let situation = Situation {
        name: "A malformed lock",
        both: &[
            "malformed lock file: unexpected EOF",
            "beadlock break .beads --malformed",
        ],
        log: &["Skipping since ", "the lock cannot be checked"],
        status: &["beadlock status --raw .beads"],
        never: &["--even-if-live"],
    };
    situation.is_told(&scene);
    situation.is_on_the_page(&scene);
    assert_eq!(scene.run(&["break", ".beads", "--malformed"]).code, 0);
    assert!(!scene.lock().exists(), "the line that both advise");
}

#[test]
fn an_agent_that_is_dead_and_one_that_was_stopped() {
    let scene = Scene::new();
    let mut agent = scene.start_agent(&AGENT);
    complete(&scene);
    let pid = agent.pid();
    agent.signal(Signal::SIGSTOP);
    let go_on = format!("kill -CONT {pid}");
    let named = format!("the daemon (PID {pid} on ");
    let situation = Situation {
        name: "An agent that was stopped",
        both: &[
            "Not syncing since ",
            &named,
            "stands still: it was stopped by a signal (state T)",
            &go_on,
        ],
        log: &["before that: Syncing: "],
        status: &["free"],
        never: &["beadlock-agent --db"],
    };
    wait_until(PATIENCE, "it is stopped", || {
        scene.run(&["log"]).out.contains("state T")
    });
    situation.is_told(&scene);
    situation.is_on_the_page(&scene);
    agent.signal(Signal::SIGCONT);
    agent.signal(Signal::SIGKILL);
    agent.wait(PATIENCE);
    let situation = Situation {
        name: "An agent that was killed",
        both: &[
            "Not syncing since ",
            &named,
            "is gone: it was killed, or crashed",
            "beadlock-agent --db ",
        ],
        log: &[
            "before that: Syncing: ",
            "1 without a stop: killed or crashed",
        ],
        status: &["free"],
        never: &["kill -CONT"],
    };
    situation.is_told(&scene);
    situation.is_on_the_page(&scene);
}

#[test]
fn two_agents() {
    let scene = Scene::new();
    let first = scene.start_agent(&AGENT);
    complete(&scene);
    let second = scene.start_agent(&AGENT);
    let already = format!(
        "] Served already by beadlock-agent {}, PID {}, ",
        env!("CARGO_PKG_VERSION"),
        first.pid()
    );
    scene.wait_for_log("the word of the second", |log| log.contains(&already));
    let (one, other) = (
        format!("(PID {} on ", first.pid()),
        format!("(PID {} on ", second.pid()),
    );
    let stop = format!("kill {} ", second.pid());
    let situation = Situation {
        name: "Two agents",
        both: &[],
        log: &[
            "Syncing: ",
            "2 daemons write this log: ",
            &one,
            &other,
            &stop,
        ],
        status: &["free"],
        never: &[
            "killed or crashed",
            "lost after",
            "beadlock-agent --db",
            "Not syncing",
        ],
    };
    situation.is_told(&scene);
    situation.is_on_the_page(&scene);
    assert_eq!(second.stop(), Some(0));
    let log = scene.run(&["log"]).out;
    assert!(
        log.contains(": Syncing: ") && !log.contains("daemons write"),
        "{log}"
    );
}

#[test]
fn a_sync_that_has_diverged() {
    let scene = Scene::new();
    let script = "set -e
        export HOME=$PWD GIT_CONFIG_NOSYSTEM=1
        git config --global user.name u; git config --global user.email u@x.y
        git config --global init.defaultBranch main
        git init -q --bare remote.git; git init -q .
        printf 'daemon.log*\\n.exclusive-lock*\\n' >.beads/.gitignore
        echo one >.beads/notes.txt; echo '{\"id\":\"a-1\"}' >.beads/issues.jsonl
        git add .beads; git commit -qm one; git remote add origin ./remote.git; git push -qu origin main
        git clone -q remote.git other; cd other
        echo theirs >.beads/notes.txt; git commit -qam theirs; git push -q; cd ..
        echo ours >.beads/notes.txt";
    let ended: Ended = run(scene.shell(script)).into();
    assert_eq!(ended.code, 0, "{ended:?}");
    let mut agent = scene.agent(&["--db", ".beads", "--interval", "1s"]);
    agent
        .env("HOME", scene.path())
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let _agent = Running::start(agent);
    scene.wait_for_log("a conflict", |log| log.contains("] State: failed since "));
    let log = scene.log();
    let (_, line) = log
        .rsplit_once("] State: failed since ")
        .expect("its state");
    let next = line
        .lines()
        .next()
        .and_then(|line| line.rsplit_once("; type: "));
    let (_, next) = next.expect("a command");
    let situation = Situation {
        name: "A sync that has diverged",
        both: &["Failing since ", "conflict", ".beads/notes.txt", next],
        log: &[],
        status: &["free"],
        never: &["beadlock break", "kill "],
    };
    situation.is_told(&scene);
    situation.is_on_the_page(&scene);
}
