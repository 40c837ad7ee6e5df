//! A bounded number of open connections, in which slow clients keep no other one out.
//!
//! When it is full, the oldest connection whose request has not come makes room, after a moment to send it. A client
//! that is being answered makes room only when no other one can, and not at once.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// The time between two looks for room.
const PAUSE: Duration = Duration::from_millis(10);

/// The connections, the oldest first.
#[derive(Debug)]
pub(super) struct OpenConnections {
    open: VecDeque<Connection>,
    limits: ConnectionLimits,
}

/// How many connections there are at once, and for how long one keeps its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    pub(super) size: usize,
    /// While the client sends its request.
    pub(super) asking: Duration,
    /// While it is being answered.
    pub(super) answering: Duration,
}

#[derive(Debug)]
struct Connection {
    since: Instant,
    /// The whole request has come.
    has_asked: Arc<AtomicBool>,
    task: AbortHandle,
}

impl OpenConnections {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            open: VecDeque::new(),
            limits,
        }
    }

    pub(super) async fn admit<F>(&mut self, attend: impl FnOnce(Arc<AtomicBool>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while !self.has_room() {
            sleep(PAUSE).await;
        }
        let has_asked = Arc::default();
        let task = tokio::spawn(attend(Arc::clone(&has_asked))).abort_handle();
        self.open.push_back(Connection {
            since: Instant::now(),
            has_asked,
            task,
        });
    }

    /// Makes room, if need be in the place of another connection. Returns whether there is room.
    fn has_room(&mut self) -> bool {
        self.open.retain(|member| !member.task.is_finished());
        if self.open.len() < self.limits.size {
            return true;
        }
        let ConnectionLimits {
            asking, answering, ..
        } = self.limits;
        let is_silent = |member: &Connection| {
            !member.has_asked.load(Ordering::Relaxed) && member.since.elapsed() >= asking
        };
        let silent = self.open.iter().position(is_silent);
        let slow = || (self.open.front()?.since.elapsed() >= answering).then_some(0);
        let Some(member) = silent.or_else(slow).and_then(|at| self.open.remove(at)) else {
            return false;
        };
        member.task.abort();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    const LIMITS: ConnectionLimits = ConnectionLimits {
        size: 3,
        asking: Duration::from_millis(20),
        answering: Duration::from_millis(300),
    };

    /// Says its number when it is dropped.
    struct Client(u32, UnboundedSender<u32>);

    impl Drop for Client {
        fn drop(&mut self) {
            let _ = self.1.send(self.0);
        }
    }

    #[tokio::test]
    async fn the_oldest_that_has_not_asked_makes_room() {
        let (gone, mut went) = unbounded_channel();
        // A client that is being answered keeps its place for longer than this test takes.
        let mut crowd = OpenConnections::new(ConnectionLimits {
            answering: Duration::from_secs(60),
            ..LIMITS
        });
        let begun = Instant::now();
        for number in 0..5 {
            let client = Client(number, gone.clone());
            let attend = |asked: Arc<AtomicBool>| async move {
                let _client = client;
                if number == 0 {
                    asked.store(true, Ordering::Relaxed);
                }
                pending::<()>().await;
            };
            crowd.admit(attend).await;
        }
        assert_eq!(
            (went.recv().await, went.recv().await),
            (Some(1), Some(2)),
            "0 has asked"
        );
        assert_eq!(crowd.open.len(), 3);
        assert!(begun.elapsed() >= LIMITS.asking, "they had no time to ask");
    }

    #[tokio::test]
    async fn a_client_that_is_being_answered_keeps_its_place_for_a_while() {
        let mut crowd = OpenConnections::new(LIMITS);
        let begun = Instant::now();
        for _ in 0..4 {
            let attend = |asked: Arc<AtomicBool>| async move {
                asked.store(true, Ordering::Relaxed);
                pending::<()>().await;
            };
            crowd.admit(attend).await;
            tokio::task::yield_now().await;
        }
        assert!(begun.elapsed() >= LIMITS.answering, "{:?}", begun.elapsed());
        assert_eq!(crowd.open.len(), 3);
    }

    #[tokio::test]
    async fn a_client_that_has_ended_has_no_place() {
        let mut crowd = OpenConnections::new(LIMITS);
        for _ in 0..10 {
            crowd.admit(|_| async {}).await;
            while crowd.open.iter().any(|member| !member.task.is_finished()) {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(crowd.open.len(), 1);
    }
}
