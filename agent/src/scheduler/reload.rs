//! The configuration is read again (SIGHUP): whole, or not at all.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::{JoinHandle, spawn_blocking};

use super::Scheduler;
use super::serving::Changes;
use crate::cli::Typed;
use crate::cycle::Common;
use crate::log::{self, own};
use crate::notify;
use crate::settings::{Failure, Settings};

/// Reads the settings again, in a thread of its own, once for all who ask while it does.
pub(super) struct Reload {
    typed: Arc<Typed>,
    job: Option<JoinHandle<Result<Read, Failure>>>,
    again: bool,
}

/// Settings that hold from now on.
pub(super) struct Read {
    settings: Settings,
    common: Common,
    /// Another audit file is named than the one that is open.
    is_audit_kept: bool,
}

impl Reload {
    pub(super) fn new(typed: Arc<Typed>) -> Self {
        Self { typed, job: None, again: false }
    }

    /// It is under way.
    pub(super) fn is_awaited(&self) -> bool {
        self.job.is_some()
    }

    /// Somebody asks for it.
    pub(super) fn ask(&mut self, now: &Settings) {
        if self.job.is_some() {
            self.again = true;
            return;
        }
        notify::reloading();
        let (typed, roots, audit) = (Arc::clone(&self.typed), now.roots.clone(), now.audit.clone());
        self.job = Some(spawn_blocking(move || Read::again(&typed, &roots, audit)));
    }

    /// Returns when they were read; never when nobody has asked. Nothing is lost when the call is.
    pub(super) async fn done(&mut self) -> Result<Read, Failure> {
        let Some(job) = &mut self.job else { return pending().await };
        let read = job.await;
        self.job = None;
        let fault = |_| Failure::new(1, "a fault in beadlock-agent itself; please report it".to_owned());
        read.unwrap_or_else(|error| Err(fault(error)))
    }
}

impl Read {
    fn again(typed: &Typed, roots: &[PathBuf], audit: Option<PathBuf>) -> Result<Self, Failure> {
        let mut settings = Settings::read(typed, roots)?;
        let is_audit_kept = settings.audit != audit;
        settings.audit = audit;
        // Last: nothing fails after it.
        log::configure(settings.log.clone()).map_err(|error| Failure::new(1, error.to_string()))?;
        let common = Common::of(&settings);
        Ok(Self { settings, common, is_audit_kept })
    }
}

impl Scheduler {
    /// The settings were read again: what did not change runs on.
    pub(super) fn reloaded(&mut self, read: Result<Read, Failure>) {
        match read {
            Err(failure) => log::announce(own::not_reloaded(&failure.message)),
            Ok(Read { settings, common, is_audit_kept }) => {
                self.work.watch.mind(&common.own_files);
                self.common = Arc::new(common);
                self.settings = settings;
                self.search.begin_again(self.settings.ground(), self.settings.defaults.interval);
                let Changes { new, gone, changed } = self.serve();
                let counts = [self.served(), new.len(), gone.len(), changed];
                log::line_to_all(own::reloaded(counts, is_audit_kept));
                gone.into_iter().for_each(|(number, _)| log::unserve(number));
            }
        }
        notify::ready(self.served());
        if std::mem::take(&mut self.reload.again) {
            self.reload.ask(&self.settings);
        }
    }
}
