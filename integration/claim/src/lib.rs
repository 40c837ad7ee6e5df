//! Targets, the five protocols, and a claim from its wait to its release: what every command and every guard shares.
//!
//! The engine of beadlock, for its own crates, which pin it with `=`. Nothing here is promised to anybody else.
//!
//! A [`target`] is what a claim is about; its [`protocol`] says everything that differs between the kinds of lock. A
//! [`request`] is made into a record ([`draft`]) and a lock ([`claiming`]), after the gate ([`gate`]) and after the wait
//! for another holder ([`patience`], [`settling`]). While it stands it is kept up ([`keeping`], [`lease`]) and watched
//! ([`loss`]); then it ends ([`leaving`]). Who waits for it says how ([`observe`]), and hears of everything as a notice:
//! no sentence is made here that is not an [`error`]. What JSON says of one lock is a row of its [`report`].
//!
//! Linux alone: the sources do not compile elsewhere.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a table of cases is one piece")
)]

pub mod asking;
pub mod claiming;
mod command_error;
pub mod draft;
pub mod envelope;
pub mod environment;
pub mod error;
pub mod event;
pub mod fact;
pub mod fleet;
pub mod gate;
pub mod keeping;
pub mod kernel_lock;
pub mod labels;
pub mod lease;
pub mod leaving;
pub mod loss;
pub mod nested;
pub mod observe;
pub mod patience;
pub mod protocol;
pub mod release;
pub mod remote;
pub mod report;
pub mod request;
pub mod script;
pub mod settling;
pub mod target;
pub mod trail;
pub mod under;
pub mod wait;
pub mod words;

pub use error::{Code, Error, Exit, Holder};
