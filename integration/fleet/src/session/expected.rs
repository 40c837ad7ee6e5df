//! The state that a look must find in etcd while a session stands.

use super::{SessionLoss, SessionStanding};
use crate::Phase;
use crate::keys::Lease;
use crate::transactions::{Scope, SeenClaim, SessionLook};

/// The state of a session that etcd must have, as its answers have said so far. A store that was restored behind our
/// back has less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Expected {
    /// The session's revision is not below this: it was put again with each right.
    pub(super) least: i64,
    /// The revision that made its claim.
    pub(super) claim: Option<i64>,
    /// Whether that claim is held. A claim that drains again is another one, made by a late request after a restore.
    pub(super) is_held: bool,
}

/// How a session stands that a look finds lost or broken; `None`: the look finds nothing wrong.
pub(super) fn found(
    seen: &SessionLook,
    expected: Expected,
    lease: Lease,
    scope: &Scope,
) -> Option<SessionStanding> {
    let gone = |why: &str| {
        Some(SessionStanding::Over(SessionLoss::Gone {
            why: why.to_owned(),
        }))
    };
    if !seen.fleet_stands {
        return Some(SessionStanding::Over(SessionLoss::FleetGone));
    }
    let claim = match scope {
        Scope::One(name) => {
            let claim = seen.claims.get(name).filter(|claim| claim.session == lease);
            let is_as_far =
                |claim: &&SeenClaim| !expected.is_held || claim.value.phase == Phase::Held;
            claim.filter(is_as_far).map(|claim| claim.created)
        }
        Scope::All => None,
    };
    match (seen.session, &seen.broken) {
        (None, _) => gone("etcd does not know it any more"),
        (Some(revision), _) if revision < expected.least => {
            gone("etcd has it as it was before, as after a restore")
        }
        _ if expected.claim.is_some() && claim != expected.claim => {
            gone("etcd does not know its claim any more")
        }
        (Some(_), Some(broken)) => Some(SessionStanding::Broken(broken.clone())),
        (Some(_), None) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use beadlock_core::facts;

    use super::*;
    use crate::{BrokenValue, Name};

    fn seen() -> SessionLook {
        SessionLook {
            fleet_stands: true,
            session: Some(7),
            broken: None,
            claims: BTreeMap::new(),
        }
    }

    #[test]
    fn what_a_look_says_of_a_session() {
        let broken = BrokenValue {
            by: "ann".into(),
            host: "h".into(),
            why: "stuck".into(),
            at: facts::now(),
        };
        let is_gone = |standing| {
            matches!(
                standing,
                Some(SessionStanding::Over(SessionLoss::Gone { .. }))
            )
        };
        let found = |seen: &SessionLook, least| {
            found(
                seen,
                Expected {
                    least,
                    ..Expected::default()
                },
                Lease(9),
                &Scope::All,
            )
        };
        assert_eq!(found(&seen(), 7), None);
        assert!(
            is_gone(found(&seen(), 8)),
            "older than its right: a restore"
        );
        assert!(is_gone(found(
            &SessionLook {
                session: None,
                ..seen()
            },
            0
        )));
        let other = SessionLook {
            fleet_stands: false,
            session: None,
            ..seen()
        };
        assert_eq!(
            found(&other, 0),
            Some(SessionStanding::Over(SessionLoss::FleetGone))
        );
        let marked = SessionLook {
            broken: Some(broken.clone()),
            ..seen()
        };
        assert_eq!(
            found(&marked, 0),
            Some(SessionStanding::Broken(broken.clone()))
        );
        assert!(
            is_gone(found(
                &SessionLook {
                    session: None,
                    broken: Some(broken),
                    ..seen()
                },
                0
            )),
            "gone beats broken"
        );
    }

    /// A snapshot from before the claim has the session and the lease, and would let the command run on for ever.
    #[test]
    fn a_session_with_a_claim_is_gone_when_its_claim_is() {
        let name = Name::parse("a").unwrap();
        let claim = |created, session| {
            let value =
                br#"{"id":"i","holder":"h","host":"b","pid":1,"started_at":"2026-11-25T00:00:00Z","phase":"held"}"#
                    .to_vec();
            let (key, mod_revision) = (Vec::new(), 8);
            let found = crate::etcd::KeyValue {
                key,
                value,
                create_revision: created,
                mod_revision,
                lease: session,
            };
            BTreeMap::from([(name.clone(), SeenClaim::of(&name, &found))])
        };
        let scope = Scope::One(name.clone());
        let look = |claims| {
            found(
                &SessionLook { claims, ..seen() },
                Expected {
                    claim: Some(5),
                    is_held: true,
                    ..Expected::default()
                },
                Lease(9),
                &scope,
            )
        };
        assert_eq!(look(claim(5, 9)), None);
        let mut drains_again = claim(5, 9);
        drains_again
            .values_mut()
            .for_each(|claim| claim.value.phase = Phase::Draining);
        for claims in [BTreeMap::new(), claim(6, 9), claim(5, 8), drains_again] {
            assert!(matches!(
                look(claims),
                Some(SessionStanding::Over(SessionLoss::Gone { .. }))
            ));
        }
        let none_yet = Expected::default();
        assert_eq!(
            found(
                &SessionLook {
                    claims: claim(6, 8),
                    ..seen()
                },
                none_yet,
                Lease(9),
                &scope
            ),
            None
        );
    }
}
