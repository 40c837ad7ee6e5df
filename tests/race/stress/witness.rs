//! What is seen of a round by somebody who does not ask the lock: two at work at once, claims that went away.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counts of many rounds.
#[derive(Debug, Default)]
pub struct Counts {
    /// Claims that stood: whose record was complete.
    pub claims: AtomicUsize,
    /// Those that went away while their process lived, and not by its own doing.
    pub lost: AtomicUsize,
    /// Two commands at once.
    pub doubles: AtomicUsize,
    /// A cycle beside a command or another cycle, or a daemon that was let in past a claim.
    pub beside: AtomicUsize,
    /// Contenders that stopped in the middle, as a kill would stop them.
    pub crashes: AtomicUsize,
    /// Contenders that failed in a way of their own.
    pub broken: AtomicUsize,
    /// Rounds after which something was left beside the lock.
    pub left: AtomicUsize,
}

impl Counts {
    /// What must not be, if there is any.
    pub fn wrong(&self) -> Option<String> {
        let counts = [
            &self.lost,
            &self.doubles,
            &self.beside,
            &self.broken,
            &self.left,
        ];
        counts
            .iter()
            .any(|count| count.load(SeqCst) > 0)
            .then(|| format!("{self:?}"))
    }
}

/// One round.
pub struct Witness<'a> {
    pub counts: &'a Counts,
    commands: AtomicUsize,
    cycles: AtomicUsize,
    /// Which claim's command is at work; 0 for none.
    command: AtomicUsize,
    /// A writer that knows nothing of the gate has begun to write: what becomes of the others' locks is its doing.
    pub overwriting: AtomicBool,
    naive: Mutex<Vec<String>>,
    /// Contenders that have a claim to make yet.
    pub claiming: AtomicUsize,
}

impl<'a> Witness<'a> {
    pub fn new(counts: &'a Counts) -> Self {
        Self {
            counts,
            commands: AtomicUsize::new(0),
            cycles: AtomicUsize::new(0),
            command: AtomicUsize::new(0),
            overwriting: AtomicBool::new(false),
            naive: Mutex::default(),
            claiming: AtomicUsize::new(0),
        }
    }

    /// Forgets the round that was. In any case: daemons ask until nobody has a claim to make.
    ///
    /// # Panics
    ///
    /// When somebody is still at work.
    pub fn begin(&self, claiming: usize) {
        self.overwriting.store(false, SeqCst);
        self.claims_of_writers().clear();
        self.claiming.store(claiming, SeqCst);
        let at_work = [&self.commands, &self.cycles].map(|count| count.load(SeqCst));
        assert_eq!(at_work, [0, 0], "the last round is not over");
    }

    /// A command that somebody has claimed for.
    pub fn command(&self, work: impl FnOnce()) {
        let claim = self.counts.claims.fetch_add(1, SeqCst) + 1;
        let others = self.commands.fetch_add(1, SeqCst);
        self.counts.doubles.fetch_add(others.min(1), SeqCst);
        self.counts
            .beside
            .fetch_add(self.cycles.load(SeqCst).min(1), SeqCst);
        self.command.store(claim, SeqCst);
        work();
        self.command.store(0, SeqCst);
        self.commands.fetch_sub(1, SeqCst);
    }

    /// A daemon's work, when it was let in.
    pub fn cycle(&self, work: impl FnOnce()) {
        let others = self.cycles.fetch_add(1, SeqCst) + self.commands.load(SeqCst);
        self.counts.beside.fetch_add(others.min(1), SeqCst);
        work();
        self.cycles.fetch_sub(1, SeqCst);
    }

    /// A daemon that asks, and works when it is let in.
    pub fn daemon(&self, asks: impl FnOnce() -> bool) {
        let before = (
            self.command.load(SeqCst),
            self.claims_of_writers().is_empty(),
        );
        let let_in = asks();
        let beside_a_command = before.0 != 0 && before.0 == self.command.load(SeqCst);
        if let_in && (beside_a_command || !before.1) {
            self.counts.beside.fetch_add(1, SeqCst);
        }
    }

    /// A writer's claim is complete. It stands to the end of the round.
    pub fn writer_claimed(&self, record: String) {
        self.counts.claims.fetch_add(1, SeqCst);
        self.claims_of_writers().push(record);
    }

    /// The records of the writers' claims. Of two writers the second may overwrite the first.
    pub fn claims_of_writers(&self) -> MutexGuard<'_, Vec<String>> {
        self.naive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lost(&self) {
        self.counts.lost.fetch_add(1, SeqCst);
    }
}
