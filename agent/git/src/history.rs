//! The syncs of a database: which notices the log has, when the remote is asked again, and when git need not be asked
//! at all. Pure, but for the [look](crate::contents) at what was written a short time ago.

use std::collections::BTreeSet;
use std::time::Duration;

use beadlock_base::duration::shown;
use tokio::time::Instant;

use crate::contents::ContentLook;
use crate::fetch_schedule::FetchSchedule;
use crate::loops::{LoopWatch, SyncDone, SyncTimes};
use crate::unchanged::Snapshot;
use crate::upkeep::UpkeepClock;
use crate::{Event, EventLine, FetchPace};
use beadlock_repository::{
    GitReason, Hindrance, HindranceKind, HostRefusal, LookedIndex, Network, RepositoryFacts,
    SyncMessage, SyncReport, Upkeep,
};

/// The first and the longest wait before a remote that did not answer is asked again.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// After a change here such a remote is asked at once, but not more often than this.
const RETRY_AT_ONCE: Duration = Duration::from_secs(5);

/// How many runs of hooks of one sync are remembered.
const HOOKS: usize = 32;

/// The clock that counts sleep may run ahead of the other by this.
const DRIFT: Duration = Duration::from_secs(2);

/// How often the log is told of tracked secrets.
const WARNED: Duration = Duration::from_secs(24 * 3600);

/// How many notices that are logged once are remembered.
const TOLD: usize = 256;

/// How long the proof is trusted that nothing has changed.
const TRUSTED: Duration = Duration::from_secs(3600);

/// The syncs of one database since the agent has started.
#[derive(Debug, Default)]
pub struct SyncHistory {
    /// The notices that hold since the last cycle.
    notices: BTreeSet<EventLine>,
    /// The notices that are logged once, those that do not hold any more too.
    told: BTreeSet<EventLine>,
    /// When the log was last told of tracked secrets, and its line.
    warned: Option<(Instant, EventLine)>,
    /// The files that are left out, as the last look at the changes has found them, and how many they are.
    left_out: (Vec<String>, u64),
    outage: Option<RemoteOutage>,
    /// The index whose files were all checked: the next sync need not check it again.
    pub looked: Option<LookedIndex>,
    clock: FetchSchedule,
    /// The repository, as the last sync has found it.
    known: Option<Box<RepositoryFacts>>,
    last: Option<Box<LastSync>>,
    /// The snapshot from before the next sync.
    seen: Option<Snapshot>,
    /// How things were when git was last asked where the repository is, and when that was. `None` once the place or the
    /// settings may be others.
    setup: Option<(Snapshot, Instant)>,
    /// The contents of the files that were written a short time ago.
    look: Option<ContentLook>,
    /// The next sync compares contents.
    contents: bool,
    /// A notice of the sync that has just ended, for the log.
    notice: Option<String>,
    loops: LoopWatch,
    upkeep: UpkeepClock,
    /// The host takes no pushes until then.
    paced: Option<Instant>,
    /// A change waits for the end of a pause.
    is_waiting: bool,
    /// The time since the machine has started, with its sleep, at a moment of the clock that has none.
    awake: Option<(Duration, Instant)>,
}

/// The last sync that ran to its end.
#[derive(Debug)]
struct LastSync {
    result: SyncResult,
    /// The snapshot from before it, and when that was taken: if it is the same now, another sync would come to the same
    /// result.
    before: Option<(Snapshot, Instant)>,
}

/// Result of a sync, for the state of its database.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SyncResult {
    /// The report of the sync, with the hindrance of a remote that it has left alone.
    pub report: SyncReport,
    /// The line that says why the sync must not, or could not, go on; `None` where it was not refused.
    pub refused: Option<String>,
    /// How long until a remote that does not answer is asked again; `None` where it answers.
    pub next_try: Option<Duration>,
}

/// Which part of a sync a cycle makes.
#[derive(Debug, PartialEq)]
pub enum SyncPlan {
    /// Nothing has changed, and the remote is not to be asked: this is still the result.
    Rest(SyncResult),
    /// Nothing has changed here; the remote is to be asked.
    Fetch(Box<RepositoryFacts>),
    /// The whole sync is to be made.
    Sync,
}

#[derive(Debug)]
struct RemoteOutage {
    why: EventLine,
    /// The hindrance in the reports for as long as the remote is left alone.
    hindrance: Option<Hindrance>,
    since: Instant,
    /// When it was last asked, and when it is asked again.
    tried: Instant,
    again: Instant,
    tries: u32,
    /// Something has changed here since.
    has_news: bool,
    /// The host asks for less: no change is a reason to ask it earlier.
    is_throttled: bool,
}

impl RemoteOutage {
    fn next(&self) -> Instant {
        match self.has_news && !self.is_throttled {
            true => self.again.min(self.tried + RETRY_AT_ONCE),
            false => self.again,
        }
    }
}

impl SyncHistory {
    /// The repository as the last sync has found it.
    pub fn known(&self) -> Option<&RepositoryFacts> {
        self.known.as_deref()
    }

    /// The next cycle fetches, and commits what was to wait.
    pub fn hurry(&mut self, now: Instant) {
        self.clock.hurry();
        self.loops.hurry(now);
        if let Some(outage) = &mut self.outage {
            outage.has_news = true;
        }
    }

    /// Something has changed in the database while no sync ran. Returns whether that is a reason for a cycle.
    pub fn is_news(&mut self, now: Instant) -> bool {
        self.loops.is_news(now)
    }

    /// The time since the machine has started, with its sleep. After a sleep the remote is asked at once.
    pub fn awake(&mut self, boottime: Duration, now: Instant) {
        let (then, at) = self
            .awake
            .replace((boottime, now))
            .unwrap_or((boottime, now));
        if boottime.saturating_sub(then) > now.saturating_duration_since(at) + DRIFT {
            self.clock.slept();
        }
    }

    /// When the next cycle has to come, if not at its interval.
    pub fn wakes(&self, now: Instant) -> Option<Instant> {
        let asks = match &self.outage {
            Some(outage) => Some(outage.next()),
            None => self.clock.wakes(),
        };
        let all = [asks, self.loops.wakes(), self.paced];
        all.into_iter().flatten().filter(|at| *at > now).min()
    }

    /// The remote cannot be asked before `at`: others have their turns at its host.
    pub fn wait_for_fetch(&mut self, at: Instant, now: Instant) {
        match &mut self.outage {
            Some(outage) => (outage.again, outage.tried) = (at, at),
            None => self.clock.postpone(at, now),
        }
    }

    /// Another database fetches from the host just now.
    pub fn is_in_turn(&mut self, now: Instant) {
        self.clock.is_in_turn(now);
    }

    /// Begins the upkeep that is due at `now`, and returns its kind. `None`: none is due, or the repository is not
    /// known.
    pub fn takes_upkeep(&mut self, now: Instant) -> Option<Upkeep> {
        self.known.as_ref()?;
        let upkeep = self.upkeep.due(now)?;
        self.upkeep.begun(now);
        Some(upkeep)
    }

    /// Nothing can be pushed before `at`: others have their turns at the host.
    pub fn wait_for_push(&mut self, at: Instant) {
        self.paced = Some(at);
    }

    /// The agent was asked so often to fetch everything at once, also from remotes that did not answer.
    pub fn heed(&mut self, asked: u64, now: Instant) {
        if !self.clock.heed(asked) {
            return;
        }
        self.loops.hurry(now);
        if let Some(outage) = &mut self.outage {
            outage.again = now;
        }
    }

    /// Whether the next sync compares contents, because the times of files have hidden a change, or may have.
    pub fn looks_at_contents(&self) -> bool {
        self.contents
    }

    /// Whether the remote was never asked.
    pub fn is_new(&self) -> bool {
        self.clock.is_new()
    }

    /// Which requests the next sync may make to the remote at `now`.
    pub fn network(&self, now: Instant) -> Network {
        match &self.outage {
            None if self.clock.is_due(now) => Network::Use,
            None => Network::Push,
            Some(outage) if outage.next() <= now => Network::UseQuietly,
            Some(_) => Network::Leave,
        }
    }

    /// Plans the next cycle, with things as they are `seen` now.
    pub fn plan(&mut self, seen: Option<Snapshot>, now: Instant) -> SyncPlan {
        if let (Some(outage), Some(last)) = (&mut self.outage, &self.last) {
            outage.has_news |= last.differs(seen.as_ref());
        }
        let is_due = matches!(self.network(now), Network::Use | Network::UseQuietly);
        let plan = self.plan_by(seen.as_ref(), is_due, now);
        self.is_waiting = plan == SyncPlan::Sync && self.loops.pause(now).is_some();
        if self.is_waiting
            && let Some(last) = &self.last
        {
            let rest = || SyncPlan::Rest(self.as_of(last.again(), now));
            return self.fetch_in_pause(is_due, now).unwrap_or_else(rest);
        }
        let is_same = |(before, at): &(Snapshot, Instant)| {
            seen.as_ref().is_some_and(|seen| before.proves_setup(seen))
                && now.duration_since(*at) < TRUSTED
        };
        self.setup = self.setup.take().filter(is_same);
        let plan = self.plan_by_contents(plan, seen.as_ref(), now);
        self.seen = seen;
        plan
    }

    /// The plan, after a look at contents where one is due.
    fn plan_by_contents(
        &mut self,
        plan: SyncPlan,
        seen: Option<&Snapshot>,
        now: Instant,
    ) -> SyncPlan {
        let is_sync = plan == SyncPlan::Sync;
        let is_hidden = self
            .look
            .as_mut()
            .is_some_and(|look| look.is_due(now) && look.has_hidden_change());
        if !is_sync && !is_hidden {
            return plan;
        }
        if let Some(last) = &mut self.last {
            let is_old = |(_, at): &(Snapshot, Instant)| now.duration_since(*at) >= TRUSTED;
            self.contents |= is_hidden || last.before.as_ref().is_some_and(is_old);
            last.before = None;
        }
        let before = self.look.take();
        self.look = seen.map(|seen| ContentLook::begin(before, seen.recent(), now));
        SyncPlan::Sync
    }

    /// Plans the cycle again, with things as [`Self::plan`] saw them a moment ago, in the check.
    pub fn plan_again(&self, now: Instant) -> SyncPlan {
        let is_due = matches!(self.network(now), Network::Use | Network::UseQuietly);
        match self.fetch_in_pause(is_due, now).filter(|_| self.is_waiting) {
            Some(fetch) => fetch,
            None => self.plan_by(self.seen.as_ref(), is_due, now),
        }
    }

    /// A fetch that does not wait with the changes.
    fn fetch_in_pause(&self, is_due: bool, now: Instant) -> Option<SyncPlan> {
        let may_fetch = is_due && self.loops.pause(now).is_some_and(|pause| pause.may_fetch);
        let is_free = |last: &&LastSync| last.result.report.hindrance.is_none();
        self.last.as_deref().filter(is_free)?;
        let known = self.known.as_ref().filter(|_| may_fetch)?;
        let is_all = known.upstream.as_ref().is_some_and(|it| it.is_all);
        is_all.then(|| SyncPlan::Fetch(known.clone()))
    }

    /// The last result as of `now`, for a cycle that cannot ask the remote just now; `None` where none is known.
    pub fn without_fetch(&self, now: Instant) -> Option<SyncResult> {
        let last = self.last.as_ref()?;
        Some(self.as_of(last.again(), now))
    }

    /// The repository, when it is still where the last sync has found it, and its settings are the same.
    pub fn same_setup(&self) -> Option<&RepositoryFacts> {
        self.known().filter(|_| self.setup.is_some())
    }

    fn plan_by(&self, seen: Option<&Snapshot>, is_due: bool, now: Instant) -> SyncPlan {
        let (Some(last), Some(known), Some(seen)) = (&self.last, &self.known, seen) else {
            return SyncPlan::Sync;
        };
        let is_same = |(before, at): &(Snapshot, Instant)| {
            before.proves(seen) && now.duration_since(*at) < TRUSTED
        };
        if !last.before.as_ref().is_some_and(is_same) {
            return SyncPlan::Sync;
        }
        match last
            .result
            .report
            .hindrance
            .as_ref()
            .map(|hindrance| hindrance.reason)
        {
            Some(reason) if !reason.needs_remote() => SyncPlan::Rest(self.as_of(last.again(), now)),
            Some(reason) if !reason.is_lasting() => SyncPlan::Sync,
            Some(_) if is_due => SyncPlan::Sync,
            None if is_due && known.upstream.as_ref().is_some_and(|it| it.is_all) => {
                SyncPlan::Fetch(known.clone())
            }
            None if is_due => SyncPlan::Sync,
            _ => SyncPlan::Rest(self.as_of(last.again(), now)),
        }
    }

    /// A result at this moment: with how long ago the remote has told where it is, and when it is asked again.
    fn as_of(&self, mut result: SyncResult, now: Instant) -> SyncResult {
        let is_out = |hindrance: &Hindrance| {
            matches!(
                hindrance.reason,
                GitReason::RemoteUnreachable | GitReason::CannotPush | GitReason::PushRefused
            )
        };
        let outage = self.outage.as_ref();
        let outage = outage.filter(|_| result.report.hindrance.as_ref().is_some_and(is_out));
        result.next_try = outage.map(|outage| outage.next().saturating_duration_since(now));
        if result.report.hindrance.is_none() && !self.clock.is_fresh(now) {
            let remote = self
                .known
                .as_ref()
                .and_then(|known| known.upstream.as_ref());
            let remote = remote.map_or("the remote", |upstream| upstream.remote.as_str());
            result.report.hindrance = Some(Hindrance {
                kind: HindranceKind::Unreachable,
                reason: GitReason::NotAsked,
                why: format!(
                    "{remote} has not been asked for too long; it is asked as soon as its host has a turn"
                ),
                next: None,
            });
        }
        if self.is_waiting && result.report.hindrance.is_none() {
            result.report.hindrance = self.loops.pause(now).map(|pause| pause.hindrance);
        }
        result
    }

    /// Takes the messages of a sync that has ended. Returns the lines to be logged now.
    pub fn hear(
        &mut self,
        network: Network,
        messages: &[SyncMessage],
        now: Instant,
    ) -> Vec<EventLine> {
        let mut lines = Vec::new();
        let mut notices = BTreeSet::new();
        let is_out = messages
            .iter()
            .any(|message| matches!(message, SyncMessage::Unreachable(_)));
        let throttled = SyncMessage::HostRefuses(HostRefusal::Throttled);
        let is_throttled = messages.contains(&throttled);
        let is_look_of_all = !messages.iter().any(|message| self.is_known(message));
        for message in messages {
            match message {
                SyncMessage::Notice(text) => {
                    let is_news = notices.insert(text.clone()) && !self.notices.contains(text);
                    lines.extend(is_news.then(|| text.clone()));
                }
                SyncMessage::NoticeOnce(text) => lines.extend(self.told_once(text)),
                SyncMessage::Looked(index) => {
                    lines.extend(self.warning(index.warning.as_ref(), now));
                    self.looked = Some(index.clone());
                }
                SyncMessage::Unreachable(why) => {
                    lines.extend(self.unreachable(why, is_throttled, now));
                }
                SyncMessage::Report(report) if is_out => self.note_hindrance(report),
                _ => {}
            }
        }
        if messages.contains(&SyncMessage::Reached)
            && !is_out
            && let Some(outage) = self.outage.take()
        {
            lines.push(Event::Reached.line(shown(now.duration_since(outage.since))));
        }
        if network == Network::Leave || is_out || !is_look_of_all {
            // The notices about the remote did not come up.
            self.notices.append(&mut notices);
        } else {
            self.notices = notices;
        }
        lines
    }

    /// Returns a line that is logged once: `None` the second time.
    fn told_once(&mut self, line: &EventLine) -> Option<EventLine> {
        if self.told.len() >= TOLD {
            self.told.clear();
        }
        self.told.insert(line.clone()).then(|| line.clone())
    }

    /// A warning that is logged once a day, for as long as it holds.
    fn warning(&mut self, warning: Option<&EventLine>, now: Instant) -> Option<EventLine> {
        let warning = warning?;
        let is_told = |(at, told): &(Instant, EventLine)| {
            told == warning && now.saturating_duration_since(*at) < WARNED
        };
        if self.warned.as_ref().is_some_and(is_told) {
            return None;
        }
        self.warned = Some((now, warning.clone()));
        Some(warning.clone())
    }

    /// Whether the message shows that the sync has looked at nothing but the remote.
    fn is_known(&self, message: &SyncMessage) -> bool {
        matches!(message, SyncMessage::Found(found) if found.upstream.is_some() && self.known.as_ref() == Some(found))
    }

    fn note_hindrance(&mut self, report: &SyncReport) {
        if let Some(outage) = &mut self.outage {
            outage.hindrance.clone_from(&report.hindrance);
        }
    }

    /// A sync ends without its last message: of what it has done nothing is known.
    pub fn lost(&mut self) {
        (self.known, self.last, self.seen, self.setup) = (None, None, None, None);
    }

    /// A sync has run to its end. Returns its result, with what is known of a remote that it has left alone.
    pub fn ended(
        &mut self,
        network: Network,
        messages: Vec<SyncMessage>,
        times: SyncTimes,
        pace: FetchPace,
    ) -> SyncResult {
        let now = times.ended;
        let has_asked = messages.contains(&SyncMessage::Reached);
        self.note_commit(network, &messages, times);
        let (mut result, mut known) = (SyncResult::default(), None);
        let (mut held, mut writing) = (None, String::new());
        for message in messages {
            match message {
                SyncMessage::LeftOut { shown, count } => {
                    self.left_out = (shown, count);
                    (held, writing) = (None, String::new());
                }
                SyncMessage::Held(found) => held = Some(*found),
                SyncMessage::Writing(found) => writing = found,
                SyncMessage::Found(found) => known = Some(found),
                SyncMessage::Committers(committers) => self.clock.saw(&committers, now),
                SyncMessage::Report(report) => result.report = self.complete(network, report, now),
                SyncMessage::Refused(line) => result.refused = Some(line),
                _ => {}
            }
        }
        // A failure comes first. Else what is held back keeps the database from being synced, whatever else does.
        let has_failed = |hindrance: &Hindrance| hindrance.kind == HindranceKind::Failed;
        let report = &mut result.report;
        if held.is_some() && !report.hindrance.as_ref().is_some_and(has_failed) {
            report.hindrance = held;
        }
        (report.left_out, report.left_out_count) = self.left_out.clone();
        report.has_asked = has_asked;
        if has_asked {
            self.clock.told(now);
        }
        if has_asked || matches!(network, Network::Use | Network::UseQuietly) {
            let was_here = |known: &RepositoryFacts| {
                known
                    .upstream
                    .as_ref()
                    .map(|upstream| (upstream.commit.clone(), upstream.places.clone()))
            };
            let has_moved =
                self.known.as_deref().and_then(was_here) != known.as_deref().and_then(was_here);
            self.clock
                .fetched(now, pace, has_moved || result.report.has_pushed);
        }
        if self.setup.is_none() {
            self.setup = self.seen.clone().map(|seen| (seen, now));
        }
        (self.known, self.contents) = (known, false);
        // A file that was being written is looked at again, whether it changes or not.
        let before = self
            .seen
            .take()
            .filter(|_| writing.is_empty())
            .map(|seen| (seen, now));
        result.report.writing = writing;
        self.last = Some(Box::new(LastSync {
            result: result.clone(),
            before,
        }));
        self.as_of(result, now)
    }

    /// Notes the commit of a sync: it counts for loops, and for a remote that does not answer.
    fn note_commit(&mut self, network: Network, messages: &[SyncMessage], times: SyncTimes) {
        let mut done = SyncDone::default();
        for message in messages {
            match message {
                SyncMessage::Committed(_) | SyncMessage::Pushed(_) => done.is_active = true,
                SyncMessage::Pulled(_) => (done.is_active, done.has_pulled) = (true, true),
                SyncMessage::HookRan(hook) if done.hooks.len() < HOOKS => {
                    done.hooks.push(hook.clone());
                }
                _ => {}
            }
        }
        let committed = messages.iter().rev().find_map(|message| match message {
            SyncMessage::CommittedFiles(files) => Some(&**files),
            _ => None,
        });
        if let Some(committed) = committed {
            self.upkeep.add(committed.loose);
            self.is_waiting = false;
        }
        let notice = self.loops.ended(times, done, committed);
        self.notice = notice.or(self.notice.take());
        if let Some(outage) = &mut self.outage
            && network == Network::Leave
        {
            outage.has_news |= committed.is_some();
        }
    }

    /// The notice for the log about the sync that has just ended; `None` where it has none, or it was taken.
    pub fn take_notice(&mut self) -> Option<EventLine> {
        let notice = self.notice.take()?;
        Some(Event::Notice.line(notice))
    }

    /// A report, with what is known of a remote that this sync has left alone.
    fn complete(&mut self, network: Network, mut report: SyncReport, now: Instant) -> SyncReport {
        // A turn that has not come yet still wakes the database.
        self.paced = self.paced.filter(|at| *at > now);
        let is_paced = self.paced.is_some() && network == Network::Leave;
        if is_paced && report.hindrance.is_none() && report.unpushed.commits > 0 {
            report.hindrance = Some(Hindrance {
                kind: HindranceKind::NotPushing,
                reason: GitReason::Paced,
                why: "the host was pushed to 30 times within a minute: this database waits for its turn"
                    .to_owned(),
                next: None,
            });
        }
        if network == Network::Leave && report.hindrance.is_none() {
            let hindrance = self
                .outage
                .as_ref()
                .and_then(|outage| outage.hindrance.clone());
            let is_over = |known: &Hindrance| {
                known.kind == HindranceKind::NotPushing && report.unpushed.commits == 0
            };
            if hindrance.as_ref().is_some_and(is_over) {
                // Somebody has pushed what the remote had refused.
                self.outage = None;
            } else {
                report.hindrance = hindrance;
            }
        }
        report
    }

    fn unreachable(
        &mut self,
        why: &EventLine,
        is_throttled: bool,
        now: Instant,
    ) -> Option<EventLine> {
        let (first, longest) = RETRY;
        let last = self.outage.take();
        let (since, tries) = last
            .as_ref()
            .map_or((now, 0), |last| (last.since, last.tries));
        let pause = match is_throttled {
            true => longest,
            false => first.saturating_mul(1 << tries.min(10)).min(longest),
        };
        let is_news = last.is_none_or(|last| last.why != *why);
        let (why, again, tries) = (why.clone(), now + pause, tries + 1);
        let (tried, has_news) = (now, false);
        self.outage = Some(RemoteOutage {
            why: why.clone(),
            hindrance: None,
            since,
            tried,
            again,
            tries,
            has_news,
            is_throttled,
        });
        let next = match is_throttled {
            true => format!("next try in {}, or on SIGUSR1", shown(pause)),
            false => next_try(pause),
        };
        is_news.then(|| why.with(&format!("; committing only, {next}")))
    }
}

/// When a remote that does not answer is asked again.
pub fn next_try(wait: Duration) -> String {
    format!(
        "next try in {}, at the next change, or on SIGUSR1",
        shown(wait)
    )
}

impl LastSync {
    /// Whether something is not as it was before that sync.
    fn differs(&self, seen: Option<&Snapshot>) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|(before, _)| seen.is_some_and(|seen| !before.proves(seen)))
    }

    /// The result of another sync that comes to the same.
    fn again(&self) -> SyncResult {
        let mut result = self.result.clone();
        (result.report.has_pushed, result.report.has_asked) = (false, false);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> EventLine {
        EventLine {
            event: Event::Notice,
            text: text.to_owned(),
        }
    }

    /// The lines that are logged.
    fn hear(
        history: &mut SyncHistory,
        network: Network,
        messages: &[SyncMessage],
        now: Instant,
    ) -> Vec<String> {
        let lines = history.hear(network, messages, now);
        lines.into_iter().map(|line| line.text).collect()
    }
    use beadlock_repository::{GitReason, Unpushed};

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    const PACE: FetchPace = FetchPace {
        interval: Duration::from_secs(1),
        fetch_interval: Some(Duration::from_secs(60)),
        number: 0,
        seed: 0,
        doublings: 0,
    };

    fn times(ended: Instant) -> SyncTimes {
        SyncTimes {
            wall: (seconds(100), seconds(101)),
            ended,
        }
    }

    /// The messages of a sync, and the answer of the remote.
    fn reached(messages: Vec<SyncMessage>) -> Vec<SyncMessage> {
        [messages, vec![SyncMessage::Reached]].concat()
    }

    #[test]
    fn a_notice_is_said_once_for_as_long_as_it_stays() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let notice = |text: &str| SyncMessage::Notice(line(text));
        assert_eq!(hear(&mut history, Network::Use, &[notice("a")], now), ["a"]);
        assert!(hear(&mut history, Network::Use, &[notice("a")], now).is_empty());
        assert!(
            hear(&mut history, Network::Leave, &[], now).is_empty(),
            "it could not come up"
        );
        assert!(hear(&mut history, Network::Use, &[notice("a")], now).is_empty());
        assert_eq!(hear(&mut history, Network::Use, &[notice("b")], now), ["b"]);
        assert!(hear(&mut history, Network::Use, &[], now).is_empty());
        assert_eq!(
            hear(&mut history, Network::Use, &[notice("b")], now),
            ["b"],
            "it had gone"
        );
    }

    #[test]
    fn what_comes_and_goes_is_said_once_and_a_tracked_secret_once_a_day() {
        let (mut history, begun) = (SyncHistory::default(), Instant::now());
        let once = |text: &str| SyncMessage::NoticeOnce(line(text));
        assert_eq!(hear(&mut history, Network::Use, &[once("a")], begun), ["a"]);
        assert!(hear(&mut history, Network::Use, &[], begun).is_empty());
        assert!(hear(&mut history, Network::Use, &[once("a")], begun).is_empty());
        let looked = |warning: Option<&str>| {
            SyncMessage::Looked(LookedIndex {
                stamp: "1".to_owned(),
                copy_of: None,
                warning: warning.map(line),
            })
        };
        for (hours, warning, said) in [
            (0, Some("x"), vec!["x"]),
            (1, Some("x"), vec![]),
            (2, None, vec![]),
            (23, Some("x"), vec![]),
            (23, Some("x, y"), vec!["x, y"]),
            (46, Some("x, y"), vec![]),
            (47, Some("x, y"), vec!["x, y"]),
        ] {
            let now = begun + seconds(hours * 3600);
            let lines = hear(&mut history, Network::Use, &[looked(warning)], now);
            assert_eq!(lines, said, "after {hours} hours");
        }
    }

    #[test]
    fn the_last_look_says_what_is_held_and_a_failure_comes_first() {
        let now = Instant::now();
        let hindered = |kind: HindranceKind, reason: GitReason| Hindrance {
            kind,
            reason,
            why: "why".to_owned(),
            next: None,
        };
        let held = || {
            SyncMessage::Held(Box::new(hindered(
                HindranceKind::NotPushing,
                GitReason::Held,
            )))
        };
        let look = |shown: &[&str]| SyncMessage::LeftOut {
            shown: shown.iter().map(|path| (*path).to_owned()).collect(),
            count: shown.len() as u64,
        };
        let report = |hindrance: Option<Hindrance>| {
            SyncMessage::Report(SyncReport {
                hindrance,
                ..SyncReport::default()
            })
        };
        let behind = hindered(HindranceKind::NotPulling, GitReason::DirtyTree);
        let failed = hindered(HindranceKind::Failed, GitReason::Hook);
        let mut history = SyncHistory::default();
        for (messages, reason, left_out) in [
            (vec![look(&["x"]), report(None)], None, "x"),
            (
                vec![look(&["x", "y"]), held(), report(None)],
                Some(GitReason::Held),
                "x y",
            ),
            (
                vec![look(&["x"]), held(), report(Some(behind))],
                Some(GitReason::Held),
                "x",
            ),
            (
                vec![look(&["x"]), held(), report(Some(failed))],
                Some(GitReason::Hook),
                "x",
            ),
            (
                vec![look(&["x"]), held(), look(&["y"]), report(None)],
                None,
                "y",
            ),
            // It has only fetched.
            (vec![report(None)], None, "y"),
            (vec![look(&[]), report(None)], None, ""),
        ] {
            let SyncResult { report, .. } =
                history.ended(Network::Use, reached(messages), times(now), PACE);
            assert_eq!(report.hindrance.map(|hindrance| hindrance.reason), reason);
            assert_eq!(report.left_out.join(" "), left_out);
            assert_eq!(report.left_out_count, report.left_out.len() as u64);
        }
    }

    #[test]
    fn a_remote_that_does_not_answer_is_left_alone_for_longer_and_longer() {
        let (mut history, begun) = (SyncHistory::default(), Instant::now());
        let out = [SyncMessage::Unreachable(line(
            "Cannot reach origin: no route",
        ))];
        let line = "Cannot reach origin: no route; committing only, next try in 10s, at the next change, or on SIGUSR1";
        let mut now = begun;
        assert_eq!(history.network(now), Network::Use);
        assert_eq!(hear(&mut history, Network::Use, &out, now), [line]);
        for pause in [10, 20, 40, 60, 60, 60] {
            assert_eq!(history.network(now + seconds(pause - 1)), Network::Leave);
            assert_eq!(history.wakes(now), Some(now + seconds(pause)));
            now += seconds(pause);
            assert_eq!(history.network(now), Network::UseQuietly);
            assert!(hear(&mut history, Network::UseQuietly, &out, now).is_empty());
        }
        assert_eq!(
            hear(
                &mut history,
                Network::UseQuietly,
                &[SyncMessage::Reached],
                now
            ),
            ["Reached it again after 4m 10s"]
        );
        assert_eq!(history.network(now), Network::Use);
        assert_eq!(
            hear(
                &mut history,
                Network::Use,
                &[SyncMessage::Reached, out[0].clone()],
                now
            ),
            [line],
            "a refused push"
        );
        assert_eq!(history.network(now), Network::Leave);
        assert_eq!(history.wakes(now), Some(now + seconds(10)));
        history.heed(1, now + seconds(1));
        assert_eq!(history.network(now + seconds(1)), Network::UseQuietly);
    }

    #[test]
    fn a_remote_that_does_not_answer_is_asked_after_each_change_but_not_more_often_than_each_5_s() {
        let (mut history, mut now) = (SyncHistory::default(), Instant::now());
        let out = |committed: bool| {
            let mut messages = vec![SyncMessage::Unreachable(line("Cannot reach origin"))];
            if committed {
                messages.push(SyncMessage::CommittedFiles(Box::default()));
            }
            messages
        };
        hear(&mut history, Network::Use, &out(true), now);
        history.ended(Network::Use, out(true), times(now), PACE);
        // A change a moment later is committed, and the remote is not asked yet.
        now += seconds(1);
        assert_eq!(history.network(now), Network::Leave);
        let change = vec![SyncMessage::CommittedFiles(Box::default())];
        history.ended(Network::Leave, change.clone(), times(now), PACE);
        assert_eq!(history.network(now + seconds(3)), Network::Leave);
        assert_eq!(history.wakes(now), Some(now + seconds(4)));
        now += seconds(4);
        assert_eq!(history.network(now), Network::UseQuietly);
        hear(&mut history, Network::UseQuietly, &out(false), now);
        assert_eq!(
            history.network(now + seconds(9)),
            Network::Leave,
            "without a change it waits"
        );
        history.ended(Network::Leave, change, times(now + seconds(9)), PACE);
        assert_eq!(history.network(now + seconds(9)), Network::UseQuietly);
    }

    #[test]
    fn a_host_that_asks_for_less_is_not_asked_earlier_for_a_change() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let out = [
            SyncMessage::HostRefuses(HostRefusal::Throttled),
            SyncMessage::Unreachable(line("Cannot reach origin: error: 429")),
        ];
        let line =
            "Cannot reach origin: error: 429; committing only, next try in 1m, or on SIGUSR1";
        assert_eq!(hear(&mut history, Network::Use, &out, now), [line]);
        let change = vec![SyncMessage::CommittedFiles(Box::default())];
        history.ended(Network::Leave, change, times(now), PACE);
        assert_eq!(history.network(now + seconds(59)), Network::Leave);
        assert_eq!(history.network(now + seconds(60)), Network::UseQuietly);
    }

    #[test]
    fn a_push_that_waits_for_its_turn_is_woken_when_it_comes() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let waiting = || {
            vec![SyncMessage::Report(SyncReport {
                unpushed: Unpushed {
                    commits: 1,
                    oldest: None,
                },
                ..SyncReport::default()
            })]
        };
        history.wait_for_push(now + seconds(7));
        for _ in 0..2 {
            let result = history.ended(Network::Leave, waiting(), times(now), PACE);
            let reason = result.report.hindrance.map(|hindrance| hindrance.reason);
            assert_eq!(reason, Some(GitReason::Paced));
            assert_eq!(history.wakes(now), Some(now + seconds(7)));
        }
        let later = now + seconds(7);
        history.ended(Network::Use, reached(waiting()), times(later), PACE);
        assert_eq!(history.paced, None);
    }

    #[test]
    fn a_change_that_waits_after_a_large_file_is_not_called_synced_and_a_signal_ends_that() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let large = SyncMessage::CommittedFiles(Box::new(beadlock_repository::CommittedFiles {
            largest: ("big".to_owned(), 20 * 1024 * 1024),
            ..beadlock_repository::CommittedFiles::default()
        }));
        let messages = vec![large, SyncMessage::Report(SyncReport::default())];
        let result = history.ended(Network::Use, reached(messages), times(now), PACE);
        assert_eq!(result.report.hindrance, None, "nothing waits");
        let SyncPlan::Rest(result) = history.plan(None, now + seconds(1)) else {
            panic!("it waits");
        };
        let hindrance = result.report.hindrance.expect("a change waits");
        assert_eq!(hindrance.reason, GitReason::Paced);
        assert_eq!(
            hindrance.why,
            "big has 20 MiB and is committed at most once in 20 s; changes wait until 00:02:01"
        );
        history.hurry(now + seconds(2));
        assert_eq!(history.plan(None, now + seconds(2)), SyncPlan::Sync);
    }

    #[test]
    fn an_answer_that_is_too_old_is_not_called_synced() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let clean = || reached(vec![SyncMessage::Report(SyncReport::default())]);
        let reason = |result: SyncResult| result.report.hindrance.map(|hindrance| hindrance.reason);
        let never = vec![SyncMessage::Report(SyncReport::default())];
        let result = history.ended(Network::Push, never, times(now), PACE);
        assert_eq!(reason(result), Some(GitReason::NotAsked));
        let result = history.ended(Network::Use, clean(), times(now), PACE);
        assert_eq!(reason(result), None);
        let again = |history: &SyncHistory, later| {
            reason(history.without_fetch(now + seconds(later)).unwrap())
        };
        assert_eq!(again(&history, 197), None, "three times 66 s");
        assert_eq!(again(&history, 199), Some(GitReason::NotAsked));
        history.awake(seconds(1000), now);
        history.awake(seconds(1100), now + seconds(100));
        assert_eq!(again(&history, 100), None);
        history.awake(seconds(4700), now + seconds(101));
        assert_eq!(
            again(&history, 101),
            Some(GitReason::NotAsked),
            "it has slept"
        );
        assert_eq!(history.network(now + seconds(101)), Network::Use);
    }

    #[test]
    fn a_report_tells_of_an_outage_for_as_long_as_it_lasts() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let hindered = |kind: HindranceKind| {
            let why = "origin cannot be reached: no route".to_owned();
            let hindrance = Hindrance {
                kind,
                reason: GitReason::RemoteUnreachable,
                why,
                next: None,
            };
            SyncReport {
                hindrance: Some(hindrance),
                ..SyncReport::default()
            }
        };
        let out = |kind| {
            [
                SyncMessage::Unreachable(line("Cannot reach origin")),
                SyncMessage::Report(hindered(kind)),
            ]
        };
        let clean = SyncReport::default;
        hear(
            &mut history,
            Network::Use,
            &out(HindranceKind::Unreachable),
            now,
        );
        let why = |report: SyncReport| {
            report
                .hindrance
                .map(|hindrance| hindrance.why)
                .unwrap_or_default()
        };
        assert_eq!(
            why(history.complete(Network::Leave, clean(), now)),
            "origin cannot be reached: no route"
        );
        let waiting = || SyncReport {
            unpushed: Unpushed {
                commits: 1,
                oldest: None,
            },
            ..clean()
        };
        assert_eq!(
            why(history.complete(Network::Leave, waiting(), now)),
            "origin cannot be reached: no route"
        );
        let mut failed = hindered(HindranceKind::Failed);
        failed.hindrance.as_mut().unwrap().why = "conflict".to_owned();
        assert_eq!(
            history.complete(Network::Leave, failed.clone(), now),
            failed,
            "what this sync has found comes first"
        );
        hear(
            &mut history,
            Network::UseQuietly,
            &[SyncMessage::Reached, SyncMessage::Report(clean())],
            now,
        );
        assert_eq!(history.complete(Network::Use, clean(), now), clean());
        hear(
            &mut history,
            Network::Use,
            &out(HindranceKind::NotPushing),
            now,
        );
        assert!(
            history
                .complete(Network::Leave, waiting(), now)
                .hindrance
                .is_some(),
            "a refused push"
        );
        assert_eq!(
            history.complete(Network::Leave, clean(), now),
            clean(),
            "somebody has pushed it"
        );
        assert_eq!(history.network(now), Network::Use);
    }
}
