//! The table of situations.

use beadlock_core::lock_file_stat::LockFileStat;

use super::*;

fn now() -> StartedAt {
    StartedAt::from_unix(1_800_000_000, 0)
}

fn nothing() -> Look {
    Look {
        verdict: Verdict::Free,
        record: None,
        no_record: None,
        content: None,
        id: None,
        facts: None,
        side_file: false,
        on_disk: None,
    }
}

fn of(look: &Look, data: Option<&NotALock>) -> Situation {
    Situation::of(look, data, now())
}

#[test]
fn of_what_cannot_be_understood() {
    let file = |kind, size, millis| {
        let modified = StartedAt(now().0 - jiff::SignedDuration::from_millis(millis));
        Some(LockFileStat {
            kind,
            size,
            modified,
            owner: 0,
            inode: (0, 0),
        })
    };
    use FileKind::{Fifo, File, Symlink};
    let table = [
        (
            Reason::Malformed,
            file(File, 0, 1999),
            Situation::Empty { fresh: true },
        ),
        (
            Reason::Malformed,
            file(File, 0, 2000),
            Situation::Empty { fresh: false },
        ),
        (
            Reason::Malformed,
            file(File, 0, -1),
            Situation::Empty { fresh: false },
        ),
        (
            Reason::Malformed,
            file(File, 9, 10),
            Situation::Malformed { fresh: true },
        ),
        (
            Reason::Malformed,
            file(File, 9, 9000),
            Situation::Malformed { fresh: false },
        ),
        (
            Reason::Malformed,
            None,
            Situation::Malformed { fresh: false },
        ),
        (Reason::Invalid, file(File, 9, 10), Situation::Invalid),
        (
            Reason::Unreadable,
            file(Symlink, 9, 10),
            Situation::NotAFile(Symlink),
        ),
        (
            Reason::Unreadable,
            file(Fifo, 0, 10),
            Situation::NotAFile(Fifo),
        ),
        (
            Reason::Unreadable,
            file(File, LONGEST_LOCK_FILE + 1, 10),
            Situation::TooLarge,
        ),
        (
            Reason::Unreadable,
            file(File, LONGEST_LOCK_FILE, 10),
            Situation::Unread,
        ),
        (Reason::Unreadable, None, Situation::Unread),
    ];
    for (reason, on_disk, expected) in table {
        let look = Look {
            verdict: Verdict::Unreadable(reason),
            on_disk,
            ..nothing()
        };
        assert_eq!(of(&look, None), expected, "{reason} {on_disk:?}");
    }
    let look = Look {
        verdict: Verdict::Unreadable(Reason::Malformed),
        on_disk: file(File, 9, 10),
        ..nothing()
    };
    let data = NotALock {
        words: String::new(),
        meant: Default::default(),
    };
    assert_eq!(
        of(&look, Some(&data)),
        Situation::Data,
        "however young it is"
    );
    assert_eq!(of(&nothing(), None), Situation::Free);
    assert_eq!(
        of(
            &Look {
                side_file: true,
                ..nothing()
            },
            None
        ),
        Situation::SetAside
    );
}
