//! One agent for 10,000 databases, and claims of some of them all the time. A skipped database resumes when the claim
//! ends, for which the clock would be too late. The agent holds no more of anything than before.
//!
//! Twenty seconds, or `SOAK_SECONDS`; `make soak` lets it run for ten minutes, or `SOAK_MINUTES`. `SOAK_SEED` repeats
//! the dice. What leaks with each cycle shows in the long form: there are some 65,000 of them after the first third,
//! and 2 MiB are 32 bytes each. In twenty seconds there are 2,000.

mod database;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Dice, Pulse, Running, Scene, binaries, wait_until};

use database::Database;

/// Databases, where the machine allows so many watches.
const DATABASES: usize = 10_000;
/// Claims at once.
const CLAIMERS: usize = 8;
/// How long after a claim's end its database may take to resume: a third of the interval, so that the
/// clock would be too late for most. It takes milliseconds; the rest is for a machine that is busy with other things.
const BOUND: Duration = Duration::from_secs(20);
/// Half of all claims are seen to end within this, on a machine that is busy with other things.
const HALF: Duration = Duration::from_secs(3);
/// What the memory may have grown by after the first third of the time, in KiB, beside [`NEW`] for each database that
/// had no cycle before. A database's first claim leaves some hundred bytes behind, its later ones none.
const FLAT: u64 = 5 * 1024;
/// What the first cycle of a database adds, in KiB of 100 databases.
const NEW: u64 = 50;
/// The most memory of its own that an agent for so many may have, in KiB. `make bench` holds the release build to 60 MiB
/// with the pages of its code, alone on its machine. This is the debug build, whose code has 18 MiB and more with every
/// crate, beside other tests, where more threads have an arena of their own.
const MEMORY: u64 = 48 * 1024;

fn number(name: &str) -> Option<f64> {
    std::env::var(name).ok()?.parse().ok()
}

fn length() -> Duration {
    let minutes = number("SOAK_MINUTES").map(|minutes| minutes * 60.0);
    Duration::from_secs_f64(number("SOAK_SECONDS").or(minutes).unwrap_or(20.0).max(10.0))
}

/// How many have had a cycle.
fn begun_in(databases: &[Database]) -> usize {
    databases.iter().filter(|it| it.has_begun()).count()
}

/// So many that they and everything else can be watched.
fn how_many() -> usize {
    let limit =
        std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap_or_default();
    let limit: usize = limit.trim().parse().unwrap_or(0);
    let count = DATABASES.min(limit / 2);
    if count < DATABASES {
        println!("{count} databases only: fs.inotify.max_user_watches is {limit}");
    }
    count
}

#[test]
fn ten_thousand_databases_and_no_missed_resume() {
    let _ = binaries::directory();
    let seed =
        number("SOAK_SEED").map_or_else(|| u64::from(std::process::id()), |seed| seed as u64);
    println!("seed {seed} (SOAK_SEED repeats it, roughly)");
    let scene = Scene::new();
    let ground = scene.path().join("ground");
    let databases: Vec<Database> = (0..how_many())
        .map(|number| Database::new(&ground, number))
        .collect();
    let args = [
        "--root",
        "ground",
        "--interval",
        "60s",
        "--debounce",
        "50ms",
        "--action",
        "none",
    ];
    let mut agent = Running::start(scene.agent(&args));
    let pid = agent.pid();
    wait_until(PATIENCE * 4, "every database is watched", || {
        Pulse::of(pid).watches >= databases.len()
    });
    let begun = Instant::now();
    let end = begun + length();
    let waits = Mutex::new(Vec::new());
    let threads_allowed = std::thread::available_parallelism().map_or(1, usize::from) + 4;
    let ((warm, had_begun), last) = std::thread::scope(|scope| {
        for claimer in 0..CLAIMERS {
            let (databases, waits) = (&databases, &waits);
            scope.spawn(move || {
                let mut dice = Dice::new(seed, &claimer.to_string());
                // To each claimer its own.
                let own: Vec<&Database> =
                    databases.iter().skip(claimer).step_by(CLAIMERS).collect();
                while Instant::now() < end {
                    let wait = dice.one_of(&own).is_claimed_and_resumes(&mut dice, BOUND);
                    waits.lock().unwrap().push(wait);
                }
            });
        }
        std::thread::sleep((end - begun) / 3);
        let warm = (Pulse::of(pid), begun_in(&databases));
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        (warm, Pulse::at_rest(pid, 0, Duration::from_secs(3)))
    });
    let mut waits = waits.into_inner().unwrap();
    waits.sort_unstable();
    let [median, longest] =
        [waits[waits.len() / 2], waits[waits.len() - 1]].map(|wait| wait.as_millis());
    let cycles: usize = databases
        .iter()
        .map(|it| it.count("Sync cycle complete"))
        .sum();
    println!(
        "{} claims, resumed after {median} ms, at most {longest} ms; {cycles} cycles",
        waits.len()
    );
    println!("a third through {warm:?}\nat the end {last:?}");
    assert!(agent.is_running(), "the agent has ended");
    assert!(
        waits.len() >= CLAIMERS * 5,
        "too few claims to show anything"
    );
    assert!(
        waits[waits.len() / 2] <= HALF,
        "half of the claims' ends are seen late"
    );
    assert!(
        (1..=MEMORY).contains(&last.own),
        "more memory of its own than 48 MiB, or it is not known"
    );
    let grown = last.rss.saturating_sub(warm.rss);
    let new = (begun_in(&databases) - had_begun) as u64;
    assert!(
        grown <= FLAT + new * NEW / 100,
        "the memory has grown by {grown} KiB, {new} databases are new"
    );
    // The agent's marker is watched too, so that one lost would not show in their number alone.
    assert!(
        warm.watches >= databases.len() && last.watches >= warm.watches,
        "watches are lost"
    );
    // 32 logs are kept open, each with its directory.
    assert!(last.fds <= 64 + 32, "open files per database");
    wait_until(PATIENCE, "the threads that helped have ended", || {
        Pulse::of(pid).threads <= threads_allowed
    });
    agent.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(agent.wait(PATIENCE).success());
}
