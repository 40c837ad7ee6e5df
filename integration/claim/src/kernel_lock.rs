//! Locks that the kernel keeps: they have no record, and nothing goes stale. What a protocol of such locks must offer.

use std::{fmt, fs::File, os::fd::BorrowedFd, time::Duration};

use beadlock_core::Verdict;
use beadlock_core::{
    dialect::file::Mode,
    gates::{GateHolder, Gates},
};
use serde_json::Value;

use super::{keeping::Guard, leaving::Why, loss::Loss, target::Target};
use crate::observe::{Stopped, WaitControl};
use crate::{
    environment::Environment, error::Error, fact::Fact, observe::Observer, trail::Trail, wait::Wait,
};

/// A lock that the kernel keeps: nothing is written, and so nothing goes stale.
pub trait WithoutRecord: fmt::Debug + Sync {
    /// Whether somebody has it, and its holder. Changes nothing.
    fn look(&self, target: &Target, gates: &Gates) -> Observation;
    /// Says how far such a lock reaches there.
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
        attending: &mut dyn WaitControl,
        trail: &Trail<'_>,
    ) -> Result<Box<dyn KernelLock>, Stopped>;
    /// The lock that another process has taken and shares with this one as an open file.
    fn adopt(&self, target: &Target, mode: Mode, shared: File) -> Option<Box<dyn KernelLock>>;
    /// Returns when it is free: how long that took. Exit 4 when the wait ran out.
    fn wait(
        &self,
        target: &Target,
        wait: Wait,
        environment: &Environment,
        attending: &mut dyn WaitControl,
    ) -> Result<Duration, Stopped>;
    /// The claim with this id, of its own or under another one, is there.
    fn stands(&self, target: &Target, id: &str) -> bool;
    /// Ends the claim with this id. Its keeper writes that into its own audit file. Exit 1 where its keeper could not be
    /// ended.
    fn release(
        &self,
        target: &Target,
        id: &str,
        observer: &dyn Observer,
    ) -> Result<KernelRelease, Error>;
    /// Why nobody can break it.
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
        /// What an audit entry says of the lock.
        lock: Value,
    },
    /// It stands under another claim, and stays.
    Outer,
    /// There is no such claim any more: what is there instead.
    Gone(String),
}

/// A lock of the kernel that is held.
pub trait KernelLock: fmt::Debug {
    /// The id of the claim; the outer one's where it is nested.
    fn id(&self) -> String;
    /// The same once the process `pid` has the lock.
    fn id_of(&self, pid: i32) -> String;
    /// It is the lock of a claim that this process runs in.
    fn is_nested(&self) -> bool;
    /// The open file that is locked, to share it; `None`: another process has it.
    fn file(&self) -> Option<BorrowedFd<'_>>;
    /// What tells of its loss.
    fn guard(&self) -> Guard<'_>;
    /// For how long it has been held here.
    fn age(&self) -> Duration;
    /// Writes down that the lock stands.
    fn acquired(&self, id: &str, trail: &Trail<'_>);
    /// Leaves it to the process that shares the open file.
    fn leave(self: Box<Self>);
    /// Ends it; `known` is a loss that was seen before. The answer is a loss. Of a nested one nothing is ended.
    fn end(self: Box<Self>, known: Option<Loss>, why: Why, trail: &Trail<'_>) -> Option<Error>;
}

/// A lock without a record, as it was seen.
#[derive(Debug)]
pub struct Observation {
    /// Whether it is held; `Unreadable`: that cannot be told.
    pub verdict: Verdict,
    /// Why it cannot be told whether it is held.
    pub detail: String,
    /// What a daemon says that leaves it alone; empty where nobody has it.
    pub message: String,
    /// The id of its first holder's claim; `None`: nobody has it, or `/proc` does not show who.
    pub id: Option<String>,
    /// The processes that have it, as far as `/proc` shows.
    pub holders: Vec<GateHolder>,
    /// What follows the verdict's word in `status`.
    pub headline: String,
    /// What else is known of it, such as its mode and its waiters.
    pub facts: Vec<Fact>,
    /// The command to type next.
    pub next: String,
}
