//! Whether sessions are renewed, as seen from outside.
//!
//! etcd gives every lease its whole time again when it gets another leader. A holder that was killed while the leader
//! changes more often than that keeps its claim, and the time that a lease has left does not show it. A renewal is
//! therefore a lease that has more time than a moment ago, under the same leader.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::Fleet;
use crate::T;
use crate::etcd::LeaseLeft;
use crate::keys::Lease;

/// For how long sessions are watched: a renewal is due every third of T.
pub const RENEWAL_WATCH: Duration = Duration::from_secs(T.as_secs() / 3 + 2);

const LOOK: Duration = Duration::from_millis(400);

impl Fleet {
    /// Watches sessions until each has been renewed, for [`RENEWAL_WATCH`] at most. Answers for each that is there still
    /// whether it was renewed. A node that does not answer shows nothing, which is no renewal.
    pub fn watch_renewals(
        &self,
        sessions: impl IntoIterator<Item = Lease>,
    ) -> BTreeMap<Lease, bool> {
        let mut watched: BTreeMap<Lease, Watched> = sessions
            .into_iter()
            .map(|session| (session, Watched::default()))
            .collect();
        let begun = Instant::now();
        loop {
            watched.retain(|session, watched| match self.client.lease_left(*session) {
                Ok(None) => false,
                Ok(Some(left)) => {
                    watched.see(left);
                    true
                }
                Err(_) => true,
            });
            let is_over = begun.elapsed() >= RENEWAL_WATCH;
            if is_over || watched.values().all(|watched| watched.is_renewed) {
                break;
            }
            sleep(LOOK);
        }
        let answer = watched.into_iter();
        answer
            .map(|(session, watched)| (session, watched.is_renewed))
            .collect()
    }
}

#[derive(Debug, Default)]
struct Watched {
    last: Option<LeaseLeft>,
    is_renewed: bool,
}

impl Watched {
    fn see(&mut self, left: LeaseLeft) {
        // Of a leader that is new, or none any more.
        if left.left > T {
            return;
        }
        let is_more = |last: LeaseLeft| last.term == left.term && left.left > last.left;
        self.is_renewed |= self.last.is_some_and(is_more);
        self.last = Some(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewed(seen: &[(i64, u64)]) -> bool {
        let mut watched = Watched::default();
        for (term, left) in seen {
            let left = Duration::from_secs(*left);
            watched.see(LeaseLeft { left, term: *term });
        }
        watched.is_renewed
    }

    #[test]
    fn more_time_under_the_same_leader_is_a_renewal() {
        assert!(renewed(&[(2, 11), (2, 10), (2, 14)]));
        assert!(renewed(&[(2, 11), (3, 14), (3, 13), (3, 14)]));
    }

    #[test]
    fn a_new_leader_is_none() {
        for seen in [
            &[][..],
            &[(2, 14)],
            &[(2, 11), (2, 11), (2, 10)],
            &[(2, 11), (3, 14), (3, 14), (4, 15), (4, 12)],
            &[(2, 11), (3, 16), (3, 15), (3, i64::MAX as u64), (3, 14)],
        ] {
            assert!(!renewed(seen), "{seen:?}");
        }
    }
}
