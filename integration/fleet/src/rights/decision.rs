//! The decision of a daemon without a permit: the same in the agent and in `beadlock cycle`.

use beadlock_core::decision::{FleetDoubt, NotChecked};
use beadlock_core::record::{Names, Record};
use beadlock_core::{Decision, Reason, Skip};

use super::PermitRefusal;
use crate::ClaimValue;

impl PermitRefusal {
    /// The decision to leave the database alone: as if the claim's holder held its lock, or it could not be checked.
    pub fn decision(self) -> Decision {
        let doubt = match &self {
            Self::Held(claim) => {
                if let Some(record) = record_of(&claim.value) {
                    return Skip::Locked(Box::new(record), Reason::FleetHeld).into();
                }
                FleetDoubt::Held
            }
            Self::New => FleetDoubt::New,
            Self::Lost { .. } => FleetDoubt::Lost,
            Self::Asking | Self::Unreachable { .. } | Self::Failed(_) => FleetDoubt::Unreachable,
        };
        let words = self.to_string();
        Skip::from(NotChecked::Fleet { doubt, words }).into()
    }
}

/// A claim of the fleet as the record of a lock. `None`: its values do not make a record of a lock.
fn record_of(claim: &ClaimValue) -> Option<Record> {
    let ClaimValue {
        holder,
        host,
        pid,
        started_at,
        ..
    } = claim;
    let text = serde_json::json!({
        "holder": holder, "pid": pid, "hostname": host, "started_at": started_at.to_string(),
    });
    Names::BEADS.parse(text.to_string().as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, Phase, SeenClaim, keys::Lease};
    use beadlock_core::facts;

    fn held(holder: &str) -> PermitRefusal {
        let (holder, host) = (holder.to_owned(), "build-9".to_owned());
        let (started_at, phase) = (facts::now(), Phase::Held);
        let value = ClaimValue {
            id: "i".to_owned(),
            holder,
            host,
            pid: 77,
            started_at,
            phase,
        };
        PermitRefusal::Held(Box::new(SeenClaim {
            name: Name::parse("a").unwrap(),
            value,
            created: 5,
            session: Lease(9),
        }))
    }

    #[test]
    fn a_claim_in_the_fleet_reads_as_a_lock() {
        let decision = held("release-job").decision();
        assert_eq!(
            decision.to_string(),
            "Skipping database (locked by release-job)"
        );
        let record = decision.record().unwrap();
        assert_eq!(
            (record.hostname(), record.pid(), decision.reason()),
            ("build-9", 77, Reason::FleetHeld)
        );
        // What would be no lock is told in words.
        let decision = held("").decision();
        assert!(decision.is_skip() && decision.record().is_none());
        assert_eq!(decision.reason(), Reason::FleetHeld);
    }

    #[test]
    fn every_refusal_has_the_reason_of_the_contract() {
        let why = || "why".to_owned();
        for refusal in [
            held("x"),
            PermitRefusal::New,
            PermitRefusal::Lost { why: why() },
            PermitRefusal::Unreachable { why: why() },
        ] {
            let reason = refusal.reason();
            assert_eq!(refusal.decision().reason().as_str(), reason.unwrap());
        }
        let decision = PermitRefusal::Unreachable {
            why: "no node answered for 12s: x".to_owned(),
        }
        .decision();
        assert_eq!(
            decision.to_string(),
            "Skipping database (lock check failed: fleet: no node answered for 12s: x)"
        );
    }
}
