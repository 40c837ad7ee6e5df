//! Claims across machines: the protocol of docs/fleet.md as a state machine.
//!
//! One action is one request to etcd with its answer, or one step that nobody else can see. A request may also be late,
//! arrive twice, or lose its answer; the answer to a right and the read of a renewal are steps of their own, because
//! an agent does other things meanwhile. The local lock and the gate are taken as right: the rest of this package is
//! about them.
//!
//! Time is not in it, but for two rules. A lease lapses only after the deadline of its session (`world`), and `new`
//! ends only after the deadlines of all sessions that began before it. A cut is a network that keeps a living session
//! from renewing until its deadline has passed.
//!
//! Not in it: several names, nested claims, a machine that is frozen as a whole, a watchdog that is stopped together
//! with its beadlock, and users and passwords.

mod agent;
mod built;
mod claimer;
mod events;
mod mutants;
mod properties;
mod rules;
mod run;
mod server;
mod system;
mod world;
