//! Agents of two clones, and a claim in one of them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use beadlock_tests::{Ended, Running, Scene, run, until};

use crate::programs::runs::Witness;
use crate::site::Site;

const NAME: &str = "acme/tracker";

#[test]
fn no_agent_of_any_clone_runs_a_cycle_during_a_claim() {
    let Some(site) = Site::new() else { return };
    let clones = [site.clone_of(NAME), site.clone_of(NAME)];
    let witness = Witness::in_scene(&clones[0]);
    let cycle = witness.script("cycle", "sleep 0.05");
    let agents = clones.each_ref().map(|clone| site.agent(clone, &cycle));
    for clone in &clones {
        until("cycles", || {
            clone.log().matches("Sync cycle complete").count() > 3
        });
        assert!(
            clone.log().contains("Joined the fleet etcd://"),
            "{}",
            clone.log()
        );
    }
    let script = witness.script("claim", "sleep 2");
    let claim = ["hold", "--holder", "release-job", "--", "sh", "-c", &script];
    let held = Ended::of(&run(site.beadlock(&clones[0], &claim)));
    assert_eq!(held.code, 0, "{}", held.err);
    // That of the claimed clone cannot begin its next cycle for its own lock, but has its right, as the other one.
    assert!(
        held.err.contains("2 agents on 1 host drained"),
        "{}",
        held.err
    );
    let cycles = witness.count("cycle");
    until("cycles after the claim", || {
        witness.count("cycle") > cycles + 10
    });
    assert_eq!(witness.overlaps(), []);
    let other = clones[1].log();
    assert!(
        other.contains("Skipping database (locked by release-job)"),
        "{other}"
    );
    assert!(
        other.contains("Held since ") && other.contains("(fleet_held)"),
        "{other}"
    );
    assert!(other.contains("Resumed after "), "{other}");
    for agent in agents {
        let begun = std::time::Instant::now();
        assert_eq!(agent.stop(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
    let left = site.keys();
    assert!(
        !left
            .iter()
            .any(|key| key.contains("/agents/") || key.contains("/sessions/")),
        "{left:?}"
    );
}

/// What the agent's `/metrics` says.
fn metrics(scene: &Scene) -> String {
    let address = || {
        scene
            .log()
            .lines()
            .find_map(|line| Some(line.split_once("Listening at ")?.1.to_owned()))
    };
    until("it listens", || address().is_some());
    let mut stream = TcpStream::connect(address().expect("an address")).expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

#[test]
fn the_metrics_have_the_session_and_the_rights() {
    let Some(site) = Site::new() else { return };
    let clones = [site.clone_of(NAME), site.clone_of(NAME)];
    let mut command = site.agent_command(&clones[0], "sleep 0.02");
    command.args(["--listen", "127.0.0.1:0"]);
    let agent = Running::start(command);
    until("cycles", || clones[0].log().contains("Sync cycle complete"));
    let text = metrics(&clones[0]);
    for line in [
        "beadlock_agent_fleet_session{state=\"live\"} 1",
        "beadlock_agent_fleet_session{state=\"lost\"} 0",
        "beadlock_agent_fleet_rights{state=\"held\"} 1",
        "beadlock_agent_fleet_rights{state=\"claimed\"} 0",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    let value = |name: &str, text: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(name))
            .map(str::to_owned);
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
    };
    let left = value("beadlock_agent_fleet_deadline_seconds ", &text).expect("a deadline");
    assert!((5.0..13.2).contains(&left), "{left}");
    assert_eq!(
        value("beadlock_agent_fleet_yield_seconds ", &text),
        None,
        "no claim has waited for it"
    );
    assert_eq!(
        run(site.beadlock(&clones[1], &["hold", "--", "true"]))
            .status
            .code(),
        Some(0)
    );
    let text = metrics(&clones[0]);
    let took =
        value("beadlock_agent_fleet_yield_seconds ", &text).expect("a claim has waited for it");
    assert!((0.0..10.0).contains(&took), "{took}");
    assert_eq!(agent.stop(), Some(0));
}

/// The mark is never committed, and where git tracks it, nothing is synced: a pull could take the clone out of the fleet.
#[test]
fn git_never_gets_the_mark_and_one_that_it_tracks_is_refused() {
    let Some(site) = Site::new() else { return };
    let clone = site.clone_of(NAME);
    let git = |script: &str| {
        let identity = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b";
        Ended::of(&run(clone.shell(&format!("{identity}; {script}"))))
    };
    let made = git(
        "git init -q -b main . && git config user.name a && git config user.email a@b && git commit -q --allow-empty -m one",
    );
    assert_eq!(made.code, 0, "{}", made.err);
    let agent = || Ended::of(&run(site.agent_with(&clone, &["--once", "--action", "git"])));
    agent();
    let tracked = git("git ls-files .beads").out;
    assert!(
        tracked.contains("issues.jsonl") && !tracked.contains(".exclusive-fleet"),
        "{tracked}\n{}",
        clone.log()
    );
    assert_eq!(
        git("git add -f .beads/.exclusive-fleet && git commit -qm mark").code,
        0
    );
    clone.write(".beads/issues.jsonl", "{\"id\":\"bd-2\"}\n");
    agent();
    let log = clone.log();
    assert!(
        log.contains(".exclusive-fleet") && log.contains("rm --cached -- .beads/.exclusive-fleet"),
        "{log}"
    );
    assert!(
        git("git status --porcelain .beads/issues.jsonl")
            .out
            .contains("issues.jsonl"),
        "nothing is committed"
    );
}
