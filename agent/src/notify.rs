//! What a service manager is told, where one has asked for it (`NOTIFY_SOCKET`, `WATCHDOG_USEC`;
//! sd_notify(3)).
//!
//! Nothing here fails: without a manager nothing is sent, and one that cannot be told is complained of. A
//! manager that stands still may stop the scheduler with it, when its queue is full; the runners of cycles
//! have their own clocks.

use std::process::Command;
use std::time::Duration;

use sd_notify::NotifyState::{self, Ready, Reloading, Status, Stopping};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::log::complain;

/// However short a watchdog's time is, the loop has other work.
const SHORTEST: Duration = Duration::from_millis(1);

/// The agent serves so many databases: after the start, and after [`reloading`].
pub(crate) fn ready(databases: usize) {
    let status = match databases {
        1 => "serving 1 database".to_owned(),
        databases => format!("serving {databases} databases"),
    };
    tell(&[Ready, Status(&status)]);
}

/// It reads its configuration again; [`ready`] comes next, also when it keeps the old one.
pub(crate) fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[Reloading, now]);
    }
}

/// It was told to end, with so many cycles running.
pub(crate) fn stopping(running: usize) {
    let status = match running {
        0 => "ending".to_owned(),
        running => format!("ending after {running} running cycles"),
    };
    tell(&[Stopping, Status(&status)]);
}

fn tell(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        complain(format_args!("cannot tell the service manager ($NOTIFY_SOCKET): {error}"));
    }
}

/// Takes from a child's environment what is between the manager and the agent alone: a command of a cycle that
/// sent a message would speak for the agent.
pub(crate) fn keep_from(child: &mut Command) {
    for name in ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"] {
        child.env_remove(name);
    }
}

/// Proves to a manager that wants it that the loop it is in goes round.
pub(crate) struct Watchdog(Option<Interval>);

impl Watchdog {
    /// Within the runtime. It beats twice in the time after which the manager takes this process for hung.
    pub(crate) fn new() -> Self {
        let limit = sd_notify::watchdog_enabled().filter(|limit| !limit.is_zero());
        Self(limit.map(|limit| {
            let mut beats = interval((limit / 2).max(SHORTEST));
            beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beats
        }))
    }

    /// Waits for the next beat and sends it; for ever when nobody wants one. Loses nothing when it is dropped.
    pub(crate) async fn beat(&mut self) {
        match &mut self.0 {
            Some(beats) => {
                beats.tick().await;
                // A complaint each time would fill the disk; the manager acts on the silence.
                let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            }
            None => std::future::pending().await,
        }
    }
}
