//! Exit codes: one enum, one table (docs/design.md#exit-codes).

use super::Code;

/// How the program has ended; [`Exit::code`] is the number for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, or free.
    Done,
    /// I/O, permission, or no such target.
    Failed,
    /// The command line, or a value in the environment, is wrong.
    Usage,
    /// The lock is held, or the gate is busy.
    Conflict,
    /// The lock could not be checked, or a stale one could not be removed.
    Unreadable,
    /// The wait for a file that is locked ran out.
    FileHeld,
    /// A file could not be locked.
    LockFailed,
    /// A lock that was held is gone, or somebody else's.
    Lost,
    /// A merge left a conflict in the file.
    Undecided,
    /// A merge did not take place. Git takes every code up to 128 for a conflict whose markers are in the file.
    NotMerged,
    /// The filter did not end in time.
    TimedOut,
    /// Failed between the claim and the command's start.
    NotStarted,
    /// The command is there, and cannot be executed.
    CannotExecute,
    /// There is no such command.
    NotFound,
    /// The command's own code.
    Command(u8),
    /// The command was killed by this signal, or this signal ended the wait for the lock.
    Signal(i32),
}

impl Exit {
    /// The exit that goes with the code of an error.
    pub fn of(code: Code) -> Self {
        match code {
            Code::LockHeld | Code::DrainTimeout => Self::Conflict,
            Code::LockUnreadable | Code::LockStale | Code::FleetUnreachable => Self::Unreadable,
            Code::LockLost => Self::Lost,
            Code::LockFailed => Self::LockFailed,
            Code::Usage => Self::Usage,
            Code::NoTarget | Code::Io | Code::NotPermitted => Self::Failed,
        }
    }

    /// The exit code as a number. A signal is 128 plus its number.
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
        }
    }
}
