//! How the program ends.

use beadlock_base::sys;
use nix::sys::signal::Signal;

use beadlock_claim::error::Exit;

/// The codes that the user wants in place of beadlock's.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExitCodeOverrides {
    /// `--conflict-exit-code`: in place of 4, and of 8 where a wait ran out.
    pub conflict: Option<u8>,
    /// `--own-exit-code`: in place of every code that is not a success, the command's or a signal's, unless `conflict`
    /// says otherwise.
    pub own: Option<u8>,
}

impl ExitCodeOverrides {
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
pub enum ProgramEnd {
    /// The program ends with this exit code.
    Code(u8),
    /// The program dies of SIGINT, so that the script around it stops too.
    Interrupted,
}

impl ProgramEnd {
    /// The exit code that a shell sees.
    pub fn as_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Interrupted => Exit::Signal(Signal::SIGINT as i32).code(),
        }
    }

    /// Returns the exit code; for [`ProgramEnd::Interrupted`] it does not return but dies of SIGINT.
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
    fn nothing_is_replaced_unless_it_is_asked_for() {
        for exit in [
            Exit::Done,
            Exit::Failed,
            Exit::Usage,
            Exit::Conflict,
            Exit::Unreadable,
            Exit::FileHeld,
            Exit::LockFailed,
            Exit::Lost,
            Exit::Undecided,
            Exit::NotMerged,
            Exit::TimedOut,
            Exit::NotStarted,
            Exit::CannotExecute,
            Exit::NotFound,
            Exit::Command(9),
            Exit::Signal(15),
        ] {
            assert_eq!(
                ExitCodeOverrides::default().code(exit),
                exit.code(),
                "{exit:?}"
            );
        }
    }

    #[test]
    fn what_is_the_commands_is_never_replaced() {
        let replaced = ExitCodeOverrides {
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
            ExitCodeOverrides {
                conflict: None,
                own: Some(99)
            }
            .code(Exit::Conflict),
            99
        );
    }
}
