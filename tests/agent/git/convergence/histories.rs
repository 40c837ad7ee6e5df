//! What must be true of the records in the end; and of each that is not as it must be, its history.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use beadlock_tests::{Ended, run};
use serde_json::{Map, Value};

use super::tools::{FILE, Tools};
use super::verdict;
use super::world::ALL;

/// How many histories are shown.
const FEW: usize = 4;
/// How long everything may take to come together.
const PATIENCE: Duration = Duration::from_secs(90);

/// Nobody writes any more, and the agents bring everything to each other; twice, for the second time nothing is left
/// over from before. True once all files are equal.
pub fn settle(tools: &Tools) -> bool {
    let settled = comes_together(tools) && {
        for clone in ALL {
            tools.append_one(clone, &format!("{clone}-last"));
        }
        comes_together(tools)
    };
    for daemon in &tools.world.daemons {
        daemon.stop();
    }
    settled && is_one(tools)
}

fn comes_together(tools: &Tools) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if is_one(tools) {
            let mut ledger = tools.world.ledger();
            ledger.count("came together");
            return true;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    false
}

/// All three clones and the remote are byte for byte equal.
fn is_one(tools: &Tools) -> bool {
    let world = &tools.world;
    let place = world
        .bench
        .try_git(world.bench.remote(), &["show", &format!("main:{FILE}")]);
    world.is_one() && ALL.into_iter().all(|clone| text(tools, clone) == place.out)
}

fn text(tools: &Tools, clone: char) -> String {
    fs::read_to_string(tools.world.clone_of(clone).join(FILE)).unwrap_or_default()
}

/// Everything that is not as it must be, in words.
pub fn wrong(tools: &Tools, settled: bool) -> Vec<String> {
    let mut wrong = tools.world.ledger().found.clone();
    wrong.truncate(20);
    if !settled {
        wrong.push(verdict::unsettled(&tools.world));
    }
    let mut suspects = Vec::new();
    for clone in ALL {
        wrong.extend(in_trouble(tools, clone));
        for (id, what) in of_records(tools, clone) {
            wrong.push(format!("{what} in {clone}"));
            suspects.push(id);
        }
    }
    suspects.sort();
    suspects.dedup();
    suspects.truncate(FEW);
    wrong.extend(suspects.iter().map(|id| history(tools, id)));
    wrong
}

/// The state of a clone after one more cycle, unless all is well; and whatever syncs have left behind.
fn in_trouble(tools: &Tools, clone: char) -> Vec<String> {
    let world = &tools.world;
    let log = world.bench.path().join(format!("last-log-{clone}"));
    let mut agent = world.bench.scene().agent(&["--once", "--db"]);
    agent
        .arg(world.beads(clone))
        .arg("--log-file")
        .arg(&log)
        .current_dir(world.clone_of(clone));
    let ended = Ended::from(run(agent));
    let said = fs::read_to_string(&log).unwrap_or_default();
    let mut wrong = Vec::new();
    if ended.code != 0 || !said.contains("State: synced since") {
        wrong.push(format!(
            "the agent of {clone} is in trouble: {ended:?}\n{said}"
        ));
    }
    let git_dir = world.clone_of(clone).join(".git");
    let leavings = [git_dir.clone(), world.beads(clone)].map(|dir| {
        let names = fs::read_dir(dir).into_iter().flatten().flatten();
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name.starts_with("beadlock.") || name.ends_with(".mine"))
            .collect::<Vec<_>>()
    });
    let leavings = leavings.concat();
    if !leavings.is_empty() {
        wrong.push(format!("left behind in {clone}: {leavings:?}"));
    }
    let checked = world.git(clone, &["fsck", "--no-dangling"]);
    if checked.code != 0 {
        wrong.push(format!("the repository of {clone} is damaged: {checked:?}"));
    }
    wrong
}

/// The records that are not as they must be, with what is wrong.
fn of_records(tools: &Tools, clone: char) -> Vec<(String, String)> {
    let text = text(tools, clone);
    let mut found: BTreeMap<String, Vec<Map<String, Value>>> = BTreeMap::new();
    for line in text.lines() {
        let record: Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
        let id = record.get("id").and_then(Value::as_str).unwrap_or_default();
        found.entry(id.to_owned()).or_default().push(record);
    }
    let book = tools.book();
    let mut wrong = Vec::new();
    for (id, records) in &found {
        if records.len() > 1 || !book.added.contains(id) {
            wrong.push((
                id.clone(),
                format!("record {id:?} is {} times", records.len()),
            ));
        }
    }
    for id in book.added.difference(&book.deleted) {
        let Some([record, ..]) = found.get(id).map(Vec::as_slice) else {
            wrong.push((id.clone(), format!("record {id} is lost")));
            continue;
        };
        for writer in ALL {
            let last = book.values.get(&(id.clone(), writer)).copied();
            let is = record.get(&format!("by_{writer}")).and_then(Value::as_u64);
            if is != last {
                wrong.push((
                    id.clone(),
                    format!("by_{writer} of {id} is {is:?}, and was last set to {last:?}"),
                ));
            }
        }
    }
    wrong
}

/// What was done to a record, what git has of it, and what the agents said at that time.
fn history(tools: &Tools, id: &str) -> String {
    let world = &tools.world;
    let mut text = format!("== {id}\n");
    let named = |deed: &str| deed.split([' ', ',']).any(|word| word == id);
    for (at, deed) in tools.book().deeds.iter().filter(|(_, deed)| named(deed)) {
        let _ = writeln!(text, "{} {deed}", clock(*at));
    }
    for clone in ALL {
        let search = format!("\"id\":\"{id}\"");
        let log = world.git(
            clone,
            &[
                "log",
                "--all",
                "--reflog",
                "--reverse",
                "-p",
                "-U0",
                "--format=%n%cI %h %s",
                "-G",
                &search,
                "--",
                FILE,
            ],
        );
        let lines = log.out.lines();
        let lines = lines.filter(|line| line.contains(&search) || line.starts_with("20"));
        let _ = writeln!(text, "-- git log in {clone}");
        lines.for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    text
}

fn clock(at: u128) -> String {
    let at = i64::try_from(at / 1_000_000).unwrap_or_default();
    jiff::Timestamp::from_millisecond(at).map_or_else(|_| at.to_string(), |at| at.to_string())
}

/// How much has happened, one a line.
pub fn counts(tools: &Tools) -> String {
    let book = tools.book();
    let text = text(tools, 'a');
    let came_back = book
        .deleted
        .iter()
        .filter(|id| text.contains(&format!("\"id\":\"{id}\"")));
    let mut words = format!(
        "{:5} records added\n{:5} deleted, of which {} came back\n{:5} edits that count\n{:5} rewrites and appends\n",
        book.added.len(),
        book.deleted.len(),
        came_back.count(),
        book.values.len(),
        book.deeds.len()
    );
    words.push_str(&verdict::counts(&tools.world));
    words
}
