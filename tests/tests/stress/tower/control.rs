//! Eight for one lock that is stale from the start: the document's order for that (6.3: look, delete, create) beside ours.

use std::fmt;
use std::fs;
use std::time::Duration;

use beadlock_tests::{Running, Scene};
use serde_json::json;

use super::PROCESSES;
use super::commands::{BEGINS, ENDS, Place, Work};

/// Who contends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Ours,
    /// A script of ours in the document's order, creating as its section 4.2 recommends.
    AsDocumented,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Seen {
    pub rounds: usize,
    pub begun: usize,
    pub overlaps: usize,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, begun, overlaps } = self;
        write!(f, "{rounds} rounds, {begun} commands, {overlaps} times beside another")
    }
}

const SCRIPT: &str = r#"lock=locks/contended.lock
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    beat=$(sed -n 's/.*"last_heartbeat_at":"\([^"]*\)".*/\1/p' $lock 2>&-)
    now=$(date +%s)
    if [ -n "$beat" ] && [ $((now - $(date -d "$beat" +%s))) -gt 1 ]; then rm -f $lock; fi
    if (set -C; printf '{"request_id":"%s","last_heartbeat_at":"%s"}\n' "$1" "$(date -u +%FT%TZ)" >$lock) 2>&-; then
        WORK
        rm -f $lock
        exit 0
    fi
    sleep 0.03
done
"#;

/// So many rounds, each with a fresh stale lock.
pub fn play(rounds: usize, way: Way) -> Seen {
    let mut seen = Seen { rounds, ..Seen::default() };
    for _ in 0..rounds {
        let scene = Scene::new();
        let place = Place::in_scene(&scene, "contended");
        let lock = json!({
            "lock_version": "v1", "lock_name": place.name, "request_id": "crashed", "actor": "stress", "intent": "i",
            "intent_version": "1", "host_id": "elsewhere", "pid": 1, "created_at": "2025-12-18T10:00:00Z",
            "last_heartbeat_at": "2025-12-18T10:00:00Z", "ttl_seconds": 1, "metadata": {},
        });
        fs::write(place.lock(), lock.to_string()).expect("write the stale lock");
        let start = |number: usize| {
            let id = format!("c{number}");
            Running::start(match way {
                Way::Ours => place.hold(&id, Work::Short),
                Way::AsDocumented => {
                    let script = SCRIPT.replace("WORK", &format!("{BEGINS}; sleep 0.02; {ENDS}; exec 9>&-"));
                    let mut command = scene.command("bash");
                    command.args(["-c", &script, "bash", &id]);
                    command
                }
            })
        };
        let all: Vec<Running> = (0..PROCESSES).map(start).collect();
        for running in all {
            let _ = running.finish(Duration::from_secs(60));
        }
        let log = fs::read_to_string(place.log()).unwrap_or_default();
        let count = |what: &str| log.lines().filter(|line| line.starts_with(what)).count();
        seen.begun += count("begin ");
        seen.overlaps += count("overlap ");
    }
    seen
}
