//! Tests that need a browser, more shells, or readers of manual pages: `make test-more` runs these.

#![forbid(unsafe_code)]
#![allow(clippy::too_many_lines, reason = "a table of cases is one piece")]

#[cfg(test)]
mod browser;
#[cfg(test)]
mod completion;
#[cfg(test)]
mod html;
#[cfg(test)]
#[path = "../program/log/html/known.rs"]
mod known;
#[cfg(test)]
mod manual;
#[cfg(test)]
#[path = "../program/completion/typed.rs"]
mod typed;

/// A scene for the program that these tests are of.
#[cfg(test)]
fn a_scene() -> beadlock_testkit::Scene {
    beadlock_testkit::Scene::of(env!("CARGO_BIN_EXE_beadlock"))
}
