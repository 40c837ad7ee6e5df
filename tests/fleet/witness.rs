//! Which process was at work when, by the clock that nobody sets. It knows nothing of etcd.

use std::sync::Mutex;
use std::time::Duration;

use beadlock_base::deadline::boottime;

/// Work of one kind, from its begin to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    pub whose: String,
    pub is_claim: bool,
    pub begun: Duration,
    pub ended: Duration,
    /// The fencing token of a claim.
    pub token: u64,
}

/// Sees all work on one database.
#[derive(Debug, Default)]
pub struct Witness(Mutex<Vec<Work>>);

impl Witness {
    /// Does `work`, and writes down from when to when.
    pub fn see(&self, whose: &str, token: Option<u64>, work: impl FnOnce()) {
        let begun = boottime();
        work();
        let (is_claim, token) = (token.is_some(), token.unwrap_or_default());
        let seen = Work {
            whose: whose.to_owned(),
            is_claim,
            begun,
            ended: boottime(),
            token,
        };
        self.0.lock().expect("no panic").push(seen);
    }

    /// All that was seen, in the order of its begin.
    pub fn all(&self) -> Vec<Work> {
        let mut all = self.0.lock().expect("no panic").clone();
        all.sort_by_key(|work| work.begun);
        all
    }

    pub fn claims(&self) -> usize {
        self.all().iter().filter(|work| work.is_claim).count()
    }

    pub fn cycles(&self) -> usize {
        self.all().iter().filter(|work| !work.is_claim).count()
    }

    /// The work that ran beside a claim.
    pub fn overlaps(&self) -> Vec<(Work, Work)> {
        let all = self.all();
        let claims = all.iter().enumerate().filter(|(_, work)| work.is_claim);
        let beside = |one: &Work, other: &Work| one.begun < other.ended && other.begun < one.ended;
        let with = |(at, claim): (usize, &Work)| {
            let others = all
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at)
                .map(|(_, work)| work);
            others
                .filter(|work| beside(claim, work))
                .map(|work| (claim.clone(), work.clone()))
                .collect::<Vec<_>>()
        };
        claims.flat_map(with).collect()
    }

    /// Nothing ran beside a claim, and tokens rise.
    #[track_caller]
    pub fn check(&self) {
        let overlaps = self.overlaps();
        assert!(overlaps.is_empty(), "beside a claim: {overlaps:#?}");
        let tokens: Vec<u64> = self
            .all()
            .iter()
            .filter(|work| work.is_claim)
            .map(|work| work.token)
            .collect();
        assert!(
            tokens.is_sorted_by(|one, next| one < next),
            "tokens rise: {tokens:?}"
        );
    }
}

#[test]
fn a_witness_sees_what_runs_beside_a_claim() {
    let witness = Witness::default();
    witness.see("claim", Some(7), || {
        witness.see("cycle", None, || {
            std::thread::sleep(Duration::from_millis(2))
        })
    });
    assert_eq!(witness.overlaps().len(), 1);
    let apart = Witness::default();
    apart.see("cycle", None, || {});
    apart.see("claim", Some(7), || {});
    apart.check();
}
