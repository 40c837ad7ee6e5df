//! Claims of a beads database across machines, through etcd (docs/fleet.md). What `beadlock` and `beadlock-agent`
//! share; siblings alone use it and pin it with `=`.
//!
//! A database directory belongs to a fleet by its [`mark`]; where the fleet's etcd is, the [`Config`] says. A command
//! claims a database with [`FleetClaim`], an agent runs its cycles by [`FleetAgent`], and [`Fleet`] is what the
//! commands of `beadlock fleet` do and see.
//!
//! # Promises
//! - From before a claim is [`Held`](ClaimState::Held) until its [`FleetClaim::end`], no [`FleetAgent`] of the fleet
//!   gives a [`Permit`] for that database, and none that it gave before is out.
//! - Never two claims of one database are held at once.
//! - A holder of a claim or a permit knows until when: [`Deadlines`] are points of `CLOCK_BOOTTIME`, and nobody else
//!   begins before the last of them has passed.
//!
//! # Limits
//! - What runs under a claim or a permit must end by its deadlines. This library says when; it ends no process.
//! - Machines that are frozen as a whole beyond the deadline, and an etcd that revokes a living lease, break the
//!   first promise for as long as it takes to notice. The fencing token lets a receiver refuse such late work.
//! - Linux alone: `eventfd` and `timerfd`.

#![forbid(unsafe_code)]

mod admin;
mod claim;
mod config;
mod connect;
mod deadline;
mod error;
mod etcd;
mod keys;
pub mod mark;
mod name;
mod record;
mod rights;
mod session;
mod transactions;
mod wait;

pub use admin::{
    Created, EtcdReport, Evicted, Fleet, NodeReport, Overview, RENEWAL_WATCH, SeenMember,
    SeenSession, examine,
};
pub use claim::{AgentSeen, ClaimState, FleetClaim, FleetClaimRequest, HeldClaim};
pub use config::{Config, Places};
pub use deadline::{Deadlines, T};
pub use error::{Error, ErrorKind};
pub use keys::Lease;
pub use mark::{MARK, Mark};
pub use name::Name;
pub use record::{BrokenValue, ClaimValue, FleetValue, MemberValue, Phase, SessionValue, Who};
pub use rights::{AgentStatus, Change, FleetAgent, Permit, PermitRefusal};
pub use session::{SessionLoss, SessionStanding};
pub use transactions::SeenClaim;
