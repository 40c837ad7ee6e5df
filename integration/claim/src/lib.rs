//! Targets, the five protocols, and a claim from its wait to its release: what every command and every guard shares.
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Nothing here is promised to anybody else.
//!
//! A [`target`] is what a claim is about; its [`protocol`] says everything that differs between the kinds of lock. A
//! [`request`] is made into a record ([`draft`]) and a lock ([`acquire`]), after the gate ([`gate`]) and after the wait
//! for another holder ([`retry`], [`writer_grace`]). While it stands it is kept up ([`kept_lock`], [`lease`]) and
//! watched ([`loss`]); then it ends ([`release_request`]). Who waits for it says how ([`observe`]), and hears of
//! everything as a notice: no sentence is made here that is not an [`error`]. What JSON says of one lock is a row of
//! its [`report`].
//!
//! Linux alone: the sources do not compile elsewhere.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod acquire;
pub mod audit_trail;
pub mod cancel_check;
mod command_error;
pub mod draft;
pub mod envelope;
pub mod environment;
pub mod error;
pub mod event;
pub mod fact;
pub mod fleet;
pub mod gate;
pub mod kept_lock;
pub mod kernel_lock;
pub mod labels;
pub mod lease;
mod line;
pub mod loss;
pub mod observe;
pub mod outer;
pub mod own_claims;
pub mod protocol;
pub mod release;
pub mod release_request;
pub mod released;
pub mod remote;
pub mod report;
pub mod request;
pub mod retry;
pub mod script;
pub mod target;
pub mod under;
pub mod wait;
pub mod words;
pub mod writer_grace;

pub use error::{Code, Error, Exit, Holder};
