//! A program without the fleet: it has no right anywhere, and the check skips the databases that have joined one.

use std::future::pending;
use std::io;

use beadlock_base::opened::OpenDirectory;
use beadlock_supervise::runner::RunnerDeadline;

use super::{FleetStatus, FleetUpdate, FleetVariables, NotEntered};

pub(crate) struct Fleet;

#[derive(Debug)]
pub(crate) enum Right {}

pub(crate) enum RunnerWatch {}

impl Fleet {
    pub(crate) fn new(_: FleetVariables, _: bool) -> (Self, FleetUpdates) {
        (Self, FleetUpdates)
    }

    pub(crate) fn is_one_look(&self) -> bool {
        false
    }

    pub(crate) fn enter(&self, _: usize, _: &OpenDirectory) -> Result<Option<Right>, NotEntered> {
        Ok(None)
    }

    pub(crate) fn status(&self) -> Option<FleetStatus> {
        None
    }

    pub(crate) fn end(&self) {}
}

pub(crate) struct FleetUpdates;

impl FleetUpdates {
    pub(crate) async fn next(&mut self) -> FleetUpdate {
        pending().await
    }
}

impl Right {
    pub(crate) fn is_of(&self, _: Option<impl std::os::fd::AsFd>) -> bool {
        match *self {}
    }

    pub(crate) fn runner(&self) -> io::Result<(RunnerDeadline, RunnerWatch)> {
        match *self {}
    }
}

impl RunnerWatch {
    pub(crate) async fn overdue(&self) {
        match *self {}
    }
}
