//! The thread of an agent in its fleet: it keeps one session, asks for the rights that are wanted, and gives way to
//! claims.

use std::sync::{Arc, Weak};
use std::{collections::BTreeMap, io, time::Duration};

use beadlock_core::facts;

use super::machine::{NameRight, RightChange, RightRequest};
use super::{Change, Epoch, Mutex, Shared, Without, locked};
use crate::connect;
use crate::deadline::THIRD;
use crate::etcd::watch::{EtcdWatch, WatchedKeys};
use crate::etcd::{CallFailure, http::random_byte};
use crate::keys::FleetKeys;
use crate::session::{LeaseSession, NotBegun, SessionLoss, SessionStanding};
use crate::transactions::{ClaimId, Scope, TransactionRefusal};
use crate::wait::Alarm;
use crate::{Error, ErrorKind, Name};

pub(super) struct RightsEngine {
    shared: Arc<Shared>,
    alarm: Alarm,
}

impl RightsEngine {
    pub(super) fn new(shared: Arc<Shared>) -> io::Result<Self> {
        Ok(Self {
            shared,
            alarm: Alarm::new()?,
        })
    }

    pub(super) fn run(&self) {
        // Sessions that are over, under which work may still run.
        let mut old: Vec<Arc<Epoch>> = Vec::new();
        while !self.shared.is_over() {
            self.let_go(&mut old);
            match self.begin() {
                Ok(epoch) => {
                    self.serve(&epoch, &mut old);
                    old.extend(locked(&self.shared.epoch).take_if(|now| Arc::ptr_eq(now, &epoch)));
                }
                Err(without) => {
                    let least = if matches!(without, Without::Silent(..)) {
                        200
                    } else {
                        1000
                    };
                    *locked(&self.shared.without) = without;
                    self.shared.bell.ring();
                    self.pause(Duration::from_millis(least));
                }
            }
        }
        self.let_go(&mut old);
    }

    /// Ends the sessions under which no work runs any more.
    fn let_go(&self, old: &mut Vec<Arc<Epoch>>) {
        old.retain(|epoch| {
            let is_busy = epoch.permits() > 0;
            if !is_busy {
                let _ = epoch.session.end();
            }
            is_busy
        });
    }

    /// Waits for the bell, or so long; up to as long again at random.
    fn pause(&self, least: Duration) {
        let more = least * u32::from(random_byte()) / 255;
        self.alarm
            .wait(&self.shared.wake, facts::boottime() + least + more);
    }

    fn begin(&self) -> Result<Arc<Epoch>, Without> {
        let (shared, client) = (&self.shared, &self.shared.client);
        let known = connect::fleet(client).map_err(|error| self.without(error))?;
        let session = LeaseSession::begin(
            client,
            &known,
            &shared.who,
            Scope::All,
            ringing(Arc::downgrade(shared)),
        );
        let session = session.map_err(|why| match why {
            NotBegun::Failed(failure) => self.without(failure.error(client)),
            NotBegun::Hindered(TransactionRefusal::New) => Without::New,
            NotBegun::Hindered(_) => {
                Without::Lost("the fleet has just been made or ended".to_owned())
            }
            NotBegun::Io(error) => Without::Failed(Error::new(
                ErrorKind::Io,
                format!("failed to begin a session: {error}"),
            )),
        })?;
        let epoch = Arc::new(Epoch {
            session,
            rights: Mutex::new(BTreeMap::new()),
        });
        *locked(&shared.epoch) = Some(Arc::clone(&epoch));
        if shared.is_over() {
            // It was ended meanwhile, and the end has not seen this one.
            let _ = epoch.session.end();
        }
        shared.tell(Change::Joined);
        Ok(epoch)
    }

    fn without(&self, error: Error) -> Without {
        match error.kind() {
            ErrorKind::Unreachable => {
                let since = match &*locked(&self.shared.without) {
                    Without::Silent(since, _) => *since,
                    _ => facts::boottime(),
                };
                Without::Silent(since, error.nodes().to_owned())
            }
            ErrorKind::NoFleet => Without::Lost(error.to_string()),
            _ => Without::Failed(error),
        }
    }

    /// Serves the rights under one session, until it is over.
    fn serve(&self, epoch: &Arc<Epoch>, old: &mut Vec<Arc<Epoch>>) {
        let (shared, session) = (&self.shared, &epoch.session);
        let keys = &session.known().keys;
        let watched = [
            WatchedKeys::Below(keys.claims()),
            WatchedKeys::Key(keys.broken(session.lease())),
            WatchedKeys::Key(keys.fleet()),
        ];
        let matters = mattering(Arc::downgrade(shared), keys.claims());
        // Without a watch the looks of every T/3 still find everything.
        let _watch = EtcdWatch::begin(
            Arc::clone(&shared.client),
            &watched,
            matters,
            session.looker(),
        );
        let mut renewed = session.deadlines().renewed;
        let mut claimed_since = BTreeMap::new();
        while !shared.is_over() {
            self.let_go(old);
            match session.standing() {
                SessionStanding::Live => {}
                SessionStanding::Broken(broken) => {
                    *locked(&shared.without) = Without::Lost(broken.to_string());
                    return shared.tell(Change::Broken(broken));
                }
                SessionStanding::Over(loss) => {
                    *locked(&shared.without) = match &loss {
                        SessionLoss::Silent { why } => epoch.silence(why),
                        loss => Without::Lost(loss.to_string()),
                    };
                    return shared.tell(Change::Lost(loss));
                }
            }
            let now = session.deadlines().renewed;
            if std::mem::replace(&mut renewed, now) != now {
                shared.tell(Change::Renewed);
                epoch.rights().values_mut().for_each(NameRight::renewed);
            }
            self.see(epoch, &mut claimed_since);
            if self.ask(epoch, &mut claimed_since) {
                self.alarm.wait(&shared.wake, facts::boottime() + THIRD);
            } else {
                self.pause(Duration::from_millis(200));
            }
        }
    }

    /// Hands the claims of the session's last look to the rights of the wanted names.
    fn see(&self, epoch: &Epoch, claimed_since: &mut BTreeMap<Name, Duration>) {
        let claims = epoch.session.claims();
        let wanted = locked(&self.shared.wanted).clone();
        let mut turns = Vec::new();
        {
            let mut rights = epoch.rights();
            for name in wanted {
                let right = rights.entry(name.clone()).or_default();
                turns.extend(right.see(claims.get(&name)).map(|turn| (name, turn)));
            }
        }
        for (name, turn) in turns {
            self.turned(&name, turn, claimed_since);
        }
    }

    fn turned(&self, name: &Name, turn: RightChange, claimed_since: &mut BTreeMap<Name, Duration>) {
        match turn {
            RightChange::Due => self.shared.tell(Change::Due(name.clone())),
            RightChange::Claimed(claim) => {
                claimed_since.insert(name.clone(), facts::boottime());
                self.shared.tell(Change::Claimed(claim));
            }
        }
    }

    /// Sends the requests that are due, for one name after the other. False: a request was not answered.
    fn ask(&self, epoch: &Epoch, claimed_since: &mut BTreeMap<Name, Duration>) -> bool {
        let names: Vec<Name> = epoch.rights().keys().cloned().collect();
        let mut all_answered = true;
        for name in names {
            if self.shared.is_over() || epoch.session.standing() != SessionStanding::Live {
                return true;
            }
            let request = epoch.rights().get_mut(&name).and_then(NameRight::request);
            let answered = match request {
                None => Ok(()),
                Some(RightRequest::Right) => self.right(epoch, &name, claimed_since),
                Some(RightRequest::Yield(way)) => self.give_way(epoch, &name, way, claimed_since),
            };
            if answered.is_err() {
                all_answered = false;
            }
        }
        all_answered
    }

    fn right(
        &self,
        epoch: &Epoch,
        name: &Name,
        claimed_since: &mut BTreeMap<Name, Duration>,
    ) -> Result<(), CallFailure> {
        let (client, session) = (&self.shared.client, &epoch.session);
        let known = session.known();
        let answer = client.txn(&known.right(session.lease(), name, session.value()))?;
        let answer = known.right_answer(name, answer);
        if let Ok(revision) = &answer {
            session.has_right_of(*revision);
        }
        let turn = epoch
            .rights()
            .get_mut(name)
            .map(|right| right.right_answered(answer));
        match turn {
            Some(Ok(Some(turn))) => self.turned(name, turn, claimed_since),
            // The session's own look says what it is.
            Some(Err(_)) => session.want_look(),
            Some(Ok(None)) | None => {}
        }
        Ok(())
    }

    fn give_way(
        &self,
        epoch: &Epoch,
        name: &Name,
        way: ClaimId,
        claimed_since: &mut BTreeMap<Name, Duration>,
    ) -> Result<(), CallFailure> {
        let session = &epoch.session;
        self.shared
            .client
            .txn(&session.known().give_way(session.lease(), name, way))?;
        if let Some(right) = epoch.rights().get_mut(name) {
            right.yield_answered(way);
        }
        if let Some(since) = claimed_since.remove(name) {
            *locked(&self.shared.last_yield) = Some(facts::boottime().saturating_sub(since));
        }
        Ok(())
    }
}

/// Whether a key says something to this agent. A claim of a name that it has not asked for does not: else each claim
/// would make every agent of the fleet look.
fn mattering(shared: Weak<Shared>, claims: String) -> impl Fn(&[u8]) -> bool + Send + 'static {
    move |key| {
        let claimed = FleetKeys::rest(&claims, key).and_then(Name::of_key);
        match (claimed, shared.upgrade()) {
            (Some(name), Some(shared)) => locked(&shared.wanted).contains(&name),
            _ => true,
        }
    }
}

/// Wakes the engine.
fn ringing(shared: Weak<Shared>) -> impl Fn() + Send + Sync + 'static {
    move || {
        if let Some(shared) = shared.upgrade() {
            shared.wake.ring();
        }
    }
}
