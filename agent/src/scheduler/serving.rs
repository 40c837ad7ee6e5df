//! Which databases are served: those that are named, and those that were found. They come and go, and a number is never
//! given to another one.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use beadlock_base::escape::escaped_path;
use beadlock_core::database::Database;
use beadlock_core::facts;
use beadlock_core::log_line::Event;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::{Span, debug, info};

use super::{CycleState, Scheduler, ServedDatabase};
use crate::config::{ArrivedDatabase, Policy, RunMode};
use crate::cycle::{self, Subject};
use crate::database::{Due, LoggedState};
use crate::log::{self, agent_lines};
use crate::notify;
use crate::outcome::{CycleFailure, CycleOutcome};
use crate::roots::SearchUpdate;
use crate::state::{StateHistory, log_time};

/// How many of those that go at once are named in the logs of those that stay.
const GONE_SAID: usize = 10;

/// How many new databases have their first cycles at once. Of more, each has its place in the interval.
const AT_ONCE: usize = 64;

/// So many places there are at most, unless more than so many would share one: to wake up, and to find everything
/// cold that was not touched since, costs several times what a check does.
const PLACES: usize = 20;
const TOGETHER: usize = 512;

/// However long the interval is, the last of them has not to wait for longer.
const ALL_WITHIN: Duration = Duration::from_secs(60);

/// The changes in the set of served databases: new ones, gone ones, and how many have another policy.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) new: Vec<usize>,
    /// The databases that went, with their directories. Lines to all databases still reach their logs.
    pub(super) gone: Vec<(usize, PathBuf)>,
    /// How many databases have another policy.
    pub(super) changed: usize,
}

impl Scheduler {
    /// How many databases are served.
    pub(super) fn served(&self) -> usize {
        self.databases
            .values()
            .filter(|entry| !entry.is_leaving)
            .count()
    }

    /// A look below the roots has ended.
    pub(super) fn found(&mut self, news: SearchUpdate) {
        if news.are_others {
            self.serve_others(news.is_first);
        }
        for dir in news.gone {
            self.work.metrics.databases_gone.inc();
            self.unserved.has_gone(dir);
        }
        if !self.unserved.is_empty() || self.search.refused().next().is_some() {
            let served = self.databases.values().filter(|entry| !entry.is_leaving);
            let served = served.map(|entry| entry.subject.database.dir.as_path());
            let found = self.search.found().iter().map(|found| found.at());
            let served: HashSet<&Path> = served.chain(found).collect();
            let is_served = |dir: &Path| served.contains(dir);
            self.unserved.looked(&self.search, is_served);
        }
        // In the logs of those that are served now, too.
        for trouble in &news.problems {
            log::announce(trouble.line());
        }
    }

    /// There are other databases below the roots than before.
    fn serve_others(&mut self, is_first_look: bool) {
        let Changes { new, gone, .. } = self.serve();
        if !(new.is_empty() && gone.is_empty()
            || self.reload.is_awaited()
            || self.settings.mode == RunMode::Once)
        {
            notify::ready(&self.summary());
        }
        let refused: HashMap<&Path, &str> = self.search.refused().collect();
        for (number, dir) in &gone {
            if let Some(why) = refused.get(dir.as_path()) {
                log::line(*number, not_served_any_more(why));
            }
            // Before the other lines: most likely their logs are gone with them.
            log::unserve(*number);
        }
        // With a log for each, what is said to all is written as often as databases stay.
        let is_shared = self.settings.log.shared.is_some();
        let said = if is_shared {
            gone.len()
        } else {
            gone.len().min(GONE_SAID)
        };
        gone[..said]
            .iter()
            .for_each(|(_, dir)| log::line_to_all(agent_lines::gone(dir)));
        if said < gone.len() {
            log::line_to_all(agent_lines::others_gone(gone.len() - said));
        }
        for number in new.iter().filter(|_| !is_shared) {
            // A log of all has it from the start, and twice it would be another agent's.
            if is_first_look {
                log::line(*number, agent_lines::started());
            }
            if let Some(wrong) = &self.no_watcher {
                log::line(*number, agent_lines::cannot_watch(&wrong.why));
            }
        }
        self.say_others(&new);
        self.say_found(&new);
    }

    /// Says which other agents serve new databases already. Beside: to read their logs may take long.
    pub(super) fn say_others(&self, new: &[usize]) {
        // One look beside an agent is not a second agent.
        if new.is_empty() || self.settings.mode == RunMode::Once {
            return;
        }
        let dir = |number: &usize| {
            let entry = self.databases.get(number)?;
            Some((*number, entry.subject.database.dir.clone()))
        };
        let dirs: Vec<(usize, PathBuf)> = new.iter().filter_map(dir).collect();
        spawn_blocking(move || {
            dirs.iter()
                .for_each(|(number, dir)| log::say_others(*number, dir))
        });
    }

    fn say_found(&self, new: &[usize]) {
        for number in new {
            if let Some(entry) = self.databases.get(number) {
                log::line(*number, agent_lines::found(&entry.subject.database.dir));
            }
        }
    }

    /// Serves the databases that there are now. A new one is due at once, of many ([`AT_ONCE`]) each in its place; one
    /// that has gone ends with its running cycle; what did not change runs on.
    pub(super) fn serve(&mut self) -> Changes {
        let mut changes = Changes::default();
        let dir = |(number, entry): (&usize, &ServedDatabase)| {
            (entry.subject.database.dir.clone(), *number)
        };
        let numbers: HashMap<PathBuf, usize> = self.databases.iter().map(dir).collect();
        let named = self
            .settings
            .named
            .iter()
            .map(|named| (&named.database, &named.policy));
        let found = self
            .search
            .found()
            .iter()
            .map(|found| (&found.database, &self.settings.defaults));
        let there: Vec<(Database, Arc<Policy>)> = named
            .chain(found)
            .map(|(database, policy)| (database.clone(), Arc::clone(policy)))
            .collect();
        let mut dirs = HashSet::new();
        let mut added = Vec::new();
        for (database, policy) in there {
            if !dirs.insert(database.dir.clone()) {
                continue;
            }
            match numbers.get(&database.dir) {
                Some(number) => self.keep(*number, database, policy, &mut changes),
                None => added.push(self.add(database, policy)),
            }
        }
        for (dir, number) in numbers {
            if !dirs.contains(&dir) && self.leave(number) {
                changes.gone.push((number, dir));
            }
        }
        self.spread(&added);
        changes.new.extend(added);
        changes.gone.sort_unstable();
        let [new, gone, changed] = [changes.new.len(), changes.gone.len(), changes.changed];
        if new + gone + changed > 0 {
            info!(new, gone, changed, served = self.served(), "databases");
        }
        self.unwatch_forgotten();
        changes
    }

    /// Says which databases are awaited. With `--once` the agent does not wait for them.
    pub(super) fn say_awaited(&mut self) {
        for awaited in &self.settings.awaited {
            log::announce(agent_lines::not_serving(&awaited.dir, &awaited.why));
        }
    }

    /// A database that was awaited has answered.
    pub(super) fn arrived(&mut self, ArrivedDatabase { dir, found }: ArrivedDatabase) {
        let named = match found {
            Ok(named) => named,
            Err(why) => {
                let why = format!("{why}; send SIGHUP to the agent to look again");
                log::announce(agent_lines::not_serving(&dir, &why));
                let awaited = self
                    .settings
                    .awaited
                    .iter_mut()
                    .filter(|awaited| awaited.dir == dir);
                return awaited.for_each(|awaited| awaited.why.clone_from(&why));
            }
        };
        self.settings.awaited.retain(|awaited| awaited.dir != dir);
        self.settings.named.push(named);
        self.search
            .begin_again(self.settings.scope(), self.settings.defaults.interval);
        let Changes { new, gone, .. } = self.serve();
        self.say_others(&new);
        self.say_found(&new);
        gone.into_iter()
            .for_each(|(number, _)| log::unserve(number));
        if self.settings.mode != RunMode::Once {
            notify::ready(&self.summary());
        }
    }

    /// The name of a database leads to another directory now. That one is served in its place, with its own log.
    pub(super) fn redirected(&mut self, number: usize, database: Database) {
        if self.is_ending {
            self.has_missed = true;
            return self.next(number, false);
        }
        let Some(entry) = self.databases.get_mut(&number) else {
            return;
        };
        entry.state = CycleState::Waiting(None);
        let old = Arc::clone(&entry.subject.database);
        let is_other = database.dir != old.dir;
        let line = agent_lines::redirected(&old, &database.dir);
        let is_named = self
            .settings
            .named
            .iter()
            .any(|named| named.database == *old);
        if !is_named {
            // The next look below the roots finds where it leads. Nothing runs on the old directory meanwhile.
            self.search
                .begin_again(self.settings.scope(), self.settings.defaults.interval);
            return match self.settings.mode {
                RunMode::Once => {
                    let why = format!(
                        "its redirect leads to {} now, which no root has yet",
                        escaped_path(&database.dir)
                    );
                    self.ended(
                        number,
                        CycleOutcome::NotServed(CycleFailure::new("redirected", why)),
                    );
                }
                RunMode::Clock | RunMode::Watch => self.next(number, false),
            };
        }
        let to = database.dir.clone();
        let led_there = self
            .settings
            .named
            .iter_mut()
            .filter(|named| named.database == *old);
        led_there.for_each(|named| named.database = database.clone());
        if is_other {
            log::line(number, line.clone());
            // What is named there now is not to be found below a root; what was named before may be.
            self.search
                .begin_again(self.settings.scope(), self.settings.defaults.interval);
        }
        let Changes { new, gone, .. } = self.serve();
        self.say_others(&new);
        if is_other {
            // With a log of all, it has the line already.
            let has_own_log = self.settings.log.shared.is_none();
            let there = self
                .databases
                .iter()
                .find(|(_, entry)| entry.subject.database.dir == to);
            if let Some((number, _)) = there.filter(|_| has_own_log) {
                log::line(*number, line);
            }
        }
        gone.into_iter()
            .for_each(|(number, _)| log::unserve(number));
        if let Some(entry) = self
            .databases
            .get_mut(&number)
            .filter(|_| self.settings.mode == RunMode::Once)
        {
            entry.due.come_by(Instant::now());
        }
        self.wait(number);
    }

    fn add(&mut self, database: Database, policy: Arc<Policy>) -> usize {
        let number = self.next_number;
        self.next_number += 1;
        log::serve(number, &database.dir);
        debug!(db = ?database.dir, "database comes");
        let subject = Subject {
            number,
            database: Arc::new(database),
            policy,
            common: Arc::clone(&self.common),
        };
        let entry = ServedDatabase {
            subject,
            due: Due::new(Instant::now()),
            state: CycleState::Waiting(None),
            told: LoggedState::default(),
            is_ready: false,
            begun: Instant::now(),
            busy_since: None,
            history: StateHistory::new(Instant::now(), facts::now()),
            last: None,
            checked_since: None,
            silent: None,
            is_leaving: false,
            cycles: 0,
            span: Span::none(),
        };
        self.databases.insert(number, entry);
        number
    }

    /// The first cycles of new databases: at once, or spread over the interval when there are many. They are watched
    /// from now on in any case, so that a lock that goes away need not wait for the first cycle.
    fn spread(&mut self, added: &[usize]) {
        let are_spread = self.settings.spreads && added.len() > AT_ONCE;
        let now = Instant::now();
        let mut watched = Vec::new();
        for (place, number) in added.iter().enumerate() {
            if are_spread && let Some(entry) = self.databases.get_mut(number) {
                let wait = place_in(entry.subject.policy.interval, place, added.len());
                entry.due = Due::new(now + wait);
                watched.push(entry.subject.clone());
            }
            self.wait(*number);
        }
        if !watched.is_empty() {
            let work = Arc::clone(&self.work);
            spawn_blocking(move || {
                watched
                    .iter()
                    .for_each(|subject| cycle::watch(&work, subject))
            });
        }
    }

    fn keep(
        &mut self,
        number: usize,
        database: Database,
        policy: Arc<Policy>,
        changes: &mut Changes,
    ) {
        let Some(entry) = self.databases.get_mut(&number) else {
            return;
        };
        if std::mem::take(&mut entry.is_leaving) {
            // It has come back before its last cycle has ended.
            log::serve(number, &database.dir);
            changes.new.push(number);
        } else if entry.subject.policy != policy {
            changes.changed += 1;
        }
        entry.due.come_by(Instant::now() + policy.interval);
        entry.subject = Subject {
            number,
            database: Arc::new(database),
            policy,
            common: Arc::clone(&self.common),
        };
        // With `--once` it has had its cycle, or is about to.
        if self.settings.mode != RunMode::Once {
            self.wait(number);
        }
    }

    /// True when that is news.
    fn leave(&mut self, number: usize) -> bool {
        let Some(entry) = self.databases.get_mut(&number) else {
            return false;
        };
        let is_news = !std::mem::replace(&mut entry.is_leaving, true);
        if is_news {
            debug!(db = ?entry.subject.database.dir, "database goes");
        }
        if entry.state != CycleState::Running {
            self.forget(number);
        }
        is_news
    }

    /// Removes a database of which nothing runs any more; [`Self::unwatch_forgotten`] comes next.
    pub(super) fn forget(&mut self, number: usize) {
        let Some(entry) = self.databases.remove(&number) else {
            return;
        };
        if entry.is_ready {
            self.ready.retain(|ready| *ready != number);
        }
        match entry.state {
            CycleState::Waiting(Some(key)) => drop(self.timers.remove(&key)),
            CycleState::Due => self.due.retain(|due| *due != number),
            CycleState::Waiting(None) | CycleState::Running => {}
        }
        self.forgotten.push(number);
    }

    /// Watches no longer what was forgotten. Beside, for it may have to wait for the watcher.
    pub(super) fn unwatch_forgotten(&mut self) {
        let forgotten = std::mem::take(&mut self.forgotten);
        if forgotten.is_empty() {
            return;
        }
        let work = Arc::clone(&self.work);
        spawn_blocking(move || work.watch.unwatch(&forgotten));
    }
}

/// The line in the log of a database that was served until now.
pub(super) fn not_served_any_more(why: &str) -> log::AgentLine {
    let now = facts::now();
    let words = format_args!(" since {}: {why}", log_time(now));
    agent_lines::state(Event::StateNotServing, now, words)
}

/// The place of one of `count` in an interval, or in its first minute.
fn place_in(interval: Duration, place: usize, count: usize) -> Duration {
    let together = (count / PLACES).clamp(1, TOGETHER);
    let place = (place - place % together) as u128;
    let nanos = interval.min(ALL_WITHIN).as_nanos() * place / count.max(1) as u128;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_spread_evenly_over_the_interval() {
        let minute = Duration::from_secs(60);
        let places: Vec<u128> = (0..10_000)
            .map(|place| place_in(minute, place, 10_000).as_millis())
            .collect();
        assert_eq!((places[0], places[9_999]), (0, 57_000));
        assert!(places.is_sorted());
        for gathered in places.chunk_by(|one, next| one == next) {
            assert!(gathered.len() <= TOGETHER, "{}", gathered.len());
        }
        let gaps = places
            .windows(2)
            .map(|two| two[1] - two[0])
            .filter(|gap| *gap > 0);
        assert!(
            gaps.clone().all(|gap| gap == 3_000),
            "{:?}",
            gaps.collect::<Vec<_>>()
        );
        assert_eq!(
            place_in(minute * 600, 60, 120),
            minute / 2,
            "nobody waits for ten hours"
        );
    }
}
