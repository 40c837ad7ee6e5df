//! The answers of the gateway. A number of 64 bits is a string there, and what is zero or empty is left out. Every
//! answer is bounded where it is read.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// Bytes in base64, as the gateway has them.
pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    STANDARD
        .decode(String::deserialize(deserializer)?)
        .map_err(de::Error::custom)
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => text.parse().map_err(de::Error::custom),
        Value::Number(number) => number
            .as_i64()
            .ok_or_else(|| de::Error::custom("a number out of range")),
        _ => Err(de::Error::custom("not a number")),
    }
}

/// The header of an answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Header {
    #[serde(default, deserialize_with = "number")]
    pub(crate) revision: i64,
}

/// A key that is there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct KeyValue {
    #[serde(deserialize_with = "bytes")]
    pub(crate) key: Vec<u8>,
    #[serde(default, deserialize_with = "bytes")]
    pub(crate) value: Vec<u8>,
    #[serde(default, deserialize_with = "number")]
    pub(crate) create_revision: i64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) mod_revision: i64,
    #[serde(default, deserialize_with = "number")]
    pub(crate) lease: i64,
}

/// The keys that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Range {
    #[serde(default)]
    pub(crate) kvs: Vec<KeyValue>,
    /// Whether there are more keys than were asked for.
    #[serde(default)]
    pub(crate) more: bool,
}

#[derive(Debug, Default, Deserialize)]
struct Response {
    response_range: Option<Range>,
}

#[derive(Debug, Deserialize)]
struct RawTxn {
    header: Header,
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<Response>,
}

/// The answer to a transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct TxnAnswer {
    /// The revision of the store; where something was put, the revision of that.
    pub(crate) revision: i64,
    /// Whether all comparisons held.
    pub(crate) succeeded: bool,
    /// The answers to the questions, in their order; a put has none.
    ranges: std::collections::VecDeque<Range>,
}

impl TxnAnswer {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let raw: RawTxn = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let ranges = raw
            .responses
            .into_iter()
            .filter_map(|response| response.response_range)
            .collect();
        Ok(Self {
            revision: raw.header.revision,
            succeeded: raw.succeeded,
            ranges,
        })
    }

    /// The keys that the next question found; empty where there is no further question.
    pub(crate) fn next(&mut self) -> Range {
        self.ranges.pop_front().unwrap_or_default()
    }

    /// The first key that the next question found; `None`: there is none.
    pub(crate) fn next_one(&mut self) -> Option<KeyValue> {
        self.next().kvs.into_iter().next()
    }
}

/// The answer to a keep-alive: the TTL; `None`: there is no such lease.
pub(crate) fn time_to_live(bytes: &[u8]) -> Result<Option<i64>, String> {
    #[derive(Deserialize)]
    struct Alive {
        #[serde(rename = "TTL", default, deserialize_with = "number")]
        ttl: i64,
    }
    #[derive(Deserialize)]
    struct Stream {
        result: Alive,
    }
    let line = bytes
        .split(|byte| *byte == b'\n')
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let stream: Stream = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    Ok(Some(stream.result.ttl).filter(|ttl| *ttl > 0))
}

/// The answer to a grant: the TTL.
pub(crate) fn granted(bytes: &[u8]) -> Result<i64, String> {
    #[derive(Deserialize)]
    struct Granted {
        #[serde(rename = "TTL", deserialize_with = "number")]
        ttl: i64,
    }
    serde_json::from_slice(bytes)
        .map(|granted: Granted| granted.ttl)
        .map_err(|error| error.to_string())
}

/// How long a lease lives if it is not renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeaseLeft {
    /// The time that is left, in whole seconds.
    pub(crate) left: Duration,
    /// The term of the leader that says so: another leader has another.
    pub(crate) term: i64,
}

/// The answer to a question after a lease; `None`: there is no such lease.
pub(crate) fn lease_left(bytes: &[u8]) -> Result<Option<LeaseLeft>, String> {
    #[derive(Deserialize)]
    struct Led {
        #[serde(default, deserialize_with = "number")]
        raft_term: i64,
    }
    #[derive(Deserialize)]
    struct Left {
        header: Led,
        #[serde(rename = "TTL", default, deserialize_with = "number")]
        ttl: i64,
    }
    let Left { header, ttl } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let seconds = u64::try_from(ttl).ok();
    Ok(seconds.map(|seconds| LeaseLeft {
        left: Duration::from_secs(seconds),
        term: header.raft_term,
    }))
}

/// The answer to a log-in: the token.
pub(crate) fn token(bytes: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct LoggedIn {
        token: String,
    }
    serde_json::from_slice(bytes)
        .map(|answer: LoggedIn| answer.token)
        .map_err(|error| error.to_string())
}

/// The answer to the question for a version: the version of etcd.
pub(crate) fn version(bytes: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Version {
        etcdserver: String,
    }
    let version = serde_json::from_slice(bytes).map(|answer: Version| answer.etcdserver);
    version.map_err(|error| error.to_string())
}

/// When a token ends, in seconds since 1970: of a JSON web token. `None`: it does not say.
pub(crate) fn token_end(token: &str) -> Option<i64> {
    #[derive(Deserialize)]
    struct Claims {
        exp: i64,
    }
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let payload = token.split('.').nth(1)?.trim_end_matches('=');
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?)
        .ok()
        .map(|claims: Claims| claims.exp)
}

/// A refusal: the code of gRPC, and the words. The gateway's HTTP status says less.
pub(crate) fn refusal(bytes: &[u8]) -> Option<(i64, String)> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let inner = value
        .get("error")
        .filter(|error| error.is_object())
        .unwrap_or(&value);
    let code = inner
        .get("code")
        .or_else(|| inner.get("grpc_code"))?
        .as_i64()?;
    let words = ["message", "error"]
        .iter()
        .find_map(|name| inner.get(name)?.as_str())
        .unwrap_or_default();
    Some((code, words.to_owned()))
}

/// One line of a watch's stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchLine {
    /// The watch is in place.
    Created,
    /// These keys changed.
    Changed(Vec<Vec<u8>>),
    /// The server has ended the watch: what it asked for is compacted away, or the server says no.
    Canceled,
    /// The server says that it is there.
    Progress,
}

impl WatchLine {
    /// Reads a line of a watch's stream; `None`: it is not one.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Key {
            #[serde(deserialize_with = "bytes")]
            key: Vec<u8>,
        }
        #[derive(Deserialize)]
        struct Event {
            kv: Key,
        }
        #[derive(Deserialize)]
        struct Watched {
            #[serde(default)]
            created: bool,
            #[serde(default)]
            canceled: bool,
            #[serde(default)]
            events: Vec<Event>,
        }
        #[derive(Deserialize)]
        struct Stream {
            result: Watched,
        }
        let watched = serde_json::from_slice::<Stream>(line).ok()?.result;
        Some(match watched {
            Watched { canceled: true, .. } => Self::Canceled,
            Watched { created: true, .. } => Self::Created,
            Watched { events, .. } if !events.is_empty() => {
                Self::Changed(events.into_iter().map(|event| event.kv.key).collect())
            }
            _ => Self::Progress,
        })
    }
}

#[cfg(test)]
mod tests;
