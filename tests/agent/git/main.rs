//! The git daemon never harms a repository. Each refusal, and what it must cope with, by the real agent, the real git
//! and a real remote; and two clones with an agent each, among people and claims.

mod bench;
mod between;
mod bounds;
mod cadence;
mod claimed;
mod committed_lock;
mod configuration;
mod conflicts;
mod convergence;
mod embedded;
mod gates;
mod hooks;
mod idle;
mod in_the_way;
mod index;
mod killed;
mod naive;
mod names;
mod neighbours;
mod owners;
mod places;
mod progress;
mod pushing;
mod redirect;
mod repositories;
mod secrets;
mod snapshot;
mod sqlite;
mod states;
mod tracked;
mod truth;
mod unreachable;
mod wrapper;
mod writers;
