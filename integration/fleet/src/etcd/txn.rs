//! A transaction: comparisons, the operations when all of them hold, and those when not.

use serde_json::{Value, json};

use super::wire::encoded;
use crate::keys::Lease;

/// A comparison of a transaction, by a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compare<'a> {
    Absent(&'a str),
    Present(&'a str),
    /// The key is there with exactly this value.
    Value(&'a str, &'a [u8]),
    /// The key is the one that this revision has created.
    Created(&'a str, i64),
    Lease(&'a str, Lease),
    /// No key begins with this prefix.
    NothingBelow(&'a str),
}

/// An operation of a transaction: a change or a question.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Op<'a> {
    Put(&'a str, &'a [u8], Option<Lease>),
    Delete(&'a str),
    /// Deletes all keys that begin with this prefix.
    DeleteBelow(&'a str),
    Get(&'a str),
    /// Reads keys that begin with this prefix, and their values: at most so many.
    List(&'a str, u32),
    /// Reads keys that begin with this prefix, without their values: at most so many.
    Keys(&'a str, u32),
}

/// A transaction as it is sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Txn {
    compare: Vec<Value>,
    then: Vec<Value>,
    otherwise: Vec<Value>,
}

/// The end of the range of all keys that begin with `prefix`.
pub(crate) fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

impl Compare<'_> {
    fn json(self) -> Value {
        let of = |key: &str, target: &str, result: &str| {
            let key = encoded(key);
            json!({"key": key, "target": target, "result": result, "create_revision": "0"})
        };
        let mut compared = match self {
            Self::Absent(key) | Self::NothingBelow(key) => of(key, "CREATE", "EQUAL"),
            Self::Present(key) => of(key, "CREATE", "GREATER"),
            Self::Value(key, value) => {
                return json!({"key": encoded(key), "target": "VALUE", "result": "EQUAL", "value": encoded(value)});
            }
            Self::Created(key, revision) => {
                let revision = revision.to_string();
                return json!({"key": encoded(key), "target": "CREATE", "result": "EQUAL", "create_revision": revision});
            }
            Self::Lease(key, Lease(id)) => {
                return json!({"key": encoded(key), "target": "LEASE", "result": "EQUAL", "lease": id.to_string()});
            }
        };
        if let Self::NothingBelow(prefix) = self {
            compared["range_end"] = encoded(after(prefix)).into();
        }
        compared
    }
}

impl Op<'_> {
    fn json(self) -> Value {
        match self {
            Self::Put(key, value, lease) => {
                let lease = lease.map_or(0, |lease| lease.0).to_string();
                json!({"request_put": {"key": encoded(key), "value": encoded(value), "lease": lease}})
            }
            Self::Delete(key) => json!({"request_delete_range": {"key": encoded(key)}}),
            Self::DeleteBelow(prefix) => {
                json!({"request_delete_range": {"key": encoded(prefix), "range_end": encoded(after(prefix))}})
            }
            Self::Get(key) => json!({"request_range": {"key": encoded(key)}}),
            Self::List(prefix, limit) => list(prefix, limit, false),
            Self::Keys(prefix, limit) => list(prefix, limit, true),
        }
    }
}

fn list(prefix: &str, limit: u32, keys_only: bool) -> Value {
    json!({"request_range": {
        "key": encoded(prefix), "range_end": encoded(after(prefix)), "limit": limit.to_string(), "keys_only": keys_only
    }})
}

impl Txn {
    /// A transaction with these comparisons, and no operations yet.
    pub(crate) fn when(compare: &[Compare<'_>]) -> Self {
        Self {
            compare: compare.iter().map(|one| one.json()).collect(),
            ..Self::default()
        }
    }

    /// A look at several keys at one moment.
    pub(crate) fn look(ops: &[Op<'_>]) -> Self {
        Self::when(&[]).then(ops)
    }

    /// Adds operations for when all comparisons hold.
    pub(crate) fn then(mut self, ops: &[Op<'_>]) -> Self {
        self.then.extend(ops.iter().map(|op| op.json()));
        self
    }

    /// Adds operations for when a comparison does not hold.
    pub(crate) fn otherwise(mut self, ops: &[Op<'_>]) -> Self {
        self.otherwise.extend(ops.iter().map(|op| op.json()));
        self
    }

    pub(crate) fn body(&self) -> Value {
        json!({"compare": self.compare, "success": self.then, "failure": self.otherwise})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_a_prefix_ends_right_after_it() {
        assert_eq!(after("/b/v1/agents/x/"), b"/b/v1/agents/x0");
        assert_eq!(after(""), b"");
    }

    #[test]
    fn a_transaction_as_the_gateway_reads_it() {
        let txn = Txn::when(&[
            Compare::Absent("x"),
            Compare::Lease("y", Lease(7)),
            Compare::NothingBelow("z/"),
        ])
        .then(&[Op::Put("x", b"1", Some(Lease(7)))])
        .otherwise(&[Op::Get("x"), Op::List("z/", 20)]);
        assert_eq!(
            txn.body(),
            json!({
                "compare": [
                    {"key": "eA==", "target": "CREATE", "result": "EQUAL", "create_revision": "0"},
                    {"key": "eQ==", "target": "LEASE", "result": "EQUAL", "lease": "7"},
                    {"key": "ei8=", "target": "CREATE", "result": "EQUAL", "create_revision": "0", "range_end": "ejA="},
                ],
                "success": [{"request_put": {"key": "eA==", "value": "MQ==", "lease": "7"}}],
                "failure": [
                    {"request_range": {"key": "eA=="}},
                    {"request_range": {"key": "ei8=", "range_end": "ejA=", "limit": "20", "keys_only": false}},
                ],
            })
        );
    }
}
