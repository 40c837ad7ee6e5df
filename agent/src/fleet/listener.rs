//! The thread that hears of the session: it hands on new deadlines, and wakes the scheduler.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use beadlock_base::deadline::BootTimer;
use beadlock_fleet::{Change, FleetAgent};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::mpsc::UnboundedSender;

use super::FleetUpdate;
use super::rights::RunningCycles;

/// A runner that has not killed its work so long after the deadline may have been stopped.
const OVERDUE: Duration = Duration::from_millis(200);

/// Begins to listen. Fails where the system has no thread or timer.
pub(super) fn start(
    agent: FleetAgent,
    url: String,
    running: Arc<RunningCycles>,
    updates: UnboundedSender<FleetUpdate>,
) -> io::Result<()> {
    let timer = BootTimer::new()?;
    let listen = move || {
        while hear(&agent, &url, &running, &updates) {
            wait(&agent, &timer, &running);
        }
    };
    thread::Builder::new()
        .name("fleet-listener".to_owned())
        .spawn(listen)
        .map(drop)
}

/// False: the scheduler has ended.
fn hear(
    agent: &FleetAgent,
    url: &str,
    running: &RunningCycles,
    updates: &UnboundedSender<FleetUpdate>,
) -> bool {
    let changes = agent.hear();
    // First: nothing else is urgent.
    running.tell();
    changes.into_iter().all(|change| {
        let update = match change {
            Change::Renewed | Change::Claimed(_) => return true,
            Change::Joined => FleetUpdate::Joined(url.to_owned()),
            Change::Lost(loss) => FleetUpdate::Lost(loss.to_string()),
            Change::Broken(broken) => FleetUpdate::Lost(broken.to_string()),
            Change::Due(name) => FleetUpdate::Due(running.named(&name)),
        };
        updates.send(update).is_ok()
    })
}

/// Until something has happened, or running work is overdue.
fn wait(agent: &FleetAgent, timer: &BootTimer, running: &RunningCycles) {
    let mut fds = vec![PollFd::new(agent.bell(), PollFlags::POLLIN)];
    if let Some(next) = running.look_for_overdue(OVERDUE)
        && timer.fire_at(next).is_ok()
    {
        fds.push(PollFd::new(timer.as_fd(), PollFlags::POLLIN));
    }
    // A cycle that has begun meanwhile has no timer here yet: it is looked at again after the next renewal at the
    // latest.
    match poll(&mut fds, PollTimeout::from(5_000_u16)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(_) => thread::sleep(OVERDUE),
    }
}
