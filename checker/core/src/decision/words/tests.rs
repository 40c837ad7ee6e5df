use std::time::Duration;

use nix::errno::Errno;

use super::*;
use crate::{
    decision::{FleetDoubt, Watched},
    record::{Record, Rejected, beads},
};
use beadlock_base::error::Error;

fn failed(errno: Errno) -> FailedCall {
    Error::new("open the directory", "/x\n", errno).into()
}

/// Every reason, its words, and what a reader of a log can tell from them.
fn all() -> Vec<(NotChecked, &'static str, Reason, LoggedDoubt)> {
    use LoggedDoubt::{MayBeAlive, Other};
    let unread =
        |unread, words, doubt| (NotChecked::Unread(unread), words, Reason::Unreadable, doubt);
    let fleet = |doubt, words: &'static str, reason| {
        let words_of_it = words.to_owned();
        let why = NotChecked::Fleet {
            doubt,
            words: words_of_it,
        };
        (why, words, reason, Other)
    };
    let not_recovered = |why| NotChecked::NotRecovered {
        aside: ".exclusive-lock.aside".to_owned(),
        why,
    };
    vec![
        unread(
            Unread::from(Errno::EMFILE),
            "failed to read lock file: too many open files (ulimit -n)",
            MayBeAlive,
        ),
        unread(
            Unread::from(Errno::ENFILE),
            "failed to read lock file: too many open files on this machine (fs.file-max)",
            MayBeAlive,
        ),
        unread(
            Unread::Leased,
            "failed to read lock file: another process has it under a write lease",
            MayBeAlive,
        ),
        unread(
            Unread::from(Errno::EACCES),
            "failed to read lock file: permission denied",
            Other,
        ),
        unread(
            Unread::from(Errno::EIO),
            "failed to read lock file: i/o error",
            Other,
        ),
        unread(
            Unread::NotRegular(FileKind::Symlink),
            "failed to read lock file: it is a symbolic link",
            Other,
        ),
        unread(
            Unread::NotRegular(FileKind::Socket),
            "failed to read lock file: it is a socket",
            Other,
        ),
        unread(
            Unread::NotRegular(FileKind::Directory),
            "failed to read lock file: it is a directory",
            Other,
        ),
        unread(
            Unread::NotRegular(FileKind::Fifo),
            "failed to read lock file: it is a FIFO",
            Other,
        ),
        unread(
            Unread::NotRegular(FileKind::Device),
            "failed to read lock file: it is not a regular file",
            Other,
        ),
        unread(
            Unread::TooLarge,
            "failed to read lock file: it is larger than 64 KiB",
            Other,
        ),
        (
            NotChecked::Rejected(Rejected::Malformed("unexpected EOF".to_owned())),
            "malformed lock file: unexpected EOF",
            Reason::Malformed,
            Other,
        ),
        (
            NotChecked::Rejected(Rejected::Invalid("holder is missing".to_owned())),
            "invalid lock file: holder is missing",
            Reason::Invalid,
            Other,
        ),
        (
            NotChecked::NotReached(failed(Errno::EACCES)),
            r"failed to read lock file: failed to open the directory /x\n: permission denied",
            Reason::Unreadable,
            Other,
        ),
        (
            NotChecked::NotReached(failed(Errno::EMFILE)),
            r"failed to read lock file: failed to open the directory /x\n: too many open files (ulimit -n)",
            Reason::Unreadable,
            MayBeAlive,
        ),
        (
            NotChecked::Unanswered("/net does not answer".to_owned()),
            "failed to read lock file: /net does not answer",
            Reason::Unreadable,
            Other,
        ),
        (
            NotChecked::NotRemoved(NotChanged::NoGate),
            "failed to remove stale lock: no gate",
            Reason::RemovalFailed,
            LoggedDoubt::NotRemoved,
        ),
        (
            NotChecked::NotRemoved(failed(Errno::EMFILE).into()),
            r"failed to remove stale lock: failed to open the directory /x\n: too many open files (ulimit -n)",
            Reason::RemovalFailed,
            LoggedDoubt::NotRemoved,
        ),
        (
            not_recovered(NotChanged::NoGate),
            "failed to recover .exclusive-lock.aside: no gate",
            Reason::RemovalFailed,
            Other,
        ),
        (
            not_recovered(failed(Errno::ENFILE).into()),
            r"failed to recover .exclusive-lock.aside: failed to open the directory /x\n: too many open files on this machine (fs.file-max)",
            Reason::RemovalFailed,
            MayBeAlive,
        ),
        (
            NotChecked::FleetUseCycle,
            "a check cannot keep a fleet claim away; run the work under `beadlock cycle`",
            Reason::FleetUseCycle,
            Other,
        ),
        fleet(
            FleetDoubt::Held,
            "held in the fleet by x (PID 7 on h)",
            Reason::FleetHeld,
        ),
        fleet(
            FleetDoubt::New,
            "fleet: it is younger than 15s",
            Reason::FleetNew,
        ),
        fleet(
            FleetDoubt::Unreachable,
            "fleet: no node answered for 12s: x",
            Reason::FleetUnreachable,
        ),
        fleet(FleetDoubt::Lost, "fleet: it is over", Reason::FleetLost),
    ]
}

impl From<FailedCall> for NotChanged {
    fn from(call: FailedCall) -> Self {
        Self::Failed(call)
    }
}

#[test]
fn every_reason_has_its_words_and_they_tell_a_reader_what_it_is() {
    for (why, expected, reason, doubt) in all() {
        assert_eq!(
            (why.to_string().as_str(), why.reason()),
            (expected, reason),
            "{why:?}"
        );
        assert_eq!(
            (why.doubt(), NotChecked::parse(expected)),
            (doubt, doubt),
            "{why:?}"
        );
        if let NotChecked::Unread(unread) = why {
            assert_eq!(Unread::parse(&unread.to_string()), Some(unread));
            assert_eq!(unread.may_be_alive(), doubt == LoggedDoubt::MayBeAlive);
        }
        assert_eq!(why.clone(), why);
        let skip = Decision::from(Skip::from(why));
        let said = format!("lock check failed: {expected}");
        assert_eq!(skip.why(), Some(said.clone()));
        assert_eq!(skip.to_string(), format!("Skipping database ({said})"));
        assert_eq!((skip.reason(), skip.event()), (reason, Event::NotChecked));
        assert!(skip.to_string().starts_with(skip.event().beginning()));
    }
}

#[test]
fn every_errno_is_read_back_by_its_words() {
    for errno in 1..=133 {
        let words = Unread::Os(errno).to_string();
        let read = Unread::parse(&words).map(|unread| unread.to_string());
        assert_eq!(read, Some(words), "{errno}");
    }
    assert_eq!(Unread::parse("something else"), None);
    assert_eq!(Unread::parse(""), None);
}

/// Words that the original daemon and earlier releases have logged.
#[test]
fn the_words_of_older_daemons_are_understood() {
    use LoggedDoubt::{MayBeAlive, NotRemoved, Other};
    for (words, doubt) in [
        ("failed to read lock file: too many open files", MayBeAlive),
        (
            "failed to read lock file: open /x/.beads/.exclusive-lock: too many open files",
            MayBeAlive,
        ),
        (
            "failed to read lock file: open /x/.beads/.exclusive-lock: too many open files in system",
            MayBeAlive,
        ),
        ("failed to read lock file: open x: permission denied", Other),
        (
            "failed to remove stale lock: remove x: permission denied",
            NotRemoved,
        ),
        ("failed to remove stale lock", NotRemoved),
        ("malformed lock file: unexpected EOF", Other),
        ("failed to parse lock file: x", Other),
        ("", Other),
    ] {
        assert_eq!(NotChecked::parse(words), doubt, "{words}");
    }
}

#[test]
fn a_line_is_made_of_its_event_and_of_why() {
    let known = beads::Record::new("vc", "1").unwrap();
    let holder = "v\nc".to_owned();
    let known = Record::from(beads::Record { holder, ..known });
    let record = || Box::new(known.clone());
    let age = Duration::from_millis(90_900);
    let reason = Reason::HeartbeatExpired;
    let locked = Skip::Locked(record(), Reason::PidAlive);
    let stale = Skip::Stale {
        record: record(),
        reason,
        age,
    };
    let removed = |why: &str, reason| {
        Decision::Proceed(Proceed::RemovedStale(Removed {
            record: record(),
            reason,
            why: why.to_owned(),
            watched: Watched::ByLease,
            bytes: Vec::new(),
        }))
    };
    let not_removed = Skip::not_removed(record(), NotChanged::NoGate);
    let rows = [
        (
            locked.into(),
            r"Skipping database (locked by v\nc)",
            Some(r"locked by v\nc"),
            Event::Skipped,
        ),
        (
            Skip::InProgress.into(),
            "Skipping database (a sync cycle or a claim is in progress)",
            Some("a sync cycle or a claim is in progress"),
            Event::Skipped,
        ),
        (
            stale.into(),
            r"Skipping (stale lock of v\nc, no heartbeat for 90s; --force-lock takes it)",
            Some(r"stale lock of v\nc, no heartbeat for 90s; --force-lock takes it"),
            Event::Output,
        ),
        (
            not_removed.into(),
            "Skipping database (lock check failed: failed to remove stale lock: no gate)",
            Some("lock check failed: failed to remove stale lock: no gate"),
            Event::NotChecked,
        ),
        (Decision::Proceed(Proceed::NoLock), "", None, Event::Output),
        (
            removed("", Reason::PidGone),
            r"Removed stale lock (v\nc), proceeding with sync",
            None,
            Event::RemovedStale,
        ),
        (
            removed("too old", Reason::AgeExceeded),
            "[LOCK] Breaking stale lock: too old",
            None,
            Event::Output,
        ),
        (removed("", Reason::Malformed), "", None, Event::Output),
        (
            Decision::Proceed(Proceed::WouldRemoveStale(record(), Reason::PidGone)),
            r"Stale lock (v\nc) would be removed, proceeding with sync",
            None,
            Event::Output,
        ),
    ];
    for (decision, line, why, event) in rows {
        let decision: Decision = decision;
        assert_eq!(decision.to_string(), line);
        assert_eq!(decision.why().as_deref(), why, "{line}");
        assert_eq!(decision.event(), event, "{line}");
        assert_eq!(Event::parse(line).0, event, "{line}");
    }
}
