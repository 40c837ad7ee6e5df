//! Gathers the facts that a judgement is passed (docs/design.md#pure-rules). The only clock of the project.

use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::{
    ffi::OsStr, ffi::OsString, fs, io, iter, os::fd::AsFd, time::Duration, time::SystemTime,
};

use sha2::{Digest, Sha256};

pub use crate::dialect::facts::{Depth, Facts, Ids, Liveness, Proof};
use crate::dialect::{
    Clocks, Mark, Moment, ProcessRecord, Record, Rejected, StartedAt, WantedFacts,
    holder_name_is_fit,
};
use crate::watchdog;
pub use beadlock_base::deadline::boottime;
use beadlock_base::{filesystem, namespace, process};

impl Ids {
    fn not_asked() -> Arc<Self> {
        static NOT_ASKED: LazyLock<Arc<Ids>> = LazyLock::new(Arc::default);
        Arc::clone(&NOT_ASKED)
    }

    /// Of this process. Read once: none of them changes while a process lives.
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

/// Only from the kernel itself: a file that a container manager mounts over it tells nothing about this boot.
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

/// `sha256:` and 64 hex digits: the name of bytes that have no name of their own.
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

/// This machine's host name; `None` when it cannot be read, is empty or is not UTF-8.
pub fn hostname() -> Option<Arc<str>> {
    /// Since it may change, the system is asked for it each time; it is copied only when it has.
    static LAST: Mutex<Option<(OsString, Option<Arc<str>>)>> = Mutex::new(None);
    let current = hostname::get().ok()?;
    // Not waited for: a thread that has it may be forked away from it.
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

/// The wall clock. It may jump; nothing but ages for people and the time-judged dialects hang on it.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the clock is read"
)]
pub fn now() -> StartedAt {
    let since = jiff::SignedDuration::system_until(SystemTime::UNIX_EPOCH, SystemTime::now());
    StartedAt(since.unwrap_or(jiff::SignedDuration::MAX))
}

/// This moment, by both clocks.
pub fn moment() -> Moment {
    Moment {
        wall: now(),
        boottime: boottime(),
    }
}

/// For how long the machine was suspended since boot.
fn suspended() -> Duration {
    let awake = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    boottime().saturating_sub(awake.map(Duration::from).unwrap_or_default())
}

/// How long ago the lock was acquired, by this machine's clocks; `None` for a time in the future, and where the record
/// has no time. `written` is when its file was last written. To the millisecond, or in whole seconds where no more is
/// known (docs/design.md#ages).
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

/// How long ago a time was that stands in a file, by the wall clock; as [`age`].
pub fn age_of_time(time: StartedAt, written: Option<StartedAt>) -> Option<Duration> {
    time.known_age(now(), written)
}

/// Whether the process that a record names is to be taken for alive, as Go's `IsProcessAlive`: false only
/// when `host` is this host's name, ignoring ASCII case, and the system says ESRCH.
pub fn is_process_alive(pid: i64, host: &str) -> bool {
    let ours = hostname().is_some_and(|name| name.eq_ignore_ascii_case(host));
    !(ours && process::probe(pid) == Liveness::Gone)
}

impl Facts {
    /// Gathers the facts about a record that lies in the directory `dir`. Only a process of this host is asked for, and
    /// none of a named lock.
    pub(crate) fn about(record: &Record, dir: impl AsFd, depth: Depth) -> Self {
        match record.lock().wanted_facts(depth) {
            WantedFacts::Process(process, depth) => Self::about_process(&process, dir, depth),
            WantedFacts::ProcessTree(process, depth) => {
                let facts = Self::about_process(&process, dir, depth);
                // Nobody else's lock has a watchdog.
                if facts.liveness != Liveness::Gone || process.beadlock.is_none() {
                    return facts;
                }
                match watchdog::that_ends(&process) {
                    Ok(watchdog) => Self { watchdog, ..facts },
                    // Whether it has one cannot be told.
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

    /// The facts about a process that may have ended, from `/proc` alone: nothing of the lock's file system is known.
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
    /// A record for the current process, as Go's `NewExclusiveLock` makes it (docs/protocol.md#the-lock-file). Errors:
    /// [`Rejected::Invalid`] when the holder's name is not 1 to 128 printable characters or the host has no name.
    pub fn new(holder: &str, version: &str) -> Result<Self, Rejected> {
        Self::for_process(std::process::id(), holder, version)
    }

    /// A record for another process of this machine, which must be alive for its start to be known.
    pub fn for_process(pid: u32, holder: &str, version: &str) -> Result<Self, Rejected> {
        if !holder_name_is_fit(holder) {
            return Err(Rejected::Invalid(
                "holder must be 1 to 128 printable characters".to_owned(),
            ));
        }
        let mark = Mark::of(pid, random_id());
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

impl Mark {
    /// Of the claim `id`, as of now, for this process, which must be alive for its start to be known.
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
            machine_id: ids.machine_id.clone(),
            boot_id: ids.boot_id.clone(),
            pid_ns: ids.pid_ns.clone(),
            time_ns: ids.time_ns.clone(),
            start_ticks: process::start_ticks(i64::from(pid)),
        }
    }
}

/// 128 random bits in hex. Without a random source the name is still this process's and this moment's alone.
pub fn random_id() -> String {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let seed = format!("{} {:?}", std::process::id(), now());
        let digest = Sha256::digest(seed);
        iter::zip(&mut bytes, digest).for_each(|(byte, digit)| *byte = digit);
    }
    hex(&bytes)
}

/// A new request id: `req_` and 12 characters of `[a-z0-9]`, as a tower lock and the `meta` of an envelope have it.
pub fn new_request_id() -> String {
    const CHARACTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    /// As many of a byte's values as 36 divides.
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
