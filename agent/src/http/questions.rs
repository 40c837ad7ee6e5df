//! Questions to the scheduler, through the loop that everything goes through: an answer proves that the loop turns.

use std::future::pending;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

use super::StatusSnapshot;

/// How long an answer may take. The loop never waits for a cycle, so after that it stands still.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// A question, and where its answer goes.
#[derive(Debug)]
pub(crate) enum Question {
    /// Whether the loop turns.
    Turning(oneshot::Sender<()>),
    /// The state of each database.
    Status(oneshot::Sender<StatusSnapshot>),
}

/// The scheduler's end; `None` when nobody can ask.
#[derive(Debug, Default)]
pub(crate) struct Questions(Option<mpsc::Receiver<Question>>);

impl Questions {
    /// The next question; never returns when nobody can ask. Cancel safe.
    pub(crate) async fn next(&mut self) -> Question {
        if let Some(questions) = &mut self.0
            && let Some(question) = questions.recv().await
        {
            return question;
        }
        pending().await
    }
}

/// The askers' end. One question at a time, so that between two the loop turns for its own work.
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
