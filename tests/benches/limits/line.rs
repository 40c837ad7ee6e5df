//! Many that wait for one lock: how long each handover takes, and whether they are served in the order in which they
//! came. Beside flock(1), whose waiters the kernel serves in order, and Python's `filelock`, whose waiters ask again and
//! again.
//!
//! Each waiter's command writes its number into one pipe, works for 20 ms, and writes that it is done. A handover is the
//! time between the end of one and the beginning of the next; a shell's start is in it.

use std::fs;
use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_tests::{Scene, Spread};

use super::filelock;
use super::table::{Table, Unit};

const WAITERS: usize = 100;

/// For how long their time on a processor is counted, while nothing happens.
const REST: Duration = Duration::from_secs(10);

/// The pause between two that come, in which the earlier one has begun to wait.
const APART: Duration = Duration::from_millis(50);

/// The first one keeps the lock until its stdin ends.
const WORK: &str =
    "echo \"$0\"; if [ \"$0\" = first ]; then read -r _; else sleep 0.02; fi; echo done";

const PYTHON: &str = "import filelock, sys, time
with filelock.FileLock(sys.argv[1]):
    print(sys.argv[2], flush=True)
    if sys.argv[2] == 'first':
        sys.stdin.read()
    else:
        time.sleep(0.02)
    print('done', flush=True)
";

pub fn measure(table: &mut Table) {
    let waiters = if table.is_short { 3 } else { WAITERS };
    let scene = Scene::new();
    let (lock, flocked, asked) = (
        scene.file("x.lock"),
        scene.file("flocked"),
        scene.file("asked"),
    );
    let target = format!("lock:{}", lock.display());
    let ours = |number: &str| {
        let work = ["--", "sh", "-c", WORK, number];
        scene.beadlock(&[&["hold", "-q", "--wait", "10m", &target][..], &work].concat())
    };
    let of_database = |number: &str| {
        let work = ["--", "sh", "-c", WORK, number];
        scene.beadlock(&[&["hold", "-q", "--wait", "10m"][..], &work].concat())
    };
    let kernel = |number: &str| {
        let mut command = scene.command("flock");
        command.arg(&flocked).args(["sh", "-c", WORK, number]);
        command
    };
    rows(table, "hold lock:", true, waiters, &ours);
    rows(table, "hold, a database", true, waiters, &of_database);
    rows(table, "flock(1)", false, waiters, &kernel);
    match filelock::installed() {
        Ok(python) => {
            let theirs = |number: &str| {
                let mut command = scene.command(&python);
                command.args(["-c", PYTHON]).arg(&asked).arg(number);
                command
            };
            rows(table, "Python: filelock", false, waiters, &theirs);
        }
        Err(why) => table.not_here(&format!("{WAITERS} waiters, Python: filelock"), &why),
    }
}

/// The rows of one kind; only ours have limits.
fn rows(
    table: &mut Table,
    who: &str,
    is_ours: bool,
    waiters: usize,
    make: &dyn Fn(&str) -> Command,
) {
    let rest = if table.is_short { APART } else { REST };
    let found = Found::of(waiters, rest, make);
    let figure = |what: &str| format!("{WAITERS} waiters, {who}: {what}");
    let limit = |limit: f64| is_ours.then_some(limit);
    let handover = Spread::of(found.handovers);
    for (percent, at_most) in [(50, 0.005), (99, 0.020)] {
        table.value(
            &figure(&format!("handover, p{percent}")),
            Unit::Seconds,
            limit(at_most),
            handover.percentile(percent),
            Some(&handover),
        );
    }
    let (places, count) = (figure("places out of order, mean"), Unit::Count);
    table.value(&places, count, limit(3.0), found.displaced, None);
    let (idle, percent) = (figure("at rest, CPU of a core"), Unit::Percent);
    table.value(&idle, percent, limit(0.5), found.at_rest, None);
}

struct Found {
    /// Seconds.
    handovers: Vec<f64>,
    /// By how many places one was served earlier or later than it came, on average.
    displaced: f64,
    /// Percent of a core, of all together.
    at_rest: f64,
}

impl Found {
    fn of(waiters: usize, rest: Duration, make: &dyn Fn(&str) -> Command) -> Self {
        let (words, pipe) = std::io::pipe().expect("a pipe");
        let mut words = BufReader::new(words);
        let start = |number: &str, stdin: Stdio| {
            let mut command = make(number);
            let output = pipe.try_clone().expect("a descriptor");
            command
                .stdin(stdin)
                .stdout(output)
                .spawn()
                .expect("it starts")
        };
        let mut first = start("first", Stdio::piped());
        assert_eq!(word(&mut words), "first");
        let mut line: Vec<Child> = Vec::new();
        for number in 0..waiters {
            line.push(start(&number.to_string(), Stdio::null()));
            sleep(APART);
        }
        sleep(Duration::from_secs(3).min(rest * 10));
        let (begun, before) = (Instant::now(), busy(&line));
        sleep(rest);
        let at_rest = (busy(&line) - before) / begun.elapsed().as_secs_f64() * 100.0;
        drop(first.stdin.take());
        let (mut handovers, mut served) = (Vec::new(), Vec::new());
        let mut done = None;
        while served.len() < waiters {
            let word = word(&mut words);
            let now = Instant::now();
            match word.parse::<usize>() {
                Ok(number) => {
                    served.push(number);
                    let since = done.take().unwrap_or(now);
                    handovers.push((now - since).as_secs_f64());
                }
                Err(_) => done = Some(now),
            }
        }
        for mut child in line {
            assert!(child.wait().expect("a child of ours").success());
        }
        assert!(first.wait().expect("a child of ours").success());
        let displaced = served
            .iter()
            .enumerate()
            .map(|(at, came)| at.abs_diff(*came));
        Self {
            displaced: displaced.sum::<usize>() as f64 / waiters as f64,
            handovers,
            at_rest,
        }
    }
}

fn word(words: &mut BufReader<PipeReader>) -> String {
    let mut line = String::new();
    words.read_line(&mut line).expect("a word");
    line.trim_end().to_owned()
}

/// Seconds that they have had a processor, by the scheduler's count of each thread.
fn busy(of: &[Child]) -> f64 {
    let threads = of.iter().flat_map(|child| {
        let tasks = fs::read_dir(format!("/proc/{}/task", child.id()));
        tasks.into_iter().flatten().flatten()
    });
    let nanos = threads.filter_map(|thread| {
        let line = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        line.split(' ').next()?.parse::<f64>().ok()
    });
    nanos.sum::<f64>() / 1e9
}
