//! What the agent is told by signals.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal asks for.
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
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    user: Signal,
}

impl Signals {
    /// Within the runtime.
    ///
    /// # Errors
    /// When signals cannot be handled.
    pub(crate) fn new() -> io::Result<Self> {
        // A process started with SIGCHLD ignored would never learn how its children end.
        let _ = signal(SignalKind::child())?;
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
