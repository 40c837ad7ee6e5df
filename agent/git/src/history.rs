//! The syncs of a database: which notices the log has, when the remote is asked again, and when git need not be asked
//! at all. Pure, but for the [look](crate::contents) at what was written a short time ago.

use std::collections::BTreeSet;
use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use tokio::time::Instant;

use crate::clock::FetchClock;
use crate::contents::ContentLook;
use crate::unchanged::Snapshot;
use crate::{
    Event, FetchPace, Hindrance, HindranceKind, KnownRepository, LookedIndex, Network, SyncMessage,
    SyncReport,
};

/// The first and the longest wait before a remote that did not answer is asked again.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

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
    notices: BTreeSet<String>,
    /// The notices that are logged once, those that do not hold any more too.
    told: BTreeSet<String>,
    /// When the log was last told of tracked secrets, and its line.
    warned: Option<(Instant, String)>,
    /// The files that are left out, as the last look at the changes has found them, and how many they are.
    left_out: (Vec<String>, u64),
    outage: Option<RemoteOutage>,
    /// The index whose files were all checked: the next sync need not check it again.
    pub looked: Option<LookedIndex>,
    clock: FetchClock,
    /// The repository, as the last sync has found it.
    known: Option<Box<KnownRepository>>,
    last: Option<Box<LastSync>>,
    /// How things were before the next sync.
    seen: Option<Snapshot>,
    /// How things were when git was last asked where the repository is, and when that was. `None` once the place or the
    /// settings may be others.
    setup: Option<(Snapshot, Instant)>,
    /// What was written a short time ago.
    look: Option<ContentLook>,
    /// The next sync compares contents.
    contents: bool,
}

/// The last sync that ran to its end.
#[derive(Debug)]
struct LastSync {
    result: SyncResult,
    /// How things were before it, and when that was: the same now, another sync would come to the same result.
    before: Option<(Snapshot, Instant)>,
}

/// What a sync has come to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SyncResult {
    /// What it has found out.
    pub report: SyncReport,
    /// Its line, where it must not, or could not, go on.
    pub refused: Option<String>,
}

/// What a cycle has to do.
#[derive(Debug, PartialEq)]
pub enum SyncPlan {
    /// Nothing has changed, and the remote is not to be asked: this is still the result.
    Rest(SyncResult),
    /// Nothing has changed here; the remote is to be asked.
    Fetch(Box<KnownRepository>),
    /// The whole sync is to be made.
    Sync,
}

#[derive(Debug)]
struct RemoteOutage {
    why: String,
    /// What the reports say for as long as the remote is left alone.
    hindrance: Option<Hindrance>,
    since: Instant,
    again: Instant,
    tries: u32,
}

impl SyncHistory {
    /// The repository as the last sync has found it.
    pub fn known(&self) -> Option<&KnownRepository> {
        self.known.as_deref()
    }

    /// The next cycle fetches.
    pub fn hurry(&mut self) {
        self.clock.hurry();
    }

    /// The agent was asked so often to fetch everything at once, also from remotes that did not answer.
    pub fn heed(&mut self, asked: u64, now: Instant) {
        if self.clock.heed(asked)
            && let Some(outage) = &mut self.outage
        {
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

    /// What the next sync may ask of the remote.
    pub fn network(&self, now: Instant) -> Network {
        match &self.outage {
            None if self.clock.is_due(now) => Network::Use,
            None => Network::Push,
            Some(outage) if outage.again <= now => Network::UseQuietly,
            Some(_) => Network::Leave,
        }
    }

    /// What the next cycle has to do, with things as they are `seen` now.
    pub fn plan(&mut self, seen: Option<Snapshot>, now: Instant) -> SyncPlan {
        let is_due = matches!(self.network(now), Network::Use | Network::UseQuietly);
        let plan = self.plan_by(seen.as_ref(), is_due, now);
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

    /// As [`Self::plan`] has found it a moment ago, in the check.
    pub fn plan_again(&self, now: Instant) -> SyncPlan {
        let is_due = matches!(self.network(now), Network::Use | Network::UseQuietly);
        self.plan_by(self.seen.as_ref(), is_due, now)
    }

    /// What is left to do where the remote cannot be asked just now.
    pub fn without_fetch(&self) -> Option<SyncResult> {
        self.last.as_ref().map(|last| last.again())
    }

    /// The repository, when it is still where the last sync has found it, and its settings are the same.
    pub fn same_setup(&self) -> Option<&KnownRepository> {
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
            Some(reason) if !reason.needs_remote() => SyncPlan::Rest(last.again()),
            Some(reason) if !reason.is_lasting() => SyncPlan::Sync,
            Some(_) if is_due => SyncPlan::Sync,
            None if is_due && known.upstream.as_ref().is_some_and(|it| it.is_all) => {
                SyncPlan::Fetch(known.clone())
            }
            None if is_due => SyncPlan::Sync,
            _ => SyncPlan::Rest(last.again()),
        }
    }

    /// Takes the messages of a sync that has ended. Returns the lines to be logged now.
    pub fn hear(
        &mut self,
        network: Network,
        messages: &[SyncMessage],
        now: Instant,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        let mut notices = BTreeSet::new();
        let is_out = messages
            .iter()
            .any(|message| matches!(message, SyncMessage::Unreachable(_)));
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
                SyncMessage::Unreachable(why) => lines.extend(self.unreachable(why, now)),
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

    /// A line that is logged once: none the second time.
    fn told_once(&mut self, text: &str) -> Option<String> {
        if self.told.len() >= TOLD {
            self.told.clear();
        }
        self.told.insert(text.to_owned()).then(|| text.to_owned())
    }

    /// A warning that is logged once a day, for as long as it holds.
    fn warning(&mut self, warning: Option<&String>, now: Instant) -> Option<String> {
        let warning = warning?;
        let is_told = |(at, told): &(Instant, String)| {
            told == warning && now.saturating_duration_since(*at) < WARNED
        };
        if self.warned.as_ref().is_some_and(is_told) {
            return None;
        }
        self.warned = Some((now, warning.clone()));
        Some(warning.clone())
    }

    /// The sync has looked at nothing but the remote.
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
        now: Instant,
        pace: FetchPace,
    ) -> SyncResult {
        let has_asked = messages.contains(&SyncMessage::Reached);
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
                SyncMessage::Report(report) => result.report = self.complete(network, report),
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
        if has_asked || matches!(network, Network::Use | Network::UseQuietly) {
            let was_here = |known: &KnownRepository| {
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
        result
    }

    /// A report, with what is known of a remote that this sync has left alone.
    fn complete(&mut self, network: Network, mut report: SyncReport) -> SyncReport {
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

    fn unreachable(&mut self, why: &str, now: Instant) -> Option<String> {
        let (first, longest) = RETRY;
        let last = self.outage.take();
        let (since, tries) = last
            .as_ref()
            .map_or((now, 0), |last| (last.since, last.tries));
        let pause = first.saturating_mul(1 << tries.min(10)).min(longest);
        let is_news = last.is_none_or(|last| last.why != why);
        let (why, again, tries) = (why.to_owned(), now + pause, tries + 1);
        self.outage = Some(RemoteOutage {
            why: why.clone(),
            hindrance: None,
            since,
            again,
            tries,
        });
        is_news.then(|| format!("{why}; committing only, next try in {}", shown(pause)))
    }
}

impl LastSync {
    /// The result of another sync that comes to the same.
    fn again(&self) -> SyncResult {
        let mut result = self.result.clone();
        result.report.has_pushed = false;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GitReason, Unpushed};

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_notice_is_said_once_for_as_long_as_it_stays() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let notice = |text: &str| SyncMessage::Notice(text.to_owned());
        assert_eq!(history.hear(Network::Use, &[notice("a")], now), ["a"]);
        assert!(history.hear(Network::Use, &[notice("a")], now).is_empty());
        assert!(
            history.hear(Network::Leave, &[], now).is_empty(),
            "it could not come up"
        );
        assert!(history.hear(Network::Use, &[notice("a")], now).is_empty());
        assert_eq!(history.hear(Network::Use, &[notice("b")], now), ["b"]);
        assert!(history.hear(Network::Use, &[], now).is_empty());
        assert_eq!(
            history.hear(Network::Use, &[notice("b")], now),
            ["b"],
            "it had gone"
        );
    }

    #[test]
    fn what_comes_and_goes_is_said_once_and_a_tracked_secret_once_a_day() {
        let (mut history, begun) = (SyncHistory::default(), Instant::now());
        let once = |text: &str| SyncMessage::NoticeOnce(text.to_owned());
        assert_eq!(history.hear(Network::Use, &[once("a")], begun), ["a"]);
        assert!(history.hear(Network::Use, &[], begun).is_empty());
        assert!(history.hear(Network::Use, &[once("a")], begun).is_empty());
        let looked = |warning: Option<&str>| {
            SyncMessage::Looked(LookedIndex {
                stamp: "1".to_owned(),
                copy_of: None,
                warning: warning.map(str::to_owned),
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
            let lines = history.hear(Network::Use, &[looked(warning)], now);
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
            let SyncResult { report, .. } = history.ended(
                Network::Push,
                messages,
                now,
                FetchPace {
                    interval: seconds(1),
                    fetch_interval: seconds(60),
                    number: 0,
                },
            );
            assert_eq!(report.hindrance.map(|hindrance| hindrance.reason), reason);
            assert_eq!(report.left_out.join(" "), left_out);
            assert_eq!(report.left_out_count, report.left_out.len() as u64);
        }
    }

    #[test]
    fn a_remote_that_does_not_answer_is_left_alone_for_longer_and_longer() {
        let (mut history, begun) = (SyncHistory::default(), Instant::now());
        let out = [SyncMessage::Unreachable(
            "Cannot reach origin: no route".to_owned(),
        )];
        let line = "Cannot reach origin: no route; committing only, next try in 10s";
        let mut now = begun;
        assert_eq!(history.network(now), Network::Use);
        assert_eq!(history.hear(Network::Use, &out, now), [line]);
        for pause in [10, 20, 40, 80, 160, 320, 600, 600] {
            assert_eq!(history.network(now + seconds(pause - 1)), Network::Leave);
            now += seconds(pause);
            assert_eq!(history.network(now), Network::UseQuietly);
            assert!(history.hear(Network::UseQuietly, &out, now).is_empty());
        }
        assert_eq!(
            history.hear(Network::UseQuietly, &[SyncMessage::Reached], now),
            ["Reached it again after 30m 30s"]
        );
        assert_eq!(history.network(now), Network::Use);
        assert_eq!(
            history.hear(Network::Use, &[SyncMessage::Reached, out[0].clone()], now),
            [line],
            "a refused push"
        );
        assert_eq!(history.network(now), Network::Leave);
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
                SyncMessage::Unreachable("Cannot reach origin".to_owned()),
                SyncMessage::Report(hindered(kind)),
            ]
        };
        let clean = SyncReport::default;
        history.hear(Network::Use, &out(HindranceKind::Unreachable), now);
        let why = |report: SyncReport| {
            report
                .hindrance
                .map(|hindrance| hindrance.why)
                .unwrap_or_default()
        };
        assert_eq!(
            why(history.complete(Network::Leave, clean())),
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
            why(history.complete(Network::Leave, waiting())),
            "origin cannot be reached: no route"
        );
        let mut failed = hindered(HindranceKind::Failed);
        failed.hindrance.as_mut().unwrap().why = "conflict".to_owned();
        assert_eq!(
            history.complete(Network::Leave, failed.clone()),
            failed,
            "what this sync has found comes first"
        );
        history.hear(
            Network::UseQuietly,
            &[SyncMessage::Reached, SyncMessage::Report(clean())],
            now,
        );
        assert_eq!(history.complete(Network::Use, clean()), clean());
        history.hear(Network::Use, &out(HindranceKind::NotPushing), now);
        assert!(
            history
                .complete(Network::Leave, waiting())
                .hindrance
                .is_some(),
            "a refused push"
        );
        assert_eq!(
            history.complete(Network::Leave, clean()),
            clean(),
            "somebody has pushed it"
        );
        assert_eq!(history.network(now), Network::Use);
    }
}
