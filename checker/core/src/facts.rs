//! Gathering the facts for a judgement (docs/design.md#pure-rules). This module has the only clock of the project.

use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::{
    ffi::OsStr, ffi::OsString, fs, io, iter, os::fd::AsFd, time::Duration, time::SystemTime,
};

use sha2::{Digest, Sha256};

use crate::find_watchdog;
pub use crate::record::facts::{Depth, Facts, Ids, Liveness, Proof};
use crate::record::{
    BeadlockKey, Clocks, Moment, ProcessRecord, Record, Rejected, StartedAt, WantedFacts,
    holder_name_is_fit,
};
pub use beadlock_base::deadline::boottime;
use beadlock_base::{filesystem, namespace, process};

impl Ids {
    fn not_asked() -> Arc<Self> {
        static NOT_ASKED: LazyLock<Arc<Ids>> = LazyLock::new(Arc::default);
        Arc::clone(&NOT_ASKED)
    }

    /// Returns the ids of this process. They are read once, since none of them changes while a process lives.
    pub fn current() -> Arc<Self> {
        static CURRENT: OnceLock<Arc<Ids>> = OnceLock::new();
        Arc::clone(CURRENT.get_or_init(|| {
            let link = |name: &str| {
                Some(
                    fs::read_link(format!("/proc/self/ns/{name}"))
                        .ok()?
                        .to_str()?
                        .to_owned(),
                )
            };
            Arc::new(Self {
                machine_id: machine_id(),
                boot_id: boot_id(),
                pid_ns: link("pid"),
                time_ns: link("time"),
            })
        }))
    }
}

fn first_line(path: &str, is_fit: fn(&fs::File) -> bool) -> Option<String> {
    let text = io::read_to_string(fs::File::open(path).ok().filter(is_fit)?).ok()?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}

/// Reads the boot id, from the kernel's own `/proc` only. A file that a container manager has mounted over it says
/// nothing about this boot.
fn boot_id() -> Option<String> {
    first_line("/proc/sys/kernel/random/boot_id", filesystem::is_proc)
}

fn machine_id() -> Option<String> {
    let id = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let id = id.into_iter().find_map(|path| first_line(path, |_| true))?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| {
        hex(&Sha256::new()
            .chain_update("beadlock machine\n")
            .chain_update(id)
            .finalize()[..16])
    })
}

/// Returns `sha256:` and the hash of `bytes` in 64 hex digits. Its beginning names a lock whose record has no id
/// (docs/design.md#the-record).
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Host name of this machine, asked anew at each call. `None`: the name cannot be read, is empty or is not UTF-8.
pub fn hostname() -> Option<Arc<str>> {
    /// Last name that the system has returned, so that an unchanged one is not copied again.
    static LAST: Mutex<Option<(OsString, Option<Arc<str>>)>> = Mutex::new(None);
    let current = hostname::get().ok()?;
    // After a fork the mutex may stay locked for ever: its holder may be a thread that the child does not have.
    let Ok(mut last) = LAST.try_lock() else {
        return fit(&current);
    };
    if last.as_ref().is_none_or(|(name, _)| *name != current) {
        let name = fit(&current);
        *last = Some((current, name));
    }
    last.as_ref()?.1.clone()
}

fn fit(name: &OsStr) -> Option<Arc<str>> {
    name.to_str().filter(|name| !name.is_empty()).map(Arc::from)
}

/// Time of the wall clock. The clock may jump, so only ages for people and the protocols that are judged by time use it.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the clock is read"
)]
pub fn now() -> StartedAt {
    let since = jiff::SignedDuration::system_until(SystemTime::UNIX_EPOCH, SystemTime::now());
    StartedAt(since.unwrap_or(jiff::SignedDuration::MAX))
}

/// This moment, by the wall clock and by the clock that counts from boot.
pub fn moment() -> Moment {
    Moment {
        wall: now(),
        boottime: boottime(),
    }
}

/// Time for which the machine was suspended since boot.
fn suspended() -> Duration {
    let awake = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    boottime().saturating_sub(awake.map(Duration::from).unwrap_or_default())
}

/// Age of a lock by this machine's clocks: to the millisecond, or in whole seconds where no more is known
/// (docs/design.md#ages). `written` is the time of the last write of its file. `None`: the record's time lies in the
/// future, or the record has no time.
pub fn age(record: &Record, written: Option<StartedAt>) -> Option<Duration> {
    record.age(
        &Clocks {
            wall: now(),
            boottime: boottime(),
            ids: &Ids::current(),
        },
        written,
    )
}

/// Age of a time that a file contains, by the wall clock. Precision and `None` are those of [`age`].
pub fn age_of_time(time: StartedAt, written: Option<StartedAt>) -> Option<Duration> {
    time.known_age(now(), written)
}

/// True if the process `pid` of `host` counts as alive, as by Go's `IsProcessAlive`. False only when `host` is this
/// host's name, ignoring ASCII case, and `kill(pid, 0)` says ESRCH (docs/design.md#the-beads-rule).
pub fn is_process_alive(pid: i64, host: &str) -> bool {
    let ours = hostname().is_some_and(|name| name.eq_ignore_ascii_case(host));
    !(ours && process::probe(pid) == Liveness::Gone)
}

impl Facts {
    /// Gathers the facts about a record whose lock file lies in the directory `dir`. Only a process of this host is
    /// asked for, and no process of a named lock.
    pub(crate) fn about(record: &Record, dir: impl AsFd, depth: Depth) -> Self {
        match record.lock().wanted_facts(depth) {
            WantedFacts::Process(process, depth) => Self::about_process(&process, dir, depth),
            WantedFacts::ProcessTree(process, depth) => {
                let facts = Self::about_process(&process, dir, depth);
                // Only a claim that beadlock made has a watchdog.
                if facts.liveness != Liveness::Gone || process.beadlock.is_none() {
                    return facts;
                }
                match find_watchdog::that_ends(&process) {
                    Ok(watchdog) => Self { watchdog, ..facts },
                    // The claim may have a watchdog: `/proc` cannot be read just now.
                    Err(_) => Self {
                        liveness: Liveness::Unknown,
                        ..facts
                    },
                }
            }
            WantedFacts::TimeAndHost => Self::about_nobody(hostname()),
            WantedFacts::Time => Self::about_nobody(None),
        }
    }

    fn about_nobody(hostname: Option<Arc<str>>) -> Self {
        let (ids, liveness) = (Ids::not_asked(), Liveness::NotAsked);
        Self {
            now: now(),
            boottime: boottime(),
            hostname,
            ids,
            liveness,
            watchdog: None,
            proof: None,
            unrefreshed: Duration::ZERO,
            standstill: suspended(),
        }
    }

    /// Gathers the facts about a process that may have ended, from `/proc` alone. Facts about the file system stay
    /// unknown.
    pub(crate) fn about_ended(record: &ProcessRecord) -> Self {
        let start_ticks = process::start_ticks(record.pid);
        let proof = Some(Proof {
            start_ticks,
            zombie: is_zombie(record),
            ..Proof::default()
        });
        Self {
            proof,
            ..Self::asked(record, Depth::Protocol)
        }
    }

    fn about_process(record: &ProcessRecord, dir: impl AsFd, depth: Depth) -> Self {
        let mut facts = Self::asked(record, depth);
        if depth != Depth::Protocol {
            facts.proof = Some(Proof::gather(record, dir, depth));
        }
        facts
    }

    fn asked(record: &ProcessRecord, depth: Depth) -> Self {
        let hostname = hostname();
        let ids = match (&record.beadlock, depth) {
            (None, Depth::Protocol) => Ids::not_asked(),
            _ => Ids::current(),
        };
        let (liveness, unrefreshed) = (Liveness::NotAsked, Duration::ZERO);
        let mut facts = Self {
            now: now(),
            boottime: boottime(),
            hostname,
            ids,
            liveness,
            watchdog: None,
            proof: None,
            unrefreshed,
            standstill: suspended(),
        };
        if facts.may_ask(record) {
            facts.liveness = process::probe(record.pid);
        }
        facts
    }
}

fn is_zombie(record: &ProcessRecord) -> bool {
    i32::try_from(record.pid)
        .ok()
        .and_then(process::is_dead_zombie)
        == Some(true)
}

impl Proof {
    fn gather(record: &ProcessRecord, dir: impl AsFd, depth: Depth) -> Self {
        let namespace = record.pid_ns().filter(|_| depth == Depth::Proof);
        Self {
            local_file_system: filesystem::is_local(dir),
            start_ticks: process::start_ticks(record.pid),
            zombie: is_zombie(record),
            namespace_gone: !namespace::those_gone(namespace).is_empty(),
        }
    }
}

impl ProcessRecord {
    /// Makes a record for the current process, as Go's `NewExclusiveLock` does (docs/protocol.md#the-lock-file).
    /// Errors: [`Rejected::Invalid`] when the holder's name is not 1 to 128 printable characters, or the host has no
    /// name.
    pub fn new(holder: &str, version: &str) -> Result<Self, Rejected> {
        Self::for_process(std::process::id(), holder, version)
    }

    /// Makes a record for the process `pid` of this machine. The process must be alive, or its start stays unknown.
    /// Errors: those of [`ProcessRecord::new`].
    pub fn for_process(pid: u32, holder: &str, version: &str) -> Result<Self, Rejected> {
        if !holder_name_is_fit(holder) {
            return Err(Rejected::Invalid(
                "holder must be 1 to 128 printable characters".to_owned(),
            ));
        }
        let mark = BeadlockKey::of(pid, random_id());
        let record = Self {
            holder: holder.to_owned(),
            pid: i64::from(pid),
            hostname: hostname().map(|name| name.to_string()).unwrap_or_default(),
            started_at: mark.started_at.unwrap_or_else(now),
            version: version.to_owned(),
            beadlock: Some(mark),
        };
        record.validate()?;
        Ok(record)
    }
}

impl BeadlockKey {
    /// Makes the mark of the claim `id` for the process `pid`, at this moment. The process must be alive, or its start
    /// stays unknown.
    pub fn of(pid: u32, id: String) -> Self {
        let ids = Ids::current();
        Self {
            id,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            started_at: Some(now()),
            boottime_ns: u64::try_from(boottime().as_nanos())
                .ok()
                .filter(|since| *since > 0),
            about: None,
            acquired: false,
            machine_id: ids.machine_id.clone(),
            boot_id: ids.boot_id.clone(),
            pid_ns: ids.pid_ns.clone(),
            time_ns: ids.time_ns.clone(),
            start_ticks: process::start_ticks(i64::from(pid)),
        }
    }
}

/// Returns 128 random bits as 32 hex digits. Without a random source they are a digest of the PID and the time.
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let seed = format!("{} {:?}", std::process::id(), now());
        let digest = Sha256::digest(seed);
        iter::zip(&mut bytes, digest).for_each(|(byte, digit)| *byte = digit);
    }
    hex(&bytes)
}

/// Returns a new request id: `req_` and 12 characters of `[a-z0-9]`. A tower lock (section 3.2 in
/// docs/protocols/tower.md) and the `meta` of an envelope (docs/design.md#json) have one.
pub fn new_request_id() -> String {
    const CHARACTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    /// Number of byte values that are used: the largest multiple of 36. More would favour some characters.
    const FAIR: u8 = 252;
    const LENGTH: usize = "req_".len() + 12;
    let mut id = "req_".to_owned();
    let mut bytes = [0; 16];
    while id.len() < LENGTH {
        if getrandom::fill(&mut bytes).is_err() {
            // `random_id` has a replacement for the random source.
            id.extend(random_id().chars().take(LENGTH - id.len()));
            break;
        }
        let fair = bytes
            .iter()
            .filter(|byte| **byte < FAIR)
            .map(|byte| usize::from(byte % 36));
        id.extend(
            fair.take(LENGTH - id.len())
                .map(|index| char::from(CHARACTERS[index])),
        );
    }
    id
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn request_ids_have_the_documents_form_differ_and_use_every_character() {
        let ids: BTreeSet<String> = (0..500).map(|_| new_request_id()).collect();
        assert_eq!(ids.len(), 500);
        let mut used = BTreeSet::new();
        for id in &ids {
            let made = id.strip_prefix("req_").expect("begins with req_");
            assert_eq!(made.len(), 12, "{id}");
            assert!(
                made.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()),
                "{id}"
            );
            used.extend(made.chars());
        }
        assert_eq!(used.len(), 36);
    }
}
