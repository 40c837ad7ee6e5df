//! From a tracing event to a message for the worker: what is said, when, and whose it is.

use std::fmt::Debug;

use beadlock_checker::facts;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::Desk;
use super::line::Line;

/// A line of the database with this number, or everyone's, on its way: an event with the line as JSON in it.
pub(super) fn put(database: Option<usize>, line: &Line) {
    let line = serde_json::to_string(line).unwrap_or_default();
    tracing::info!(db = database, line);
}

/// Hands every line to the worker, as a [`Message`].
pub(super) struct Lines {
    desk: Desk,
}

impl Lines {
    pub(super) fn new(desk: Desk) -> Self {
        Self { desk }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let Some(line) = fields.line else { return };
        let to = match fields.database {
            Some(number) => To::One(number),
            None => To::All(self.desk.served.now()),
        };
        let seconds = facts::now().0.as_secs();
        self.desk.send(&Message::Line { to, seconds, line });
    }
}

#[derive(Default)]
struct Fields {
    database: Option<u32>,
    line: Option<Line>,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "db" {
            self.database = u32::try_from(value).ok();
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "line" {
            self.line = serde_json::from_str(value).ok();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// What the worker is told, in the order in which it happened. It takes bytes only.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Message {
    Line {
        to: To,
        /// Unix time.
        seconds: i64,
        line: Line,
    },
    /// The database with this number has come or gone.
    Turned(u32),
    /// There are new settings.
    Configured,
    /// All lines are told.
    End,
}

/// Whose a line is.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum To {
    One(u32),
    /// Everyone's: of those that were served when it was said.
    All(Vec<u32>),
}
