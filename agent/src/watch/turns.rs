//! One thread at a time calls the watcher.
//!
//! A call hangs when its file system stops answering, and all other calls would wait for it. So the wait for a turn is
//! bounded: a watcher that does not answer is given up, and another one replaces it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::state::lock;
use super::watcher::SystemWatcher;

pub(super) struct WatcherTurns {
    turn: Mutex<TurnState>,
    free: Condvar,
    /// How long a turn may take.
    patience: Duration,
    /// How many threads wait for the watcher or call it.
    asking: AtomicUsize,
}

struct TurnState {
    /// `None` while a thread has the turn.
    watcher: Option<SystemWatcher>,
    /// Since when a thread has the turn.
    taken: Option<Instant>,
    /// How many watchers were given up.
    given_up: u64,
}

/// The watcher, for as long as this is there. `None`: there is none yet.
pub(super) struct WatcherTurn<'a> {
    pub(super) watcher: Option<SystemWatcher>,
    /// The previous turn did not end in time.
    pub(super) was_given_up: bool,
    given_up: u64,
    turns: &'a WatcherTurns,
}

impl WatcherTurns {
    pub(super) fn new(patience: Duration) -> Self {
        let turn = TurnState {
            watcher: None,
            taken: None,
            given_up: 0,
        };
        Self {
            turn: Mutex::new(turn),
            free: Condvar::new(),
            patience,
            asking: AtomicUsize::new(0),
        }
    }

    /// Whether a thread waits for the watcher or calls it.
    pub(super) fn is_asked(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// Waits for a turn.
    pub(super) fn ask(&self) -> WatcherTurn<'_> {
        self.asking.fetch_add(1, Ordering::Relaxed);
        let mut turn = lock(&self.turn);
        while let Some(rest) = turn
            .taken
            .and_then(|since| self.patience.checked_sub(since.elapsed()))
        {
            let waited = self.free.wait_timeout(turn, rest);
            (turn, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let was_given_up = turn.taken.replace(Instant::now()).is_some();
        turn.given_up += u64::from(was_given_up);
        WatcherTurn {
            watcher: turn.watcher.take(),
            was_given_up,
            given_up: turn.given_up,
            turns: self,
        }
    }
}

impl WatcherTurn<'_> {
    /// Acts, unless this turn was given up. It cannot be given up during the act. Returns whether it has acted.
    pub(super) fn unless_given_up(&self, act: impl FnOnce()) -> bool {
        let turn = lock(&self.turns.turn);
        let is_ours = turn.given_up == self.given_up;
        if is_ours {
            act();
        }
        is_ours
    }
}

impl Drop for WatcherTurn<'_> {
    fn drop(&mut self) {
        self.turns.asking.fetch_sub(1, Ordering::Relaxed);
        let mut turn = lock(&self.turns.turn);
        // Otherwise it was given up, and another watcher is there.
        if turn.given_up == self.given_up {
            turn.watcher = self.watcher.take();
            turn.taken = None;
            self.turns.free.notify_one();
        }
    }
}
