//! How cost grows with the number of databases: an agent's memory, sweep and start, and the library's sweep.
//!
//! What one more database costs is compared: from 10,000 to 100,000 beside from 1,000 to 10,000, so that what an agent
//! costs in any case is in neither. Linear is 1; n log n would be 1.24, and n² 10.

use std::time::Duration;

use beadlock_checker::should_skip_database;
use serde_json::json;

use super::agents::bare_cycle;
use super::calls::Bare;
use super::ground::{Ground, cpu_of};
use super::table::{Table, Unit};

const SIZES: [usize; 5] = [1_000, 3_000, 10_000, 30_000, 100_000];
/// The least of so many counts: what disturbs the machine only adds.
const SWEEPS: usize = 2;
const LINEAR: f64 = 1.2;

/// What so many databases cost.
#[derive(Debug, Clone, Copy)]
struct Point {
    databases: usize,
    /// Resident, in bytes, when all have had some cycles.
    memory: f64,
    /// CPU seconds of one interval.
    sweep: f64,
    /// Seconds from the start to the first cycle of the last, spreading off.
    start: f64,
    /// CPU seconds of the bare calls of a sweep.
    bare: f64,
    /// CPU seconds of the library's sweep, and of the bare calls of that.
    library: f64,
    library_bare: f64,
}

/// One of the costs of so many.
type Cost = fn(&Point) -> f64;

pub fn measure(table: &mut Table) {
    let sizes = if table.is_short {
        SIZES.map(|size| size / 100)
    } else {
        SIZES
    };
    let points: Vec<Point> = sizes.iter().map(|size| Point::of(*size)).collect();
    let watches = watches();
    let most = sizes[sizes.len() - 1];
    let polled = match watches {
        Some(watches) if watches < most + most / 100 => {
            format!(" (fs.inotify.max_user_watches is {watches}: the rest is polled)")
        }
        _ => String::new(),
    };
    let figures: [(&str, Option<f64>, Cost); 4] = [
        ("memory of an agent", Some(LINEAR), |point| point.memory),
        ("CPU of an agent's sweep", None, |point| point.sweep),
        ("start of an agent", Some(LINEAR), |point| point.start),
        ("bare calls of an agent's sweep", None, |point| point.bare),
    ];
    for (figure, at_most, of) in figures {
        let figure = format!("growth, {} to {most}: {figure}{polled}", sizes[0]);
        table.value(&figure, Unit::Ratio, at_most, growth(&points, of), None);
    }
    // The more paths, the fewer of them are in a processor's caches, for the bare calls too: those are what is linear.
    let beside: [(&str, Cost, Cost); 2] = [
        (
            "CPU of an agent's sweep, beside its bare calls",
            |point| point.sweep,
            |point| point.bare,
        ),
        (
            "a thread's checks, beside their bare calls",
            |point| point.library,
            |point| point.library_bare,
        ),
    ];
    for (figure, ours, bare) in beside {
        let figure = format!("growth, {} to {most}: {figure}{polled}", sizes[0]);
        table.value(
            &figure,
            Unit::Ratio,
            Some(LINEAR),
            growth(&points, ours) / growth(&points, bare),
            None,
        );
    }
    table.keep(
        "growth",
        json!(points.iter().map(Point::json).collect::<Vec<_>>()),
    );
}

/// What one more database costs from the third size to the last, beside from the first to the third.
fn growth(points: &[Point], of: Cost) -> f64 {
    let [few, more, most] = [0, 2, 4].map(|at| &points[at]);
    let one_more =
        |from: &Point, to: &Point| (of(to) - of(from)) / (to.databases - from.databases) as f64;
    one_more(more, most) / one_more(few, more)
}

fn watches() -> Option<usize> {
    std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches")
        .ok()?
        .trim()
        .parse()
        .ok()
}

impl Point {
    /// Measured now.
    fn of(databases: usize) -> Self {
        let ground = Ground::new(databases);
        // Long enough that all have had a first cycle before the second ones are due.
        let interval = Duration::from_secs(2).max(Duration::from_millis(databases as u64));
        let agent = ground.serve(interval, &["--no-spread"]);
        let (first, start) = agent.cycles_each(1);
        let mut sweep = f64::MAX;
        for more in 1..=SWEEPS {
            let before = agent.cpu();
            agent.cycles_each(1 + more);
            sweep = sweep.min((agent.cpu() - before).as_secs_f64());
        }
        let memory = agent.pulse().rss as f64 * 1024.0;
        agent.end();
        let bare = bare_cycle(&ground).as_secs_f64() * databases as f64;
        let paths: Vec<Bare> = ground.dirs().iter().map(|dir| Bare::of(dir)).collect();
        let check = || {
            assert!(
                !ground
                    .dirs()
                    .iter()
                    .any(|dir| should_skip_database(dir).is_skip())
            )
        };
        let bare_check = || paths.iter().for_each(Bare::no_lock);
        let [mut library, mut library_bare] = [f64::MAX; 2];
        for _ in 0..5 {
            library = library.min(cpu_of(check).as_secs_f64());
            library_bare = library_bare.min(cpu_of(bare_check).as_secs_f64());
        }
        println!(
            "{databases} databases: start {start:.2} s with {first} cycles, a sweep {sweep:.2} s of CPU (bare calls {bare:.2} s), {:.1} MiB",
            memory / f64::from(1 << 20)
        );
        Self {
            databases,
            memory,
            sweep,
            start,
            bare,
            library,
            library_bare,
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "databases": self.databases,
            "memory_bytes": self.memory,
            "sweep_cpu_seconds": self.sweep,
            "start_seconds": self.start,
            "bare_cpu_seconds": self.bare,
            "library_cpu_seconds": self.library,
            "library_bare_cpu_seconds": self.library_bare,
        })
    }
}
