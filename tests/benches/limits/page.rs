//! What docs/performance.md shows of a run: between two marks, and in drawings.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::files::DISK;
use super::plot;

const BEGIN: &str = "<!-- a run: written by make bench BENCH_DOCS=docs -->";
const END: &str = "<!-- the end of the run -->";

/// Puts a run of these parts, or of all when none is named, in the place of the one that the page shows, and draws its
/// plots. A page without a row that it must have fails the tests of the documents.
///
/// # Panics
///
/// When the page is not there, has no place for it, or cannot be written.
pub fn write(docs: &Path, parts: &[String], report: &Value, table: &str) {
    // A bench runs in its package's directory, and `docs` is typed in the one above it.
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(docs);
    let path = docs.join("performance.md");
    let page =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (before, rest) = page.split_once(BEGIN).expect("a mark where the run begins");
    let (_, after) = rest.split_once(END).expect("a mark where it ends");
    let points = report["growth"].as_array().expect("how cost grows");
    let run = format!(
        "{}\n\n<!-- not run: what make bench has measured -->\n```\n{table}```\n\n{}",
        machine(parts),
        growth(points)
    );
    fs::write(&path, format!("{before}{BEGIN}\n{run}\n{END}{after}")).expect("write the page");
    let plots = docs.join("performance");
    fs::create_dir_all(&plots).expect("a directory for the plots");
    plot::draw(&plots, points).expect("draw the plots");
    println!("written to {}", path.display());
}

/// Where and when.
fn machine(parts: &[String]) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let after = |text: &str, key: &str| {
        let line = text
            .lines()
            .find(|line| line.starts_with(key))
            .unwrap_or_default()
            .to_owned();
        line.split_once(':')
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let gibibytes = after(&read("/proc/meminfo"), "MemTotal")
        .trim_end_matches(" kB")
        .parse()
        .unwrap_or(0.0)
        / f64::from(1 << 20);
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d");
    let place = std::env::var("TMPDIR").map_or(String::new(), |place| format!("TMPDIR={place} "));
    let parts = if parts.is_empty() {
        String::new()
    } else {
        format!(" BENCH='{}'", parts.join(" "))
    };
    let watches = read("/proc/sys/fs/inotify/max_user_watches");
    format!(
        "{date}, `{place}make bench{parts}`: {cores} cores ({}), {gibibytes:.0} GiB, Linux {}, databases on {}, \
         the written file on {}, \
         fs.inotify.max_user_watches {}, load {} at the end.",
        after(&read("/proc/cpuinfo"), "model name"),
        read("/proc/sys/kernel/osrelease").trim(),
        file_system(&std::env::temp_dir()),
        file_system(Path::new(DISK)),
        watches.trim(),
        read("/proc/loadavg").split(' ').next().unwrap_or_default()
    )
}

fn file_system(place: &Path) -> String {
    let output = Command::new("stat")
        .args(["--file-system", "--format=%T"])
        .arg(place)
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}

/// The points of the plots as a table.
fn growth(points: &[Value]) -> String {
    let mut text =
        "| databases | memory | CPU of a sweep | bare calls of it | start | library's sweep | bare calls of it |\n\
                    |--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    for point in points {
        let number = |key: &str| point[key].as_f64().unwrap_or_default();
        text += &format!(
            "| {} | {:.1} MiB | {:.3} s | {:.3} s | {:.2} s | {:.4} s | {:.4} s |\n",
            point["databases"],
            number("memory_bytes") / f64::from(1 << 20),
            number("sweep_cpu_seconds"),
            number("bare_cpu_seconds"),
            number("start_seconds"),
            number("library_cpu_seconds"),
            number("library_bare_cpu_seconds"),
        );
    }
    text
}
