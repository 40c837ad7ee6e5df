//! What the service manager is told, if it asks for it (`NOTIFY_SOCKET`, `WATCHDOG_USEC`; sd_notify(3)).
//!
//! Nothing here fails: errors are complained of. A manager that stands still may stop the scheduler when its queue is
//! full; the runners of cycles have their own clocks.

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use sd_notify::NotifyState::{self, Ready, Reloading, Status, Stopping};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::log::complain;

/// The shortest time between two beats: the loop has other work.
const SHORTEST: Duration = Duration::from_millis(1);

/// The agent serves its databases, and how they are: after the start, and after [`reloading`].
pub(crate) fn ready(summary: &str) {
    tell(&[Ready, Status(summary)]);
}

/// Tells the service manager how the databases are now.
pub(crate) fn status(summary: &str) {
    tell(&[Status(summary)]);
}

/// A service manager wants to be told.
#[expect(
    clippy::disallowed_methods,
    reason = "the variable by which a service manager asks"
)]
pub(crate) fn is_asked_for() -> bool {
    static IS_SET: LazyLock<bool> = LazyLock::new(|| std::env::var_os("NOTIFY_SOCKET").is_some());
    *IS_SET
}

/// The agent reads its configuration again; [`ready`] comes next, also when it keeps the old one.
pub(crate) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[Reloading, now]);
    }
}

/// The agent was told to end; `running` cycles have not ended yet.
pub(crate) fn stopping(running: usize) {
    let status = match running {
        0 => "ending".to_owned(),
        1 => "ending after 1 running cycle".to_owned(),
        running => format!("ending after {running} running cycles"),
    };
    tell(&[Stopping, Status(&status)]);
}

fn tell(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        complain(format_args!(
            "cannot tell the service manager ($NOTIFY_SOCKET): {error}"
        ));
    }
}

/// Takes the manager's variables from a child's environment: a command of a cycle must not speak for the agent.
pub(crate) fn keep_from(child: &mut Command) {
    for name in ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"] {
        child.env_remove(name);
    }
}

/// Proves to the manager that the scheduler's loop turns.
pub(crate) struct ServiceWatchdog(Option<Interval>);

impl ServiceWatchdog {
    /// Beats twice in the time after which the manager takes this process for hung.
    pub(crate) fn new() -> Self {
        let limit = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        Self(limit.map(|limit| {
            let mut beats = interval((limit / 2).max(SHORTEST));
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beats
        }))
    }

    /// Waits for the next beat and sends it; for ever when the manager wants none. Cancel safe.
    pub(crate) async fn beat(&mut self) {
        let Some(beats) = &mut self.0 else {
            return std::future::pending().await;
        };
        beats.tick().await;
        // A complaint each time would fill the disk; the manager acts on the silence.
        let _ = sd_notify::notify(&[NotifyState::Watchdog]);
    }
}
