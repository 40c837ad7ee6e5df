//! Logs of which it is known what their page shows.

use std::fs;
use std::path::PathBuf;

use beadlock_testkit::Scene;

const ME: &str = "beadlock-agent 0.1.0, PID 77, host ci-3";

/// Seconds after 2026-02-01 00:00:00 UTC, as a line of the log has them.
fn stamp(seconds: u64) -> String {
    let (day, rest) = (1 + seconds / 86_400, seconds % 86_400);
    format!(
        "2026-02-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

/// A log of an agent that starts with that month.
pub struct Log(pub String);

impl Log {
    /// A log with the first two lines of an agent that has just started.
    pub fn new() -> Self {
        let mut log = Self(String::new());
        log.say(0, &format!("{ME}, times in UTC"));
        log.say(0, &format!("Agent started: {ME}"));
        log
    }

    /// Adds a line to the log, so many seconds after the start of that month.
    pub fn say(&mut self, at: u64, message: &str) {
        self.0 += &format!("[{}] {message}\n", stamp(at));
    }

    /// A cycle of two seconds.
    pub fn cycle(&mut self, at: u64, end: &str) {
        self.say(at, "Starting sync cycle...");
        self.say(at + 2, end);
    }

    /// The page about it.
    pub fn page(&self, scene: &Scene, more: &[&str]) -> PathBuf {
        fs::write(scene.beads().join("daemon.log"), &self.0).unwrap();
        let ended = scene
            .run(&[&["log", "--html"], more].concat())
            .expect(0, &[]);
        let page = scene.file("page.html");
        fs::write(&page, ended.out).unwrap();
        page
    }
}

/// A week with a cycle every ten minutes: a claim in the second night, a lock that cannot be read, a remote that is gone
/// for five hours, a failure, and a stop.
pub fn week() -> Log {
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    let mut log = Log::new();
    for minute in (0..7 * 24 * 60).step_by(10) {
        let at = minute * 60;
        match at {
            _ if (DAY + 2 * HOUR..DAY + 4 * HOUR).contains(&at) => {
                log.say(at, "Skipping database (locked by nightly-import)");
                if at == DAY + 2 * HOUR {
                    log.say(
                        at,
                        "Held since 2026-02-02T01:55:00Z by PID 4711 on build-3 (pid_alive)",
                    );
                }
            }
            _ if (3 * DAY..3 * DAY + HOUR).contains(&at) => {
                log.say(
                    at,
                    "Skipping database (lock check failed: the lock is not JSON)",
                );
            }
            _ if (4 * DAY..4 * DAY + 5 * HOUR).contains(&at) => {
                log.cycle(
                    at,
                    "Sync cycle incomplete: origin cannot be reached; 3 commits wait",
                );
                let since = stamp(4 * DAY);
                log.say(
                    at + 2,
                    &format!(
                        "State: local_only since {since}: origin cannot be reached; 3 commits wait"
                    ),
                );
            }
            _ if at == 5 * DAY => {
                log.cycle(at, "Sync cycle failed: the hook pre-commit has failed")
            }
            _ => {
                log.cycle(at, "Sync cycle complete");
                if at == 4 * DAY + 5 * HOUR {
                    log.say(at + 2, &format!("State: synced since {}", stamp(at + 2)));
                }
            }
        }
    }
    log.say(7 * DAY, "Ending on SIGTERM");
    log.say(7 * DAY, &format!("Agent stopped: {ME}"));
    log
}
