//! What to type next, for each verdict; words that can be pasted.

use beadlock_checker::database::Database;
use beadlock_checker::dialect::beads::judge;
use beadlock_checker::{Look, Reason, Verdict};

use crate::words::{self, lock_path, quoted};

/// The command to type, and why.
pub fn to_type(look: &Look, database: &Database) -> String {
    let target = words::target(database);
    let lock = quoted(lock_path(&database.dir).as_os_str());
    let pid = look.record.as_ref().map_or(0, |record| record.pid);
    let host = look.record.as_ref().map(|record| quoted(record.hostname.as_ref())).unwrap_or_default();
    if let (Verdict::Held(_), Some(record), Some(facts)) = (look.verdict, &look.record, &look.facts)
        && let Verdict::Stale(proof) = judge(record, facts, true)
    {
        return format!("beadlock check --reap-proven-dead {target}   (removes it: {proof})");
    }
    let once_gone = "once you know that it is gone";
    match look.verdict {
        Verdict::Free if look.side_file => {
            format!("beadlock check {target}   (puts right what a crash has left)")
        }
        Verdict::Free => format!("beadlock hold {target} -- CMD"),
        Verdict::Stale(_) => format!("beadlock check {target}   (removes it)"),
        Verdict::Held(reason) => match reason {
            Reason::OtherHost | Reason::OtherMachine => {
                format!("ssh -- {host} ps -p {pid}; {once_gone}: rm {lock}")
            }
            Reason::OtherPidNamespace => {
                format!("look for it in its container; {once_gone}: rm {lock}")
            }
            Reason::HostUnknown => format!("give this machine a host name; {once_gone}: rm {lock}"),
            Reason::PidUnknown => format!("ask whoever wrote it; {once_gone}: rm {lock}"),
            _ => {
                format!("beadlock hold --wait 10m {target} -- CMD   (waits for it; to see it: ps -fp {pid})")
            }
        },
        Verdict::Unreadable(reason) => to_look_at(reason, &lock),
    }
}

/// How to look at a lock that cannot be understood. What cannot be read may block whoever tries, as a FIFO does.
pub fn to_look_at(reason: Reason, lock: &str) -> String {
    let look = if reason == Reason::Unreadable { "ls -la" } else { "cat" };
    format!("{look} {lock}; when nobody needs it: rm {lock}")
}
