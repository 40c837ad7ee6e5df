//! The configuration is read again (SIGHUP): whole, or not at all.

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

use beadlock_base::address::Address;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::info;

use super::Scheduler;
use super::serving::{Changes, not_served_any_more};
use crate::config::{AgentSettings, CommandLine, ConfigFailure};
use crate::cycle::CycleSettings;
use crate::diagnostics;
use crate::log::{self, agent_lines};
use crate::notify;

/// Reads the settings again, in a thread of its own, once for all who ask while it does.
pub(super) struct Reload {
    typed: Arc<CommandLine>,
    job: Option<JoinHandle<Result<Read, ConfigFailure>>>,
    again: bool,
}

/// Settings that hold from now on.
pub(super) struct Read {
    settings: AgentSettings,
    common: CycleSettings,
    /// The settings that name another file or address than the open one. The open one stays.
    kept: Vec<&'static str>,
}

impl Reload {
    pub(super) fn new(typed: Arc<CommandLine>) -> Self {
        Self {
            typed,
            job: None,
            again: false,
        }
    }

    /// The settings are being read.
    pub(super) fn is_awaited(&self) -> bool {
        self.job.is_some()
    }

    /// Starts to read the settings; once more afterwards, if they are being read already.
    pub(super) fn ask(&mut self, now: &AgentSettings) {
        if self.job.is_some() {
            self.again = true;
            return;
        }
        notify::reloading();
        let (typed, roots) = (Arc::clone(&self.typed), now.agent.root.clone());
        let open = (now.agent.audit.clone(), now.agent.listen.clone());
        self.job = Some(spawn_blocking(move || Read::again(&typed, &roots, open)));
    }

    /// Returns when they were read; never when nobody has asked. Nothing is lost when the call is.
    pub(super) async fn done(&mut self) -> Result<Read, ConfigFailure> {
        let Some(job) = &mut self.job else {
            return pending().await;
        };
        let read = job.await;
        self.job = None;
        let fault = |_| {
            ConfigFailure::new(
                1,
                "a fault in beadlock-agent itself; please report it".to_owned(),
            )
        };
        read.unwrap_or_else(|error| Err(fault(error)))
    }
}

impl Read {
    fn again(
        typed: &CommandLine,
        roots: &[PathBuf],
        (audit, listen): (Option<PathBuf>, Option<Address>),
    ) -> Result<Self, ConfigFailure> {
        let mut settings = AgentSettings::read(typed, roots)?;
        let kept = [
            ("audit file", settings.agent.audit != audit),
            ("address to listen at", settings.agent.listen != listen),
        ];
        let kept = kept
            .iter()
            .filter(|(_, is_kept)| *is_kept)
            .map(|(what, _)| *what)
            .collect();
        (settings.agent.audit, settings.agent.listen) = (audit, listen);
        // Last: nothing fails after it.
        log::configure(settings.log.clone())
            .map_err(|error| ConfigFailure::new(1, error.to_string()))?;
        let common = CycleSettings::of(&settings);
        Ok(Self {
            settings,
            common,
            kept,
        })
    }
}

impl Scheduler {
    /// The settings were read again: what did not change runs on.
    pub(super) fn reloaded(&mut self, read: Result<Read, ConfigFailure>) {
        match read {
            Err(failure) => log::announce(agent_lines::not_reloaded(&failure.message)),
            Ok(Read {
                settings,
                common,
                kept,
            }) => {
                diagnostics::set_level(settings.agent.log_level);
                info!(
                    databases = settings.named.len(),
                    roots = settings.agent.root.len(),
                    jobs = settings.agent.jobs,
                    "reloaded"
                );
                self.work.watch.mind(&common.own_files);
                self.common = Arc::new(common);
                self.settings = settings;
                self.search
                    .begin_again(self.settings.scope(), self.settings.defaults.interval);
                let Changes { new, gone, changed } = self.serve();
                let counts = [self.served(), new.len(), gone.len(), changed];
                self.say_others(&new);
                log::line_to_all(agent_lines::reloaded(counts, &kept));
                for (number, _) in gone {
                    let why = "this agent does not serve it any more";
                    log::line(number, not_served_any_more(why));
                    log::unserve(number);
                }
                self.say_awaited();
            }
        }
        notify::ready(&self.summary());
        if std::mem::take(&mut self.reload.again) {
            self.reload.ask(&self.settings);
        }
    }
}
