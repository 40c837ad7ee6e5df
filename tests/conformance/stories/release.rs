//! A claim over several commands ends by its id alone, or with the process that it is for.

use std::collections::HashMap;

use beadlock_tests::process::process_is_gone;
use beadlock_tests::{Ended, until};
use nix::sys::signal::Signal;

use crate::protocol::{ForProcess, Leaves};
use crate::site::Site;

pub fn tell(site: &Site) {
    a_claim_is_released_by_its_id_and_by_nothing_else(site);
    a_claim_for_a_process_ends_with_it(site);
}

/// What `acquire` has printed.
#[track_caller]
fn printed(ended: &Ended) -> HashMap<&str, &str> {
    assert_eq!(ended.code, 0, "{ended:?}");
    let pairs: HashMap<&str, &str> = ended.out.lines().filter_map(|line| line.split_once('=')).collect();
    let mut names: Vec<&&str> = pairs.keys().collect();
    names.sort();
    assert_eq!(names, [&"BEADLOCK_ID", &"BEADLOCK_PID", &"BEADLOCK_TARGET"], "{ended:?}");
    pairs
}

fn a_claim_is_released_by_its_id_and_by_nothing_else(site: &Site) {
    let ended = site.acquire(&["--detach"]);
    let claim = printed(&ended);
    let (id, target) = (claim["BEADLOCK_ID"], claim["BEADLOCK_TARGET"]);
    site.assert_held();
    assert_eq!(site.id(), id, "status shows the id that acquire prints");
    let before = site.bytes();
    assert_eq!(site.run("release", &[]).code, 2, "without an id");
    let ended = site.run("release", &["--id", "1:2:3"]);
    assert_eq!(ended.code, 9, "another one's: {ended:?}");
    assert_eq!(site.bytes(), before, "it is untouched");
    site.assert_held();

    // From anywhere, by the variables alone.
    let mut release = site.plain(&["release"]);
    release.current_dir("/").env("BEADLOCK_TARGET", target).env("BEADLOCK_ID", id);
    let ended = beadlock_tests::Running::apart(release).end();
    assert_eq!((ended.code, ended.out.as_str()), (0, ""), "{ended:?}");
    let said = format!("beadlock: {}", site.protocol.released);
    assert!(ended.err.starts_with(&said), "{ended:?}");
    site.assert_free();
    site.assert_tidy();
    site.until_still();
    let ended = site.run("release", &["--id", id]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.err.starts_with("beadlock: warning: "), "there is nothing to release: {ended:?}");
}

fn a_claim_for_a_process_ends_with_it(site: &Site) {
    let subject = site.start_shell("exec sleep 600");
    let pid = subject.pid();
    let ended = site.acquire(&["--for", &pid.to_string()]);
    printed(&ended);
    site.assert_held();
    subject.signal(Signal::SIGKILL);
    drop(subject);
    process_is_gone(pid);
    match site.protocol.for_process {
        ForProcess::LeavesAStaleLock => {
            assert_eq!(site.verdict(), ("stale".to_owned(), "pid_gone".to_owned()));
            assert_eq!(site.run("check", &[]).code, 0);
        }
        ForProcess::IsReleased => match site.protocol.leaves {
            Leaves::Nothing => until("the keeper releases it", || site.bytes().is_none()),
            Leaves::AnEmptyLockFile => until("the keeper releases it", || !site.gate_is_shut()),
        },
    }
    site.until_still();
    site.assert_free();
    site.assert_tidy();
}
