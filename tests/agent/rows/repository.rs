//! Repositories in the middle of something, broken, or far from the remote.

use crate::play::{Row, play};

#[test]
fn a_repository_that_cannot_be_committed_to_says_what_to_type() {
    play(&[Row {
        name: "a detached HEAD",
        set_up: "git checkout -q --detach; append bd-13",
        why: &["HEAD is detached"],
        next: "git -C TOP switch BRANCH",
        typed: "git switch main",
        ..Row::TYPED
    }]);
}
