//! What is asked of the scheduler, through the loop that everything goes through: an answer is a proof that it turns.

use std::future::pending;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

use super::Snapshot;

/// How long an answer may take. Longer, and the loop stands still: it is the one that feeds the service manager's
/// watchdog, and it never waits for a cycle.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// A question, and where its answer goes.
#[derive(Debug)]
pub(crate) enum Question {
    /// Does the loop turn?
    Turning(oneshot::Sender<()>),
    /// How does each database fare?
    Status(oneshot::Sender<Snapshot>),
}

/// The scheduler's end. Nobody asks when there is no other end.
#[derive(Debug, Default)]
pub(crate) struct Questions(Option<mpsc::Receiver<Question>>);

impl Questions {
    /// The next question; never when nobody asks. Nothing is lost when the call is.
    pub(crate) async fn next(&mut self) -> Question {
        let question = match &mut self.0 {
            Some(questions) => questions.recv().await,
            None => None,
        };
        match question {
            Some(question) => question,
            None => pending().await,
        }
    }
}

/// The end of those who ask. One question at a time: between two the loop turns for its own work.
#[derive(Debug)]
pub(super) struct Asks(Mutex<mpsc::Sender<Question>>);

pub(super) fn channel() -> (Asks, Questions) {
    let (to, from) = mpsc::channel(1);
    (Asks(Mutex::new(to)), Questions(Some(from)))
}

impl Asks {
    /// The answer; `None` when there is none within [`PATIENCE`].
    pub(super) async fn ask<T>(&self, question: fn(oneshot::Sender<T>) -> Question) -> Option<T> {
        let asked = async {
            let to = self.0.lock().await;
            let (answer, answered) = oneshot::channel();
            to.send(question(answer)).await.ok()?;
            answered.await.ok()
        };
        timeout(PATIENCE, asked).await.ok().flatten()
    }
}
