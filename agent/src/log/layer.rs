//! From a tracing event to a message for the worker: what is said, when, and whose it is.

use std::fmt::Debug;

use beadlock_checker::facts;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::Desk;
use super::line::Line;

/// Lines of the database with this number, or everyone's, on their way: an event with the lines as JSON in it.
pub(super) fn put(database: Option<usize>, lines: &[Line]) {
    let lines = serde_json::to_string(lines).unwrap_or_default();
    tracing::info!(db = database, lines);
}

/// Hands what was said together to the worker, as a [`Message`].
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
        let Some(lines) = fields.lines else { return };
        let to = match fields.database {
            Some(number) => To::One(number),
            None => To::All(self.desk.served.now()),
        };
        let seconds = facts::now().0.as_secs();
        self.desk.send(&Message::Lines { to, seconds, lines });
    }
}

#[derive(Default)]
struct Fields {
    database: Option<u32>,
    lines: Option<Box<RawValue>>,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "db" {
            self.database = u32::try_from(value).ok();
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "lines" {
            self.lines = RawValue::from_string(value.to_owned()).ok();
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// What the worker is told, in the order in which it happened. It takes bytes only; lines are JSON on the whole way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<L = Vec<Line>> {
    /// What was said together is written together.
    Lines {
        to: To,
        /// Unix time.
        seconds: i64,
        lines: L,
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
