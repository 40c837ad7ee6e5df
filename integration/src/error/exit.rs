//! Exit codes: one enum, one table (docs/design.md#exit-codes).

use beadlock_base::sys;
use nix::sys::signal::Signal;

/// What the program's exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or free.
    Done,
    /// I/O, permission, or no such target.
    Failed,
    Usage,
    /// The lock is held, or the gate is busy.
    Conflict,
    /// The lock could not be checked, or a stale one could not be removed.
    Unreadable,
    /// The wait for a file that is locked ran out.
    FileHeld,
    /// A file could not be locked.
    LockFailed,
    Lost,
    /// A merge left a conflict in the file.
    Undecided,
    /// A merge did not take place. Git takes every code up to 128 for a conflict whose markers are in the file.
    NotMerged,
    /// The filter did not end in time.
    TimedOut,
    /// Failed between the claim and the command's start.
    NotStarted,
    CannotExecute,
    /// There is no such command.
    NotFound,
    /// The command's own code.
    Command(u8),
    /// The command was killed by this signal, or this signal ended the wait for the lock.
    Signal(i32),
}

impl Exit {
    /// The number. A signal is 128 plus its number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed | Self::Undecided => 1,
            Self::Usage => 2,
            Self::Conflict => 4,
            Self::Unreadable => 5,
            Self::FileHeld | Self::LockFailed => 8,
            Self::Lost => 9,
            Self::TimedOut => 124,
            Self::NotStarted => 125,
            Self::CannotExecute => 126,
            Self::NotFound => 127,
            Self::NotMerged => 129,
            Self::Command(code) => code,
            Self::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

/// The codes that the user wants in place of beadlock's.
#[derive(Debug, Clone, Copy, Default)]
pub struct Replaced {
    /// `--conflict-exit-code`: in place of 4, and of 8 where a wait ran out.
    pub conflict: Option<u8>,
    /// `--own-exit-code`: in place of every code that is not a success, the command's or a signal's, unless `conflict`
    /// says otherwise.
    pub own: Option<u8>,
}

impl Replaced {
    /// The code that the program ends with.
    pub fn code(self, exit: Exit) -> u8 {
        let replaced = match exit {
            Exit::Done | Exit::Command(_) | Exit::Signal(_) => None,
            Exit::Conflict | Exit::FileHeld => self.conflict.or(self.own),
            _ => self.own,
        };
        replaced.unwrap_or(exit.code())
    }
}

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Code(u8),
    /// By SIGINT, so that the script around it stops too.
    Interrupted,
}

impl End {
    /// The exit code that a shell sees.
    pub fn as_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Interrupted => Exit::Signal(Signal::SIGINT as i32).code(),
        }
    }

    /// Returns the exit code; for [`End::Interrupted`] it does not return but dies of SIGINT.
    pub fn finish(self) -> i32 {
        match self {
            Self::Code(code) => i32::from(code),
            Self::Interrupted => {
                sys::die_of(Signal::SIGINT);
                i32::from(Exit::Signal(Signal::SIGINT as i32).code())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_contract() {
        let table = [
            (Exit::Done, 0),
            (Exit::Failed, 1),
            (Exit::Usage, 2),
            (Exit::Conflict, 4),
            (Exit::Unreadable, 5),
            (Exit::FileHeld, 8),
            (Exit::LockFailed, 8),
            (Exit::Undecided, 1),
            (Exit::NotMerged, 129),
            (Exit::TimedOut, 124),
            (Exit::NotStarted, 125),
            (Exit::CannotExecute, 126),
            (Exit::NotFound, 127),
            (Exit::Command(9), 9),
            (Exit::Signal(15), 143),
        ];
        for (exit, code) in table {
            assert_eq!(exit.code(), code, "{exit:?}");
            assert_eq!(Replaced::default().code(exit), code, "{exit:?}");
        }
    }

    #[test]
    fn what_is_the_commands_is_never_replaced() {
        let replaced = Replaced {
            conflict: Some(75),
            own: Some(99),
        };
        assert_eq!(replaced.code(Exit::Conflict), 75);
        assert_eq!(replaced.code(Exit::FileHeld), 75);
        for exit in [
            Exit::Failed,
            Exit::Usage,
            Exit::Unreadable,
            Exit::LockFailed,
            Exit::NotStarted,
            Exit::CannotExecute,
            Exit::NotFound,
        ] {
            assert_eq!(replaced.code(exit), 99, "{exit:?}");
        }
        assert_eq!(replaced.code(Exit::Command(4)), 4);
        assert_eq!(replaced.code(Exit::Signal(2)), 130);
        assert_eq!(replaced.code(Exit::Done), 0);
        assert_eq!(
            Replaced {
                conflict: None,
                own: Some(99)
            }
            .code(Exit::Conflict),
            99
        );
    }
}
