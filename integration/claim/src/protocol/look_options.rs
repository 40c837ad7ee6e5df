//! Options of a look at a target, as plain data: made by the command line, or by a caller that has none.

use std::time::Duration;

use beadlock_core::Options;
use beadlock_core::{record::memory::Limits, target::Scheme};

use super::option_of;
use crate::{error::Error, target::Target};

/// How a look judges the lock of a directory; by default as its document has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LookOptions {
    /// How old the lock may become before it is stale (`--stale-after`).
    pub stale_after: Option<Duration>,
    /// How old the lock of another host may become before it is stale (`--stale-after-remote`).
    pub stale_after_remote: Option<Duration>,
}

impl LookOptions {
    /// The ages by which the look judges the lock: those that are given, else the document's.
    pub fn limits(self) -> Limits {
        let Limits { age, remote_age } = Limits::default();
        Limits {
            age: self.stale_after.unwrap_or(age),
            remote_age: self.stale_after_remote.unwrap_or(remote_age),
        }
    }

    /// The options that are given, as they are typed.
    pub fn given(self) -> Vec<&'static str> {
        let options = [
            ("--stale-after", self.stale_after),
            ("--stale-after-remote", self.stale_after_remote),
        ];
        let given = options.into_iter().filter(|(_, given)| given.is_some());
        given.map(|(option, _)| option).collect()
    }

    /// These options for a look at this target. An error has exit 2: the target is judged otherwise.
    pub fn of(self, target: &Target, options: Options) -> Result<Options, Error> {
        if target.scheme != Scheme::Memory
            && let Some(option) = self.given().first()
        {
            return Err(option_of(option, &[Scheme::Memory], &target.given));
        }
        Ok(Options {
            limits: self.limits(),
            ..options
        })
    }
}
