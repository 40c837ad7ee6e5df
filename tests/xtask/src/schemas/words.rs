//! Closed lists of words. Those of the crates are read from there.

use std::borrow::Cow;

use beadlock_claim::error::Code;
use beadlock_core::log_line::Event;
use beadlock_core::{Reason, audit};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A type whose schema is a list of words.
macro_rules! words {
    ($($(#[$doc:meta])* $Name:ident: $words:expr;)*) => {$(
        $(#[$doc])*
        pub struct $Name;

        impl JsonSchema for $Name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($Name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let mut words: Vec<&str> = Vec::new();
                for word in $words {
                    // Several lines of a log are one event.
                    if !words.contains(&word) {
                        words.push(word);
                    }
                }
                json_schema!({ "type": "string", "enum": words })
            }
        }
    )*};
}

words! {
    /// The version of this contract.
    Version: ["beadlock/1"];
    /// Why a verdict or a decision is as it is.
    ReasonWord: Reason::ALL.iter().map(|reason| reason.as_str());
    /// The error codes.
    ErrorCode: Code::ALL.iter().map(|code| code.as_str());
    /// The events of the audit trail.
    AuditEvent: audit::Event::ALL.iter().map(|event| event.as_str());
    /// The events of the agent's log.
    LogEvent: Event::all().map(Event::word);
    /// What a lock is.
    VerdictWord: ["free", "held", "stale", "unreadable"];
    /// What a daemon does.
    DecisionWord: ["proceed", "skip"];
    /// The kinds of directory entries.
    FileKindWord: beadlock_base::filesystem::FileKind::ALL.iter().map(|kind| kind.as_str());
    /// How a file is locked.
    ModeWord: beadlock_base::sys::Mode::ALL.iter().map(|mode| mode.as_str());
    /// The states of a database in its agent.
    StateWord: Event::all().map(Event::state).filter(|word| !word.is_empty());
    /// The states of a database in its log.
    LogStateWord: beadlock_log::glance::STATES.iter().map(|(word, _)| *word);
    /// How much a line of the log matters.
    LevelWord: ["info", "warn", "error"];
}

/// A time of RFC 3339.
pub struct Time;

impl JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// Any object.
pub struct Any;

impl JsonSchema for Any {
    fn schema_name() -> Cow<'static, str> {
        "Any".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}
