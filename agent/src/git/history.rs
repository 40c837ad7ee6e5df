//! The syncs of a database: which notices the log has, and when the remote is asked again. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use beadlock_checker::internal::duration::shown;
use tokio::time::Instant;

use super::upstream::UNREACHABLE;
use super::{Event, Hindrance, HindranceKind, Network, SyncMessage, SyncReport};

/// The first and the longest wait before a remote that did not answer is asked again.
const RETRY: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));

#[derive(Debug, Default)]
pub(crate) struct SyncHistory {
    /// The notices that hold since the last cycle.
    notices: BTreeSet<String>,
    outage: Option<RemoteOutage>,
    /// The index whose files were all checked: the next sync need not check it again.
    pub(crate) looked: Option<String>,
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
    pub(crate) fn network(&self, now: Instant) -> Network {
        match &self.outage {
            None => Network::Use,
            Some(outage) if outage.again <= now => Network::UseQuietly,
            Some(_) => Network::Leave,
        }
    }

    /// Takes the messages of a sync that has ended. Returns the lines to be logged now.
    pub(crate) fn hear(&mut self, network: Network, messages: &[SyncMessage], now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        let mut notices = BTreeSet::new();
        let is_out = messages.iter().any(|message| matches!(message, SyncMessage::Unreachable(_)));
        for message in messages {
            match message {
                SyncMessage::Notice(text) => {
                    if !self.notices.contains(text) {
                        lines.push(text.clone());
                    }
                    notices.insert(text.clone());
                }
                SyncMessage::Looked(index) => self.looked = Some(index.clone()),
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
        if network == Network::Leave || is_out {
            // The notices about the remote did not come up.
            self.notices.append(&mut notices);
        } else {
            self.notices = notices;
        }
        lines
    }

    fn note_hindrance(&mut self, report: &SyncReport) {
        if let Some(outage) = &mut self.outage {
            outage.hindrance.clone_from(&report.hindrance);
        }
    }

    /// The report of a sync, with what is known of a remote that this sync has left alone.
    pub(crate) fn complete(&mut self, network: Network, mut report: SyncReport) -> SyncReport {
        if network == Network::Leave && report.hindrance.is_none() {
            let hindrance = self.outage.as_ref().and_then(|outage| outage.hindrance.clone());
            let is_over = |known: &Hindrance| known.kind == HindranceKind::NotPushing && report.unpushed.commits == 0;
            if hindrance.as_ref().is_some_and(is_over) {
                // Somebody has pushed what the remote had refused.
                self.outage = None;
            } else {
                report.hindrance = hindrance;
            }
        }
        if let Some(hindrance) = &mut report.hindrance
            && report.unpushed.commits == 0
            && let Some((remote, words)) = hindrance.why.split_once(UNREACHABLE)
        {
            hindrance.why = format!("cannot fetch: {remote}: {words}");
        }
        report
    }

    fn unreachable(&mut self, why: &str, now: Instant) -> Option<String> {
        let (first, longest) = RETRY;
        let last = self.outage.take();
        let (since, tries) = last.as_ref().map_or((now, 0), |last| (last.since, last.tries));
        let pause = first.saturating_mul(1 << tries.min(10)).min(longest);
        let is_news = last.is_none_or(|last| last.why != why);
        let (why, again, tries) = (why.to_owned(), now + pause, tries + 1);
        self.outage = Some(RemoteOutage { why: why.clone(), hindrance: None, since, again, tries });
        is_news.then(|| format!("{why}; committing only, next try in {}", shown(pause)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Unpushed;
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_notice_is_said_once_for_as_long_as_it_stays() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let notice = |text: &str| SyncMessage::Notice(text.to_owned());
        assert_eq!(history.hear(Network::Use, &[notice("a")], now), ["a"]);
        assert!(history.hear(Network::Use, &[notice("a")], now).is_empty());
        assert!(history.hear(Network::Leave, &[], now).is_empty(), "it could not come up");
        assert!(history.hear(Network::Use, &[notice("a")], now).is_empty());
        assert_eq!(history.hear(Network::Use, &[notice("b")], now), ["b"]);
        assert!(history.hear(Network::Use, &[], now).is_empty());
        assert_eq!(history.hear(Network::Use, &[notice("b")], now), ["b"], "it had gone");
    }

    #[test]
    fn a_remote_that_does_not_answer_is_left_alone_for_longer_and_longer() {
        let (mut history, begun) = (SyncHistory::default(), Instant::now());
        let out = [SyncMessage::Unreachable("Cannot reach origin: no route".to_owned())];
        let line = "Cannot reach origin: no route; committing only, next try in 10s";
        let mut now = begun;
        assert_eq!(history.network(now), Network::Use);
        assert_eq!(history.hear(Network::Use, &out, now), [line]);
        for pause in [10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(history.network(now + seconds(pause - 1)), Network::Leave);
            now += seconds(pause);
            assert_eq!(history.network(now), Network::UseQuietly);
            assert!(history.hear(Network::UseQuietly, &out, now).is_empty());
        }
        assert_eq!(history.hear(Network::UseQuietly, &[SyncMessage::Reached], now), ["Reached it again after 15m 10s"]);
        assert_eq!(history.network(now), Network::Use);
        assert_eq!(history.hear(Network::Use, &[SyncMessage::Reached, out[0].clone()], now), [line], "a refused push");
        assert_eq!(history.network(now), Network::Leave);
    }

    #[test]
    fn a_report_tells_of_an_outage_for_as_long_as_it_lasts() {
        let (mut history, now) = (SyncHistory::default(), Instant::now());
        let hindered = |kind: HindranceKind| {
            let why = "origin cannot be reached: no route".to_owned();
            let hindrance = Hindrance { kind, reason: "remote_unreachable".into(), why, next: None };
            SyncReport { hindrance: Some(hindrance), ..SyncReport::default() }
        };
        let out =
            |kind| [SyncMessage::Unreachable("Cannot reach origin".to_owned()), SyncMessage::Report(hindered(kind))];
        let clean = SyncReport::default;
        history.hear(Network::Use, &out(HindranceKind::Unreachable), now);
        let why = |report: SyncReport| report.hindrance.map(|hindrance| hindrance.why).unwrap_or_default();
        assert_eq!(why(history.complete(Network::Leave, clean())), "cannot fetch: origin: no route");
        let waiting = || SyncReport { unpushed: Unpushed { commits: 1, oldest: None }, ..clean() };
        assert_eq!(why(history.complete(Network::Leave, waiting())), "origin cannot be reached: no route");
        let mut failed = hindered(HindranceKind::Failed);
        failed.hindrance.as_mut().unwrap().why = "conflict".to_owned();
        assert_eq!(history.complete(Network::Leave, failed.clone()), failed, "what this sync has found comes first");
        history.hear(Network::UseQuietly, &[SyncMessage::Reached, SyncMessage::Report(clean())], now);
        assert_eq!(history.complete(Network::Use, clean()), clean());
        history.hear(Network::Use, &out(HindranceKind::NotPushing), now);
        assert!(history.complete(Network::Leave, waiting()).hindrance.is_some(), "a refused push");
        assert_eq!(history.complete(Network::Leave, clean()), clean(), "somebody has pushed it");
        assert_eq!(history.network(now), Network::Use);
    }
}
