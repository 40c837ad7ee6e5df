//! Tests that need more shells, or readers of manual pages: `make test-more` runs these.

#![forbid(unsafe_code)]

#[cfg(test)]
mod completion;
#[cfg(test)]
mod manual;

/// A scene of the agent that was built for these tests.
#[cfg(test)]
fn fresh_scene() -> beadlock_testkit::Scene {
    beadlock_testkit::Scene::of_agent(env!("CARGO_BIN_EXE_beadlock-agent"))
}
