//! A claim that is asked for, whoever asks: a command line, or a Rust program. It is made once, and handed on as it is.

use crate::error::Problem;
use std::time::Duration;

use beadlock_core::Options;
use beadlock_core::record::{Record, file::Mode};
use beadlock_core::take::Durability;

use super::{draft::RecordDraft, kernel_lock::WithoutRecord, target::Target};
use crate::error::{Code, Error};
use crate::wait::Wait;

/// A claim to be: on what, for whom, what its lock will say, and how patiently.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// The target that is to be claimed.
    pub target: Target,
    /// The name of the holder in the record.
    pub holder: String,
    /// The id of the claim, as its record will have it. That of a lock without a record is made when it is taken.
    pub id: String,
    /// The id of the claim that it stands under already; `None`: it is not nested.
    pub outer: Option<String>,
    /// The lock to be made: a file with a record, or a lock of the kernel.
    pub draft: LockDraft,
    /// For how long a holder is waited for.
    pub wait: Wait,
    /// For how long the gate is waited for.
    pub drain: Duration,
    /// What a power cut may do to the lock file.
    pub durability: Durability,
    /// Options of each attempt to claim, such as whether it may take a stale lock.
    pub options: Options,
}

/// The lock of a claim to be.
#[derive(Debug, Clone)]
pub enum LockDraft {
    /// A file with this record.
    Record(RecordDraft),
    /// A lock of the kernel, which has no record, in this mode.
    Kernel(&'static dyn WithoutRecord, Mode),
}

impl ClaimRequest {
    /// The record of the process `pid`, as of now.
    pub fn record(&self, pid: u32) -> Result<Record, Error> {
        match &self.draft {
            LockDraft::Record(draft) => draft.record(pid, &self.holder, &self.id),
            LockDraft::Kernel(..) => Err(Error::new(Code::Io, "the lock of a file has no record")),
        }
    }

    /// The same as a claim of `acquire`, which its record says where it can: another command may end it by its holder.
    pub fn of_acquire(mut self) -> Self {
        if let LockDraft::Record(RecordDraft::Process { labels }) = &mut self.draft {
            labels.acquired = true;
        }
        self
    }

    /// Whether the work under the claim has steps of its own: those of a nested claim are the outer claim's.
    pub fn has_steps(&self) -> bool {
        self.target.rules().has_steps && self.outer.is_none()
    }
}
