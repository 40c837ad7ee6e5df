//! The same stories for every protocol, by the real programs. A test is called by its protocol and its story:
//! `tower::stale`.
//!
//! A new protocol is one file with a [`Protocol`](protocol::Protocol) in it, and one line in the list below. A new
//! story is one file in `stories`, and one test in the macro.

mod envelope;
mod protocol;
mod site;
mod stories;

/// Makes the tests of one protocol.
macro_rules! stories {
    ($protocol:expr) => {
        #[test]
        fn create() {
            $crate::stories::create::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn refuse() {
            $crate::stories::refuse::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn wait() {
            $crate::stories::wait::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn stale() {
            $crate::stories::stale::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn release() {
            $crate::stories::release::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn break_lock() {
            $crate::stories::break_lock::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn loss() {
            $crate::stories::loss::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn crash() {
            $crate::stories::crash::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn status() {
            $crate::stories::status::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn list() {
            $crate::stories::list::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn audit() {
            $crate::stories::audit::tell(&$crate::site::Site::new(&$protocol));
        }

        #[test]
        fn json() {
            $crate::stories::json::tell(&$crate::site::Site::new(&$protocol));
        }
    };
}

// The list of the protocols.
mod beads;
mod dir;
mod file;
mod flock;
mod lock;
mod memory;
mod tower;
