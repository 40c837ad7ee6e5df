//! The signals that the agent handles, each as a request to the scheduler.

use std::io;
use std::time::Duration;

use beadlock_base::children::{gets_orphans, reap_orphans};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

/// When orphans are looked at again that could not be collected just now.
const AGAIN: Duration = Duration::from_millis(100);

/// The request that a signal stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalRequest {
    /// SIGTERM or SIGINT, by its name.
    End(&'static str),
    /// SIGHUP.
    Reload,
    /// SIGUSR1: a fetch of every database, now.
    Fetch,
}

/// The signals that the agent hears, caught from the moment this is made.
pub(crate) struct AgentSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user: Signal,
}

impl AgentSignals {
    /// Within the runtime.
    ///
    /// # Errors
    /// When signals cannot be handled.
    pub(crate) fn new() -> io::Result<Self> {
        // A process started with SIGCHLD ignored would never learn how its children end.
        let ended = signal(SignalKind::child())?;
        if gets_orphans() {
            tokio::spawn(collect_orphans(ended));
        }
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
        })
    }

    pub(super) async fn next(&mut self) -> SignalRequest {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => SignalRequest::End("SIGTERM"),
            _ = self.interrupt.recv() => SignalRequest::End("SIGINT"),
            _ = self.hangup.recv() => SignalRequest::Reload,
            _ = self.user.recv() => SignalRequest::Fetch,
        }
    }
}

/// As the first process of a container, or as a subreaper, the agent is the parent of what others have left behind. A
/// holder that was killed and that nobody collects would keep its lock.
async fn collect_orphans(mut ended: Signal) {
    loop {
        if reap_orphans() {
            ended.recv().await;
        } else {
            sleep(AGAIN).await;
        }
    }
}
