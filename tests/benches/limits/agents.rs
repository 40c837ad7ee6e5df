//! One agent for 10,000 databases in which nothing happens: what it uses, and how soon it has seen them all.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use beadlock_tests::{Spread, run, tool};
use nix::libc::{O_CLOEXEC, O_NOFOLLOW};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::calls::Bare;
use super::ground::{Ground, cpu_of};
use super::ratio::Ratios;
use super::table::{Table, Unit};

const DATABASES: usize = 10_000;
const INTERVAL: Duration = Duration::from_secs(60);
/// How long it is watched; `BENCH_SECONDS` makes it shorter, and the rows then say so.
const WATCHED: Duration = Duration::from_secs(300);
/// Parts of that time: their spread is shown.
const PARTS: u32 = 5;
/// The agent spreads many databases over so many places of an interval.
const PLACES: usize = 20;
/// Starts that are measured.
const STARTS: usize = 7;
/// How often some are removed, and one in so many is.
const REMOVALS: usize = 3;
const OF: usize = 10;
/// The shell goes through so many only.
const SHELL: usize = 500;

const CPU_PERCENT: f64 = 0.55;
const MEMORY: f64 = 60.0 * 1024.0 * 1024.0;
const START_SECONDS: f64 = 2.0;
const REMOVAL_SECONDS: f64 = 5.0;
/// Beside the processors.
const THREADS: usize = 4;

pub fn measure(table: &mut Table) {
    let count = if table.is_short { 100 } else { DATABASES };
    let ground = Ground::new(count);
    idle(table, &ground);
    start(table, &ground);
    removal(table, &ground);
}

/// How long, and what the rows say when that is not long enough.
fn watched(table: &Table) -> (Duration, String) {
    let asked = std::env::var("BENCH_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    let asked = if table.is_short { Some(5) } else { asked };
    match asked.map(Duration::from_secs) {
        Some(time) if time < WATCHED => (time, format!(" (shortened to {} s)", time.as_secs())),
        _ => (WATCHED, String::new()),
    }
}

fn idle(table: &mut Table, ground: &Ground) {
    let count = ground.dirs().len();
    let (watched, shortened) = watched(table);
    // Spread over it as ever; a short run cannot wait for a minute.
    let interval = if table.is_short {
        Duration::from_secs(2)
    } else {
        INTERVAL
    };
    let agent = ground.serve(interval, &[]);
    std::thread::sleep(interval);
    let before = agent.cycles();
    let (mut shares, mut costs, mut memory, mut threads) = (vec![], vec![], vec![], vec![]);
    let begun = agent.cpu();
    for _ in 0..PARTS {
        let before = agent.cpu();
        std::thread::sleep(watched / PARTS);
        shares.push(100.0 * (agent.cpu() - before).as_secs_f64() / (watched / PARTS).as_secs_f64());
        let pulse = agent.pulse();
        memory.push(pulse.rss as f64 * 1024.0);
        threads.push(pulse.threads as f64);
    }
    let used = (agent.cpu() - begun).as_secs_f64();
    let cycles = agent.cycles() - before;
    agent.end();

    let figure = |what: &str| format!("agent, {count} idle databases, {what}{shortened}");
    let [shares, memory, threads] = [shares, memory, threads].map(Spread::of);
    let share = 100.0 * used / watched.as_secs_f64();
    let at_most = std::thread::available_parallelism().map_or(1, usize::from) + THREADS;
    table.value(
        &figure("CPU of a core"),
        Unit::Percent,
        Some(CPU_PERCENT),
        share,
        Some(&shares),
    );
    table.value(
        &figure("memory"),
        Unit::Bytes,
        Some(MEMORY),
        memory.greatest(),
        Some(&memory),
    );
    table.value(
        &figure("threads"),
        Unit::Count,
        Some(at_most as f64),
        threads.greatest(),
        Some(&threads),
    );

    let cycle = used / cycles.max(1) as f64;
    for _ in 0..PARTS {
        costs.push(bare_cycle(ground).as_secs_f64());
    }
    let name = figure("CPU of a cycle");
    beside(
        table,
        &name,
        "bare calls of a cycle and its log, without a pause",
        cycle,
        costs,
    );
    let costs = paced_cycles(ground, interval);
    let share =
        100.0 * count as f64 / interval.as_secs_f64() * Spread::of(costs.iter().copied()).median();
    beside(table, &name, "the same calls in its rhythm", cycle, costs);
    table.value(
        &figure("CPU of a core, of these calls alone"),
        Unit::Percent,
        None,
        share,
        None,
    );
    match [tool("flock"), tool("jq")] {
        [Some(_), Some(_)] => {
            let few = &ground.dirs()[..count.min(SHELL)];
            let costs = (0..PARTS).map(|_| shell_cycle(ground, few)).collect();
            beside(
                table,
                &figure("CPU of a cycle"),
                "sh with flock(1), 500 databases",
                cycle,
                costs,
            );
        }
        _ => table.not_here(
            &figure("CPU of a cycle, beside sh"),
            "no flock(1) or no jq here",
        ),
    }
}

/// A figure of ours beside what others cost, several times.
fn beside(table: &mut Table, figure: &str, other: &str, ours: f64, others: Vec<f64>) {
    let theirs = Spread::of(others.iter().copied()).least();
    let ratios = Spread::of(others.iter().map(|other| ours / other));
    table.ratios(
        figure,
        other,
        None,
        &Ratios {
            ratios,
            ours,
            theirs,
        },
    );
}

/// The CPU of what a cycle cannot be without: its calls, and two lines in its log.
pub fn bare_cycle(ground: &Ground) -> Duration {
    let all: Vec<_> = ground
        .dirs()
        .iter()
        .map(|dir| (Bare::of(dir), dir.join("bare.log")))
        .collect();
    let sweep = || {
        for (bare, log) in &all {
            bare.cycle();
            two_lines(log);
        }
    };
    sweep();
    cpu_of(sweep) / all.len() as u32
}

/// The same in seconds, each database once an interval, as many together as an agent checks together: after a pause
/// memory is cold. In an interval before it, which is not counted, the files come to be.
fn paced_cycles(ground: &Ground, interval: Duration) -> Vec<f64> {
    let all: Vec<_> = ground
        .dirs()
        .iter()
        .map(|dir| (Bare::of(dir), dir.join("bare.log")))
        .collect();
    let groups: Vec<_> = all.chunks(all.len().div_ceil(PLACES)).collect();
    let mut costs = Vec::new();
    let mut due = Instant::now();
    for round in 0..2 {
        let mut spent = Vec::new();
        for group in &groups {
            due += interval / groups.len() as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let cpu = cpu_of(|| {
                for (bare, log) in *group {
                    bare.cycle();
                    two_lines(log);
                }
            });
            spent.push(cpu.as_secs_f64() / group.len() as f64);
        }
        if round == 1 {
            let parts = spent.chunks(spent.len().div_ceil(PARTS as usize));
            costs.extend(parts.map(|part| part.iter().sum::<f64>() / part.len() as f64));
        }
    }
    costs
}

fn two_lines(log: &Path) {
    let mut options = OpenOptions::new();
    options
        .append(true)
        .create(true)
        .custom_flags(O_NOFOLLOW | O_CLOEXEC);
    let mut log = options.open(log).expect("a log");
    let lines =
        "[2026-01-01 00:00:00] Starting sync cycle...\n[2026-01-01 00:00:00] Sync cycle complete\n";
    log.write_all(lines.as_bytes()).expect("two lines");
}

/// One sweep as cron would start it. It is given every advantage: it asks for the time once, and starts jq only where
/// there is a lock, which is nowhere.
const SHELL_SWEEP: &str = r#"
    now=$(date '+[%F %T]')
    for db in "$@"; do (
        flock -n 9 || exit 0
        lock=$db/.exclusive-lock
        if [ -e "$lock" ] && kill -0 "$(jq -r .pid "$lock")"; then
            echo "$now Skipping database (locked by $(jq -r .holder "$lock"))"
            exit 0
        fi
        echo "$now Starting sync cycle..."
        echo "$now Sync cycle complete"
    ) 9<"$db" >>"$db/shell.log"; done
"#;

/// The CPU of a cycle in the shell, its programs included, in seconds.
fn shell_cycle(ground: &Ground, dirs: &[std::path::PathBuf]) -> f64 {
    let mut command = ground.scene().command("sh");
    command.args(["-c", SHELL_SWEEP, "sh"]).args(dirs);
    let before = children();
    assert!(run(command).status.success(), "the sweep in sh");
    (children() - before) / dirs.len() as f64
}

/// What the children that have ended used, in seconds.
pub fn children() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the usage of children");
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn start(table: &mut Table, ground: &Ground) {
    let starts = if table.is_short { 1 } else { STARTS };
    let seconds = Spread::of((0..starts).map(|_| {
        let agent = ground.serve(INTERVAL, &["--no-spread"]);
        let (_, seconds) = agent.cycles_each(1);
        agent.end();
        seconds
    }));
    let figure = format!(
        "agent, {} databases, start to the first cycle of the last",
        ground.dirs().len()
    );
    table.value(
        &figure,
        Unit::Seconds,
        Some(START_SECONDS),
        seconds.median(),
        Some(&seconds),
    );
}

/// Some go at once, by a move of what they lie in or by their deletion. Settled is an agent that watches the others
/// alone and rests again.
fn removal(table: &mut Table, ground: &Ground) {
    let runs = if table.is_short { 1 } else { REMOVALS };
    let [all, gone] = [ground.dirs().len(), ground.dirs().len() / OF];
    for (how, remove) in [
        ("moved away", Ground::move_away as fn(&Ground, usize)),
        ("deleted", Ground::delete),
    ] {
        let seconds = Spread::of((0..runs).map(|_| {
            let agent = ground.serve(INTERVAL, &["--no-spread"]);
            agent.cycles_each(1);
            let watches = agent.pulse().watches;
            let begun = Instant::now();
            remove(ground, OF);
            agent.look_again();
            let settled = agent.rests_with(watches - gone);
            agent.end();
            ground.bring_back();
            settled.duration_since(begun).as_secs_f64()
        }));
        let figure = format!("agent, {all} databases, {gone} {how} at once, until it rests");
        table.value(
            &figure,
            Unit::Seconds,
            Some(REMOVAL_SECONDS),
            seconds.median(),
            Some(&seconds),
        );
    }
}
