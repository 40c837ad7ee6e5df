//! The choice of a lock to break, and the words when another lock is there.

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_claim::error::Problem;
use beadlock_core::{Reason, Verdict};
use beadlock_core::{look::Look, take::Licence, zombie::Zombie};

use super::BreakArgs;
use beadlock_claim::error::{Code, Error, Exit};
use beadlock_claim::target::Target;
use beadlock_claim::words::{self, Part, shown_age, to_type};

/// The lock that the user has chosen to break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Id(String),
    Holder(String),
    /// A lock that cannot be understood.
    Malformed,
    /// The one lock that there can be, with any holder.
    Unnamed,
}

impl Choice {
    pub fn typed(typed: &BreakArgs) -> Option<Self> {
        let malformed = typed.malformed.then_some(Self::Malformed);
        let id = typed.id.clone().map(Self::Id);
        id.or_else(|| typed.holder.clone().map(Self::Holder))
            .or(malformed)
    }

    /// The choice where no option names the lock; `None` unless the protocol can have one lock at most.
    pub fn unnamed(target: &Target) -> Option<Self> {
        target.rules().breaks_unnamed.then_some(Self::Unnamed)
    }

    /// Whether that is the lock that is there.
    pub fn is(&self, look: &Look) -> bool {
        match self {
            Self::Id(id) => look.id.as_ref() == Some(id),
            Self::Holder(name) => look
                .record
                .as_ref()
                .is_some_and(|record| record.holder() == *name),
            Self::Malformed => matches!(look.verdict, Verdict::Unreadable(_)),
            Self::Unnamed => look.record.is_some(),
        }
    }

    /// Narrows the choice to the id of the lock in `look`, so that a later lock of the same holder is not chosen.
    pub fn of(self, look: &Look) -> Self {
        match (self, &look.id) {
            (Self::Holder(_) | Self::Unnamed, Some(id)) => Self::Id(id.clone()),
            (choice, _) => choice,
        }
    }

    /// How it was chosen, in a word for the audit trail.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Id(_) => "broken_by_id",
            Self::Holder(_) => "broken_by_holder",
            Self::Malformed => "broken_malformed",
            Self::Unnamed => "broken_unnamed",
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Id(id) => format!("the lock {}", escaped(id)),
            Self::Holder(name) => format!("a lock of {}", escaped(name)),
            Self::Malformed => "unreadable".to_owned(),
            Self::Unnamed => "a lock".to_owned(),
        }
    }

    /// The error for a lock that is not the one that is meant.
    pub fn not_there(&self, look: &Look, target: &Target) -> Error {
        let (path, wanted) = (escaped_path(&target.path()), self.words());
        let there = is_there(look, target);
        let (code, next) = match look.verdict {
            Verdict::Held(_) => (
                Code::LockHeld,
                format!(
                    "who and why: {}",
                    to_type("beadlock status {}", &[target.part()])
                ),
            ),
            Verdict::Unreadable(_) => {
                let next = match target.not_a_lock(look) {
                    Some(data) => data.words,
                    None => format!(
                        "to break it: {}",
                        command(look, target, Licence::UnlessHeld)
                    ),
                };
                (Code::LockUnreadable, next)
            }
            Verdict::Stale(_) | Verdict::Free => (
                Code::LockStale,
                format!(
                    "to break that one: {}",
                    command(look, target, Licence::UnlessHeld)
                ),
            ),
        };
        let message = format!("{path} is not {wanted}: it {there}; it was not touched; {next}");
        let error = Error::new(code, message).detailed(format!("lock_file={path}"));
        if code == Code::LockStale {
            error.ending(Exit::Failed)
        } else {
            error
        }
    }
}

/// The error for a lock whose holder may be at work.
pub fn held(look: &Look, target: &Target) -> Error {
    let (path, there) = (escaped_path(&target.path()), is_there(look, target));
    let command = command(look, target, Licence::EvenIfLive);
    let witness = witness(look);
    let message = format!(
        "{path} {there}; {witness}; it was not touched; to break it all the same: {command}"
    );
    Error::new(Code::LockHeld, message).detailed(format!("lock_file={path}"))
}

/// The error for a lock that has no id to be typed.
pub fn without_id(look: &Look, target: &Target) -> Error {
    let (path, there) = (escaped_path(&target.path()), is_there(look, target));
    let command = command(look, target, Licence::UnlessHeld);
    Error::new(
        Code::LockUnreadable,
        format!("{path} {there}; it was not touched; to break it: {command}"),
    )
}

/// The words for the lock that is there: `is held by ci (PID 77, on box) for 2m, id …`.
fn is_there(look: &Look, target: &Target) -> String {
    let id = look
        .id
        .as_ref()
        .map(|id| format!(", id {}", escaped(id)))
        .unwrap_or_default();
    let holder = target.holder(look).unwrap_or_default();
    match (look.verdict, &look.record) {
        (Verdict::Held(_), Some(_)) => format!(
            "is held by {holder} for {}{id}",
            shown_age(words::age(look))
        ),
        (Verdict::Stale(reason), _) => format!("is stale, left by {holder} ({reason}){id}"),
        (verdict, _) => format!(
            "cannot be understood: {} ({}){id}",
            escaped(&look.detail()),
            verdict.reason()
        ),
    }
}

/// The command that breaks what is there.
fn command(look: &Look, target: &Target, licence: Licence) -> String {
    let which = match (look.verdict, &look.id) {
        (Verdict::Unreadable(_), _) | (_, None) => Part::Words(vec!["--malformed".into()]),
        (_, Some(id)) => Part::Value("--id", id.as_ref()),
    };
    let template = match licence {
        Licence::EvenIfLive => "beadlock break {} {} --even-if-live",
        Licence::UnlessHeld => "beadlock break {} {}",
    };
    to_type(template, &[target.part(), which])
}

/// Why it counts as held.
fn witness(look: &Look) -> String {
    let reason = look.verdict.reason();
    if let Some(zombie) = look.record.as_ref().and_then(Zombie::holder_of) {
        return format!("{zombie} ({reason})");
    }
    let words = match reason {
        Reason::PidAlive => "its process lives",
        Reason::PidNotPermitted => "its process lives, and belongs to another user",
        Reason::OtherHost => "its process is another host's, and cannot be asked for from here",
        Reason::OtherMachine => {
            "its process is another machine's of this name, and cannot be asked for from here"
        }
        Reason::OtherPidNamespace => {
            "its process is in another PID namespace, such as a container's"
        }
        Reason::HostUnknown => "this machine has no host name to compare with",
        Reason::AgeFresh => "it is not too old",
        Reason::HeartbeatFresh => "its last heartbeat is not overdue",
        Reason::HeartbeatInFuture => {
            "its last heartbeat lies in the future: a clock is wrong, here or there"
        }
        _ => "its process may live",
    };
    format!("{words} ({reason})")
}
