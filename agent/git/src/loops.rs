//! A database that talks to itself: each sync makes something write into it, and that makes the next commit. Pure.
//!
//! A commit is an *echo* when every file in it was written between the begin of the sync before it and 2 s after its
//! end. Three echoes in a row are a loop where a hook wrote them while it ran. Where the syncs before them have pulled,
//! three are suspected: two clones may answer to each other. When they bring back one of the last eight trees as well,
//! within 2 minutes of each other, they are a loop too: two formatters.
//!
//! Other programs write within those 2 s as well. One that writes all the time goes on, and an echo falls silent. So a
//! suspicion is followed by a pause, in which nothing may be written. A person or a script that waits for the push of
//! one change, and then makes the next, falls silent too. So echoes that nothing has called forth but our own commits
//! are suspected only when there were thirty in a row, and for 2 minutes.
//!
//! The log has a notice, and the time until the next commit doubles with each echo, until something is written at
//! another time, or nothing for ten minutes.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use beadlock_repository::message::{CommittedFiles, HookRun};
use beadlock_repository::{GitReason, Hindrance, HindranceKind};

/// How long after a sync a write may still be an answer to it.
const ANSWER: Duration = Duration::from_secs(2);
/// How far a file's time may lie from the clock's.
const TICK: Duration = Duration::from_millis(20);
/// How many echoes in a row are a loop.
const ROW: u32 = 3;
/// How many echoes in a row are suspected where nothing but a commit of ours went before, and how long they must last.
const LONG_ROW: (u32, Duration) = (30, Duration::from_secs(120));
/// A tree that comes back so long after the last one that did is a toggle, and no loop.
const RETURN: Duration = Duration::from_secs(120);
/// Trees that come back so soon after each other need no pull to be a loop.
const QUICK: Duration = Duration::from_secs(5);
/// How many trees are remembered.
const TREES: usize = 8;
/// How long a suspicion keeps a sync waiting, from the end of the last one. A program that writes from time to time is
/// suspected only when that is at least each 2.8 s: so it writes once more in this time, later than an answer.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest time between two commits of a loop.
const LONGEST: Duration = Duration::from_secs(600);
/// How long a program that was wrongly suspected is left in peace, the first time and at most.
const PARDON: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(3600));
/// A larger file is committed at most once in as many seconds as it has of this, but at least once in a minute.
const LARGE: u64 = 1024 * 1024;
const LONGEST_FOR_LARGE: u64 = 60;

/// A sync that has ended, by the clock of files.
#[derive(Debug, Clone, Copy)]
pub struct SyncTimes {
    /// When it began and when it ended, since 1970.
    pub wall: (Duration, Duration),
    /// When it ended.
    pub ended: Instant,
}

/// The effects of a sync besides its commit.
#[derive(Debug, Default)]
pub(crate) struct SyncDone {
    /// Whether it has changed something here or at the remote.
    pub(crate) is_active: bool,
    /// Whether it has pulled commits.
    pub(crate) has_pulled: bool,
    pub(crate) hooks: Vec<HookRun>,
}

/// The commits of one database, as far as they may be a loop.
#[derive(Debug, Default)]
pub(crate) struct LoopWatch {
    /// The last sync that has changed something here or at the remote.
    last: Option<(SyncTimes, SyncDone)>,
    echoes: u32,
    /// When this row of echoes began.
    since: Option<Instant>,
    /// How many of the last echoes were written while a hook ran.
    of_hooks: u32,
    /// How many of the last echoes were written while a hook ran, or came after a pull.
    answers: u32,
    returns: u32,
    /// When the last tree came back.
    returned: Option<Instant>,
    /// The hooks that have run so far.
    have_run: BTreeSet<String>,
    /// How many commits in a row were slowed down.
    slowed: u32,
    trees: VecDeque<String>,
    pace: LoopPace,
    /// Until when a loop that has made no commit may still go on.
    remembered: Option<Instant>,
    /// Until when no program is suspected, and how often one was suspected in vain.
    pardon: (Option<Instant>, u32),
    /// Until when nothing is committed after a large file, and the sentence for the state meanwhile.
    large: Option<(Instant, String)>,
}

#[derive(Debug, Default, PartialEq)]
enum LoopPace {
    #[default]
    Free,
    /// Until when the sync waits for the writer to fall silent, and the sentence for the state meanwhile.
    Suspected(Instant, String),
    /// A loop, until when it waits, and its notice.
    Slowed { until: Instant, notice: String },
}

/// Why changes are not looked at yet.
#[derive(Debug, PartialEq)]
pub(crate) struct Pause {
    /// The hindrance for the state of the database.
    pub(crate) hindrance: Hindrance,
    /// Whether the remote is asked all the same.
    pub(crate) may_fetch: bool,
}

impl Pause {
    fn new(reason: GitReason, why: &str) -> Self {
        Self {
            hindrance: Hindrance {
                kind: HindranceKind::NotPushing,
                reason,
                why: why.to_owned(),
                next: None,
            },
            may_fetch: false,
        }
    }
}

impl LoopWatch {
    /// Takes note of a sync that has ended. Returns the notice for the log.
    pub(crate) fn ended(
        &mut self,
        times: SyncTimes,
        done: SyncDone,
        committed: Option<&CommittedFiles>,
    ) -> Option<String> {
        let notice = match committed {
            Some(committed) => self.committed(times, committed),
            None => {
                if !done.is_active && matches!(self.pace, LoopPace::Slowed { .. }) {
                    // There was nothing to commit. The other half of the loop may have to wait too.
                    self.remembered = Some(times.ended + self.wait() * 4);
                    self.pace = LoopPace::Free;
                }
                None
            }
        };
        let names = done.hooks.iter().map(|hook| hook.name.clone());
        self.have_run.extend(names);
        if done.is_active || committed.is_some() {
            self.last = Some((times, done));
        }
        notice
    }

    fn committed(&mut self, times: SyncTimes, files: &CommittedFiles) -> Option<String> {
        let (name, size) = &files.largest;
        self.large = (*size > LARGE).then(|| {
            let (seconds, count) = ((size / LARGE).min(LONGEST_FOR_LARGE), size / LARGE);
            let wait = Duration::from_secs(seconds);
            let time = clock_time(times.wall.1 + wait);
            let why = format!(
                "{name} has {count} MiB and is committed at most once in {seconds} s; changes wait until {time}"
            );
            (times.ended + wait, why)
        });
        self.forget_old(times.ended);
        let is_back = self.trees.contains(&files.tree);
        self.trees.push_back(files.tree.clone());
        if self.trees.len() > TREES {
            self.trees.pop_front();
        }
        let (is_echo, hooks) = (self.is_echo(files), self.hooks_of(files));
        let has_pulled = self.last.as_ref().is_some_and(|(_, done)| done.has_pulled);
        let is_answer = is_echo && (has_pulled || !hooks.is_empty());
        let count = |row: u32, is_one: bool| if is_one { row + 1 } else { 0 };
        self.of_hooks = count(self.of_hooks, is_echo && !hooks.is_empty());
        self.echoes = count(self.echoes, is_echo);
        self.answers = if is_echo { self.answers } else { 0 } + u32::from(is_answer);
        self.since = self.since.filter(|_| is_echo).or(Some(times.ended));
        // Two forms answer to each other: at once, or each after a pull.
        let is_quick = self
            .returned
            .is_none_or(|at| times.ended.saturating_duration_since(at) <= QUICK);
        let follows = is_answer || has_pulled || is_quick;
        self.returns = count(self.returns, is_back && follows);
        if is_back {
            self.returned = Some(times.ended);
        }
        if !is_echo && matches!(self.pace, LoopPace::Suspected(..)) {
            self.acquit(times.ended);
        }
        let is_remembered = self
            .remembered
            .take()
            .is_some_and(|until| times.ended < until);
        let is_known = match self.pace {
            LoopPace::Free => is_remembered,
            LoopPace::Suspected(..) => false,
            LoopPace::Slowed { .. } => true,
        };
        let is_confirmed = is_known || matches!(self.pace, LoopPace::Suspected(..));
        let is_loop = self.echoes >= ROW && is_confirmed || self.of_hooks >= ROW;
        if self.returns >= ROW || is_loop {
            let notice = notice(files, &self.named(hooks), self.returns + 1 >= ROW);
            self.slowed += 1;
            self.pace = LoopPace::Slowed {
                until: times.ended + self.wait(),
                notice: notice.clone(),
            };
            return (!is_known).then_some(notice);
        }
        self.slowed = 0;
        let is_pardoned = self.pardon.0.is_some_and(|until| times.ended < until);
        self.pace = match self.is_suspect(times.ended) && !is_pardoned {
            true => {
                let (file, time) = (&files.shown, clock_time(times.wall.1 + PAUSE));
                let why = format!(
                    "{file} was written again at once after each of the last syncs; changes wait until {time}"
                );
                LoopPace::Suspected(times.ended + PAUSE, why)
            }
            false => LoopPace::Free,
        };
        None
    }

    /// The hooks that have written, or else those that have run so far: what they have started may have.
    fn named(&self, hooks: Vec<String>) -> Vec<String> {
        if !hooks.is_empty() {
            return hooks;
        }
        self.have_run.iter().cloned().collect()
    }

    /// Whether the echoes in a row are as many as those of a loop.
    fn is_suspect(&self, now: Instant) -> bool {
        let (row, time) = LONG_ROW;
        let has_lasted = |since: Instant| now.saturating_duration_since(since) >= time;
        self.answers >= ROW || self.echoes >= row && self.since.is_some_and(has_lasted)
    }

    /// Sets back the counts that are too old: of trees that came back, and of a loop.
    fn forget_old(&mut self, now: Instant) {
        let is_old = |at: Instant, time: Duration| now.saturating_duration_since(at) > time;
        if self.returned.is_some_and(|at| is_old(at, RETURN)) {
            self.returns = 0;
        }
        if matches!(self.pace, LoopPace::Slowed { until, .. } if is_old(until, LONGEST)) {
            self.pace = LoopPace::Free;
            (self.slowed, self.echoes, self.of_hooks, self.answers) = (0, 0, 0, 0);
        }
    }

    /// How long a loop waits for its next commit.
    fn wait(&self) -> Duration {
        let row = (ROW + self.slowed.saturating_sub(1)).min(10);
        Duration::from_secs(1 << row).min(LONGEST)
    }

    /// Whether every file was written between the begin of the last sync and a short time after its end.
    fn is_echo(&self, files: &CommittedFiles) -> bool {
        let (Some((last, _)), Some((first, newest))) = (&self.last, files.written) else {
            return false;
        };
        let (begun, ended) = last.wall;
        begun <= first + TICK && newest <= ended + ANSWER
    }

    /// The hooks of the last sync that ran while the files were written.
    fn hooks_of(&self, files: &CommittedFiles) -> Vec<String> {
        let (Some((_, done)), Some((first, newest))) = (&self.last, files.written) else {
            return Vec::new();
        };
        let ran_at = |at: Duration| {
            let ran = done.hooks.iter();
            ran.filter(move |hook| hook.ran.0 <= at + TICK && at <= hook.ran.1 + TICK)
                .map(|hook| hook.name.clone())
        };
        let mut hooks: Vec<String> = ran_at(first).collect();
        if ran_at(newest).next().is_none() {
            return Vec::new();
        }
        hooks.extend(ran_at(newest));
        hooks.dedup();
        hooks
    }

    /// Ends a suspicion that was wrong: for some time no program is suspected.
    fn acquit(&mut self, now: Instant) {
        let (first, longest) = PARDON;
        let is_over = |until: Instant| now.saturating_duration_since(until) > longest;
        let times = match self.pardon.0.is_some_and(is_over) {
            true => 0,
            false => self.pardon.1,
        };
        let pardon = first.saturating_mul(1 << times.min(10)).min(longest);
        (self.pace, self.echoes, self.answers) = (LoopPace::Free, 0, 0);
        self.pardon = (Some(now + pardon), times + 1);
    }

    /// Something has changed in the database while no sync ran. Returns whether that is a reason for a sync.
    pub(crate) fn is_news(&mut self, now: Instant) -> bool {
        let is_answer = self
            .last
            .as_ref()
            .is_some_and(|(last, _)| now.saturating_duration_since(last.ended) <= ANSWER);
        match &mut self.pace {
            LoopPace::Free => true,
            _ if is_answer => false,
            LoopPace::Suspected(..) => {
                self.acquit(now);
                true
            }
            LoopPace::Slowed { until, .. } => {
                *until = now;
                true
            }
        }
    }

    /// Somebody asks for a sync.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.large = None;
        match &mut self.pace {
            LoopPace::Free => {}
            LoopPace::Suspected(until, _) | LoopPace::Slowed { until, .. } => *until = now,
        }
    }

    /// Why changes wait at `now`; `None`: they do not wait.
    pub(crate) fn pause(&self, now: Instant) -> Option<Pause> {
        match &self.pace {
            LoopPace::Slowed { until, notice } if *until > now => {
                return Some(Pause::new(GitReason::Loop, notice));
            }
            LoopPace::Suspected(until, why) if *until > now => {
                return Some(Pause::new(GitReason::Paced, why));
            }
            _ => {}
        }
        let (_, why) = self.large.as_ref().filter(|(until, _)| *until > now)?;
        Some(Pause {
            may_fetch: true,
            ..Pause::new(GitReason::Paced, why)
        })
    }

    /// When the pause is over.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        let until = match &self.pace {
            LoopPace::Free => None,
            LoopPace::Suspected(until, _) | LoopPace::Slowed { until, .. } => Some(*until),
        };
        until.max(self.large.as_ref().map(|(until, _)| *until))
    }
}

/// The time of day, as the log has it: `10:02:05`.
fn clock_time(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

fn notice(files: &CommittedFiles, hooks: &[String], returns: bool) -> String {
    let hook = match hooks.is_empty() {
        true => "a hook".to_owned(),
        false => format!("a hook ({})", hooks.join(", ")),
    };
    let (what, change, go, them) = match files.count {
        0 | 1 => (files.shown.clone(), "changes", "goes", "it"),
        count => (
            format!("{} and {} more", files.shown, count - 1),
            "change",
            "go",
            "them",
        ),
    };
    match returns {
        true => format!(
            "{what} {go} back and forth between two forms; {hook} or another agent writes {them}"
        ),
        false => format!("{what} {change} at each sync; {hook} or another agent writes {them}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database, its syncs and its writers, by one clock.
    struct Played {
        watch: LoopWatch,
        begun: Instant,
        /// Milliseconds since the begin.
        now: u64,
        trees: u64,
        has_hook: bool,
        commits: Vec<u64>,
        notices: Vec<(u64, String)>,
    }

    /// How long a sync takes.
    const SYNC: u64 = 150;

    fn at(millis: u64) -> Duration {
        Duration::from_secs(1_000_000) + Duration::from_millis(millis)
    }

    impl Played {
        fn new(has_hook: bool) -> Self {
            Self {
                watch: LoopWatch::default(),
                begun: Instant::now(),
                now: 0,
                trees: 0,
                has_hook,
                commits: Vec::new(),
                notices: Vec::new(),
            }
        }

        fn instant(&self, millis: u64) -> Instant {
            self.begun + Duration::from_millis(millis)
        }

        /// A sync now, of what was written at these times; `tree` is another one each time without it.
        /// A hook runs from 70 to 90 ms after the begin, where there is one.
        fn sync(&mut self, written: &[u64], tree: Option<&str>) {
            self.trees += 1;
            let times = SyncTimes {
                wall: (at(self.now), at(self.now + SYNC)),
                ended: self.instant(self.now + SYNC),
            };
            let files = CommittedFiles {
                shown: ".beads/stamp.txt".to_owned(),
                count: 1,
                written: written
                    .iter()
                    .min()
                    .map(|first| (at(*first), at(*written.iter().max().unwrap()))),
                tree: tree.map_or_else(|| self.trees.to_string(), str::to_owned),
                ..CommittedFiles::default()
            };
            let committed = (!written.is_empty()).then_some(&files);
            let hook = HookRun {
                name: "post-commit".to_owned(),
                ran: (at(self.now + 70), at(self.now + 90)),
            };
            let done = SyncDone {
                is_active: committed.is_some(),
                has_pulled: false,
                hooks: self.has_hook.then_some(hook).into_iter().collect(),
            };
            let notice = self.watch.ended(times, done, committed);
            self.notices.extend(notice.map(|line| (self.now, line)));
            if committed.is_some() {
                self.commits.push(self.now);
            }
        }

        /// A watched database whose writers are asked for each write after `from` and up to `to`, with the last sync's
        /// begin. Cycles come at each `interval`, and `debounce` after a change outside of syncs.
        fn play(
            &mut self,
            interval: u64,
            debounce: u64,
            until: u64,
            mut writes: impl FnMut(u64, Option<u64>) -> bool,
        ) {
            let (mut waiting, mut due, mut sync) = (Vec::<u64>::new(), None::<u64>, None::<u64>);
            for now in 0..until {
                self.now = now;
                let is_syncing = sync.is_some_and(|sync| now < sync + SYNC);
                if writes(now, sync) {
                    waiting.push(now);
                    if !is_syncing && self.watch.is_news(self.instant(now)) {
                        due = Some(now + debounce);
                    }
                }
                let is_time = now % interval == 0 || due.is_some_and(|due| due <= now);
                if is_syncing || !is_time || waiting.is_empty() || waiting == [now] {
                    continue;
                }
                due = None;
                if self.watch.pause(self.instant(now)).is_none() {
                    let seen: Vec<u64> = std::mem::take(&mut waiting);
                    self.sync(&seen[seen.len() - 1..], None);
                    sync = Some(now);
                }
            }
        }
    }

    #[test]
    fn a_hook_that_writes_at_each_commit_makes_ten_commits_in_ten_minutes_and_one_notice() {
        for interval in [100, 1000, 5000, 30_000] {
            let mut played = Played::new(true);
            let mut hook = None;
            played.play(interval, 500, 600_000, |now, sync| {
                let runs = sync.is_some_and(|sync| now == sync + 80) && hook != sync;
                hook = if runs { sync } else { hook };
                now == 7 || runs
            });
            assert!(
                played.commits.len() <= 10,
                "{interval}: {:?}",
                played.commits
            );
            let lines: Vec<&str> = played
                .notices
                .iter()
                .map(|(_, line)| line.as_str())
                .collect();
            let line = ".beads/stamp.txt changes at each sync; a hook (post-commit) or another agent writes it";
            assert_eq!(lines, [line], "{interval}");
            assert!(
                played.notices[0].0 < 4 * interval + 5000,
                "{interval}: {:?}",
                played.notices
            );
        }
    }

    #[test]
    fn a_program_that_answers_to_each_sync_is_a_loop_too() {
        let answers = [(1000, 400), (5000, 900), (1000, 1900), (200, 300)];
        let both = [true, false].map(|has_hook| answers.map(|answer| (has_hook, answer)));
        for (has_hook, (interval, answer)) in both.into_iter().flatten() {
            let mut played = Played::new(has_hook);
            played.play(interval, 100, 600_000, |now, sync| {
                now == 7 || sync.is_some_and(|sync| now == sync + SYNC + answer)
            });
            // That it is one shows after 2 minutes.
            let first = played.commits.iter().filter(|at| **at < 120_000).count();
            assert!(
                played.commits.len() <= first + 12,
                "{interval}: {:?}",
                played.commits
            );
            assert_eq!(played.notices.len(), 1, "{interval}: {:?}", played.notices);
        }
    }

    #[test]
    fn a_busy_program_is_no_loop_however_often_it_writes_and_is_slowed_for_seconds_alone() {
        for interval in [200, 1000, 5000] {
            for period in [97, 300, 700, 997, 1300, 2003, 2499, 3001, 7001] {
                let mut played = Played::new(period % 2 == 1);
                played.play(interval, 500, 200_000, |now, _| now % period == period / 2);
                assert_eq!(played.notices, [], "each {period} ms, interval {interval}");
                let longest = played
                    .commits
                    .windows(2)
                    .map(|two| two[1] - two[0])
                    .max()
                    .unwrap();
                assert!(
                    longest <= interval.max(period) + 5500,
                    "each {period} ms, interval {interval}: {longest} ms without a commit"
                );
                let delayed = played
                    .commits
                    .windows(2)
                    .filter(|two| two[1] - two[0] > interval.max(period) + 1000)
                    .count();
                assert!(
                    delayed <= 3,
                    "each {period} ms, interval {interval}: {delayed} pauses"
                );
            }
        }
    }

    /// Each pulls what the other has pushed, and brings it into its own form a moment later.
    #[test]
    fn two_agents_that_answer_to_each_other_slow_each_other_down() {
        let mut played = Played::new(true);
        let (mut other_is_due, mut own) = (0, None::<u64>);
        for now in (0..3_600_000).step_by(100) {
            played.now = now;
            let instant = played.instant(now);
            if played.watch.pause(instant).is_some() {
                continue;
            }
            match own {
                // The next tick commits what was formed, and the other has it ten seconds later at best.
                Some(written) if now >= written + 4000 => {
                    let gap = played.commits.last().map_or(0, |last| now - last);
                    played.sync(&[written], None);
                    (own, other_is_due) = (None, now + gap.max(10_000));
                }
                Some(_) => {}
                None if now >= other_is_due => {
                    let times = SyncTimes {
                        wall: (at(now), at(now + SYNC)),
                        ended: played.instant(now + SYNC),
                    };
                    let done = SyncDone {
                        is_active: true,
                        has_pulled: true,
                        hooks: Vec::new(),
                    };
                    played.watch.ended(times, done, None);
                    own = Some(now + SYNC + 700);
                    played.watch.is_news(played.instant(now + SYNC + 700));
                }
                // Ticks that find nothing.
                None if now % 5000 == 0 => played.sync(&[], None),
                None => {}
            }
        }
        assert!(played.commits.len() <= 22, "{:?}", played.commits);
        assert!(
            (1..=2).contains(&played.notices.len()),
            "{:?}",
            played.notices
        );
    }

    #[test]
    fn a_change_that_is_no_echo_ends_a_loop() {
        let mut played = Played::new(true);
        played.now = 0;
        played.sync(&[0], None);
        for _ in 0..5 {
            let before = played.now;
            played.now += 10_000;
            played.sync(&[before + 80], None);
        }
        let after = |played: &Played, millis| played.instant(played.now + SYNC + millis);
        let now = after(&played, 1000);
        let pause = played.watch.pause(now).expect("it is slowed");
        assert_eq!(pause.hindrance.reason, GitReason::Loop);
        assert!(!played.watch.is_news(now), "that may be the echo");
        let now = after(&played, 3000);
        assert!(played.watch.is_news(now), "this is a person");
        assert_eq!(played.watch.pause(now), None);
        let written = played.now + SYNC + 3000;
        played.now += 4000;
        played.sync(&[played.now - 3900, written], None);
        assert_eq!(played.watch.pause(after(&played, 0)), None);
        assert_eq!(played.notices.len(), 1);
    }

    /// The script is like a test that measures how fast a sync is. A hook that writes nothing changes nothing.
    #[test]
    fn a_script_that_waits_for_each_push_is_not_slowed_down() {
        for has_hook in [false, true] {
            let mut played = Played::new(has_hook);
            for _ in 0..200 {
                let before = played.now;
                played.now += 400;
                played.sync(&[before + SYNC - 5], None);
                assert_eq!(played.watch.pace, LoopPace::Free, "{:?}", played.commits);
            }
        }
    }

    #[test]
    fn two_forms_that_answer_to_each_other_are_a_loop_and_a_toggle_is_none() {
        for (answers, pause, is_loop) in [
            (true, 20_000, true),
            (true, 200_000, false),
            (false, 20_000, false),
            (false, 3_600_000, false),
        ] {
            let mut played = Played::new(true);
            for round in 0..8 {
                let before = played.now;
                if answers {
                    let times = SyncTimes {
                        wall: (at(before), at(before + SYNC)),
                        ended: played.instant(before + SYNC),
                    };
                    let pulled = SyncDone {
                        is_active: true,
                        has_pulled: true,
                        hooks: Vec::new(),
                    };
                    played.watch.ended(times, pulled, None);
                }
                let written = if answers {
                    before + SYNC + 700
                } else {
                    before + pause - 900
                };
                played.now += pause;
                played.sync(&[written], Some(if round % 2 == 0 { "a" } else { "b" }));
                played.now += 5000;
            }
            let line = ".beads/stamp.txt goes back and forth between two forms; a hook (post-commit) or another agent writes it";
            let lines: Vec<&str> = played
                .notices
                .iter()
                .map(|(_, line)| line.as_str())
                .collect();
            let is_told = lines.contains(&line);
            assert_eq!(is_told, is_loop, "{answers} {pause}: {lines:?}");
            assert!(answers || lines.is_empty(), "{pause}: {lines:?}");
            assert!(lines.len() <= 1, "{pause}: {lines:?}");
            // A person.
            assert!(played.watch.is_news(played.instant(played.now + 5000)));
            assert_eq!(played.watch.pause(played.instant(played.now + 5000)), None);
        }
    }

    #[test]
    fn a_loop_that_is_quiet_for_ten_minutes_is_over_and_a_pardon_for_an_hour() {
        let mut played = Played::new(true);
        played.sync(&[0], None);
        for _ in 0..4 {
            let before = played.now;
            played.now += 10_000;
            played.sync(&[before + 80], None);
        }
        assert!(matches!(played.watch.pace, LoopPace::Slowed { .. }));
        let before = played.now;
        played.now += 700_000;
        played.sync(&[before + 80], None);
        assert_eq!(played.watch.pace, LoopPace::Free);

        let (mut watch, now) = (LoopWatch::default(), Instant::now());
        let pardoned = |watch: &LoopWatch, now: Instant| watch.pardon.0.unwrap() - now;
        watch.acquit(now);
        watch.acquit(now + Duration::from_secs(60));
        let second = pardoned(&watch, now + Duration::from_secs(60));
        assert_eq!(second, PARDON.0 * 2);
        let later = now + Duration::from_secs(2 * 3600);
        watch.acquit(later);
        assert_eq!(pardoned(&watch, later), PARDON.0);
    }

    #[test]
    fn a_large_file_is_committed_at_most_each_so_many_seconds() {
        let (mut watch, now) = (LoopWatch::default(), Instant::now());
        let times = SyncTimes {
            wall: (at(0), at(150)),
            ended: now,
        };
        let mut files = CommittedFiles {
            largest: (".beads/big.jsonl".to_owned(), 16 * LARGE),
            ..CommittedFiles::default()
        };
        watch.ended(times, SyncDone::default(), Some(&files));
        let second = Duration::from_secs(1);
        let pause = watch.pause(now + second * 15).expect("it waits");
        let why = ".beads/big.jsonl has 16 MiB and is committed at most once in 16 s; changes wait until 13:46:56";
        assert_eq!(
            pause,
            Pause {
                may_fetch: true,
                ..Pause::new(GitReason::Paced, why)
            }
        );
        assert_eq!(watch.pause(now + second * 16), None);
        assert_eq!(watch.wakes(), Some(now + second * 16));
        files.largest.1 = 90 * LARGE;
        watch.ended(times, SyncDone::default(), Some(&files));
        assert_eq!(watch.wakes(), Some(now + second * 60));
        watch.hurry(now);
        assert_eq!(watch.pause(now), None);
        files.largest.1 = LARGE;
        watch.ended(times, SyncDone::default(), Some(&files));
        assert_eq!(watch.pause(now), None);
    }

    #[test]
    fn the_notice_names_what_it_knows() {
        let files = |count| CommittedFiles {
            shown: "x".to_owned(),
            count,
            ..CommittedFiles::default()
        };
        let hooks = ["post-commit", "post-merge"].map(str::to_owned);
        assert_eq!(
            notice(&files(1), &[], false),
            "x changes at each sync; a hook or another agent writes it"
        );
        assert_eq!(
            notice(&files(3), &hooks, true),
            "x and 2 more go back and forth between two forms; a hook (post-commit, post-merge) or another agent writes them"
        );
    }
}
