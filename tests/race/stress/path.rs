//! A lock at a path (`lock:PATH`), by `beadlock` and by tools that embed it: a waiter takes what its killed holders
//! leave. A command works on when its beadlock is killed, and has its lock until it ends.

use super::crowd::{self, LockKind};

#[test]
fn eight_processes_over_one_path_never_overlap() {
    crowd::never_overlaps(LockKind::Path);
}

#[test]
fn eight_tools_over_one_lock_never_overlap() {
    crowd::never_overlaps(LockKind::Tool);
}

/// The obvious order (look whether its process lives, write) lets in more than one, so that the witness can tell.
#[test]
fn a_stale_path_falls_to_one_where_the_obvious_order_lets_in_more() {
    crowd::falls_to_one(LockKind::Path);
}

#[test]
fn so_it_does_among_tools() {
    crowd::falls_to_one(LockKind::Tool);
}
