//! The lock of a directory (`memory:DIR`): the next claimer breaks what its killed holders leave.

use super::crowd::{self, LockKind};

/// Some hold it for longer than the others take for stale: it is refreshed.
#[test]
fn eight_processes_over_one_directory_never_overlap() {
    crowd::never_overlaps(LockKind::Memory);
}

/// The document's order (`_try_acquire`: look, delete, write) lets in more than one, so that the witness can tell.
#[test]
fn a_stale_lock_falls_to_one_where_the_documents_order_lets_in_more() {
    crowd::falls_to_one(LockKind::Memory);
}
