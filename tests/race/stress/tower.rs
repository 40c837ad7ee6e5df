//! A named lock (`tower:NAME`): what its killed holders leave is taken with `--force-lock` once it is stale.

use super::crowd::{self, LockKind};

/// A kill of beadlock ends no work by itself, so this shows more than that the lock excludes: that there is no work
/// where there are no heartbeats.
#[test]
fn eight_processes_over_one_name_never_overlap() {
    crowd::never_overlaps(LockKind::Tower);
}

/// The document's order for a steal (6.3: look, delete, create) lets in more than one, so that the witness can tell.
#[test]
fn a_stale_name_falls_to_one_where_the_documents_order_lets_in_more() {
    crowd::falls_to_one(LockKind::Tower);
}
