//! Three clones of one file: each changes records and takes in what the others did, in any order. In the end all have the
//! same bytes, no record is lost or there twice, and what one clone alone wrote is as it wrote it last.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use beadlock_records::{Id, RecordFile, Undecided, merge};
use proptest::collection::vec;
use proptest::prelude::*;

use super::random::holds;
use super::{halves_swapped, marked};

const CLONES: usize = 3;

/// Where a clone puts a new record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    Append,
    Prepend,
    Sort,
}

/// An event in one clone.
#[derive(Debug, Clone)]
enum Event {
    Add,
    /// The clone's own field of a record.
    EditOwn(usize),
    /// A field that all clones write.
    EditShared(usize),
    AddLabel(usize),
    RemoveLabel(usize),
    Tombstone(usize),
    Delete(usize),
    Reformat(usize),
    /// From another clone, and which of the two versions is ours: a rebase takes them the other way round.
    Pull {
        from: usize,
        is_rebase: bool,
    },
    /// The clock goes on; else the next changes are made in the same second.
    Tick,
}

#[derive(Debug, Clone)]
struct History {
    habit: Habit,
    events: Vec<(usize, Event)>,
}

fn histories() -> impl Strategy<Value = History> {
    let record = || 0..12_usize;
    let event = prop_oneof![
        5 => Just(Event::Add),
        5 => record().prop_map(Event::EditOwn),
        4 => record().prop_map(Event::EditShared),
        2 => record().prop_map(Event::AddLabel),
        1 => record().prop_map(Event::RemoveLabel),
        1 => record().prop_map(Event::Tombstone),
        1 => record().prop_map(Event::Delete),
        1 => record().prop_map(Event::Reformat),
        6 => (0..CLONES, any::<bool>()).prop_map(|(from, is_rebase)| Event::Pull { from, is_rebase }),
        8 => Just(Event::Tick),
    ];
    let habit = prop_oneof![Just(Habit::Append), Just(Habit::Prepend), Just(Habit::Sort)];
    let events = vec((0..CLONES, event), 1..60);
    (habit, events).prop_map(|(habit, events)| History { habit, events })
}

/// A record as a clone's tool has it in memory.
#[derive(Debug, Clone, Default)]
struct Record {
    id: String,
    created: usize,
    updated: usize,
    shared: String,
    own: [usize; CLONES],
    labels: Vec<String>,
    is_tombstone: bool,
    is_spaced: bool,
}

impl Record {
    fn line(&self) -> String {
        let mut line = format!(
            "{{\"id\":\"{}\",\"created_at\":\"{}\"",
            self.id,
            time(self.created)
        );
        let _ = write!(line, ",\"shared\":\"{}\"", self.shared);
        for (clone, value) in self.own.iter().enumerate() {
            let _ = write!(line, ",\"own{clone}\":{value}");
        }
        let _ = write!(line, ",\"labels\":[{}]", self.labels.join(","));
        let status = if self.is_tombstone {
            "tombstone"
        } else {
            "open"
        };
        let _ = write!(line, ",\"status\":\"{status}\"");
        let _ = write!(line, ",\"updated_at\":\"{}\"}}", time(self.updated));
        match self.is_spaced {
            true => line.replace(',', ", "),
            false => line,
        }
    }

    /// Reads a line that [`Self::line`] wrote, or a merge of such.
    fn read(line: &str) -> Self {
        let is_spaced = line.contains(", ");
        let line = line.replace(", ", ",");
        let after = |name: &str| {
            let begin = line.find(&format!("\"{name}\":")).unwrap() + name.len() + 3;
            &line[begin..]
        };
        let text = |name: &str| after(name)[1..].split('"').next().unwrap().to_owned();
        let labels = after("labels")[1..].split(']').next().unwrap();
        let number = |name: &str| {
            after(name)
                .split([',', '}'])
                .next()
                .unwrap()
                .parse()
                .unwrap()
        };
        Self {
            id: text("id"),
            created: seconds(&text("created_at")),
            updated: seconds(&text("updated_at")),
            shared: text("shared"),
            own: std::array::from_fn(|clone| number(&format!("own{clone}"))),
            labels: labels
                .split(',')
                .filter(|l| !l.is_empty())
                .map(str::to_owned)
                .collect(),
            is_tombstone: text("status") == "tombstone",
            is_spaced,
        }
    }
}

fn time(seconds: usize) -> String {
    format!("2026-04-01T00:{:02}:{:02}Z", seconds / 60, seconds % 60)
}

fn seconds(time: &str) -> usize {
    let number = |range: std::ops::Range<usize>| time[range].parse::<usize>().unwrap();
    number(14..16) * 60 + number(17..19)
}

fn records(file: &[u8]) -> Vec<Record> {
    let text = str::from_utf8(file).unwrap();
    text.lines().map(Record::read).collect()
}

fn bytes(records: &[Record]) -> Vec<u8> {
    let lines = records.iter().map(|record| record.line() + "\n");
    lines.collect::<String>().into_bytes()
}

/// A version that a clone had, and those that it was made of.
struct Commit {
    parents: Vec<usize>,
    file: Vec<u8>,
}

struct World {
    habit: Habit,
    commits: Vec<Commit>,
    heads: [usize; CLONES],
    now: usize,
    added: usize,
    /// Last value that each clone wrote into its own field of a record.
    last: BTreeMap<(String, usize), usize>,
    deleted: BTreeSet<String>,
    /// Records that a merge could not decide: one side's line was taken for them.
    undecided: BTreeSet<Id>,
}

impl World {
    fn new(habit: Habit) -> Self {
        Self {
            habit,
            commits: vec![Commit {
                parents: Vec::new(),
                file: Vec::new(),
            }],
            heads: [0; CLONES],
            now: 1,
            added: 0,
            last: BTreeMap::new(),
            deleted: BTreeSet::new(),
            undecided: BTreeSet::new(),
        }
    }

    fn file(&self, clone: usize) -> &[u8] {
        &self.commits[self.heads[clone]].file
    }

    fn commit(&mut self, clone: usize, parents: Vec<usize>, file: Vec<u8>) {
        self.commits.push(Commit { parents, file });
        self.heads[clone] = self.commits.len() - 1;
    }

    fn change(&mut self, clone: usize, change: impl FnOnce(&mut Self, &mut Vec<Record>)) {
        let mut records = records(self.file(clone));
        change(self, &mut records);
        if self.habit == Habit::Sort {
            records.sort_by(|one, two| one.id.cmp(&two.id));
        }
        let head = self.heads[clone];
        self.commit(clone, vec![head], bytes(&records));
    }

    fn edit(&mut self, clone: usize, at: usize, edit: impl FnOnce(&mut Self, &mut Record)) {
        self.change(clone, |world, records| {
            if records.is_empty() {
                return;
            }
            let at = at % records.len();
            edit(world, &mut records[at]);
            records[at].updated = world.now;
        });
    }

    fn happen(&mut self, clone: usize, event: &Event) {
        match *event {
            Event::Add => self.change(clone, |world, records| {
                world.added += 1;
                // Ids whose order is not that of their making.
                let id = format!("r{}-{}", world.added * 7 % 10, world.added);
                let record = Record {
                    id,
                    created: world.now,
                    updated: world.now,
                    ..Record::default()
                };
                match world.habit {
                    Habit::Prepend => records.insert(0, record),
                    _ => records.push(record),
                }
            }),
            Event::EditOwn(at) => self.edit(clone, at, |world, record| {
                let value = world.commits.len();
                record.own[clone] = value;
                world.last.insert((record.id.clone(), clone), value);
            }),
            Event::EditShared(at) => self.edit(clone, at, |world, record| {
                record.shared = format!("by {clone} at {}", world.commits.len());
            }),
            Event::AddLabel(at) => self.edit(clone, at, |world, record| {
                record.labels.push(format!("\"l{}\"", world.commits.len()));
            }),
            Event::RemoveLabel(at) => self.edit(clone, at, |_, record| {
                record.labels.pop();
            }),
            Event::Tombstone(at) => self.edit(clone, at, |_, record| record.is_tombstone = true),
            Event::Delete(at) => self.change(clone, |world, records| {
                // The last record stays: an empty file is a matter of its own.
                if records.len() > 1 {
                    let record = records.remove(at % records.len());
                    world.deleted.insert(record.id);
                }
            }),
            Event::Reformat(at) => self.change(clone, |_, records| {
                let count = records.len().max(1);
                if let Some(record) = records.get_mut(at % count) {
                    record.is_spaced ^= true;
                }
            }),
            Event::Pull { from, is_rebase } => self.pull(clone, from, is_rebase),
            Event::Tick => self.now += 1,
        }
    }

    fn pull(&mut self, clone: usize, from: usize, is_rebase: bool) {
        let (mine, other) = (self.heads[clone], self.heads[from]);
        let base = self.base(mine, other);
        let merged = self.merge(&base, mine, other, is_rebase);
        if self.ancestors(mine).contains(&other) {
            return;
        }
        match self.ancestors(other).contains(&mine) {
            true => self.heads[clone] = other,
            false => self.commit(clone, vec![mine, other], merged),
        }
    }

    fn ancestors(&self, commit: usize) -> BTreeSet<usize> {
        let mut all = BTreeSet::from([commit]);
        let mut todo = vec![commit];
        while let Some(commit) = todo.pop() {
            let parents = self.commits[commit].parents.iter();
            todo.extend(parents.filter(|parent| all.insert(**parent)));
        }
        all
    }

    /// The merge base of two commits; of several the merge of these.
    fn base(&mut self, one: usize, two: usize) -> Vec<u8> {
        let (of_one, of_two) = (self.ancestors(one), self.ancestors(two));
        let common: Vec<usize> = of_one.intersection(&of_two).copied().collect();
        let is_best = |commit: &&usize| {
            let others = common.iter().filter(|other| *other != *commit);
            !others
                .clone()
                .any(|other| self.ancestors(*other).contains(*commit))
        };
        let best: Vec<usize> = common.iter().filter(is_best).copied().collect();
        let (first, others) = best.split_first().unwrap();
        let mut merged = self.commits[*first].file.clone();
        let mut last = *first;
        for other in others {
            let base = self.base(last, *other);
            merged = self.merge_files(&base, &merged, &self.commits[*other].file.clone());
            last = *other;
        }
        merged
    }

    fn merge(&mut self, base: &[u8], mine: usize, other: usize, is_rebase: bool) -> Vec<u8> {
        let [mine, other] = [mine, other].map(|commit| self.commits[commit].file.clone());
        // A rebase has the upstream as ours.
        match is_rebase {
            true => self.merge_files(base, &other, &mine),
            false => self.merge_files(base, &mine, &other),
        }
    }

    /// Merges both ways round. For undecided records the larger file's lines are taken: that is the same both ways.
    fn merge_files(&mut self, base: &[u8], ours: &[u8], theirs: &[u8]) -> Vec<u8> {
        let once = marked(base, ours, theirs, 7);
        let mut swapped = marked(base, theirs, ours, 7);
        swapped.bytes = String::from_utf8(halves_swapped(&swapped.bytes, 7))
            .unwrap()
            .replace("<<<<<<< theirs", "<<<<<<< ours")
            .replace(">>>>>>> ours", ">>>>>>> theirs")
            .into_bytes();
        assert_eq!(
            String::from_utf8_lossy(&once.bytes),
            String::from_utf8_lossy(&swapped.bytes)
        );
        self.undecided.extend(
            once.conflicts
                .into_iter()
                .filter_map(|conflict| conflict.id),
        );
        let side = if ours > theirs {
            Undecided::Ours
        } else {
            Undecided::Theirs
        };
        merge(base, ours, theirs, &side).unwrap().bytes
    }

    /// Each takes in all the others, until nothing is new.
    fn settle(&mut self) {
        for (clone, from) in [(0, 1), (0, 2), (1, 0), (2, 0)] {
            self.pull(clone, from, false);
        }
    }
}

fn check(history: &History) {
    let mut world = World::new(history.habit);
    for (clone, event) in &history.events {
        world.happen(*clone, event);
    }
    world.settle();

    let file = world.file(0).to_vec();
    for clone in 1..CLONES {
        assert_eq!(
            String::from_utf8_lossy(world.file(clone)),
            String::from_utf8_lossy(&file)
        );
    }
    let records = records(&file);
    let by_id: BTreeMap<&str, &Record> = records.iter().map(|r| (r.id.as_str(), r)).collect();
    assert_eq!(by_id.len(), records.len(), "a record is twice");
    assert_eq!(RecordFile::read(&file).records(), records.len());

    let all = world
        .commits
        .iter()
        .flat_map(|commit| super::histories::records(&commit.file));
    for record in all {
        let is_there = by_id.contains_key(record.id.as_str());
        assert!(
            is_there || world.deleted.contains(&record.id),
            "{} is lost",
            record.id
        );
    }
    for ((id, clone), value) in &world.last {
        let is_told = world.deleted.contains(id) || world.undecided.contains(&Id::text(id));
        if let (Some(record), false) = (by_id.get(id.as_str()), is_told) {
            assert_eq!(
                record.own[*clone], *value,
                "{id}, the field of clone {clone}"
            );
        }
    }
    if history.habit == Habit::Sort {
        assert!(
            records.is_sorted_by(|one, two| one.id < two.id),
            "not sorted"
        );
    }
}

#[test]
fn all_clones_come_to_the_same_file_and_lose_nothing() {
    holds(100, &histories(), |history| format!("{history:#?}"), check);
}
