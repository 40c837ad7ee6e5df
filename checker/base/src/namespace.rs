//! PID namespaces, the walls of containers: which processes live in which, as far as `/proc` shows (Linux).

use std::{collections::HashMap, collections::HashSet, fs};

use crate::{process, process::proc_is_ours};

/// The processes of the namespaces below ours, as `/proc` showed them at one moment.
#[derive(Debug, Default)]
pub struct Namespaces(HashMap<String, Vec<NamespaceMember>>);

/// A process of another PID namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceMember {
    /// PID of the process in this namespace.
    pub pid: i32,
    /// PID of the process in its own namespace, the one that a record written there has.
    pub pid_there: i32,
}

impl Namespaces {
    /// One scan of every process. Other users' processes are not seen without privilege.
    pub fn scan() -> Self {
        let mut members: HashMap<String, Vec<NamespaceMember>> = HashMap::new();
        for pid in process::pids().filter(|_| proc_is_ours()) {
            let pids = pids_of(pid);
            let Some(pid_there) = pids.last().copied().filter(|_| pids.len() > 1) else {
                continue;
            };
            let Ok(link) = fs::read_link(format!("/proc/{pid}/ns/pid")) else {
                continue;
            };
            let of_its = members
                .entry(link.to_string_lossy().into_owned())
                .or_default();
            of_its.push(NamespaceMember { pid, pid_there });
        }
        Self(members)
    }

    /// The processes in `pid:[N]`; empty also when they cannot be seen.
    pub fn members(&self, pid_ns: &str) -> &[NamespaceMember] {
        self.0.get(pid_ns).map_or(&[], Vec::as_slice)
    }
}

/// The namespaces of this list, `pid:[N]` each, in which no process lives, seen twice, after the names were read. Only
/// root in the initial namespaces sees every process and can know. For other users, and where anything is unreadable,
/// no namespace is gone.
pub fn those_gone<'a>(names: impl IntoIterator<Item = &'a str>) -> HashSet<&'a str> {
    /// The kernel's fixed numbers of the initial namespaces (`PROC_PID_INIT_INO`, `PROC_USER_INIT_INO`).
    const INITIAL: [(&str, &str); 2] = [("pid", "pid:[4026531836]"), ("user", "user:[4026531837]")];
    let mut gone: HashSet<&str> = names
        .into_iter()
        .filter(|name| *name != INITIAL[0].1)
        .collect();
    let is_initial = |(kind, name): (&str, &str)| {
        fs::read_link(format!("/proc/self/ns/{kind}")).is_ok_and(|ours| ours.as_os_str() == name)
    };
    let sees_all = || nix::unistd::geteuid().is_root() && has_sys_ptrace();
    let may_know =
        !gone.is_empty() && sees_all() && proc_is_ours() && INITIAL.into_iter().all(is_initial);
    for _ in 0..2 {
        match may_know.then(living).flatten() {
            Some(living) => gone.retain(|name| !living.contains(*name)),
            None => gone.clear(),
        }
    }
    gone
}

/// Whether this process has CAP_SYS_PTRACE, which looks behind `hidepid` and into other users' processes.
fn has_sys_ptrace() -> bool {
    const SYS_PTRACE: u64 = 1 << 19;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    effective.is_some_and(|set| set & SYS_PTRACE != 0)
}

/// Every namespace that a process lives in. `None`: somebody's cannot be read.
fn living() -> Option<HashSet<String>> {
    let mut living = HashSet::new();
    for entry in fs::read_dir("/proc").ok()? {
        let name = entry.ok()?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        match fs::read_link(format!("/proc/{pid}/ns/pid")) {
            Ok(link) => {
                living.insert(link.to_string_lossy().into_owned());
            }
            // It ended meanwhile, or is a zombie, which has no namespace any more.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => {}
            Err(_) if is_of_ours(pid) => {}
            Err(_) => return None,
        }
    }
    Some(living)
}

/// True for a process with one PID, the one that this `/proc` shows: a process in a namespace below ours has more.
pub fn is_of_ours(pid: i32) -> bool {
    pids_of(pid).len() == 1
}

/// The PIDs of one process, from our namespace down to its own; empty when unknown.
fn pids_of(pid: i32) -> Vec<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))
        .unwrap_or_default();
    pids.split_ascii_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_namespace_is_not_gone() {
        let ours = fs::read_link("/proc/self/ns/pid").unwrap();
        assert!(those_gone([ours.to_str().unwrap()]).is_empty());
        assert!(is_of_ours(std::process::id().cast_signed()));
        assert!(!is_of_ours(0), "nobody is nobody's");
        assert_eq!(
            Namespaces::scan().members(ours.to_str().unwrap()),
            [],
            "we are in no other"
        );
    }
}
