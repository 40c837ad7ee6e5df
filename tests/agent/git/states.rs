//! Ten sabotages of a database, each seen in every place where an agent can be asked, in the same words; and the way
//! back. docs/troubleshooting.md has a row for each state.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, lock_text, run, skip, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::bench::{Bench, each, script, stops_when_naive};

struct Sabotage {
    name: &'static str,
    /// What is done to the clone; `None`: see [`Sabotage::commit`].
    act: fn(&Bench),
    /// How a person mends it, in the shell.
    mend: &'static str,
    state: &'static str,
    reason: &'static str,
    /// Part of the sentence that says why.
    why: &'static str,
    /// How `--once` ends.
    code: i32,
    /// How the headline of `beadlock log` begins.
    headline: &'static str,
}

/// The shell, in the agent's clone.
fn sh(bench: &Bench, script: &str) {
    let ended = bench.shell(script);
    assert_eq!(ended.code, 0, "{script}: {ended:?}");
}

fn lock(bench: &Bench, text: &str) {
    fs::write(bench.here().join(".beads/.exclusive-lock"), text).expect("write a lock");
}

const UNLOCK: &str = "rm .beads/.exclusive-lock";

const SABOTAGES: &[Sabotage] = &[
    Sabotage {
        name: "the remote is gone",
        act: |bench| {
            sh(bench, "mv ../remote.git ../away.git");
            bench.write(".beads/mine.jsonl", "1\n");
        },
        mend: "mv ../away.git ../remote.git",
        state: "local_only",
        reason: "remote_unreachable",
        why: "1 commit waits, since ",
        code: 1,
        headline: "Not pushing since ",
    },
    Sabotage {
        name: "no upstream",
        act: |bench| sh(bench, "git branch -q --unset-upstream"),
        mend: "git branch -q -u origin/main",
        state: "local_only",
        reason: "no_upstream",
        why: "the branch main has no upstream",
        code: 1,
        headline: "Not pushing since ",
    },
    Sabotage {
        name: ".git is deleted",
        act: |bench| sh(bench, "mv .git ../git.away"),
        mend: "mv ../git.away .git",
        state: "failed",
        reason: "no_repository",
        why: "is in no git repository",
        code: 1,
        headline: "Failing since ",
    },
    Sabotage {
        name: "a detached HEAD",
        act: |bench| sh(bench, "git checkout -q --detach"),
        mend: "git checkout -q main",
        state: "failed",
        reason: "detached_head",
        why: "HEAD is detached in ",
        code: 1,
        headline: "Failing since ",
    },
    Sabotage {
        name: "a conflict",
        act: |bench| {
            bench.pushed_there(&[(".beads/issues.jsonl", "there\n")]);
            bench.write(".beads/issues.jsonl", "here\n");
        },
        mend: "until git pull -q --rebase -X theirs; do git rebase --abort; sleep 0.05; done 2>/dev/null",
        state: "failed",
        reason: "conflict",
        why: ".beads/issues.jsonl",
        code: 1,
        headline: "Failing since ",
    },
    Sabotage {
        name: "a hook that fails",
        act: |bench| {
            script(
                &bench.here().join(".git/hooks/pre-commit"),
                "echo not today >&2; exit 1",
            );
            bench.write(".beads/mine.jsonl", "1\n");
        },
        mend: "rm .git/hooks/pre-commit",
        state: "failed",
        reason: "hook",
        why: "pre-commit",
        code: 1,
        headline: "Failing since ",
    },
    Sabotage {
        name: "a foreign lock",
        act: |bench| lock(bench, &lock_text("night-job", 1, "build-9")),
        mend: UNLOCK,
        state: "skipped",
        reason: "other_host",
        why: "night-job",
        code: 4,
        headline: "Skipping since ",
    },
    Sabotage {
        name: "a malformed lock",
        act: |bench| lock(bench, "{\"holder\": "),
        mend: UNLOCK,
        state: "skipped",
        reason: "malformed",
        why: "malformed lock file",
        code: 5,
        headline: "Skipping since ",
    },
    Sabotage {
        name: "a dirty tree",
        act: |bench| {
            bench.write("src/x.rs", "in the middle of it\n");
            bench.pushed_there(&[(".beads/theirs.jsonl", "1\n")]);
        },
        mend: "git checkout -q src/x.rs",
        state: "behind",
        reason: "dirty_tree",
        why: "uncommitted changes outside .beads (src/x.rs)",
        code: 1,
        headline: "Not pulling since ",
    },
    Sabotage {
        name: "a wrong owner",
        act: |bench| sh(bench, "chown 54321 .beads"),
        mend: "chown 0 .beads",
        state: "not_serving",
        reason: "wrong_owner",
        why: "54321",
        code: 1,
        headline: "Not serving since ",
    },
];

/// An agent, and everybody whom it tells how it fares.
struct Watched<'a> {
    bench: &'a Bench,
    manager: UnixDatagram,
    agent: Running,
}

impl<'a> Watched<'a> {
    fn start(bench: &'a Bench) -> Self {
        let path = bench.path().join("notify.sock");
        let manager = UnixDatagram::bind(&path).expect("a service manager's socket");
        manager
            .set_nonblocking(true)
            .expect("a socket that is asked");
        let times = [
            "--interval",
            "100ms",
            "--debounce",
            "20ms",
            "--fetch-interval",
            "100ms",
            "--stale-after",
            "1ms",
        ];
        let mut command = bench.agent(&times);
        command
            .arg("--listen")
            .arg(socket(bench))
            .env("NOTIFY_SOCKET", path);
        let agent = Running::start(command);
        wait_until(PATIENCE, "the socket", || {
            UnixStream::connect(socket(bench)).is_ok()
        });
        Self {
            bench,
            manager,
            agent,
        }
    }

    fn get(&self, page: &str) -> (u16, String) {
        let mut stream = UnixStream::connect(socket(self.bench)).expect("the agent listens");
        stream
            .write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes())
            .expect("a question");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        beadlock_tests::schema::see(body);
        (
            head.split(' ')
                .nth(1)
                .and_then(|code| code.parse().ok())
                .expect("a status"),
            body.to_owned(),
        )
    }

    /// The database's row of `/status`.
    fn row(&self) -> Value {
        let page: Value = serde_json::from_str(&self.get("/status").1).expect("JSON");
        page["databases"][0].clone()
    }

    fn waits_for(&self, state: &str) {
        let what = format!("the state {state}");
        let is_there = || self.row()["state"] == state;
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(PATIENCE, &what, is_there)
        }));
        assert!(
            seen.is_ok(),
            "never {state}: {}\n{}",
            self.row(),
            self.bench.log()
        );
    }

    /// The service manager has heard these words.
    fn told_manager(&self, words: &str) {
        let mut buffer = [0; 4096];
        wait_until(PATIENCE, words, || {
            std::iter::from_fn(|| {
                self.manager
                    .recv(&mut buffer)
                    .ok()
                    .map(|length| buffer[..length].to_vec())
            })
            .any(|message| String::from_utf8_lossy(&message).contains(words))
        });
    }

    fn stop(self) {
        self.agent.signal(Signal::SIGTERM);
        assert_eq!(self.agent.finish(PATIENCE).status.code(), Some(0));
    }
}

fn socket(bench: &Bench) -> PathBuf {
    bench.path().join("agent.sock")
}

/// The last line of a state in the log.
fn last_state(bench: &Bench) -> String {
    bench
        .log()
        .lines()
        .rev()
        .find(|line| line.contains("] State: "))
        .unwrap_or_default()
        .to_owned()
}

/// What `beadlock ARGS` prints.
fn beadlock(bench: &Bench, args: &[&str]) -> String {
    let mut command = bench.scene().beadlock(args);
    command.current_dir(bench.here());
    String::from_utf8_lossy(&run(command).stdout).into_owned()
}

#[test]
fn each_sabotage_is_seen_in_every_place_and_so_is_the_way_back() {
    if stops_when_naive() {
        return;
    }
    each(SABOTAGES, |row| row.name.to_owned(), seen);
}

fn seen(row: &Sabotage) {
    if row.reason == "wrong_owner" && !skip::root() {
        return;
    }
    let bench = Bench::new();
    let agent = Watched::start(&bench);
    agent.waits_for("synced");
    wait_until(PATIENCE, "an agent that is ready", || {
        agent.get("/readyz").0 == 200
    });
    agent.told_manager("1 synced");
    // It is stopped meanwhile: between the two steps of a conflict it could pull the first and commit the second.
    agent.agent.signal(Signal::SIGSTOP);
    (row.act)(&bench);
    agent.agent.signal(Signal::SIGCONT);
    agent.waits_for(row.state);
    // A lock that is written in place is malformed for a moment.
    wait_until(PATIENCE, row.reason, || agent.row()["reason"] == row.reason);
    let in_every_place = || {
        let status = agent.row();
        assert_eq!(status["reason"], row.reason, "{status}");
        let why = status["why"].as_str().expect("a sentence").to_owned();
        assert!(why.contains(row.why), "{why}");

        let line = format!("State: {} since ", row.state);
        wait_until(PATIENCE, &line, || {
            let told = last_state(&bench);
            told.contains(&line) && told.contains(row.why)
        });

        let headline = beadlock(&bench, &["log", ".beads/daemon.log"]);
        let beginning = format!(".beads/daemon.log: {}", row.headline);
        assert!(
            headline.starts_with(&beginning) && headline.contains(row.why),
            "{headline}"
        );

        let table = beadlock(
            &bench,
            &["status", "--agent", &socket(&bench).display().to_string()],
        );
        assert!(
            table.contains(row.state) && !table.contains(" synced"),
            "{table}"
        );

        let metrics = agent.get("/metrics").1;
        for series in [
            format!("sync_state{{state=\"{}\"}} 1\n", row.state),
            "sync_state{state=\"synced\"} 0\n".to_owned(),
        ] {
            assert!(
                metrics.contains(&format!("beadlock_agent_{series}")),
                "{series} in {metrics}"
            );
        }
        let named = format!(".beads\",state=\"{}\"}} 1\n", row.state);
        assert!(metrics.contains(&named), "{named} in {metrics}");
    };
    in_every_place();
    let is_ready = || agent.get("/readyz");
    if row.state == "skipped" {
        assert_eq!(is_ready().0, 200, "a claim may last");
    } else {
        let (code, text) = is_ready();
        assert!(
            code == 503 && text.contains(&format!(".beads: {} for ", row.state)),
            "{code} {text}"
        );
    }
    agent.told_manager(&format!("1 {}", row.state));
    sh(&bench, row.mend);
    agent.waits_for("synced");
    wait_until(PATIENCE, "the good news", || {
        last_state(&bench).contains("State: synced since ")
    });
    assert_eq!(is_ready(), (200, "ready\n".to_owned()));
    assert!(
        beadlock(&bench, &["log", ".beads/daemon.log"]).starts_with(".beads/daemon.log: Syncing")
    );
    agent.told_manager("1 synced");
    agent.stop();

    let bench = Bench::new();
    bench.syncs(row.name);
    (row.act)(&bench);
    bench.once().ends_with(row.code, row.name);
    sh(&bench, row.mend);
    bench.once().ends_with(0, row.name);
}

/// Each state names a row of the page that the person on call opens.
#[test]
fn the_page_for_trouble_has_each_state() {
    let page = fs::read_to_string(beadlock_tests::skip::checkout().join("docs/troubleshooting.md"))
        .expect("the page");
    for state in [
        "not_serving",
        "failed",
        "skipped",
        "local_only",
        "behind",
        "starting",
        "idle",
        "synced",
    ] {
        assert!(
            page.contains(&format!("`{state}`")),
            "docs/troubleshooting.md does not explain {state}"
        );
    }
}
