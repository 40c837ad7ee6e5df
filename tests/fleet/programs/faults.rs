//! What fails while a claim is held or a cycle runs: processes that are killed or stopped, etcd that goes away,
//! sessions that somebody ends. After each: no overlap, and the words say what happened.

use std::time::{Duration, Instant};

use beadlock_base::process::Stat;
use beadlock_core::facts;
use beadlock_fleet::{BrokenValue, Lease, T};
use beadlock_tests::{Ended, PATIENCE, Running, Scene, children, lives, run, until, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::programs::runs::Witness;
use crate::site::Site;

const NAME: &str = "acme/tracker";

/// When everything of a session is gone, after the last renewal; and as long again for a slow machine.
const LAPSED: Duration = Duration::from_secs(2 * T.as_secs());

/// A fleet with two clones: one that claims, and one with an agent whose cycles follow each other.
struct Pair {
    site: Site,
    claimant: Scene,
    served: Scene,
    witness: Witness,
}

impl Pair {
    fn new() -> Option<Self> {
        let site = Site::new()?;
        let (claimant, served) = (site.clone_of(NAME), site.clone_of(NAME));
        let witness = Witness::in_scene(&claimant);
        Some(Self {
            site,
            claimant,
            served,
            witness,
        })
    }

    /// An agent whose cycles do this, once it has had some.
    fn agent(&self, work: &str) -> Running {
        let agent = self
            .site
            .agent(&self.served, &self.witness.script("cycle", work));
        until("a first cycle", || self.witness.count("cycle") > 0);
        agent
    }

    /// A claim that stands, and its command: it works until the file `go` is there.
    fn hold(&self) -> Running {
        let script = self.witness.script(
            "claim",
            "echo $$ > held; while ! test -e go; do sleep 0.02; done",
        );
        let args = [
            "hold",
            "--holder",
            "release-job",
            "--wait",
            "60s",
            "--",
            "sh",
            "-c",
            &script,
        ];
        let hold = Running::start(self.site.beadlock(&self.claimant, &args));
        until("the claim", || self.claimant.read("held").ends_with('\n'));
        hold
    }

    fn command(&self) -> i32 {
        self.claimant.pid_in("held")
    }

    /// A whole claim, which has to come to its end within two T.
    fn claims_again(&self) {
        let script = self.witness.script("claim", "true");
        let args = ["hold", "--wait", "30s", "--", "sh", "-c", &script];
        let held = Ended::of(&run(self.site.beadlock(&self.claimant, &args)));
        assert_eq!(held.code, 0, "{}", held.err);
    }

    fn cycles_go_on(&self) {
        let count = self.witness.count("cycle");
        wait_until(LAPSED, "more cycles", || {
            self.witness.count("cycle") > count + 2
        });
    }

    fn has_no_overlap(&self) {
        assert_eq!(self.witness.overlaps(), []);
    }
}

fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).expect("it lives");
}

#[test]
fn a_holder_that_is_killed_takes_its_work_along_and_the_claim_lapses() {
    let Some(pair) = Pair::new() else { return };
    let agent = pair.agent("sleep 0.02");
    let hold = pair.hold();
    let command = pair.command();
    hold.signal(Signal::SIGKILL);
    wait_until(PATIENCE, "the end of the work", || !lives(command));
    pair.cycles_go_on();
    pair.claims_again();
    pair.has_no_overlap();
    assert_eq!(agent.stop(), Some(0));
}

/// Its work is ended by the watchdog before anybody else may begin, and what goes on later begins nothing.
#[test]
fn a_holder_that_is_stopped_loses_its_claim_and_its_work_before_others_begin() {
    let Some(pair) = Pair::new() else { return };
    let agent = pair.agent("sleep 0.02");
    let mut hold = pair.hold();
    let command = pair.command();
    let cycles = pair.witness.count("cycle");
    hold.signal(Signal::SIGSTOP);
    wait_until(LAPSED, "the end of the work", || {
        Stat::read(command).is_none_or(|stat| stat.is_zombie())
    });
    assert_eq!(
        pair.witness.count("cycle"),
        cycles,
        "the work has ended before a cycle begins"
    );
    pair.cycles_go_on();
    hold.signal(Signal::SIGCONT);
    wait_until(PATIENCE, "its end", || hold.has_ended());
    let ended = Ended::of(&hold.finish(PATIENCE));
    assert_eq!(ended.code, 9, "{}", ended.err);
    assert!(
        ended
            .err
            .contains("lost the claim of acme/tracker in the fleet after "),
        "{}",
        ended.err
    );
    pair.claims_again();
    pair.has_no_overlap();
    assert_eq!(agent.stop(), Some(0));
}

/// The runner of the agent's cycle, and the process of its command.
fn runner_and_command(pair: &Pair, agent: &Running) -> (i32, i32) {
    let command = pair.served.pid_in("cycle");
    let runner = Stat::read(command).expect("it works").ppid;
    assert!(children(agent.pid()).contains(&runner));
    (runner, command)
}

const LONG: &str = "echo $$ > cycle; while ! test -e stop; do sleep 0.02; done";

#[test]
fn an_agent_that_is_killed_or_stopped_in_a_cycle_lets_a_claim_in_after_its_work_has_ended() {
    for fault in [Signal::SIGKILL, Signal::SIGSTOP] {
        let Some(pair) = Pair::new() else { return };
        let mut agent = pair.agent(LONG);
        let (_, command) = runner_and_command(&pair, &agent);
        agent.signal(fault);
        let hold = pair.hold();
        assert!(
            !lives(command),
            "{fault}: the claim stands, and the work has ended"
        );
        pair.claimant.write("go", "");
        let ended = Ended::of(&hold.finish(PATIENCE));
        assert_eq!(ended.code, 0, "{fault}: {}", ended.err);
        pair.has_no_overlap();
        if fault == Signal::SIGSTOP {
            pair.served.write("stop", "");
            agent.signal(Signal::SIGCONT);
            pair.cycles_go_on();
            assert_eq!(agent.stop(), Some(0));
        } else {
            agent.wait(PATIENCE);
        }
    }
}

/// The runner stands still, so the agent itself ends the work when etcd is silent.
#[test]
fn a_stopped_runner_does_not_keep_work_alive_past_the_deadline() {
    let Some(mut pair) = Pair::new() else { return };
    let agent = pair.agent(LONG);
    let (runner, command) = runner_and_command(&pair, &agent);
    signal(runner, Signal::SIGSTOP);
    let cut = Instant::now();
    pair.site.etcd.kill_all();
    wait_until(LAPSED, "the end of the work", || !lives(command));
    assert!(
        cut.elapsed() < T,
        "before the session has lapsed: {:?}",
        cut.elapsed()
    );
    until("the line", || {
        pair.served
            .log()
            .contains("its right in the fleet was lost after ")
    });
    assert_eq!(agent.stop(), Some(0));
}

/// Cycles go on until the deadline and are skipped from then on; a claimant hears at once that nobody answers.
#[test]
fn without_etcd_cycles_go_on_until_the_deadline_and_no_claim_begins() {
    let Some(mut pair) = Pair::new() else { return };
    let agent = pair.agent("sleep 0.02");
    let cut = facts::boottime();
    pair.site.etcd.kill_all();
    let before = pair.witness.count("cycle");
    until("cycles go on", || pair.witness.count("cycle") > before + 5);
    let args = ["hold", "--wait", "2s", "--", "touch", "ran"];
    let held = Ended::of(&run(pair.site.beadlock(&pair.claimant, &args)));
    assert_eq!(held.code, 5, "{}", held.err);
    assert!(!pair.claimant.file("ran").exists() && !pair.claimant.lock().exists());
    let words = "Skipping database (lock check failed: fleet: no ";
    wait_until(LAPSED, "skips", || pair.served.log().contains(words));
    assert!(facts::boottime() < cut + T + Duration::from_secs(5));
    let count = pair.witness.count("cycle");
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(pair.witness.count("cycle"), count, "none begins any more");
    let last = pair
        .witness
        .runs()
        .iter()
        .map(|run| run.begun)
        .max()
        .unwrap_or_default();
    assert!(
        last < ((cut + T).as_millis() / 10) as u64,
        "none has begun after the session has lapsed"
    );
    pair.site.etcd.restart();
    pair.cycles_go_on();
    pair.claims_again();
    pair.has_no_overlap();
    assert_eq!(agent.stop(), Some(0));
}

/// The lease of the session that has this key.
fn lease_of(site: &Site, below: &str) -> String {
    let key = site
        .keys()
        .into_iter()
        .find(|key| key.contains(below))
        .expect("the key is there");
    let json = site.etcd.ctl(&["get", &key, "-w", "json"]);
    let found: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    format!("{:x}", found["kvs"][0]["lease"].as_i64().expect("a lease"))
}

/// An etcd that revokes a living lease is not promised against: the work ends with the next renewal.
#[test]
fn a_revoked_lease_ends_the_command_at_once_when_it_is_noticed() {
    let Some(pair) = Pair::new() else { return };
    let hold = pair.hold();
    let command = pair.command();
    let lease = lease_of(&pair.site, "/claims/");
    let begun = Instant::now();
    pair.site.etcd.ctl(&["lease", "revoke", &lease]);
    wait_until(LAPSED, "the end of the work", || {
        Stat::read(command).is_none_or(|stat| stat.is_zombie())
    });
    assert!(
        begun.elapsed() < T / 3 + Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let ended = Ended::of(&hold.finish(PATIENCE));
    assert_eq!(ended.code, 9, "{}", ended.err);
    assert!(ended.err.contains("the session is gone"), "{}", ended.err);
    pair.claims_again();
}

/// Marks the session of a claim or an agent as broken, as `beadlock break` and `fleet evict` do.
fn break_session(site: &Site, below: &str) {
    let lease = Lease::parse(&format!("{:0>16}", lease_of(site, below))).expect("a lease");
    let at = facts::now();
    let why = BrokenValue {
        by: "ann".into(),
        host: "desk".into(),
        why: "the release is off".into(),
        at,
    };
    let fleet = site.fleet();
    fleet.evict(lease, &why).expect("to evict");
}

#[test]
fn a_broken_claim_ends_its_command_and_says_by_whom_and_why() {
    let Some(pair) = Pair::new() else { return };
    let hold = pair.hold();
    let begun = Instant::now();
    break_session(&pair.site, "/claims/");
    let ended = Ended::of(&hold.finish(PATIENCE));
    assert_eq!(ended.code, 9, "{}", ended.err);
    assert!(
        ended
            .err
            .contains("broken by ann on desk: the release is off"),
        "{}",
        ended.err
    );
    assert!(begun.elapsed() < T, "{:?}", begun.elapsed());
    pair.claims_again();
}

#[test]
fn an_evicted_agent_ends_its_cycle_and_comes_back_with_a_new_session() {
    let Some(pair) = Pair::new() else { return };
    let agent = pair.agent(LONG);
    let (_, command) = runner_and_command(&pair, &agent);
    break_session(&pair.site, "/agents/");
    wait_until(T, "the end of the work", || !lives(command));
    until("the line", || {
        pair.served
            .log()
            .contains("Lost the fleet: broken by ann on desk: the release is off")
    });
    pair.served.write("stop", "");
    pair.cycles_go_on();
    assert!(
        pair.served.log().matches("Joined the fleet ").count() > 1,
        "{}",
        pair.served.log()
    );
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn a_cycle_that_is_longer_than_the_drain_is_named() {
    let Some(pair) = Pair::new() else { return };
    let agent = pair.agent(LONG);
    let args = ["hold", "--drain", "1s", "--", "touch", "ran"];
    let held = Ended::of(&run(pair.site.beadlock(&pair.claimant, &args)));
    assert_eq!(held.code, 4, "{}", held.err);
    let words = format!("(PID {})", agent.pid());
    assert!(
        held.err.contains("acme/tracker is busy in the fleet: ") && held.err.contains(&words),
        "{}",
        held.err
    );
    assert!(!pair.claimant.file("ran").exists() && !pair.claimant.lock().exists());
    let json = ["--json", "hold", "--drain", "100ms", "--", "true"];
    let json = Ended::of(&run(pair.site.beadlock(&pair.claimant, &json))).json();
    assert_eq!(json["error"]["code"], "DRAIN_TIMEOUT");
    pair.served.write("stop", "");
    pair.claims_again();
    pair.has_no_overlap();
    assert_eq!(agent.stop(), Some(0));
}

/// Data lost: everything under the old fleet ends, and all stand still until somebody makes it anew and the clones
/// join.
#[test]
fn a_lost_fleet_ends_the_work_and_nobody_begins() {
    let Some(mut pair) = Pair::new() else { return };
    let agent = pair.agent("sleep 0.02");
    let hold = pair.hold();
    let command = pair.command();
    pair.site.etcd.lose_data();
    wait_until(LAPSED, "the end of the work", || {
        Stat::read(command).is_none_or(|stat| stat.is_zombie())
    });
    let ended = Ended::of(&hold.finish(PATIENCE));
    assert_eq!(ended.code, 9, "{}", ended.err);
    pair.site.make();
    let skips = || {
        pair.served
            .log()
            .matches("Skipping database (lock check failed: fleet: ")
            .count()
    };
    let count = pair.witness.count("cycle");
    wait_until(LAPSED, "skips", || skips() > 0);
    assert_eq!(
        pair.witness.count("cycle"),
        count,
        "the mark is of the old one"
    );
    for clone in [&pair.claimant, &pair.served] {
        std::fs::remove_file(clone.beads().join(".exclusive-fleet")).expect("the mark");
        pair.site.join(clone, NAME);
    }
    pair.cycles_go_on();
    pair.claims_again();
    pair.has_no_overlap();
    assert_eq!(agent.stop(), Some(0));
}
