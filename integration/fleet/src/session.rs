//! A session: a lease that is renewed, and how it stands (docs/fleet.md). One for each claim, one for each agent.
//!
//! A renewal counts when the keep-alive was answered *and* a read after it, from the same node, found the session,
//! unbroken, not older than the last right, in the fleet as it is known. It counts from when the keep-alive was sent.
//! Once a session is over, its deadlines stay as they are, and it never comes back: a caller that needs one begins
//! another.

mod expected;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io, thread, time::Duration};

use beadlock_base::{duration::shown, escape::escaped};
use beadlock_core::facts;

use crate::deadline::{Deadlines, T, THIRD};
use crate::etcd::{CallFailure, Client, Node, http::CALL, http::random_byte};
use crate::keys::Lease;
use crate::record::written;
use crate::transactions::{KnownFleet, Scope, SeenClaim, SessionLook, TransactionRefusal};
use crate::wait::{Alarm, Bell};
use crate::{BrokenValue, Name, SessionValue, Who};
use expected::{Expected, found};

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionStanding {
    /// The session stands: work under it may run on until its deadlines.
    Live,
    /// Somebody wants the session to end.
    Broken(BrokenValue),
    /// The session is over, for it was lost in this way.
    Over(SessionLoss),
}

/// How a session was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionLoss {
    /// No renewal counted for three quarters of T.
    Silent {
        /// Why the last tries failed.
        why: String,
    },
    /// etcd does not know the session any more: others may be in.
    Gone {
        /// The words for what etcd has, or does not have, of the session.
        why: String,
    },
    /// The fleet is gone, or is another one.
    FleetGone,
}

impl SessionLoss {
    /// Whether work has to be killed at once: others may be in already.
    pub fn kills_at_once(&self) -> bool {
        !matches!(self, Self::Silent { .. })
    }
}

impl fmt::Display for SessionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { why } => f.write_str(why),
            Self::Gone { why } => write!(f, "the session is gone: {why}"),
            Self::FleetGone => f.write_str("the fleet is gone, or is another one"),
        }
    }
}

#[derive(Debug)]
struct State {
    standing: SessionStanding,
    deadlines: Deadlines,
    expected: Expected,
    /// When the tries began to fail, and how the last one did.
    failing: Option<(Duration, String)>,
    claims: BTreeMap<Name, SeenClaim>,
    is_ended: bool,
    wants_look: bool,
}

struct Inner {
    client: Arc<Client>,
    known: KnownFleet,
    lease: Lease,
    nonce: String,
    /// `sessions/L` as it was put.
    value: Vec<u8>,
    scope: Scope,
    state: Mutex<State>,
    wake: Bell,
    /// The function that is called when anything of the session may have changed.
    ring: Box<dyn Fn() + Send + Sync>,
}

/// A lease that a thread of its own renews. Dropped, it is renewed no more, and lapses.
pub(crate) struct LeaseSession(Arc<Inner>);

/// Why no session has begun.
#[derive(Debug)]
pub(crate) enum NotBegun {
    Failed(CallFailure),
    Hindered(TransactionRefusal),
    Io(io::Error),
}

impl From<CallFailure> for NotBegun {
    fn from(failure: CallFailure) -> Self {
        Self::Failed(failure)
    }
}

impl LeaseSession {
    /// Grants a lease, begins the session, and renews it from now on.
    pub(crate) fn begin(
        client: &Arc<Client>,
        known: &KnownFleet,
        who: &Who,
        scope: Scope,
        ring: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, NotBegun> {
        let (wake, alarm) = Bell::new()
            .and_then(|bell| Ok((bell, Alarm::new()?)))
            .map_err(NotBegun::Io)?;
        let nonce = facts::random_id();
        let value = written(&SessionValue {
            nonce: nonce.clone(),
            who: who.clone(),
            since: facts::now(),
        });
        let (lease, sent) = loop {
            let (lease, sent) = (Lease::random().map_err(NotBegun::Io)?, facts::boottime());
            client.grant(lease)?;
            let answer = client.txn(&known.session(lease, &value));
            let has_lapsed = facts::boottime() >= sent + T;
            if has_lapsed && answer.as_ref().is_err_and(CallFailure::is_without_lease) {
                // This process stood still for longer than the lease lives: another one.
                continue;
            }
            let answer = answer.inspect_err(|_| drop(client.revoke(lease)))?;
            match known.session_answer(&value, answer) {
                Ok(true) => break (lease, sent),
                Ok(false) => {}
                Err(hindrance) => {
                    let _ = client.revoke(lease);
                    return Err(NotBegun::Hindered(hindrance));
                }
            }
        };
        let state = State {
            standing: SessionStanding::Live,
            deadlines: Deadlines::of(sent),
            expected: Expected::default(),
            failing: None,
            claims: BTreeMap::new(),
            is_ended: false,
            wants_look: true,
        };
        let inner = Arc::new(Inner {
            client: Arc::clone(client),
            known: known.clone(),
            lease,
            nonce,
            value,
            scope,
            state: Mutex::new(state),
            wake,
            ring: Box::new(ring),
        });
        let session = Self(Arc::clone(&inner));
        let named = thread::Builder::new().name("fleet-session".to_owned());
        match named.spawn(move || inner.keep(&alarm)) {
            Ok(_) => Ok(session),
            Err(error) => {
                let _ = client.revoke(lease);
                Err(NotBegun::Io(error))
            }
        }
    }

    pub(crate) fn lease(&self) -> Lease {
        self.0.lease
    }

    pub(crate) fn known(&self) -> &KnownFleet {
        &self.0.known
    }

    /// `sessions/L` as it was put.
    pub(crate) fn value(&self) -> &[u8] {
        &self.0.value
    }

    pub(crate) fn standing(&self) -> SessionStanding {
        self.0.now().standing.clone()
    }

    pub(crate) fn deadlines(&self) -> Deadlines {
        self.0.now().deadlines
    }

    /// Since when, and why, nothing counts; `None` while renewals do.
    pub(crate) fn failing(&self) -> Option<(Duration, String)> {
        self.0.now().failing.clone()
    }

    /// The claims of the last look.
    pub(crate) fn claims(&self) -> BTreeMap<Name, SeenClaim> {
        self.0.now().claims.clone()
    }

    /// Notes that a right was put at this revision.
    pub(crate) fn has_right_of(&self, revision: i64) {
        let mut state = self.0.now();
        state.expected.least = state.expected.least.max(revision);
    }

    /// Notes that the claim of [`Scope::One`] is this session's, and was made by this revision.
    pub(crate) fn has_claim(&self, created: i64) {
        self.0.now().expected.claim = Some(created);
    }

    /// Notes that the session's claim is held, and stays so.
    pub(crate) fn claim_is_held(&self) {
        self.0.now().expected.is_held = true;
    }

    /// Asks for a look at once.
    pub(crate) fn want_look(&self) {
        self.0.now().wants_look = true;
        self.0.wake.ring();
    }

    /// Asks for a look whenever it is called, for as long as the session is there.
    pub(crate) fn looker(&self) -> impl Fn() + Send + 'static {
        let inner = Arc::downgrade(&self.0);
        move || {
            if let Some(inner) = inner.upgrade() {
                inner.now().wants_look = true;
                inner.wake.ring();
            }
        }
    }

    /// Ends the session: all its keys go in one revision. Only when all work under it has ended.
    pub(crate) fn end(&self) -> Result<(), CallFailure> {
        self.stop();
        let begun = facts::boottime();
        match self.0.client.revoke(self.0.lease) {
            // Once more: a busy etcd may have been too slow.
            Err(CallFailure::Silent(_)) if facts::boottime() < begun + 2 * CALL => {
                self.0.client.revoke(self.0.lease)
            }
            ended => ended,
        }
    }

    fn stop(&self) {
        self.0.now().is_ended = true;
        self.0.wake.ring();
    }
}

impl Drop for LeaseSession {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inner {
    /// The state as of now: a session whose time has passed is over, whether or not its thread has run.
    fn now(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = facts::boottime();
        if state.standing == SessionStanding::Live && now >= state.deadlines.term {
            let silent = shown(now.saturating_sub(state.deadlines.renewed));
            let why = state
                .failing
                .as_ref()
                .map_or("this process stood still", |(_, why)| why);
            let why = format!("no renewal for {silent}: {why}");
            state.standing = SessionStanding::Over(SessionLoss::Silent { why });
        }
        state
    }

    fn keep(&self, alarm: &Alarm) {
        let mut next = self.now().deadlines.renewed + THIRD;
        loop {
            let (is_ended, is_live, wants_look, term) = {
                let mut state = self.now();
                let wants_look = std::mem::take(&mut state.wants_look);
                (
                    state.is_ended,
                    state.standing == SessionStanding::Live,
                    wants_look,
                    state.deadlines.term,
                )
            };
            if is_ended {
                return;
            }
            let now = facts::boottime();
            if is_live && now >= next {
                next = if self.renew() {
                    now + THIRD
                } else {
                    facts::boottime() + pause()
                };
                (self.ring)();
                self.client.refresh_login();
                continue;
            }
            if wants_look && is_live {
                let expected = self.now().expected;
                if let Ok(seen) = self.client.with_any(|node| self.look_at(node)) {
                    self.judge(&seen, expected, None);
                }
                (self.ring)();
                continue;
            }
            if !is_live {
                // Told once more, for a listener that looks only when it rings; then there is nothing left to do but
                // to end.
                (self.ring)();
            }
            let point = if is_live { next.min(term) } else { now + THIRD };
            alarm.wait(&self.wake, point);
        }
    }

    /// Tries a renewal at each node, from the one that answered last. True: it counted, or there is nothing left to
    /// renew.
    fn renew(&self) -> bool {
        let expected = self.now().expected;
        let mut is_unknown = false;
        let mut silent = Vec::new();
        for node in self.client.nodes() {
            let sent = facts::boottime();
            let renewed = self.client.with_this(node, |node| {
                let is_alive = self.client.keep_alive_at(node, self.lease)?;
                is_unknown |= !is_alive;
                Ok((is_alive, self.look_at(node)?))
            });
            match renewed {
                Ok((is_alive, seen)) => {
                    return self.judge(&seen, expected, Some(is_alive.then_some(sent)));
                }
                Err(failure) => silent.push(failure.to_string()),
            }
            if self.now().is_ended {
                return true;
            }
        }
        let mut state = self.now();
        if is_unknown {
            let why = "etcd has no lease of this session".to_owned();
            state.standing = SessionStanding::Over(SessionLoss::Gone { why });
            return true;
        }
        let since = state
            .failing
            .as_ref()
            .map_or_else(facts::boottime, |(since, _)| *since);
        state.failing = Some((since, silent.join(", ")));
        false
    }

    fn look_at(&self, node: Node) -> Result<SessionLook, CallFailure> {
        let answer = self
            .client
            .txn_at(node, &self.known.look(self.lease, &self.scope))?;
        Ok(self.known.look_answer(&self.nonce, answer))
    }

    /// Judges the session by a look; `expected` is from when the look was sent. `renewal`: when the keep-alive was sent
    /// that etcd answered. False: the renewal does not count. True: it counts, none was sent, or the session is over.
    fn judge(
        &self,
        seen: &SessionLook,
        expected: Expected,
        renewal: Option<Option<Duration>>,
    ) -> bool {
        let mut state = self.now();
        if state.standing != SessionStanding::Live {
            return true;
        }
        if let Some(standing) = found(seen, expected, self.lease, &self.scope) {
            state.standing = standing;
            return true;
        }
        // One look at a time, each from a majority: the last one is the latest. Its revision says nothing, since a
        // store that was restored counts from an earlier one.
        state.claims.clone_from(&seen.claims);
        match renewal {
            Some(Some(sent)) => {
                state.deadlines = Deadlines::of(sent);
                state.failing = None;
                true
            }
            Some(None) => {
                let why = "etcd has the session, and no lease of it".to_owned();
                let since = state
                    .failing
                    .as_ref()
                    .map_or_else(facts::boottime, |(since, _)| *since);
                state.failing = Some((since, why));
                false
            }
            None => true,
        }
    }
}

/// The pause after every node has failed: short, and different in each process.
fn pause() -> Duration {
    Duration::from_millis(150 + u64::from(random_byte()))
}

impl fmt::Display for BrokenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "broken by {} on {}: {}",
            escaped(&self.by),
            escaped(&self.host),
            escaped(&self.why)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_session_has_time_to_end_its_work_and_a_gone_one_has_none() {
        assert!(!SessionLoss::Silent { why: String::new() }.kills_at_once());
        assert!(SessionLoss::Gone { why: String::new() }.kills_at_once());
        assert!(SessionLoss::FleetGone.kills_at_once());
    }
}
