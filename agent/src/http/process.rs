//! What the kernel says about this process, by the names that every client library of Prometheus uses: `process_*`.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// The metrics of this moment. One that cannot be read is left out.
pub(super) fn of(started: i64) -> Registry {
    let mut registry = Registry::with_prefix("process");
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let spent = seconds(usage.user_time()) + seconds(usage.system_time());
        registry.register_with_unit(
            "cpu",
            "Time on processors, for the process and for the kernel",
            Unit::Seconds,
            ConstCounter::new(spent),
        );
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut memory = |name, help, field| {
        if let Some(bytes) = bytes(&status, field) {
            registry.register_with_unit(name, help, Unit::Bytes, ConstGauge::new(bytes));
        }
    };
    memory("resident_memory", "Memory that it has in RAM", "VmRSS:");
    memory("virtual_memory", "Addresses that it has mapped", "VmSize:");
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // Without the one that lists them.
        let open = ConstGauge::new(open.count().saturating_sub(1) as u64);
        registry.register("open_fds", "Open file descriptors", open);
    }
    if let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let help = "How many file descriptors may be open";
        registry.register("max_fds", help, ConstGauge::new(limit));
    }
    registry.register_with_unit(
        "start_time",
        "When it has started, since 1970",
        Unit::Seconds,
        ConstGauge::new(started),
    );
    registry
}

fn seconds(time: TimeVal) -> f64 {
    time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6
}

/// A field of `/proc/self/status` that is in kB.
fn bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let number = line.trim().strip_suffix("kB")?.trim_end();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_bytes() {
        let status = "VmPeak:\t 9 kB\nVmSize:\t   12 kB\nVmRSS:\tmuch\n";
        assert_eq!(bytes(status, "VmSize:"), Some(12288));
        assert_eq!(bytes(status, "VmRSS:"), None);
        assert_eq!(bytes(status, "VmSwap:"), None);
    }
}
