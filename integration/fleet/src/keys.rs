//! The keys of etcd below the fleet's prefix (docs/fleet.md).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Name;

/// A lease of etcd, chosen by us: it names a session. 63 random bits; shown in hex, as `etcdctl` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lease(pub(crate) i64);

impl Lease {
    /// A new random lease. An error where the system has no random numbers.
    pub(crate) fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 8];
        loop {
            getrandom::fill(&mut bytes)
                .map_err(|_| std::io::Error::other("no random numbers from the system"))?;
            let id = i64::from_ne_bytes(bytes) & i64::MAX;
            // Zero is "no lease".
            if id != 0 {
                return Ok(Self(id));
            }
        }
    }

    /// Reads a lease as it is shown, in 16 hex digits; `None`: the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 16
            && text
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        i64::from_str_radix(text, 16)
            .ok()
            .filter(|id| is_hex && *id > 0)
            .map(Self)
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The keys below one prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetKeys {
    /// `PREFIX/v1/`.
    top: String,
}

impl FleetKeys {
    pub(crate) fn below(prefix: &str) -> Self {
        Self {
            top: format!("{prefix}/v1/"),
        }
    }

    pub(crate) fn top(&self) -> &str {
        &self.top
    }

    fn at(&self, rest: fmt::Arguments<'_>) -> String {
        format!("{}{rest}", self.top)
    }

    pub(crate) fn fleet(&self) -> String {
        self.at(format_args!("fleet"))
    }

    pub(crate) fn new_fleet(&self) -> String {
        self.at(format_args!("new"))
    }

    pub(crate) fn name(&self, name: &Name) -> String {
        self.at(format_args!("names/{}", name.in_key()))
    }

    pub(crate) fn names(&self) -> String {
        self.at(format_args!("names/"))
    }

    pub(crate) fn members(&self) -> String {
        self.at(format_args!("members/"))
    }

    pub(crate) fn members_of(&self, name: &Name) -> String {
        self.at(format_args!("members/{}/", name.in_key()))
    }

    pub(crate) fn member(&self, name: &Name, clone: &str) -> String {
        self.at(format_args!("members/{}/{clone}", name.in_key()))
    }

    pub(crate) fn sessions(&self) -> String {
        self.at(format_args!("sessions/"))
    }

    pub(crate) fn session(&self, lease: Lease) -> String {
        self.at(format_args!("sessions/{lease}"))
    }

    pub(crate) fn broken(&self, lease: Lease) -> String {
        self.at(format_args!("broken/{lease}"))
    }

    pub(crate) fn brokens(&self) -> String {
        self.at(format_args!("broken/"))
    }

    pub(crate) fn claims(&self) -> String {
        self.at(format_args!("claims/"))
    }

    pub(crate) fn claim(&self, name: &Name) -> String {
        self.at(format_args!("claims/{}", name.in_key()))
    }

    pub(crate) fn agents(&self) -> String {
        self.at(format_args!("agents/"))
    }

    pub(crate) fn agents_of(&self, name: &Name) -> String {
        self.at(format_args!("agents/{}/", name.in_key()))
    }

    pub(crate) fn agent(&self, name: &Name, lease: Lease) -> String {
        self.at(format_args!("agents/{}/{lease}", name.in_key()))
    }

    /// The part of a key behind `folder`, one of the above that end with a slash; `None`: the key is not below it.
    pub(crate) fn rest<'k>(folder: &str, key: &'k [u8]) -> Option<&'k str> {
        std::str::from_utf8(key).ok()?.strip_prefix(folder)
    }

    /// The name and the last part of a key of two parts below `folder`; `None`: the key is not of that form.
    pub(crate) fn pair<'k>(folder: &str, key: &'k [u8]) -> Option<(Name, &'k str)> {
        let (name, last) = Self::rest(folder, key)?.split_once('/')?;
        Some((Name::of_key(name)?, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_the_contract() {
        let keys = FleetKeys::below("/beads");
        let (name, lease) = (Name::parse("acme/tracker").unwrap(), Lease(0x1f));
        assert_eq!(keys.fleet(), "/beads/v1/fleet");
        assert_eq!(keys.new_fleet(), "/beads/v1/new");
        assert_eq!(keys.claim(&name), "/beads/v1/claims/acme:tracker");
        assert_eq!(
            keys.agent(&name, lease),
            "/beads/v1/agents/acme:tracker/000000000000001f"
        );
        let agent = keys.agent(&name, lease);
        assert_eq!(
            FleetKeys::pair(&keys.agents(), agent.as_bytes()),
            Some((name, "000000000000001f"))
        );
        assert_eq!(FleetKeys::pair(&keys.agents(), b"/beads/v1/agents/x"), None);
        assert_eq!(
            FleetKeys::pair(&keys.agents(), b"/beads/v1/agents/\xff/x"),
            None
        );
    }

    #[test]
    fn a_lease_is_random_above_zero_and_reads_back() {
        for _ in 0..1000 {
            let lease = Lease::random().unwrap();
            assert!(lease.0 > 0);
            assert_eq!(Lease::parse(&lease.to_string()), Some(lease));
        }
        for hostile in [
            "",
            "0000000000000000",
            "1f",
            "ffffffffffffffff",
            "+00000000000001f",
            "000000000000001F",
        ] {
            assert_eq!(Lease::parse(hostile), None, "{hostile}");
        }
    }
}
