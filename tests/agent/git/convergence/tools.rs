//! Programs that keep records in one file, in three clones with an agent each: they append, by a descriptor that stays
//! open too, and they read the file, change it and put it back, under a claim or without one. Each does right beside the
//! others of its clone, so whatever is lost is lost by a sync.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use beadlock_tests::{Dice, Ended, run};
use serde_json::{Map, Value};

use super::daemons::Kind;
use super::ledger::{in_one_line, now};
use super::world::{ALL, World, append};

pub const FILE: &str = ".beads/issues.jsonl";
/// Records that nobody deletes, and that are there from the beginning.
pub const CORE: usize = 12;

/// What the programs have done, by their own word.
#[derive(Default)]
pub struct Book {
    pub added: BTreeSet<String>,
    pub deleted: BTreeSet<String>,
    /// The last value of the member that only this clone writes, by record and clone.
    pub values: BTreeMap<(String, char), u64>,
    /// When, and what.
    pub deeds: Vec<(u128, String)>,
}

pub struct Tools {
    pub world: World,
    book: Mutex<Book>,
    /// One for each clone: who reads and puts back has it alone.
    gates: [RwLock<()>; ALL.len()],
}

impl Tools {
    pub fn new(seed: u64) -> Self {
        let ids: Vec<_> = (1..=CORE).map(|number| format!("core-{number}")).collect();
        let text: String = ids.iter().map(|id| record(id) + "\n").collect();
        let world = World::with(Kind::Git, seed, &ALL, &[(FILE.to_owned(), text)]);
        let book = Book {
            added: ids.into_iter().collect(),
            ..Book::default()
        };
        Self {
            world,
            book: Mutex::new(book),
            gates: Default::default(),
        }
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everybody at once, for so long; agents are killed.
    pub fn run(&self, length: Duration) {
        std::thread::scope(|threads| {
            for (number, clone) in ALL.into_iter().enumerate() {
                let daemon = &self.world.daemons[number];
                daemon.start(&self.world.bench);
                threads.spawn(move || daemon.is_killed_now_and_then(&self.world));
                let gate = &self.gates[number];
                threads.spawn(move || self.appends(clone, gate));
                threads.spawn(move || self.keeps_it_open(clone, gate));
                threads.spawn(move || self.rewrites(clone, gate));
                threads.spawn(move || self.reads(clone));
            }
            std::thread::sleep(length);
            self.world.end();
        });
    }

    /// A record at the end, in one write.
    pub fn append_one(&self, clone: char, id: &str) {
        append(&self.world.clone_of(clone).join(FILE), &record(id));
        self.has_added(clone, id, "appends");
    }

    fn appends(&self, clone: char, gate: &RwLock<()>) {
        let mut dice = self.world.dice("appends", clone);
        let mut count = 0;
        while !self.world.is_over() {
            dice.pause(50, 500);
            let _shared = gate.read().unwrap_or_else(PoisonError::into_inner);
            count += 1;
            self.append_one(clone, &format!("{clone}-append-{count}"));
        }
    }

    /// As a logger: what a pull puts in the place of its file, it does not see.
    fn keeps_it_open(&self, clone: char, gate: &RwLock<()>) {
        let mut dice = self.world.dice("keeps it open", clone);
        let path = self.world.clone_of(clone).join(FILE);
        let mut count = 0;
        while !self.world.is_over() {
            dice.pause(1000, 4000);
            let _shared = gate.read().unwrap_or_else(PoisonError::into_inner);
            let mut file = File::options().append(true).open(&path).expect("open");
            for _ in 0..1 + dice.below(4) {
                count += 1;
                let id = format!("{clone}-open-{count}");
                file.write_all(format!("{}\n", record(&id)).as_bytes())
                    .expect("write");
                self.has_added(clone, &id, "adds by an open descriptor");
                dice.pause(1, 900);
            }
        }
    }

    fn rewrites(&self, clone: char, gate: &RwLock<()>) {
        let mut dice = self.world.dice("rewrites", clone);
        let mut count = 0;
        while !self.world.is_over() {
            dice.pause(50, 700);
            let _alone = gate.write().unwrap_or_else(PoisonError::into_inner);
            count += 1;
            if dice.below(3) > 0 {
                self.rewrite(clone, &mut dice, count, "");
            } else if let Some(claim) = self.claim(clone) {
                self.rewrite(clone, &mut dice, count, " under a claim");
                self.release(clone, &claim);
            }
        }
    }

    fn rewrite(&self, clone: char, dice: &mut Dice, count: u64, how: &str) {
        let path = self.world.clone_of(clone).join(FILE);
        let text = fs::read_to_string(&path).expect("read");
        let read_at = now();
        // Mostly it is quick; now and then it has the file in memory for longer than a pull takes.
        match dice.below(6) {
            0 => dice.pause(100, 1500),
            _ => dice.pause(0, 20),
        }
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let at = usize::try_from(dice.below(lines.len() as u64)).expect("an index");
        let mut record: Map<String, Value> = serde_json::from_str(&lines[at]).expect("a record");
        let id = record["id"].as_str().expect("an id").to_owned();
        let kind = dice.below(10);
        let deed = match kind {
            0 => {
                lines.sort();
                "sorts the file".to_owned()
            }
            1 if !id.starts_with("core") => {
                lines.remove(at);
                self.book().deleted.insert(id.clone());
                format!("deletes {id}")
            }
            2 => {
                let id = format!("{clone}-rewrite-{count}");
                lines.push(self::record(&id));
                self.book().added.insert(id.clone());
                format!("adds {id}")
            }
            _ => {
                record.insert(format!("by_{clone}"), count.into());
                record.insert("status".to_owned(), format!("{clone} {count}").into());
                record.insert("updated_at".to_owned(), time().into());
                lines[at] = Value::Object(record).to_string();
                format!("sets by_{clone} of {id} to {count}")
            }
        };
        let aside = self.world.bench.path().join(format!("aside-{clone}"));
        fs::write(&aside, lines.join("\n") + "\n").expect("write aside");
        fs::rename(&aside, &path).expect("put it there");
        let after = (now() - read_at) / 1_000_000;
        let mut book = self.book();
        if kind > 2 || kind == 1 && id.starts_with("core") {
            book.values.insert((id, clone), count);
        }
        book.deeds.push((
            now(),
            format!("{clone} {deed}{how}, {after} ms after it read the file"),
        ));
    }

    fn has_added(&self, clone: char, id: &str, how: &str) {
        let mut book = self.book();
        book.added.insert(id.to_owned());
        book.deeds.push((now(), format!("{clone} {how} {id}")));
    }

    /// The variables of a claim; none when it was not had.
    fn claim(&self, clone: char) -> Option<String> {
        let mut acquire = self
            .world
            .bench
            .scene()
            .beadlock(&["acquire", "-q", "--drain", "45s", "--holder", "tool"]);
        acquire.current_dir(self.world.clone_of(clone));
        let ended = Ended::from(run(acquire));
        if ended.code != 0 {
            self.world.ledger().count("claims that were not had");
            return None;
        }
        self.world.ledger().count("claims");
        let id = ended.out.lines().find_map(|line| {
            let value = line.trim().split_once("BEADLOCK_ID=")?.1;
            Some(value.trim_matches(['\'', '"', ';']).to_owned())
        });
        Some(id.expect("the id of a claim"))
    }

    fn release(&self, clone: char, id: &str) {
        let mut release = self
            .world
            .bench
            .scene()
            .beadlock(&["release", "-q", "--id", id]);
        release.current_dir(self.world.clone_of(clone));
        let ended = Ended::from(run(release));
        if ended.code != 0 {
            let what = format!("claim in {clone} is lost: {}", in_one_line(&ended.err));
            self.world.ledger().found.push(what);
        }
    }

    /// Somebody who reads the file all the time. It is whole each time.
    fn reads(&self, clone: char) {
        let mut dice = self.world.dice("reads", clone);
        let path = self.world.clone_of(clone).join(FILE);
        while !self.world.is_over() {
            dice.pause(2, 15);
            let mut wrong = unreadable(&path);
            // A line that is being appended may be cut for a moment.
            for _ in 0..3 {
                if wrong.as_ref().is_some_and(|wrong| wrong.starts_with("cut")) {
                    std::thread::sleep(Duration::from_millis(3));
                    wrong = unreadable(&path);
                }
            }
            let mut ledger = self.world.ledger();
            ledger.count(format!("reads in {clone}"));
            ledger
                .found
                .extend(wrong.map(|wrong| format!("a reader in {clone} at {}: {wrong}", now())));
        }
    }
}

/// What is wrong with the file at this moment.
fn unreadable(path: &std::path::Path) -> Option<String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return Some(format!("the file cannot be read: {error}")),
    };
    if text.is_empty() {
        return Some("the file is empty".to_owned());
    }
    let is_record = |line: &str| serde_json::from_str::<Map<String, Value>>(line).is_ok();
    if !text.ends_with('\n') || !text.lines().all(is_record) {
        let line = text.lines().find(|line| !is_record(line));
        return Some(format!("cut, of {} bytes: {line:?}", text.len()));
    }
    let core = text
        .lines()
        .filter(|line| line.contains("\"id\":\"core-"))
        .count();
    (core != CORE).then(|| format!("{core} of {CORE} records that nobody deletes"))
}

fn record(id: &str) -> String {
    let time = time();
    format!("{{\"created_at\":\"{time}\",\"id\":\"{id}\",\"updated_at\":\"{time}\"}}")
}

/// The clock, to the nanosecond: of two changes one is newer.
fn time() -> String {
    jiff::Timestamp::now().to_string()
}
