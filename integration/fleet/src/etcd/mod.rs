//! A client of etcd: its JSON gateway over HTTP, with blocking calls.
//!
//! ```text
//! wire.rs   what answers look like
//! http.rs   nodes, time-outs, log-in
//! txn.rs    transactions
//! watch.rs  a stream that says when to look
//! ```

pub(crate) mod http;
pub(crate) mod txn;
pub(crate) mod watch;
pub(crate) mod wire;

pub(crate) use http::{CallFailure, Client, Node};
pub(crate) use txn::{Compare, Op, Txn};
pub(crate) use wire::{KeyValue, LeaseLeft, TxnAnswer};
