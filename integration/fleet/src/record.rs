//! The values of the keys, as JSON. A user that may write below the prefix may have written anything: a value is
//! bounded before it is read, unknown fields are left alone, and every string is escaped where it is shown.

use beadlock_core::facts;
use beadlock_core::record::StartedAt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The largest value that is read.
const LIMIT: usize = 16 * 1024;

/// The largest fencing token is below this: every reader of JSON has such a number exactly.
pub const TOKENS_END: u64 = 1 << 53;

/// A process of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// The host's name.
    pub host: String,
    /// The PID of the process.
    pub pid: u32,
    /// The version of its beadlock.
    pub version: String,
}

impl Who {
    /// This process, now.
    pub fn this_process() -> Self {
        let host = facts::hostname()
            .map(|name| name.to_string())
            .unwrap_or_default();
        Self {
            host,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// The value of `fleet`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetValue {
    /// The random name of this fleet: a fleet that is made anew has another.
    pub nonce: String,
    /// A fencing token is this and the revision that made the claim.
    pub base: u64,
    /// The oldest beadlock that may take part.
    pub min_version: String,
}

/// The value of `sessions/L`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionValue {
    /// The random name of this session, which no other session has.
    pub nonce: String,
    /// Whose session it is.
    #[serde(flatten)]
    pub who: Who,
    /// Since when, by the clock of its host.
    pub since: StartedAt,
}

/// The value of `broken/L`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokenValue {
    /// The user that wants the session to end, by name.
    pub by: String,
    /// The host on which that user has asked for it.
    pub host: String,
    /// Why, in the words of that user.
    pub why: String,
    /// When, by the clock of that host.
    pub at: StartedAt,
}

/// How far a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Agents may still be in their cycles.
    Draining,
    /// The claim is held: its command may run.
    Held,
}

/// The value of `claims/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimValue {
    /// The id of the local claim.
    pub id: String,
    /// The holder's name.
    pub holder: String,
    /// The holder's host.
    pub host: String,
    /// The holder's process.
    pub pid: u32,
    /// Since when, by the clock of that host.
    pub started_at: StartedAt,
    /// How far the claim is.
    pub phase: Phase,
}

/// The value of `members/NAME/CLONE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberValue {
    /// The host of the clone.
    pub host: String,
    /// Its database directory there.
    pub path: String,
    /// The version of the beadlock that joined it.
    pub version: String,
    /// When it joined, by the clock of that host.
    pub since: StartedAt,
}

/// A value as JSON, in the bytes that are put.
pub(crate) fn written(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

/// The value of a key, read from its JSON. `Err`: what is wrong with it, in words.
pub(crate) fn read<V: DeserializeOwned>(bytes: &[u8]) -> Result<V, String> {
    if bytes.len() > LIMIT {
        return Err(format!(
            "its value has {} bytes, and at most {LIMIT} are read",
            bytes.len()
        ));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| format!("its value cannot be understood: {error}"))
}

impl FleetValue {
    /// The fencing token of the claim that the revision `created` made; `None`: the number would not be below 2^53.
    pub fn token(&self, created: i64) -> Option<u64> {
        let token = self.base.checked_add(u64::try_from(created).ok()?)?;
        (token < TOKENS_END).then_some(token)
    }

    /// Whether a beadlock of this version may take part.
    pub(crate) fn admits(&self, version: &str) -> bool {
        let parts = |text: &str| -> Option<[u64; 3]> {
            let mut parts = text
                .split('-')
                .next()?
                .split('.')
                .map(|part| part.parse().ok());
            let parsed = [parts.next()??, parts.next()??, parts.next()??];
            parts.next().is_none().then_some(parsed)
        };
        matches!((parts(version), parts(&self.min_version)), (Some(ours), Some(least)) if ours >= least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(base: u64, min_version: &str) -> FleetValue {
        FleetValue {
            nonce: "n".to_owned(),
            base,
            min_version: min_version.to_owned(),
        }
    }

    #[test]
    fn a_token_is_a_number_that_every_reader_of_json_has_exactly() {
        assert_eq!(
            fleet(1_795_617_300_000_000, "0.1.0").token(123),
            Some(1_795_617_300_000_123)
        );
        for (base, created) in [(TOKENS_END, 1), (TOKENS_END - 1, 1), (u64::MAX, 1), (0, -1)] {
            assert_eq!(
                fleet(base, "0.1.0").token(created),
                None,
                "{base} {created}"
            );
        }
    }

    #[test]
    fn the_oldest_version_is_compared_by_numbers() {
        for (least, admitted) in [
            ("0.1.0", true),
            ("0.0.9", true),
            ("0.2.0", false),
            ("1.0.0", false),
            ("0.10.0", false),
        ] {
            assert_eq!(fleet(0, least).admits("0.1.0"), admitted, "{least}");
        }
        for hostile in [
            "",
            "x",
            "0.1",
            "0.1.0.0",
            "-1.0.0",
            "99999999999999999999.0.0",
        ] {
            assert!(!fleet(0, hostile).admits("0.1.0"), "{hostile}");
        }
    }

    #[test]
    fn a_hostile_value_is_words_and_no_panic() {
        let deep = "[".repeat(LIMIT - 1);
        let wide = "x".repeat(LIMIT + 1);
        for bytes in ["", "{", "null", "[]", "{\"nonce\":1}", &deep, &wide] {
            assert!(
                read::<FleetValue>(bytes.as_bytes()).is_err(),
                "{}",
                &bytes[..bytes.len().min(20)]
            );
        }
        assert!(read::<ClaimValue>(b"\xff\xfe").is_err());
        let negative =
            br#"{"id":"","holder":"","host":"","pid":-1,"started_at":"2026-11-25T00:00:00Z","phase":"held"}"#;
        assert!(read::<ClaimValue>(negative).is_err());
    }

    #[test]
    fn what_a_later_version_adds_is_left_alone() {
        let read: FleetValue =
            read(br#"{"nonce":"n","base":7,"min_version":"0.1.0","later":{"x":[1]}}"#).unwrap();
        assert_eq!(read, fleet(7, "0.1.0"));
        let session = SessionValue {
            nonce: "s".to_owned(),
            who: Who::this_process(),
            since: facts::now(),
        };
        assert_eq!(
            super::read::<SessionValue>(&written(&session)).unwrap().who,
            session.who
        );
    }
}
