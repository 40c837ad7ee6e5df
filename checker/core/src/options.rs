//! Options of a check, for what goes beyond the protocol.

use crate::{facts::Depth, record::AgeLimits, record::OperatorRules, renewal_watch::RenewalWatch};

/// Options of a check. The default is the protocol alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Let the four proofs of docs/design.md#proof-of-death count as death, beside ESRCH.
    pub reap_proven_dead: bool,
    /// Remove nothing; say what would be removed.
    pub dry_run: bool,
    /// Let a claim take a stale lock of a protocol whose stale locks stay until somebody says otherwise.
    pub force_lock: bool,
    /// Let a stale lock stand that is judged by its age.
    pub keep_stale: bool,
    /// How old a lock that is judged by its age may become.
    #[doc(hidden)]
    pub limits: AgeLimits,
    /// Refreshes that earlier looks have seen, for a lock that is judged by its age.
    #[doc(hidden)]
    pub refreshes: RenewalWatch,
    /// The caller has a right in the fleet that the database has joined, or was told to do without it.
    #[doc(hidden)]
    pub has_fleet_right: bool,
}

impl Options {
    pub(crate) fn depth(self) -> Depth {
        if self.reap_proven_dead {
            Depth::Proof
        } else {
            Depth::Protocol
        }
    }

    pub(crate) fn rules(&self) -> OperatorRules {
        let Self {
            reap_proven_dead,
            keep_stale,
            limits,
            ..
        } = *self;
        OperatorRules {
            reap_proven_dead,
            keep_stale,
            limits,
        }
    }
}
