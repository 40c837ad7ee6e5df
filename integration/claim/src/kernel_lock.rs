//! Locks that the kernel keeps: they have no record, and never go stale. A protocol of such locks implements
//! [`WithoutRecord`].

use std::{fmt, fs::File, os::fd::BorrowedFd, time::Duration};

use beadlock_core::Verdict;
use beadlock_core::{
    gate_holders::{GateHolder, GateHolders},
    record::file::Mode,
};
use serde_json::Value;

use super::{kept_lock::LossAlarm, loss::Loss, release_request::ReleaseReason, target::Target};
use crate::observe::{NotAcquired, WaitControl};
use crate::{
    audit_trail::AuditTrail, environment::Environment, error::Error, fact::Fact, observe::Observer,
    wait::Wait,
};

/// A lock that the kernel keeps: nothing is written, and so nothing goes stale.
pub trait WithoutRecord: fmt::Debug + Sync {
    /// Whether the lock is held, and by which processes. Changes nothing.
    fn look(&self, target: &Target, gates: &GateHolders) -> Observation;
    /// Warns the observer of a file system on which the lock may reach this machine or this mount only.
    fn note(&self, target: &Target, observer: &dyn Observer);
    /// The id of the claim that this process runs in already, and the process that has it. Fails where a lock would
    /// wait for itself.
    fn outer(
        &self,
        target: &Target,
        mode: Mode,
        environment: &Environment,
    ) -> Result<Option<(String, i32)>, Error>;
    /// The id of a claim that this process is to make. The lock file is made where it does not exist.
    fn id_to_be(&self, target: &Target) -> Result<String, Error>;
    /// Takes the lock, waiting for its holder. Only a wait that ran out is written down.
    fn take(
        &self,
        target: &Target,
        mode: Mode,
        wait: Wait,
        environment: &Environment,
        control: &mut dyn WaitControl,
        trail: &AuditTrail<'_>,
    ) -> Result<Box<dyn KernelLock>, NotAcquired>;
    /// The lock that another process has taken and shares with this one as an open file.
    fn adopt(&self, target: &Target, mode: Mode, shared: File) -> Option<Box<dyn KernelLock>>;
    /// Waits until the lock is free, and returns how long that took. Exit 4 when the wait ran out.
    fn wait(
        &self,
        target: &Target,
        wait: Wait,
        environment: &Environment,
        control: &mut dyn WaitControl,
    ) -> Result<Duration, NotAcquired>;
    /// Whether the claim with this id still has the lock, by itself or through an outer claim.
    fn stands(&self, target: &Target, id: &str) -> bool;
    /// The process that has the claim with this id; `None`: it is not an id of such a claim.
    fn process_of(&self, id: &str) -> Option<i32>;
    /// Ends the claim with this id. Its keeper writes that into its own audit file. Exit 1 where its keeper could not be
    /// ended.
    fn release(
        &self,
        target: &Target,
        id: &str,
        observer: &dyn Observer,
    ) -> Result<KernelRelease, Error>;
    /// The error of `break`: it cannot take such a lock from its holder.
    fn not_to_break(&self, target: &Target, seen: &Observation) -> Error;
}

/// How the release of a lock without a record ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelRelease {
    /// The keeper was ended, and the claim with it.
    Released {
        /// The PID of its keeper, which has ended.
        keeper: i32,
        /// How long the keeper had lived; zero where that is not known.
        held: Duration,
        /// The lock in JSON, which an audit entry has in place of a record.
        lock: Value,
    },
    /// The claim is nested, or is not kept by a keeper: nothing was released.
    Outer,
    /// There is no such claim any more; the sentence says so, and what is there instead.
    Gone(String),
}

/// A lock of the kernel that is held.
pub trait KernelLock: fmt::Debug {
    /// The id of the claim; the outer one's where it is nested.
    fn id(&self) -> String;
    /// The id of the claim once the process `pid` has the lock.
    fn id_of(&self, pid: i32) -> String;
    /// Whether the lock belongs to an outer claim that this process runs in.
    fn is_nested(&self) -> bool;
    /// The open file that is locked, to share it; `None`: another process has it.
    fn file(&self) -> Option<BorrowedFd<'_>>;
    /// The guard that reports a loss of the lock.
    fn guard(&self) -> LossAlarm<'_>;
    /// For how long it has been held here.
    fn age(&self) -> Duration;
    /// Writes down that the lock stands.
    fn acquired(&self, id: &str, trail: &AuditTrail<'_>);
    /// Leaves the lock to the process that shares the open file.
    fn leave(self: Box<Self>);
    /// Ends the lock, and returns the error of a loss; `known` is a loss that was seen before. The lock of a nested
    /// claim stays.
    fn end(
        self: Box<Self>,
        known: Option<Loss>,
        why: ReleaseReason,
        trail: &AuditTrail<'_>,
    ) -> Option<Error>;
}

/// A lock without a record, as it was seen.
#[derive(Debug)]
pub struct Observation {
    /// Whether it is held; `Unreadable`: that cannot be told.
    pub verdict: Verdict,
    /// Why it cannot be told whether it is held.
    pub detail: String,
    /// The words of a daemon that leaves the lock alone; empty where nobody holds it.
    pub message: String,
    /// The id of its first holder's claim; `None`: nobody has it, or `/proc` does not show who.
    pub id: Option<String>,
    /// The processes that have it, as far as `/proc` shows.
    pub holders: Vec<GateHolder>,
    /// The words after the verdict in the first line of `status`.
    pub headline: String,
    /// More facts about the lock, such as its mode and its waiters.
    pub facts: Vec<Fact>,
    /// The command to type next.
    pub next: String,
}
