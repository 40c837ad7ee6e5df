//! From a tracing event to one line: whose it is, when, and what, with nothing in it that ends the line early.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use beadlock_checker::escape::is_harmless;
use beadlock_checker::facts;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The length of `[YYYY-MM-DD HH:MM:SS] `.
pub(super) const STAMP: usize = 22;

/// Hands every event of this crate to the worker, as [`Parcel`].
pub(super) struct Lines {
    out: NonBlocking,
}

impl Lines {
    pub(super) fn new(out: NonBlocking) -> Self {
        Self { out }
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with("beadlock") {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let parcel = Parcel { database: fields.database, line: stamped(&now(), &fields.message) };
        // It fails when the worker is gone, and with it the log.
        let _ = self.out.clone().write_all(&parcel.pack());
    }
}

/// `[YYYY-MM-DD HH:MM:SS]`, UTC.
fn now() -> String {
    let since = facts::now().0;
    let now = jiff::Timestamp::from_duration(since).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    now.strftime("[%Y-%m-%d %H:%M:%S]").to_string()
}

/// One line. What is in the text stays in this line: control characters and the like are escaped, except tabs.
fn stamped(stamp: &str, text: &str) -> String {
    let mut line = String::with_capacity(stamp.len() + text.len() + 2);
    line.push_str(stamp);
    line.push(' ');
    for c in text.chars() {
        if is_harmless(c) || c == '\t' {
            line.push(c);
        } else {
            let _ = write!(line, "{}", c.escape_default());
        }
    }
    line.push('\n');
    line
}

#[derive(Default)]
struct Fields {
    database: Option<u32>,
    message: String,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "db" {
            self.database = u32::try_from(value).ok();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        }
    }
}

/// A line and whose it is, as bytes: that is what the worker takes.
#[derive(Debug, PartialEq)]
pub(super) struct Parcel {
    /// `None`: everyone's.
    pub(super) database: Option<u32>,
    /// With its stamp and its newline.
    pub(super) line: String,
}

impl Parcel {
    const EVERYONE: u32 = u32::MAX;

    fn pack(&self) -> Vec<u8> {
        let mut bytes = self.database.unwrap_or(Self::EVERYONE).to_le_bytes().to_vec();
        bytes.extend_from_slice(self.line.as_bytes());
        bytes
    }

    /// `None` for bytes that [`Parcel::pack`] did not make.
    pub(super) fn unpack(bytes: &[u8]) -> Option<Self> {
        let (number, line) = bytes.split_first_chunk()?;
        let number = u32::from_le_bytes(*number);
        let line = str::from_utf8(line).ok().filter(|line| line.is_char_boundary(STAMP))?.to_owned();
        Some(Self { database: (number != Self::EVERYONE).then_some(number), line })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_in_its_line() {
        let hostile = "x\r\n[2026-01-01 00:00:00] Sync cycle complete\u{2028}\u{202e}\u{1b}[1A\ty";
        let line = stamped("[2026-01-01 00:00:00]", hostile);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert!(line.contains("\\r\\n[2026") && line.contains("\\u{1b}[1A\ty"), "{line}");
    }

    #[test]
    fn the_stamp_is_as_long_as_the_router_thinks() {
        assert_eq!(stamped(&now(), "").len(), STAMP + 1);
    }

    #[test]
    fn a_parcel_survives_the_way() {
        for database in [None, Some(0), Some(70_000)] {
            let parcel = Parcel { database, line: stamped(&now(), "é") };
            assert_eq!(Parcel::unpack(&parcel.pack()), Some(parcel));
        }
        assert_eq!(Parcel::unpack(b"x"), None);
    }
}
