//! Walks one after another, through real directories.

use super::*;
use beadlock_core::database::{Database, DatabaseVariables};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const LATER: Duration = Duration::from_secs(1 << 40);
const BEFORE: Duration = Duration::ZERO;

/// What is told of a walk, and how many directories were read for it.
fn go(walk: &mut RootWalk, now: Duration) -> Vec<String> {
    let mut told = Vec::new();
    let top = walk.top.clone();
    let shown = |path: &Path| path.strip_prefix(&top).unwrap().display().to_string();
    let done = walk.go(now, &AtomicBool::new(false), &Mounts::default(), |what| {
        told.push(match what {
            WalkEvent::Beads(path, _) => shown(path),
            WalkEvent::Unread(path, error) => format!("{}: {:?}", shown(path), error.kind()),
        });
        None
    });
    assert_eq!(done, Some(()));
    told
}

fn scene() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(root.path()).unwrap();
    for dir in ["b/.beads", "a/x/.beads/.beads", "a/.git/.beads", "c"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    std::os::unix::fs::symlink(top.join("a"), top.join("link")).unwrap();
    fs::write(top.join("c/.beads"), "").unwrap();
    (root, top)
}

#[test]
fn every_one_is_told_in_order_each_time() {
    let (_root, top) = scene();
    let mut walk = RootWalk::new(top.clone());
    for now in [BEFORE, LATER, LATER, BEFORE] {
        assert_eq!(
            go(&mut walk, now),
            ["a/x/.beads", "b/.beads", "c/.beads"],
            "{now:?}"
        );
    }
    fs::create_dir(top.join("a/.beads")).unwrap();
    fs::rename(top.join("b"), top.join("d")).unwrap();
    assert_eq!(
        go(&mut walk, LATER),
        ["a/.beads", "a/x/.beads", "c/.beads", "d/.beads"]
    );
    fs::remove_dir(top.join("a/.beads")).unwrap();
    assert_eq!(go(&mut walk, LATER), ["a/x/.beads", "c/.beads", "d/.beads"]);
    fs::remove_dir_all(&top).unwrap();
    assert_eq!(go(&mut walk, LATER), [": NotFound"]);
    fs::create_dir_all(top.join("e/.beads")).unwrap();
    assert_eq!(go(&mut walk, LATER), ["e/.beads"], "and back");
}

#[test]
fn what_has_not_changed_is_not_read_again_and_what_has_just_changed_is() {
    let (_root, top) = scene();
    let mut walk = RootWalk::new(top.clone());
    go(&mut walk, LATER);
    // Something that is remembered and was never there.
    walk.tree.beads = Some(BeadsEntry::default());
    let all = ["a/x/.beads", "b/.beads", "c/.beads"];
    let invented = [&[".beads"], &all[..]].concat();
    assert_eq!(go(&mut walk, LATER), invented, "remembered");
    fs::write(top.join("file"), "").unwrap();
    assert_eq!(go(&mut walk, LATER), all, "its change time is another one");
    let now = Duration::from_secs(fs::metadata(&top).unwrap().ctime().unsigned_abs() + 1);
    fs::write(top.join("other"), "").unwrap();
    go(&mut walk, now);
    walk.tree.beads = Some(BeadsEntry::default());
    assert_eq!(
        go(&mut walk, now),
        all,
        "it may change again within the same tick"
    );
}

/// What its cycles ask is not asked twice, but as soon as they have found something wrong.
#[test]
fn a_beads_that_has_changed_is_told_as_such_unless_its_cycles_ask() {
    let (_root, top) = scene();
    let beads = top.join("b/.beads");
    let database = Database::named(&beads, &DatabaseVariables::default()).unwrap();
    let found = Arc::new(FoundDatabase {
        root: top.clone(),
        at: beads.clone(),
        database,
    });
    let mut walk = RootWalk::new(top);
    let mut is_known = |are_asked| {
        walk.are_asked = are_asked;
        let mut is_known = false;
        let _ = walk.go(
            LATER,
            &AtomicBool::new(false),
            &Mounts::default(),
            |told| match told {
                WalkEvent::Beads(at, known) if at == beads => {
                    is_known = known.is_some();
                    Some(Arc::clone(&found))
                }
                _ => None,
            },
        );
        is_known
    };
    assert_eq!(
        (is_known(true), is_known(false)),
        (false, true),
        "it was seen once"
    );
    fs::set_permissions(&beads, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!((is_known(true), is_known(false)), (true, false));
    fs::remove_dir(&beads).unwrap();
    fs::create_dir(&beads).unwrap();
    assert!(!is_known(true), "another one lies there");
}

/// A path of some 4,000 bytes, near the longest that the kernel accepts, is found.
#[test]
fn the_deepest_is_found() {
    let root = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(root.path()).unwrap();
    let levels = (4_000 - top.as_os_str().len()) / 2;
    let deep: PathBuf = top.join("d/".repeat(levels));
    fs::create_dir_all(deep.join(BEADS)).unwrap();
    let mut walk = RootWalk::new(top);
    for _ in 0..2 {
        assert_eq!(go(&mut walk, LATER).len(), 1);
    }
}
