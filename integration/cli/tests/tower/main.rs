//! `tower:NAME` for commands that claim: the real binary against the requirements of its document.
//! docs/protocols/tower.md names these tests.

#![forbid(unsafe_code)]

#[cfg(test)]
mod acquire;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod blocked;
#[cfg(test)]
mod directory;
#[cfg(test)]
mod fields;
#[cfg(test)]
mod heartbeat;
#[cfg(test)]
mod intent;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod loss;
#[cfg(test)]
mod modes;
#[cfg(test)]
mod names;
#[cfg(test)]
mod release;
#[cfg(test)]
mod rollback;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod steal;

/// A scene for the program that these tests are of.
#[cfg(test)]
fn a_scene() -> beadlock_testkit::Scene {
    beadlock_testkit::Scene::of(env!("CARGO_BIN_EXE_beadlock"))
}
