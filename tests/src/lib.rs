//! What no single crate can promise, and the helpers that only these tests need: the documents' own programs, hostile
//! input, operations that stop at a step. What every test needs is in `beadlock-testkit`, and is here by the same
//! names.

pub mod go;
pub mod hostile;
pub mod kind;
pub mod seed;
pub mod stepped;
pub mod stepwise;
pub mod vector;
pub mod watched;

pub use beadlock_testkit::*;
pub use kind::Kind;

/// The Rust of the guides and of the pages of both faces, compiled as it is printed.
#[cfg(doctest)]
mod guides {
    #[doc = include_str!("../../docs/guide/rust.md")]
    mod rust {}
    #[doc = include_str!("../../docs/guide/daemon.md")]
    mod daemon {}
    #[doc = include_str!("../../integration/README.md")]
    mod face {}
    #[doc = include_str!("../../checker/README.md")]
    mod face_for_daemons {}
}
