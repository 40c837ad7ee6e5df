//! Looks one after another, below real directories.

use super::*;
use std::os::unix::fs::chown;

const LATER: Duration = Duration::from_secs(1 << 40);

/// One look after the other, each with what the last one has read.
fn again(ground: &SearchScope, last: RootScan) -> RootScan {
    look_at(
        LATER,
        ground,
        &last.found,
        last.walks,
        &AtomicBool::new(false),
    )
    .unwrap()
}

/// Runs git in a directory, with nothing of its user's.
fn git(dir: &Path, args: &[&str]) {
    let mut git = std::process::Command::new("git");
    git.args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(git.status().unwrap().success(), "git {args:?}");
}

#[test]
fn git_is_asked_about_a_redirect_once_and_again_when_it_has_changed_or_was_refused() {
    let root = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(root.path()).unwrap();
    for dir in ["a/.beads", "other/.beads"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    git(&top, &["init", "--quiet"]);
    let redirect = top.join("a/.beads/redirect");
    fs::write(&redirect, "../other/.beads").unwrap();
    let ground = SearchScope {
        roots: vec![top.join("a")],
        named: Vec::new(),
        owners: Owners::of_this_user(false),
    };
    let first = again(&ground, RootScan::default());
    assert_eq!(first.found[0].database.dir, top.join("other/.beads"));
    git(&top, &["add", "a/.beads/redirect"]);
    let second = again(&ground, first);
    assert_eq!(
        (second.found.len(), second.problems.len()),
        (1, 0),
        "it has not changed"
    );
    fs::write(&redirect, "# changed\n../other/.beads").unwrap();
    let third = again(&ground, second);
    assert!(third.found.is_empty(), "asked again");
    let Some(ScanProblem::NotServed(at, why)) = third.problems.first() else {
        panic!("{third:?}")
    };
    assert!(
        at.ends_with("a/.beads") && why.contains("/redirect is tracked by git, so "),
        "{why}"
    );
    let fourth = again(&ground, third);
    assert_eq!(
        (fourth.found.len(), fourth.problems.len()),
        (0, 1),
        "said for as long as it is so"
    );
    git(
        &top,
        &["rm", "--quiet", "--force", "--cached", "a/.beads/redirect"],
    );
    assert_eq!(again(&ground, fourth).found.len(), 1, "asked again");
}

fn names(look: &RootScan, top: &Path) -> Vec<String> {
    let name =
        |found: &Arc<FoundDatabase>| found.at.strip_prefix(top).unwrap().display().to_string();
    look.found.iter().map(name).collect()
}

#[test]
fn what_has_not_changed_is_what_it_was_and_what_has_is_looked_at() {
    let root = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(root.path()).unwrap();
    for dir in ["a/.beads", "b/.beads", "c/.beads", "other"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    let owners = Owners::of_this_user(false);
    let ground = SearchScope {
        roots: vec![top.clone()],
        named: Vec::new(),
        owners,
    };
    let first = again(&ground, RootScan::default());
    assert_eq!(names(&first, &top), ["a/.beads", "b/.beads", "c/.beads"]);
    let known = first.found.clone();
    let second = again(&ground, first);
    assert!(
        second
            .found
            .iter()
            .zip(&known)
            .all(|(one, other)| Arc::ptr_eq(one, other))
    );
    fs::write(top.join("a/.beads/redirect"), "other").unwrap();
    fs::create_dir_all(top.join("a/other")).unwrap();
    fs::rename(top.join("b"), top.join("d")).unwrap();
    let third = again(&ground, second);
    assert_eq!(names(&third, &top), ["a/.beads", "c/.beads", "d/.beads"]);
    assert_eq!(
        third.found[0].database.dir,
        top.join("a/other"),
        "led there"
    );
    let fourth = again(&ground, third);
    assert_eq!(names(&fourth, &top).len(), 3);
    if !beadlock_testkit::root() {
        return;
    }
    chown(top.join("c"), Some(54_321), None).unwrap();
    chown(top.join("d/.beads"), Some(54_321), None).unwrap();
    let fifth = again(&ground, fourth);
    assert_eq!(names(&fifth, &top), ["a/.beads"]);
    assert_eq!(
        again(&ground, fifth).problems.len(),
        2,
        "said for as long as it is so"
    );
}
