//! 200 databases, two agents of which one is killed again and again, and holders of every kind, of which some are
//! killed. No cycle runs beside a claim whose drain has ended, and no two claims of ours meet. Every database is
//! synced after its last release. The agent that has lived through it holds no more than at its start.
//!
//! 30 seconds, or `SOAK_SECONDS`; `make soak` lets it run for `SOAK_MINUTES`. `SOAK_SEED` repeats the dice. Beside
//! it, with databases of its own, a daemon that looks at the lock and then works: it must be found out, or the
//! witnesses are blind.

mod actor;
mod agents;
mod holders;
mod report;
mod rounds;
mod site;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use beadlock_tests::process::marked_by;
use beadlock_tests::seed::Recipe;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Dice, OverAtLast, Pulse, become_subreaper, binaries, wait_until};

use agents::Agent;
use report::Report;
use site::{Database, Site};

/// Holders at once; they mostly wait.
const LANES: usize = 5;
/// What is left of the time when the holders have gone: an interval, and a cycle for each database.
const LAST: Duration = Duration::from_secs(14);
/// What the memory may have grown by since a third of the time, in KiB: the allocator takes and gives back as
/// the threads come and go. Half an hour has 20,000 cycles after that third: 200 bytes that stay of each
/// would show.
const FLAT: u64 = 4 * 1024;

fn length() -> Duration {
    let number = |name: &str| std::env::var(name).ok()?.parse::<f64>().ok();
    let minutes = number("SOAK_MINUTES").map(|minutes| minutes * 60.0);
    Duration::from_secs_f64(number("SOAK_SECONDS").or(minutes).unwrap_or(30.0).max(30.0))
}

#[test]
fn two_hundred_databases_among_holders_of_every_kind() {
    let _ = binaries::directory();
    let begun = Instant::now();
    let site = Site::new(Dice::seed("SOAK_SEED"));
    become_subreaper();
    let recipe = Recipe::any();
    let steady = Agent::serving(["a", "b"]);
    let mortal = Agent::serving(["b", "c"]);
    let over = AtomicBool::new(false);
    let (unsynced, pulses) = std::thread::scope(|threads| {
        threads.spawn(|| actor::reap_orphans(&over));
        let _over = OverAtLast(&over);
        play(&site, &steady, &mortal, &recipe, begun + length())
    });
    let left: Vec<_> = site.databases.iter().flat_map(Database::left).collect();
    let report = Report::of(&site);
    let table = report.table(&site, unsynced.len(), pulses);
    println!("{table}");
    judge(&site, &report, &unsynced, pulses, &left, &table);
}

/// From the first start to the last end. Returns the names of the databases that are not synced, and how the
/// steady agent was at its start, at a third of the time and at its end.
fn play(
    site: &Site,
    steady: &Agent,
    mortal: &Agent,
    recipe: &Recipe,
    end: Instant,
) -> (Vec<String>, [Pulse; 3]) {
    let are_synced = |agent: &Agent| {
        site.databases
            .iter()
            .all(|it| !agent.serves(it) || it.is_synced(&site.ground()))
    };
    let all_are_synced = || are_synced(steady) && are_synced(mortal);
    for agent in [steady, mortal] {
        agent.start(site);
        wait_until(
            PATIENCE * 4,
            "a first cycle of each of its databases",
            || are_synced(agent),
        );
    }
    let start = Pulse::at_rest(steady.pid(), 0, Duration::from_secs(3));
    let pid = steady.pid();
    let third = end.saturating_duration_since(Instant::now()) / 3;
    let naive = agents::naive(site);
    let warm = std::thread::scope(|threads| {
        threads.spawn(|| mortal.is_killed_now_and_then(site));
        threads.spawn(|| rounds::rounds_of_control(site, recipe));
        for lane in 0..LANES {
            threads.spawn(move || rounds::rounds(site, lane, LANES, recipe));
        }
        std::thread::sleep(third);
        let warm = Pulse::of(pid);
        std::thread::sleep(end.saturating_duration_since(Instant::now() + LAST));
        // On a machine that is busy with other things a minute may be too short to show anything.
        let begun = Instant::now();
        while Report::of(site).lacking(site).is_some() && begun.elapsed() < PATIENCE * 4 {
            std::thread::sleep(Duration::from_millis(500));
        }
        site.end();
        warm
    });
    actor::kill_tree(naive.pid());
    drop(naive);
    let begun = Instant::now();
    while !all_are_synced() && begun.elapsed() < PATIENCE * 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!(
        "all synced {:.1} s after the last release",
        begun.elapsed().as_secs_f64()
    );
    let unsynced = site
        .databases
        .iter()
        .filter(|database| !database.is_synced(&site.ground()));
    let unsynced = unsynced.map(|database| database.name.clone()).collect();
    let pulses = [start, warm, Pulse::at_rest(pid, start.fds, PATIENCE)];
    if steady.pid() != pid {
        site.wrong("the steady agent is another one");
    }
    steady.stop(site);
    mortal.stop(site);
    wait_until(PATIENCE, "no process is left", || {
        marked_by(&site.scene).is_empty()
    });
    (unsynced, pulses)
}

fn judge(
    site: &Site,
    report: &Report,
    unsynced: &[String],
    pulses: [Pulse; 3],
    left: &[String],
    table: &str,
) {
    let [start, warm, end] = pulses;
    let talk = std::fs::read_to_string(site.ground().join("talk")).unwrap_or_default();
    let wrongs = site.wrongs();
    assert!(
        wrongs.is_empty(),
        "{wrongs:#?}\nwhat was said:\n{talk}\n{table}"
    );
    assert!(
        report.overlaps[0].is_empty(),
        "{:#?}\n{table}",
        report.overlaps[0]
    );
    assert!(unsynced.is_empty(), "not synced: {unsynced:?}\n{table}");
    assert!(left.is_empty(), "left behind: {left:?}\n{table}");
    assert!(
        end.fds <= start.fds && start.fds > 0,
        "descriptors are left open\n{table}"
    );
    assert!(
        end.watches == start.watches && start.watches > 0,
        "watches are not as they were\n{table}"
    );
    assert!(end.rss <= warm.rss + FLAT, "the memory has grown\n{table}");
    assert_eq!(
        report.lacking(site),
        None,
        "the test shows nothing\n{table}"
    );
}
