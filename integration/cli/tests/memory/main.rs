//! `memory:DIR`: the real binary against the requirements of its document. docs/protocols/memory.md names these tests.

#![forbid(unsafe_code)]

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
mod pauses;
#[cfg(test)]
mod release;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod status;
#[cfg(test)]
mod wait;

/// A scene for the program that these tests are of.
#[cfg(test)]
fn a_scene() -> beadlock_testkit::Scene {
    beadlock_testkit::Scene::of(env!("CARGO_BIN_EXE_beadlock"))
}
