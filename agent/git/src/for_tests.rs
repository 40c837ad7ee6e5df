//! Stand-ins, in tests, for the findings of a sync.

use std::path::Path;

use beadlock_repository::RepositoryFacts;
use serde_json::{from_value, json};

/// A repository at `top`, as a sync of `database` could have found it.
pub(crate) fn known(top: &Path, database: &Path) -> RepositoryFacts {
    let known = json!({
        "top": top,
        "git_dir": top.join(".git"),
        "common_dir": top.join(".git"),
        "database": database,
        "refs": ["refs/heads/main", "refs/remotes/origin/main"],
        "settings_files": [],
        "settings": null,
        "led_to": null,
        "refused": [],
        "upstream": null,
    });
    from_value(known).unwrap()
}
