//! The next step of a claim. No I/O, no clock: answers in, the next step out.

use crate::keys::Lease;
use crate::transactions::{Drained, SeenClaim, TransactionRefusal};

/// State of a claim on its way to being held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimMachine {
    /// The claim is not raised: its key is not known to be in etcd.
    Below {
        /// The claim that was in the way.
        holder: Option<SeenClaim>,
        /// Whether the next step is due, for something may have changed since.
        is_due: bool,
    },
    /// The claim is raised: agents may still have rights.
    Raised {
        /// The revision that made the claim.
        created: i64,
        /// The agents that still had a right at the last look, and whether there are more; `None`: not looked yet.
        agents: Option<(Vec<Lease>, bool)>,
        is_due: bool,
    },
    /// No agent has a right.
    Held { created: i64 },
    /// The claim was raised, and has gone: the session is of no use.
    Lost,
}

/// The next step of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimStep {
    /// Look whether the claim in the way still stands.
    LookForHolder,
    Raise,
    /// Look which agents still have rights.
    LookForAgents,
    /// Make the claim held, for nobody seems to have a right.
    Drain,
    /// Wait until something changes, or for the next look.
    Wait,
    /// There is nothing left to do.
    Rest,
}

impl ClaimMachine {
    pub(crate) fn new() -> Self {
        Self::Below {
            holder: None,
            is_due: true,
        }
    }

    pub(crate) fn step(&self) -> ClaimStep {
        match self {
            Self::Below {
                holder: None,
                is_due: true,
            } => ClaimStep::Raise,
            Self::Below {
                holder: Some(_),
                is_due: true,
            } => ClaimStep::LookForHolder,
            Self::Raised {
                agents: Some((agents, _)),
                is_due: false,
                ..
            } if agents.is_empty() => ClaimStep::Drain,
            Self::Raised { is_due: true, .. } => ClaimStep::LookForAgents,
            Self::Below { .. } | Self::Raised { .. } => ClaimStep::Wait,
            Self::Held { .. } | Self::Lost => ClaimStep::Rest,
        }
    }

    /// Something may have changed: the watch has rung, or it is time for a look.
    pub(crate) fn stir(&mut self) {
        if let Self::Below { is_due, .. } | Self::Raised { is_due, .. } = self {
            *is_due = true;
        }
    }

    /// A step had no answer: it is tried again at the next stir.
    pub(crate) fn unanswered(&mut self) {
        match self {
            Self::Below { is_due, .. } => *is_due = false,
            Self::Raised { is_due, agents, .. } => (*is_due, *agents) = (false, None),
            Self::Held { .. } | Self::Lost => {}
        }
    }

    /// The claim in the way, by a look; `None`: it has gone.
    pub(crate) fn holder_seen(&mut self, found: Option<SeenClaim>) {
        if let Self::Below { holder, is_due } = self {
            *is_due = found.is_none();
            *holder = found;
        }
    }

    /// Takes the answer to a raise. `Err`: a hindrance that the caller must handle.
    pub(crate) fn raised(
        &mut self,
        answer: Result<i64, TransactionRefusal>,
    ) -> Result<(), TransactionRefusal> {
        let Self::Below { holder, is_due } = self else {
            return Ok(());
        };
        match answer {
            Ok(created) => {
                *self = Self::Raised {
                    created,
                    agents: None,
                    is_due: true,
                }
            }
            Err(TransactionRefusal::Held(claim)) => (*holder, *is_due) = (Some(*claim), false),
            Err(TransactionRefusal::Passed) => (*holder, *is_due) = (None, true),
            Err(other) => {
                *is_due = false;
                return Err(other);
            }
        }
        Ok(())
    }

    /// Which agents have rights, by a look.
    pub(crate) fn agents_seen(&mut self, found: Vec<Lease>, more: bool) {
        if let Self::Raised { agents, is_due, .. } = self {
            (*agents, *is_due) = (Some((found, more)), false);
        }
    }

    pub(crate) fn drained(&mut self, answer: Drained) -> Result<(), TransactionRefusal> {
        let Self::Raised {
            created,
            agents,
            is_due,
        } = self
        else {
            return Ok(());
        };
        match answer {
            Drained::Held => *self = Self::Held { created: *created },
            Drained::Agents(found, more) => (*agents, *is_due) = (Some((found, more)), false),
            Drained::Broken(broken) => {
                *self = Self::Lost;
                return Err(TransactionRefusal::Broken(broken));
            }
            Drained::Lost => *self = Self::Lost,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BrokenValue, ClaimValue, Name, Phase};
    use beadlock_core::facts;

    fn claim() -> SeenClaim {
        let value = ClaimValue {
            id: "i".into(),
            holder: "h".into(),
            host: "b".into(),
            pid: 1,
            started_at: facts::now(),
            phase: Phase::Held,
        };
        SeenClaim {
            name: Name::parse("a").unwrap(),
            value,
            created: 5,
            session: Lease(9),
        }
    }

    fn raised() -> ClaimMachine {
        let mut machine = ClaimMachine::new();
        machine.raised(Ok(7)).unwrap();
        machine
    }

    #[test]
    fn the_way_of_a_claim_that_nobody_hinders() {
        let mut machine = ClaimMachine::new();
        assert_eq!(machine.step(), ClaimStep::Raise);
        machine.raised(Ok(7)).unwrap();
        assert_eq!(machine.step(), ClaimStep::LookForAgents);
        machine.agents_seen(Vec::new(), false);
        assert_eq!(machine.step(), ClaimStep::Drain);
        machine.drained(Drained::Held).unwrap();
        assert_eq!(
            (machine.step(), machine),
            (ClaimStep::Rest, ClaimMachine::Held { created: 7 })
        );
    }

    #[test]
    fn a_claim_in_the_way_is_looked_at_when_something_stirs_and_only_then() {
        let mut machine = ClaimMachine::new();
        machine
            .raised(Err(TransactionRefusal::Held(Box::new(claim()))))
            .unwrap();
        assert_eq!(machine.step(), ClaimStep::Wait);
        machine.stir();
        assert_eq!(machine.step(), ClaimStep::LookForHolder);
        machine.holder_seen(Some(claim()));
        assert_eq!(machine.step(), ClaimStep::Wait);
        machine.stir();
        machine.holder_seen(None);
        assert_eq!(machine.step(), ClaimStep::Raise);
        machine.raised(Err(TransactionRefusal::Passed)).unwrap();
        assert_eq!(machine.step(), ClaimStep::Raise, "it went meanwhile");
    }

    #[test]
    fn agents_are_waited_for_and_never_believed_to_be_gone_by_a_look_alone() {
        let mut machine = raised();
        machine.agents_seen(vec![Lease(1)], false);
        assert_eq!(machine.step(), ClaimStep::Wait);
        machine.stir();
        assert_eq!(machine.step(), ClaimStep::LookForAgents);
        machine.agents_seen(Vec::new(), false);
        assert_eq!(machine.step(), ClaimStep::Drain);
        machine
            .drained(Drained::Agents(vec![Lease(2)], false))
            .unwrap();
        assert_eq!(
            machine.step(),
            ClaimStep::Wait,
            "one came between the look and the transaction"
        );
    }

    #[test]
    fn a_step_without_an_answer_is_made_again_when_something_stirs() {
        let mut machine = ClaimMachine::new();
        machine.unanswered();
        assert_eq!(machine.step(), ClaimStep::Wait);
        machine.stir();
        assert_eq!(machine.step(), ClaimStep::Raise);
        let mut machine = raised();
        machine.agents_seen(Vec::new(), false);
        machine.unanswered();
        assert_eq!(machine.step(), ClaimStep::Wait);
        machine.stir();
        assert_eq!(
            machine.step(),
            ClaimStep::LookForAgents,
            "what was seen before is not believed any more"
        );
    }

    #[test]
    fn what_is_not_the_claims_to_judge_goes_to_the_caller() {
        let broken = BrokenValue {
            by: "a".into(),
            host: "h".into(),
            why: "w".into(),
            at: facts::now(),
        };
        for hindrance in [
            TransactionRefusal::New,
            TransactionRefusal::FleetGone,
            TransactionRefusal::SessionGone,
            TransactionRefusal::NoName,
        ] {
            let mut machine = ClaimMachine::new();
            assert_eq!(machine.raised(Err(hindrance.clone())), Err(hindrance));
            assert_eq!(machine.step(), ClaimStep::Wait);
        }
        let mut machine = raised();
        assert_eq!(
            machine.drained(Drained::Broken(broken.clone())),
            Err(TransactionRefusal::Broken(broken))
        );
        assert_eq!(machine, ClaimMachine::Lost);
        let mut machine = raised();
        machine.drained(Drained::Lost).unwrap();
        assert_eq!(
            (machine.step(), machine),
            (ClaimStep::Rest, ClaimMachine::Lost)
        );
    }

    #[test]
    fn an_answer_that_comes_too_late_changes_nothing() {
        let mut held = ClaimMachine::Held { created: 7 };
        held.holder_seen(None);
        held.raised(Ok(8)).unwrap();
        held.agents_seen(vec![Lease(1)], true);
        held.drained(Drained::Lost).unwrap();
        held.stir();
        held.unanswered();
        assert_eq!(held, ClaimMachine::Held { created: 7 });
    }
}
