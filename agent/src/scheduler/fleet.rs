//! What happens in the fleet, and which databases are due for it.

use tokio::time::Instant;

use super::Scheduler;
use crate::config::RunMode;
use crate::fleet::FleetUpdate;
use crate::log::{self, agent_lines};
use crate::watch::Marks;

impl Scheduler {
    /// Something has happened in the fleet.
    pub(super) fn of_fleet(&mut self, update: FleetUpdate) {
        match update {
            FleetUpdate::Joined(url) => log::line_to_all(agent_lines::joined_fleet(&url)),
            FleetUpdate::Lost(why) => log::line_to_all(agent_lines::lost_fleet(&why)),
            FleetUpdate::Due(_) if self.is_ending || self.settings.mode == RunMode::Once => {}
            FleetUpdate::Due(numbers) => {
                let (now, marks) = (
                    Instant::now(),
                    Marks {
                        changed: false,
                        lock_gone: true,
                    },
                );
                for number in numbers {
                    if let Some(entry) = self.databases.get_mut(&number) {
                        entry.due.marked(marks, now, entry.subject.policy.debounce);
                        self.wait(number);
                    }
                }
            }
        }
    }
}
