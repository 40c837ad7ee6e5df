//! The sentence of each notice of the engine, and where on stderr it goes.

use std::fmt;

use beadlock_base::duration::{left as time_left, shown};
use beadlock_base::escape::{escaped, escaped_path};
use beadlock_core::Reason;

use super::talk::Talk;
use beadlock_claim::observe::{
    Claimed, ClaimedInFleet, DirWarning, GateReach, Notice, NoticeLevel, Observer, WaitingFor,
};
use beadlock_claim::words::{self, Part, to_type};

impl Observer for Talk {
    fn is_live(&self) -> bool {
        Self::is_live(self)
    }

    fn notice(&self, notice: &Notice<'_>) {
        match notice {
            Notice::Waiting { waited, is_first } => self.say_live(&Line(waited), *is_first),
            Notice::WaitEnded => self.end_live(),
            Notice::HolderAtWork { .. } => self.say_whole(&sentence(notice)),
            Notice::Claimed(standing) => self.claimed(standing),
            // Told for each lock in the directory, and said once.
            Notice::Directory(warning) => {
                let words = of_directory(warning);
                if !self.warnings().contains(&words) {
                    self.warn(&words);
                }
            }
            notice => {
                let line = sentence(notice);
                match notice.level() {
                    NoticeLevel::Live => {}
                    NoticeLevel::Detail => self.say_more(&line),
                    NoticeLevel::Info => self.say(&line),
                    NoticeLevel::Limit => self.note(&line),
                    NoticeLevel::Warning => self.warn(&line),
                }
            }
        }
    }
}

impl Talk {
    fn claimed(&self, standing: &Claimed<'_>) {
        if let Some(ClaimedInFleet {
            name, agents: 0, ..
        }) = &standing.fleet
        {
            self.warn(&format!(
                "no agent has a right to sync {name}; are they in this fleet? beadlock fleet status"
            ));
        }
        self.say(&claimed(standing));
        if standing.in_dolt {
            self.note(&format!(
                "{} is a Dolt database: this claim keeps away beadlock-agent and daemons that ask, but not bd",
                standing.given
            ));
        }
    }
}

fn sentence(notice: &Notice<'_>) -> String {
    match notice {
        Notice::Waiting { waited, .. } => Line(waited).to_string(),
        Notice::WaitEnded => String::new(),
        Notice::HolderAtWork { address } => format!("the holder is at work on {address}"),
        Notice::Made { dir } => format!("made the lock directory {}", escaped_path(dir)),
        Notice::Directory(warning) => of_directory(warning),
        Notice::NotANamedLock { file, dir, why } => {
            let file = escaped(&file.to_string_lossy()).to_string();
            format!("{file} in {} is no named lock: {why}", escaped_path(dir))
        }
        Notice::Doubt(doubt) => doubt.to_string(),
        Notice::SharedFs { given, name, reach } => match reach {
            GateReach::Cycles => {
                format!("{given} is on {name}: a running cycle is waited for on this machine only")
            }
            GateReach::Flock => format!(
                "{given} is on {name}: its lock may keep out this machine, or this mount, only"
            ),
        },
        Notice::NoGate { why } => format!(
            "there is no gate here ({why}): no running cycle is waited for, and no dead lock is removed"
        ),
        Notice::NoGateForCycle { why } => {
            format!("there is no gate here ({why}): claims do not wait for this cycle")
        }
        Notice::FleetWaived { given } => words::fleet_waived(given),
        Notice::RemovedStale { words, .. } => (*words).to_owned(),
        Notice::Claimed(standing) => claimed(standing),
        Notice::Nested { given, id } => {
            format!("{given} is held by an outer claim ({id}); running under it")
        }
        Notice::HeartbeatFailed { in_a_row: 1, why } => {
            format!("a heartbeat failed: {why}; the command goes on, and it is tried again")
        }
        Notice::HeartbeatFailed { in_a_row, why } => {
            format!("{in_a_row} heartbeats in a row have failed: {why}")
        }
        Notice::HeartbeatsAgain => "heartbeats succeed again".to_owned(),
        Notice::Released {
            document: Some(words),
            ..
        } => (*words).to_owned(),
        Notice::Released { given, held, .. } => match held {
            Some(held) => format!("released {given} after {}", shown(*held)),
            None => format!("released {given}"),
        },
        Notice::StillHeld { given, id } => format!(
            "{given} is still held by the outer claim ({id}), which ends it with its own end"
        ),
        Notice::NotReleased { then } => format!("the lock was not released: {then}"),
        Notice::ReleaseHangs { path, then } => format!(
            "the lock was not released: {} does not answer; it goes stale by itself{then}",
            escaped_path(path)
        ),
        Notice::FleetClaimLingers { name, why } => {
            format!("the claim of {name} in the fleet ends by itself within 15s: {why}")
        }
        Notice::NotAudited(failed) => failed.to_string(),
    }
}

/// `claimed .beads for make (PID 7)`, and in which directory where its document names another.
pub fn claimed(claimed: &Claimed<'_>) -> String {
    let (given, holder, pid) = (claimed.given, escaped(claimed.holder), claimed.pid);
    if let Some(ClaimedInFleet { name, standing, .. }) = &claimed.fleet {
        return format!("claimed {name} in the fleet for {holder} (PID {pid}), {standing}");
    }
    let dir = claimed
        .dir
        .map(|dir| format!(" in {}", escaped_path(dir)))
        .unwrap_or_default();
    format!("claimed {given} for {holder} (PID {pid}){dir}")
}

fn of_directory(warning: &DirWarning) -> String {
    let (DirWarning::OtherOwner { dir, .. }
    | DirWarning::Writable { dir, .. }
    | DirWarning::Readable { dir, .. }) = warning;
    let (shown, close) = (
        escaped_path(dir),
        to_type("chmod 700 {}", &[Part::Path(dir)]),
    );
    match warning {
        DirWarning::OtherOwner { owner, us, .. } => format!(
            "the lock directory {shown} belongs to user {owner}, and this is user {us}: who owns it can take any lock"
        ),
        DirWarning::Writable { mode, .. } => format!(
            "others may write the lock directory {shown} (mode {mode:03o}), and so take any lock; {close}"
        ),
        DirWarning::Readable { mode, .. } => format!(
            "others may look into the lock directory {shown} (mode {mode:03o}), which is meant to be 700: who reads \
             it can hold up its claims; {close}"
        ),
    }
}

/// A wait, as one line. The alternate form also has the command and the path, for a line that is said once.
struct Line<'a>(&'a WaitingFor<'a>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            WaitingFor::Gate { dir, since, left } => {
                let holders = words::gate_holders(dir);
                let (path, since, left) = (escaped_path(dir), shown(*since), time_left(*left));
                write!(
                    f,
                    "waiting for the gate of {path} {since} now, held by {holders}; {left}"
                )
            }
            WaitingFor::Holder { path, look, left } => {
                let Some(record) = &look.record else {
                    return Ok(());
                };
                let (name, pid, left) = (escaped(record.holder()), record.pid(), time_left(*left));
                let is_here = !matches!(
                    look.verdict.reason(),
                    Reason::OtherHost | Reason::HostUnknown
                );
                let host = if is_here {
                    String::new()
                } else {
                    format!(", on {}", escaped(record.hostname()))
                };
                let age = words::shown_age(words::age(look));
                write!(
                    f,
                    "waiting for {name} (PID {pid}{host}), held {age}; {left}"
                )?;
                if f.alternate() {
                    match words::command_of_holder(look) {
                        Some(command) => write!(f, " ({}, {command})", escaped_path(path)),
                        None => write!(f, " ({})", escaped_path(path)),
                    }?;
                }
                Ok(())
            }
            WaitingFor::Unsettled { path, words, left } => {
                let (path, left) = (escaped_path(path), time_left(*left));
                write!(f, "waiting for {path} ({words}); {left}")
            }
            WaitingFor::Fleet { name, what, left } => {
                write!(
                    f,
                    "waiting for {name} in the fleet: {what}; {}",
                    time_left(*left)
                )
            }
            WaitingFor::Kernel {
                file,
                holders,
                since,
                left,
            } => {
                let (since, left) = (shown(*since), time_left(*left));
                write!(
                    f,
                    "waiting for {file}, locked by {holders}, {since} now; {left}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn limits_and_warnings_reach_the_envelope_and_a_directory_is_warned_of_once() {
        let talk = Talk::silent();
        let dir = PathBuf::from("/locks");
        let writable = DirWarning::Writable { dir, mode: 0o770 };
        let shared = Notice::SharedFs {
            given: ".beads",
            name: "nfs",
            reach: GateReach::Cycles,
        };
        let failed = |in_a_row| Notice::HeartbeatFailed { in_a_row, why: "w" };
        for notice in [
            Notice::Directory(&writable),
            shared,
            Notice::HeartbeatsAgain,
            Notice::Directory(&writable),
            failed(1),
            failed(3),
        ] {
            talk.notice(&notice);
        }
        assert_eq!(
            talk.warnings(),
            [
                "others may write the lock directory /locks (mode 770), and so take any lock; chmod 700 /locks",
                ".beads is on nfs: a running cycle is waited for on this machine only",
                "a heartbeat failed: w; the command goes on, and it is tried again",
                "3 heartbeats in a row have failed: w",
            ]
        );
    }

    #[test]
    fn a_claim_that_stands_is_one_line() {
        let mut standing = Claimed {
            given: "tower:a",
            dir: Some("/l".as_ref()),
            holder: "m\nx",
            pid: 7,
            in_dolt: false,
            committable: None,
            fleet: None,
        };
        assert_eq!(
            claimed(&standing),
            "claimed tower:a for m\\nx (PID 7) in /l"
        );
        standing.fleet = Some(ClaimedInFleet {
            name: "shop",
            agents: 1,
            standing: "with 1 agent".to_owned(),
        });
        assert_eq!(
            claimed(&standing),
            "claimed shop in the fleet for m\\nx (PID 7), with 1 agent"
        );
    }
}
