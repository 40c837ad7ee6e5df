//! `memory:DIR`: the real binary against the requirements of its document. docs/protocols/memory.md names these tests.

#[cfg(test)]
mod check;
#[cfg(test)]
mod claim;
#[cfg(test)]
mod clock;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod list;
#[cfg(test)]
mod odd;
#[cfg(test)]
mod release;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod status;
#[cfg(test)]
#[path = "../program/support.rs"]
#[allow(dead_code, reason = "the other binary's, which needs more of it")]
mod support;
#[cfg(test)]
mod wait;
