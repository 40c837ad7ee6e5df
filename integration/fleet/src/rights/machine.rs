//! An agent's right to run cycles of one database under one session. No I/O, no clock: answers go in, the next
//! request comes out. One request at a time is under way.

use crate::Phase;
use crate::transactions::{ClaimId, SeenClaim, TransactionRefusal};

/// An agent's right to cycles of the database with one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NameRight {
    /// etcd has it, as far as we know: the answer to a `right` that was sent after the last `yield` said so.
    is_held: bool,
    /// How many permits are out.
    permits: u32,
    /// The claim that stands, as far as we know.
    claim: Option<SeenClaim>,
    /// The claim before which a yield was sent and answered.
    yielded: Option<ClaimId>,
}

/// A request to etcd that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RightRequest {
    Right,
    /// Gives up the right, to make way for this claim.
    Yield(ClaimId),
}

/// Why there is no permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoPermit {
    Held(Box<SeenClaim>),
    /// The right is not there yet.
    Asking,
}

/// A change that the agent is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RightChange {
    /// A claim became known.
    Claimed(SeenClaim),
    /// A cycle is due at once.
    Due,
}

impl NameRight {
    /// Gives a permit: the right is held, and no claim is known.
    pub(crate) fn permit(&mut self) -> Result<(), NoPermit> {
        match &self.claim {
            Some(claim) => Err(NoPermit::Held(Box::new(claim.clone()))),
            None if !self.is_held => Err(NoPermit::Asking),
            None => {
                self.permits += 1;
                Ok(())
            }
        }
    }

    /// Takes a permit back. True: a claim waits for that.
    pub(crate) fn give_back(&mut self) -> bool {
        self.permits = self.permits.saturating_sub(1);
        self.permits == 0 && self.claim.is_some()
    }

    pub(crate) fn permits(&self) -> u32 {
        self.permits
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(crate) fn claim(&self) -> Option<&SeenClaim> {
        self.claim.as_ref()
    }

    /// Takes the claim that a look has found, and returns a change for the agent.
    pub(crate) fn see(&mut self, found: Option<&SeenClaim>) -> Option<RightChange> {
        let known = self.claim.as_ref().map(SeenClaim::id);
        match found {
            Some(claim) if known == Some(claim.id()) => {
                self.claim = Some(claim.clone());
                None
            }
            Some(claim) => {
                self.claim = Some(claim.clone());
                Some(RightChange::Claimed(claim.clone()))
            }
            None => {
                self.claim = None;
                (known.is_some() && self.is_held).then_some(RightChange::Due)
            }
        }
    }

    /// The request that is due now; `None`: there is none. A yield is sent whether or not we believe to hold the right:
    /// an answer may have been lost, and a request may arrive late. From a yield on, the right counts as gone.
    pub(crate) fn request(&mut self) -> Option<RightRequest> {
        match &self.claim {
            Some(claim) if self.permits == 0 && self.yielded != Some(claim.id()) => {
                self.is_held = false;
                Some(RightRequest::Yield(claim.id()))
            }
            None if !self.is_held => Some(RightRequest::Right),
            _ => None,
        }
    }

    /// With each renewal: as long as the claim waits for agents the yield is sent again, answered or not. A store
    /// that was restored has the right again, and the claim would wait for it.
    pub(crate) fn renewed(&mut self) {
        if self
            .claim
            .as_ref()
            .is_some_and(|claim| claim.value.phase == Phase::Draining)
        {
            self.yielded = None;
        }
    }

    /// The yield before this claim was answered, whatever the answer: the claim names it, so it can be no other.
    pub(crate) fn yield_answered(&mut self, way: ClaimId) {
        self.yielded = Some(way);
    }

    /// Takes the answer to a request for the right. `Err`: a hindrance that the session must judge.
    pub(crate) fn right_answered(
        &mut self,
        answer: Result<i64, TransactionRefusal>,
    ) -> Result<Option<RightChange>, TransactionRefusal> {
        match answer {
            Ok(_) => {
                self.is_held = true;
                Ok(self.claim.is_none().then_some(RightChange::Due))
            }
            Err(TransactionRefusal::Held(claim)) => Ok(self.see(Some(&claim))),
            Err(TransactionRefusal::Passed | TransactionRefusal::NoName) => Ok(None),
            Err(other) => Err(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Lease;
    use crate::{ClaimValue, Name};
    use beadlock_core::facts;

    fn claim(created: i64) -> SeenClaim {
        let value = ClaimValue {
            id: "i".into(),
            holder: "h".into(),
            host: "b".into(),
            pid: 1,
            started_at: facts::now(),
            phase: Phase::Draining,
        };
        SeenClaim {
            name: Name::parse("a").unwrap(),
            value,
            created,
            session: Lease(9),
        }
    }

    fn held() -> NameRight {
        let mut right = NameRight::default();
        assert_eq!(right.request(), Some(RightRequest::Right));
        assert_eq!(right.right_answered(Ok(3)), Ok(Some(RightChange::Due)));
        right
    }

    #[test]
    fn without_a_right_there_is_no_permit_and_with_one_there_are_many() {
        let mut right = NameRight::default();
        assert_eq!(right.permit(), Err(NoPermit::Asking));
        let mut right = held();
        assert_eq!(
            (right.permit(), right.permit(), right.request()),
            (Ok(()), Ok(()), None)
        );
        assert_eq!(right.permits(), 2);
    }

    #[test]
    fn a_claim_ends_the_giving_of_permits_and_is_given_way_when_the_last_is_back() {
        let mut right = held();
        right.permit().unwrap();
        assert!(matches!(
            right.see(Some(&claim(5))),
            Some(RightChange::Claimed(_))
        ));
        assert!(matches!(right.permit(), Err(NoPermit::Held(held)) if held.created == 5));
        assert_eq!(right.request(), None, "a cycle is running");
        assert!(right.give_back());
        assert_eq!(right.request(), Some(RightRequest::Yield(claim(5).id())));
        assert!(!right.is_held());
        assert_eq!(
            right.request(),
            Some(RightRequest::Yield(claim(5).id())),
            "unanswered"
        );
        right.yield_answered(claim(5).id());
        assert_eq!(right.request(), None, "the claim stands, and has its way");
        assert_eq!(right.see(None), None);
        assert_eq!(right.request(), Some(RightRequest::Right));
    }

    /// The answer to a right was lost, and etcd has it: without the yield the claim would wait for ever.
    #[test]
    fn a_yield_is_sent_whatever_is_believed() {
        let mut right = NameRight::default();
        assert_eq!(right.request(), Some(RightRequest::Right));
        assert!(matches!(
            right.see(Some(&claim(5))),
            Some(RightChange::Claimed(_))
        ));
        assert_eq!(right.request(), Some(RightRequest::Yield(claim(5).id())));
    }

    #[test]
    fn each_claim_is_given_way_of_its_own() {
        let mut right = held();
        right.see(Some(&claim(5)));
        assert_eq!(right.request(), Some(RightRequest::Yield(claim(5).id())));
        right.yield_answered(claim(5).id());
        assert!(
            matches!(right.see(Some(&claim(8))), Some(RightChange::Claimed(_))),
            "the next one, without a look between"
        );
        assert_eq!(right.request(), Some(RightRequest::Yield(claim(8).id())));
        right.yield_answered(claim(5).id());
        assert_eq!(
            right.request(),
            Some(RightRequest::Yield(claim(8).id())),
            "a late answer to the first"
        );
    }

    #[test]
    fn a_claim_that_still_waits_is_given_way_again_with_each_renewal_and_a_held_one_is_not() {
        let mut right = held();
        right.see(Some(&claim(5)));
        assert_eq!(right.request(), Some(RightRequest::Yield(claim(5).id())));
        right.yield_answered(claim(5).id());
        assert_eq!(right.request(), None);
        right.renewed();
        assert_eq!(
            right.request(),
            Some(RightRequest::Yield(claim(5).id())),
            "a restored store has the right again"
        );
        right.yield_answered(claim(5).id());
        let mut held = claim(5);
        held.value.phase = Phase::Held;
        assert_eq!(right.see(Some(&held)), None, "the same claim");
        right.renewed();
        assert_eq!(right.request(), None, "an idle agent writes nothing");
    }

    /// A store that was restored counts from an earlier revision.
    #[test]
    fn a_claim_with_a_revision_that_came_again_is_another_claim() {
        let mut right = held();
        right.see(Some(&claim(5)));
        right.request();
        right.yield_answered(claim(5).id());
        let other = SeenClaim {
            session: Lease(10),
            ..claim(5)
        };
        assert!(matches!(
            right.see(Some(&other)),
            Some(RightChange::Claimed(_))
        ));
        assert_eq!(right.request(), Some(RightRequest::Yield(other.id())));
    }

    #[test]
    fn a_claim_that_goes_before_the_cycle_has_ended_leaves_the_right() {
        let mut right = held();
        right.permit().unwrap();
        right.see(Some(&claim(5)));
        assert_eq!(right.see(None), Some(RightChange::Due));
        assert!(!right.give_back());
        assert!(right.is_held());
        assert_eq!(right.request(), None);
    }

    #[test]
    fn what_hinders_a_right() {
        let mut right = NameRight::default();
        assert!(matches!(
            right.right_answered(Err(TransactionRefusal::Held(Box::new(claim(5))))),
            Ok(Some(RightChange::Claimed(_)))
        ));
        assert!(matches!(right.permit(), Err(NoPermit::Held(held)) if held.created == 5));
        let mut right = NameRight::default();
        assert_eq!(
            right.right_answered(Err(TransactionRefusal::Passed)),
            Ok(None)
        );
        assert_eq!(right.request(), Some(RightRequest::Right));
        for other in [
            TransactionRefusal::New,
            TransactionRefusal::FleetGone,
            TransactionRefusal::SessionGone,
        ] {
            assert_eq!(right.right_answered(Err(other.clone())), Err(other));
        }
    }
}
