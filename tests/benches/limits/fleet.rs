//! Claims across machines: what a fleet of 1,000 idle agents costs its etcd of three nodes, and how soon a claim has
//! drained.
//!
//! The agents are those of the library, as the programs use them, all in this process. Each has a session of its own,
//! a right for one of 100 names that ten of them share, and later one for a name of all. The etcd is Debian's, on
//! loopback addresses, with its data in memory. A claim's time is from its begin, so it has its session in it.

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use beadlock_core::facts;
use beadlock_fleet::{
    ClaimState, Config, Fleet, FleetAgent, FleetClaim, FleetClaimRequest, Mark, MemberValue, Name,
    T, Who,
};
use beadlock_testkit::Etcd;
use beadlock_tests::{Spread, wait_until};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::table::{Table, Unit};

const AGENTS: usize = 1_000;
/// Agents that share a name.
const READERS: usize = 10;
/// How long the idle fleet is watched.
const WATCHED: Duration = Duration::from_secs(60);
/// Claims of each kind.
const CLAIMS: usize = 30;
/// Claims of the name that all agents share.
const LARGE: usize = 5;
/// Claims beside three agents.
const SMALL: usize = 200;

const IDLE_PROPOSALS: f64 = 0.0;
const IDLE_PERCENT: f64 = 20.0;
const DRAIN_SECONDS: f64 = 0.5;
const LARGE_DRAIN_SECONDS: f64 = 3.0;
const CLAIM_SECONDS: f64 = 0.1;
const RELEASE_SECONDS: f64 = 0.5;

const PATIENCE: Duration = Duration::from_secs(120);

pub fn measure(table: &mut Table) {
    let Some(etcd) = Etcd::three() else {
        table.not_here(
            "a fleet of three agents, and one of 1,000",
            "there is no etcd",
        );
        return;
    };
    let ground = Ground::on(&etcd);
    three(table, &ground);
    many(table, &ground, &etcd);
}

/// A fleet that is old enough for everybody to begin.
struct Ground {
    config: Config,
    fleet: Fleet,
}

impl Ground {
    fn on(etcd: &Etcd) -> Self {
        let config = Config::of_url(&etcd.url("beads"), Path::new("fleet.toml")).expect("a url");
        let fleet = Fleet::create(&config, None).expect("a fleet").fleet;
        // Nothing has run under an earlier one.
        etcd.ctl(&["del", "/beads/v1/new"]);
        Self { config, fleet }
    }

    fn join(&self, name: &str) -> Mark {
        let mark = Mark::of_new_clone(self.fleet.nonce(), &Name::parse(name).expect("a name"));
        let path = "/srv/tracker/.beads".to_owned();
        let member = MemberValue {
            host: "bench".to_owned(),
            path,
            version: "0".to_owned(),
            since: facts::now(),
        };
        self.fleet.join(&mark, &member).expect("joined");
        mark
    }

    fn agent(&self) -> FleetAgent {
        FleetAgent::start(self.config.clone(), Who::this_process()).expect("an agent")
    }

    /// Claims, and returns how long it took until it was drained.
    fn claim(&self, mark: &Mark) -> (FleetClaim, Duration) {
        let request = FleetClaimRequest {
            mark: mark.clone(),
            holder: "bench".into(),
            id: "bench".into(),
            who: Who::this_process(),
        };
        let begun = Instant::now();
        let claim = FleetClaim::begin(self.config.clone(), request).expect("a claim begins");
        loop {
            claim.hear();
            match claim.state() {
                ClaimState::Held(_) => return (claim, begun.elapsed()),
                ClaimState::Failed(error) => panic!("{error}"),
                _ => heard(claim.bell()),
            }
            assert!(begun.elapsed() < PATIENCE, "{:?}", claim.state());
        }
    }
}

fn heard(bell: impl AsFd) {
    let _ = poll(
        &mut [PollFd::new(bell.as_fd(), PollFlags::POLLIN)],
        PollTimeout::from(1_000_u16),
    );
}

/// Waits until this agent may run a cycle, as the programs do.
fn until_permitted(agent: &FleetAgent, mark: &Mark) {
    let begun = Instant::now();
    while agent.permit(mark).is_err() {
        heard(agent.bell());
        agent.hear();
        assert!(begun.elapsed() < PATIENCE, "{:?}", agent.status());
    }
}

/// How long until each of them may run a cycle again, from now on.
fn next_cycles(agents: &[FleetAgent], mark: &Mark, begun: Instant) -> Vec<Duration> {
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for agent in agents {
            scope.spawn(|| {
                until_permitted(agent, mark);
                found.lock().expect("no panic").push(begun.elapsed());
            });
        }
    });
    found.into_inner().expect("no panic")
}

fn spread(times: &[Duration]) -> Spread {
    Spread::of(times.iter().map(Duration::as_secs_f64))
}

fn three(table: &mut Table, ground: &Ground) {
    let mark = ground.join("acme/tracker");
    let agents = [ground.agent(), ground.agent(), ground.agent()];
    let (mut claims, mut releases) = (Vec::new(), Vec::new());
    next_cycles(&agents, &mark, Instant::now());
    for _ in 0..if table.is_short { 2 } else { SMALL } {
        let (claim, took) = ground.claim(&mark);
        claims.push(took);
        let begun = Instant::now();
        // The end of a claim waits for its answer, and the agents do not.
        std::thread::scope(|scope| {
            scope.spawn(|| claim.end());
            releases.extend(next_cycles(&agents, &mark, begun));
        });
    }
    for agent in &agents {
        agent.end().expect("its session ends");
    }
    let (claims, releases) = (spread(&claims), spread(&releases));
    let figure = "fleet of 3 agents: claim to drained, p50";
    table.value(
        figure,
        Unit::Seconds,
        Some(CLAIM_SECONDS),
        claims.median(),
        Some(&claims),
    );
    let figure = "fleet of 3 agents: release to the next cycle elsewhere, p99";
    table.value(
        figure,
        Unit::Seconds,
        Some(RELEASE_SECONDS),
        releases.percentile(99),
        Some(&releases),
    );
}

fn many(table: &mut Table, ground: &Ground, etcd: &Etcd) {
    let count = if table.is_short { 2 * READERS } else { AGENTS };
    let groups: Vec<Mark> = (0..count / READERS)
        .map(|group| ground.join(&format!("group/{group}")))
        .collect();
    let agents: Vec<FleetAgent> = (0..count).map(|_| ground.agent()).collect();
    for (number, agent) in agents.iter().enumerate() {
        until_permitted(agent, &groups[number / READERS]);
    }
    idle(table, etcd, count);
    let claims = if table.is_short { 2 } else { CLAIMS };
    let drained: Vec<Duration> = (0..claims)
        .map(|round| ended(ground.claim(&groups[round % groups.len()])))
        .collect();
    let drained = spread(&drained);
    let figure = format!("fleet of {count} agents: claim to drained, {READERS} readers, p50");
    table.value(
        &figure,
        Unit::Seconds,
        Some(DRAIN_SECONDS),
        drained.median(),
        Some(&drained),
    );
    let all = ground.join("acme/all");
    let mut drained = Vec::new();
    for _ in 0..if table.is_short { 1 } else { LARGE } {
        next_cycles(&agents, &all, Instant::now());
        drained.push(ended(ground.claim(&all)));
    }
    let drained = spread(&drained);
    let figure = format!("fleet of {count} agents: claim to drained, {count} readers, p50");
    table.value(
        &figure,
        Unit::Seconds,
        Some(LARGE_DRAIN_SECONDS),
        drained.median(),
        Some(&drained),
    );
    std::thread::scope(|scope| {
        agents
            .iter()
            .for_each(|agent| drop(scope.spawn(|| agent.end())))
    });
}

/// The claim ends; how long it took to drain.
fn ended((claim, took): (FleetClaim, Duration)) -> Duration {
    claim.end().expect("its session ends");
    took
}

/// What the nodes do for agents that nobody disturbs.
fn idle(table: &mut Table, etcd: &Etcd, agents: usize) {
    /// Elections are entries of the log too. A machine that is too small for the start of so many may have one late.
    const TRIES: usize = 3;
    let watched = if table.is_short {
        Duration::from_secs(6)
    } else {
        WATCHED
    };
    let nodes = nodes();
    assert_eq!(nodes.len(), 3, "the nodes are children of this process");
    // What the start has left behind goes meanwhile: where its machine is too small for so many at once, an answer came
    // too late, and the agent has begun again with another lease.
    std::thread::sleep(if table.is_short {
        Duration::from_secs(1)
    } else {
        T + Duration::from_secs(2)
    });
    let mut tries = 0;
    let (done, percents) = loop {
        tries += 1;
        let (before, used_before) = (
            applied(etcd),
            nodes.iter().map(|pid| used_by(*pid)).collect::<Vec<_>>(),
        );
        let begun = Instant::now();
        wait_until(watched + PATIENCE, "the idle fleet was watched", || {
            begun.elapsed() >= watched
        });
        let used = nodes
            .iter()
            .zip(used_before)
            .map(|(pid, before)| (used_by(*pid) - before).as_secs_f64());
        let seconds = begun.elapsed().as_secs_f64();
        let percents = Spread::of(used.map(|used| used / seconds * 100.0));
        let after = applied(etcd);
        if after.term == before.term || tries == TRIES {
            break (after.entries - before.entries, percents);
        }
        println!("the nodes have elected a leader meanwhile: once more");
    };
    let figure = format!(
        "fleet of {agents} idle agents: proposals that etcd applies in {} s",
        watched.as_secs()
    );
    table.value(
        &figure,
        Unit::Count,
        Some(IDLE_PROPOSALS),
        f64::from(u32::try_from(done).unwrap_or(u32::MAX)),
        None,
    );
    let figure = format!("fleet of {agents} idle agents: of a core, the busiest node of three");
    table.value(
        &figure,
        Unit::Percent,
        Some(IDLE_PERCENT),
        percents.greatest(),
        Some(&percents),
    );
}

/// How far the first node's log is.
struct Applied {
    entries: u64,
    term: u64,
}

fn applied(etcd: &Etcd) -> Applied {
    let status = etcd.ctl(&["endpoint", "status", "--write-out=json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    let number = |name: &str| status[0]["Status"][name].as_u64().expect("a number");
    Applied {
        entries: number("raftIndex"),
        term: number("raftTerm"),
    }
}

/// What a process has used of the processors so far.
fn used_by(pid: Pid) -> Duration {
    let clock = clock_getcpuclockid(pid).expect("it lives");
    clock_gettime(clock)
        .expect("a clock of the processor")
        .into()
}

/// The PIDs of the etcd that this process has started.
fn nodes() -> Vec<Pid> {
    let tasks = fs::read_dir("/proc/self/task").expect("proc").flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids = children.flat_map(|line| {
        line.split(' ')
            .filter_map(|pid| pid.parse().ok())
            .collect::<Vec<i32>>()
    });
    let is_etcd = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "etcd")
    };
    pids.filter(is_etcd).map(Pid::from_raw).collect()
}
