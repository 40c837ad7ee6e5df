//! The locks that a crowd wants, and what is of one kind of them alone.

use std::time::Duration;

use beadlock_tests::{dead_pid, lock_text, this_host};
use serde_json::{Value, json};

/// Which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// `tower:NAME`.
    Tower,
    /// `memory:DIR`.
    Memory,
    /// `lock:PATH`, which nobody has to keep up: it is held for as long as its command lives.
    Path,
    /// The same in a tool that embeds its lock (`beadlock::framework`, `tests/src/bin/embedded.rs`).
    Tool,
}

/// The least TTL that there is, in seconds.
const TTL: &str = "1";

impl LockKind {
    /// In the lines of what was seen.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tower => "tower",
            Self::Memory => "memory",
            Self::Path => "lock",
            Self::Tool => "tool",
        }
    }

    /// The lock file, in the directory of locks.
    pub fn file(self) -> &'static str {
        match self {
            Self::Tower => "payments-production.lock",
            Self::Memory => ".lock",
            Self::Path | Self::Tool => "work.lock",
        }
    }

    /// One of a crowd that nobody asks to be large is small where the code is another's too.
    pub fn few(self) -> usize {
        match self {
            Self::Tower | Self::Memory => 1,
            Self::Path | Self::Tool => 4,
        }
    }

    /// Nobody has to keep it up: the command works on when its beadlock is killed, and the lock stands as long.
    pub fn is_the_commands(self) -> bool {
        self == Self::Path
    }

    /// The words of a hold for `id`, which waits long enough and takes what is stale.
    pub fn hold(self, id: &str) -> Vec<&str> {
        if self == Self::Tool {
            return vec!["locks", "--timeout", "120s", "take-part"];
        }
        let mut words = vec!["hold", "-q", "--wait", "120s", "--audit", "audit.jsonl"];
        words.extend(match self {
            Self::Tower => &["tower:payments-production", "--force-lock", "--ttl", TTL][..],
            Self::Memory => &["memory:locks", "--stale-after", "5s"],
            Self::Path | Self::Tool => &["lock:locks/work.lock"],
        });
        match self {
            Self::Tower => words.extend([
                "--request-id",
                id,
                "--actor",
                "stress",
                "--intent-name",
                "i",
                "--intent-version",
                "1",
            ]),
            Self::Memory => words.extend(["--session-id", id]),
            Self::Path | Self::Tool => words.extend(["--holder", id]),
        }
        words
    }

    /// Whose record it is.
    pub fn id_of(self, record: &Value) -> &str {
        let key = match self {
            Self::Tower => "request_id",
            Self::Memory => "session_id",
            Self::Path | Self::Tool => "holder",
        };
        record[key].as_str().unwrap_or_default()
    }

    /// The event of the audit that says that a stale one was taken.
    pub fn taken(self) -> &'static str {
        match self {
            Self::Tower => "lock_stolen",
            Self::Memory | Self::Path | Self::Tool => "lock_stale_removed",
        }
    }

    /// When it is kept up for the first time, where it is.
    pub fn beats_after(self) -> Duration {
        match self {
            Self::Tower => Duration::from_millis(333),
            Self::Memory => Duration::from_secs(3),
            Self::Path | Self::Tool => Duration::from_millis(100),
        }
    }

    /// In seconds, longer than it is valid without being kept up.
    pub fn long(self) -> &'static str {
        match self {
            Self::Tower => "2.5",
            Self::Memory => "6",
            Self::Path | Self::Tool => "0.5",
        }
    }

    /// One that is stale from the start.
    pub fn stale(self) -> Value {
        let long_ago = "2025-12-18T10:00:00Z";
        match self {
            Self::Tower => json!({
                "lock_version": "v1", "lock_name": "payments-production", "request_id": "crashed", "actor": "stress",
                "intent": "i", "intent_version": "1", "host_id": "elsewhere", "pid": 1, "created_at": long_ago,
                "last_heartbeat_at": long_ago, "ttl_seconds": 1, "metadata": {},
            }),
            Self::Memory => json!({
                "pid": 1, "session_id": "crashed", "acquired_at": long_ago, "hostname": this_host(), "operation": "x",
            }),
            Self::Path | Self::Tool => {
                let text = lock_text("crashed", dead_pid().into(), &this_host());
                serde_json::from_str(&text).expect("a record is JSON")
            }
        }
    }

    /// A script of ours in the order of its document, or in the obvious one, with WORK in it; its first argument is
    /// the id.
    pub fn script(self) -> &'static str {
        match self {
            Self::Tower => TOWER,
            Self::Memory => MEMORY,
            Self::Path | Self::Tool => OBVIOUS,
        }
    }
}

/// Section 6.3; it creates as 4.2 recommends.
const TOWER: &str = r#"lock=locks/payments-production.lock
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

/// `_try_acquire`; its draft has a name of its own, where the document has one for all, which is a race besides.
const MEMORY: &str = r#"lock=locks/.lock
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    since=$(sed -n 's/.*"acquired_at":"\([^"]*\)".*/\1/p' $lock 2>&-)
    now=$(date +%s)
    if [ -z "$since" ] || [ $((now - $(date -d "$since" +%s))) -gt 30 ]; then
        rm -f $lock
        printf '{"pid":%d,"session_id":"%s","acquired_at":"%s"}\n' $$ "$1" "$(date -u +%FT%TZ)" >$lock.tmp.$$
        mv $lock.tmp.$$ $lock
        WORK
        grep -q "\"pid\":$$," $lock 2>&- && rm -f $lock
        exit 0
    fi
    sleep 0.03
done
"#;

/// Looks whether its process lives, and writes.
const OBVIOUS: &str = r#"lock=locks/work.lock
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    pid=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' $lock 2>&-)
    if [ -z "$pid" ] || ! kill -0 $pid 2>&-; then
        printf '{"holder":"%s","pid":%d,"hostname":"here"}\n' "$1" $$ >$lock
        WORK
        rm -f $lock
        exit 0
    fi
    sleep 0.03
done
"#;
