//! docs/performance.md shows one whole run: each figure with its limit, which is the one that the benchmark asks for.

use std::fs;

use beadlock_tests::skip::checkout;

use super::{document, sources};

/// What a row begins with, how often there is one, its limit as printed, and where the benchmark has that.
const FIGURES: [(&str, usize, &str, &str); 27] = [
    ("should_skip_database, no lock", 1, "1.150 ×", "Some(1.15)"),
    ("should_skip_database, a live lock of five fields", 1, "1.400 ×", "Some(1.4)"),
    ("should_skip_database, a live lock with our key", 1, "1.400 ×", "Some(1.4)"),
    ("should_skip_database, a lock of another host", 1, "1.400 ×", "Some(1.4)"),
    ("Cycle::enter and leave, no lock", 1, "1.200 ×", "Some(1.2)"),
    ("allocations, no lock", 1, " 0", "Some(0.0)"),
    ("allocations, a live lock of five fields", 1, " 4", "Some(4.0)"),
    ("a sweep of 100000 without locks", 1, "1.200 ×", "Some(1.2)"),
    ("a sweep of 10000, half of them locked", 1, "1.400 ×", "Some(1.4)"),
    ("FileLock, acquire and drop ", 1, "1.500 ×", "Some(1.5)"),
    ("allocations, FileLock, acquire and drop", 1, " 0", "Some(0.0)"),
    ("atomic_write: locked, checked, 5 backups, synced", 1, "1.050 ×", "Some(1.05)"),
    ("the lock of an atomic_write", 1, "0.0500 ×", "SHARE_OF_THE_LOCK: f64 = 0.05;"),
    ("file-ops.sh, save_json", 1, "1.050 ×", "Some(1.0 + SHARE_OF_THE_LOCK)"),
    ("beadlock check DIR", 1, "1.500 ×", "Some(1.5)"),
    ("beadlock hold -- true, without sync", 1, "2.500 ×", "Some(2.5)"),
    ("release to a waiting hold's command", 2, "5.00 ms", "(50, 0.005)"),
    ("release to a waiting hold's command", 2, "20.00 ms", "(99, 0.020)"),
    ("release to an agent's cycle", 2, "20.00 ms", "(99, 0.020)"),
    ("a holder's SIGKILL to a waiting hold's command", 1, "20.00 ms", "Some(0.020)"),
    ("agent, 10000 idle databases, CPU of a core", 1, "0.550 %", "CPU_PERCENT: f64 = 0.55;"),
    ("agent, 10000 idle databases, memory", 1, "60.0 MiB", "MEMORY: f64 = 60.0 * 1024.0 * 1024.0;"),
    ("agent, 10000 idle databases, threads", 1, "", "THREADS: usize = 4;"),
    ("agent, 10000 databases, start to the first cycle of the last", 1, "2.00 s", "START_SECONDS: f64 = 2.0;"),
    ("agent, 10000 databases, 1000 moved away at once", 1, "5.00 s", "REMOVAL_SECONDS: f64 = 5.0;"),
    ("agent, 10000 databases, 1000 deleted at once", 1, "5.00 s", "REMOVAL_SECONDS: f64 = 5.0;"),
    ("growth, 1000 to 100000", 4, "1.200 ×", "LINEAR: f64 = 1.2;"),
];

fn benchmark() -> String {
    let files = sources(&checkout().join("tests/benches/limits"));
    let files = files.iter().filter(|path| path.extension().is_some_and(|it| it == "rs"));
    files.map(|path| fs::read_to_string(path).expect("a source")).collect()
}

/// What stands between the marks, and what does not.
fn run_and_words() -> (String, String) {
    let page = document("docs/performance.md");
    let (before, rest) = page.split_once("<!-- a run").expect("the run begins");
    let (run, after) = rest.split_once("<!-- the end of the run -->").expect("it ends");
    (run.to_owned(), format!("{before}{after}"))
}

#[test]
fn each_figure_has_its_row_and_its_limit() {
    let (run, _) = run_and_words();
    let table = run.split("```").nth(1).expect("the table as printed");
    let benchmark = benchmark();
    for (figure, least, limit, source) in FIGURES {
        let rows: Vec<&str> = table.lines().filter(|row| row.starts_with(figure)).collect();
        let with_limit = rows.iter().filter(|row| row.contains(limit)).count();
        assert!(with_limit >= least, "{figure:?} with {limit:?}: {rows:?}");
        assert!(benchmark.contains(source), "{figure:?} is no longer measured against {source:?}");
    }
    assert!(!table.contains("shortened"), "a run that was cut short shows nothing");
}

#[test]
fn what_falls_short_is_explained() {
    let (run, words) = run_and_words();
    let beyond = run.lines().find_map(|line| line.strip_prefix("beyond their limit: "));
    let Some(beyond) = beyond else {
        assert!(run.contains("all within their limits"), "the last line of the table");
        return;
    };
    for figure in beyond.split("; ") {
        assert!(words.contains(figure), "the page has no word on {figure:?}");
    }
}

#[test]
fn each_plot_is_there_and_shown() {
    let (_, words) = run_and_words();
    let plots = sources(&checkout().join("docs/performance"));
    assert!(plots.len() >= 4, "{plots:?}");
    for plot in plots {
        let name = plot.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(words.contains(&format!("](performance/{name})")), "{name} is not shown");
        let text = fs::read_to_string(&plot).expect("a drawing");
        assert!(text.starts_with("<svg") && text.contains("databases"), "{name} is no plot");
        assert!(text.matches("<circle").count() >= 5, "{name} has too few points");
    }
}
