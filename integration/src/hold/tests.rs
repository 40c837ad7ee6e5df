use super::*;
use std::ffi::OsStr;

fn database() -> (tempfile::TempDir, PathBuf) {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join(".beads");
    std::fs::create_dir(&dir).unwrap();
    (top, dir)
}

#[test]
fn a_guard_holds_until_it_is_released() {
    let (_top, dir) = database();
    let claim = Hold::on(&dir).holder("importer").claim().unwrap();
    let decision = beadlock_core::should_skip_database(&dir);
    assert_eq!(
        decision.to_string(),
        "Skipping database (locked by importer)"
    );
    assert_eq!(
        decision.record().unwrap().pid(),
        i64::from(std::process::id())
    );
    assert_eq!(decision.record().unwrap().mark().unwrap().id, claim.id());
    claim.release().unwrap();
    assert!(!dir.join(".exclusive-lock").exists());
}

#[test]
fn the_lock_has_the_version_that_is_given_and_else_none() {
    let (_top, dir) = database();
    let text = || std::fs::read_to_string(dir.join(".exclusive-lock")).unwrap();
    let claim = Hold::on(&dir)
        .version("1.2.0")
        .about("https://ci.example/7")
        .claim()
        .unwrap();
    assert!(
        text().contains("\n  \"version\": \"1.2.0\",\n"),
        "{}",
        text()
    );
    let refused = Hold::on(&dir).wait(Wait::No).claim().unwrap_err();
    assert_eq!(
        refused.holder().unwrap().about.as_deref(),
        Some("https://ci.example/7")
    );
    claim.release().unwrap();
    let claim = Hold::on(&dir).claim().unwrap();
    assert!(!text().contains("\n  \"version\""), "{}", text());
    claim.release().unwrap();
    for hold in [
        Hold::on(&dir).version("1\n2"),
        Hold::on(&dir).about("ftp://ci.example/7"),
    ] {
        assert_eq!(hold.claim().unwrap_err().code(), Code::Usage);
    }
    assert!(!dir.join(".exclusive-lock").exists());
}

#[test]
fn a_claim_that_was_overwritten_is_no_longer_held() {
    let (_top, dir) = database();
    let claim = Hold::on(&dir).claim().unwrap();
    let under_it = Environment::of(&[("BEADLOCK_ID", claim.id())]);
    let nested = Hold::on(&dir)
        .wait(Wait::No)
        .claim_in(&under_it, &mut Uninterrupted)
        .unwrap();
    claim.still_held().unwrap();
    nested.still_held().unwrap();
    std::fs::write(dir.join(".exclusive-lock"), "somebody else's").unwrap();
    for claim in [&claim, &nested] {
        assert_eq!(claim.still_held().unwrap_err().code(), Code::LockLost);
    }
}

#[test]
fn the_net_releases_too() {
    let (_top, dir) = database();
    drop(Hold::on(&dir).claim().unwrap());
    assert!(!dir.join(".exclusive-lock").exists());
}

#[test]
fn a_claim_inside_a_hold_of_the_same_database_is_nested() {
    let (_top, dir) = database();
    let outer = Hold::on(&dir).holder("outer").claim().unwrap();
    let held_here = |id: &str| {
        let target = format!("beads:{}", dir.display());
        Environment::of(&[("BEADLOCK_HELD_TARGET", &target), ("BEADLOCK_HELD_ID", id)])
    };
    let inner = Hold::on(&dir)
        .wait(Wait::No)
        .claim_in(&held_here(outer.id()), &mut Uninterrupted)
        .unwrap();
    assert_eq!(inner.id(), outer.id());
    inner.release().unwrap();
    drop(
        Hold::on(&dir)
            .wait(Wait::No)
            .claim_in(&held_here(outer.id()), &mut Uninterrupted)
            .unwrap(),
    );
    assert!(dir.join(".exclusive-lock").exists(), "it releases nothing");
    let stranger = Hold::on(&dir)
        .wait(Wait::No)
        .claim_in(&held_here("other"), &mut Uninterrupted);
    assert_eq!(Error::from(stranger.unwrap_err()).code(), Code::LockHeld);
    outer.release().unwrap();
    assert!(!dir.join(".exclusive-lock").exists());
}

#[test]
fn a_live_lock_is_never_touched_and_its_holder_is_named() {
    let (_top, dir) = database();
    let first = Hold::on(&dir).holder("first").claim().unwrap();
    let before = std::fs::read(dir.join(".exclusive-lock")).unwrap();
    let error = Hold::on(&dir)
        .holder("second")
        .wait(Wait::No)
        .claim()
        .unwrap_err();
    assert_eq!(error.code(), Code::LockHeld);
    let words = error.to_string();
    assert!(
        words.contains(&format!("held by first (PID {}", std::process::id())),
        "{words}"
    );
    assert!(words.contains("did not wait"), "{words}");
    assert_eq!(std::fs::read(dir.join(".exclusive-lock")).unwrap(), before);
    first.release().unwrap();
}

#[test]
fn who_was_in_the_way_is_told_to_programs_too() {
    let (_top, dir) = database();
    let first = Hold::on(&dir).holder("first").claim().unwrap();
    let error = Hold::target(&dir).wait(Wait::No).claim().unwrap_err();
    let holder = error.holder().unwrap();
    assert_eq!(
        (holder.name.as_deref(), holder.path.as_path()),
        (Some("first"), first.path().as_path())
    );
    assert_eq!(holder.pid, Some(i64::from(std::process::id())));
    assert!(holder.age.is_some() && error.retry_in().is_some() && error.detail().is_some());
    first.release().unwrap();
}

#[test]
fn a_wait_that_is_called_off_claims_nothing() {
    let (top, dir) = database();
    let lock = [OsStr::new("lock:"), top.path().join("x").as_os_str()].join(OsStr::new(""));
    for target in [dir.into_os_string(), lock] {
        // Another thread may have it: this one does not wait for itself.
        let first = Hold::target(&target).claim().unwrap().detach();
        let mut asked = 0;
        let second = Hold::target(&target)
            .wait(Wait::UpTo(Duration::MAX))
            .claim_unless(|| {
                asked += 1;
                asked == 3
            });
        assert!(
            second.unwrap().is_none() && asked == 3,
            "{target:?}: asked {asked} times"
        );
        let path = first.path();
        first.release().unwrap();
        assert!(!path.exists(), "{target:?}");
    }
}

#[test]
fn a_lock_that_needs_more_than_a_living_process_is_refused() {
    let error = Hold::target("tower:app-prod").claim().unwrap_err();
    assert_eq!(error.code(), Code::Usage);
    assert!(
        error.to_string().contains("beadlock hold tower:app-prod"),
        "{error}"
    );
}

#[test]
fn a_name_that_could_forge_a_log_line_is_refused() {
    let (_top, dir) = database();
    for name in ["", "a\nb", "\u{1b}[2J", &"x".repeat(129)] {
        let error = Hold::on(&dir).holder(name).claim().unwrap_err();
        assert_eq!(error.code(), Code::Usage, "{name:?}");
    }
    assert!(!dir.join(".exclusive-lock").exists());
}

fn lock_at(dir: &Path, name: &str) -> OsString {
    [OsStr::new("lock:"), dir.join(name).as_os_str()].join(OsStr::new(""))
}

#[test]
fn the_lock_of_a_database_is_always_synced() {
    let (_top, dir) = database();
    let file = dir.join(".exclusive-lock");
    for hold in [
        Hold::on(&dir),
        Hold::target(lock_at(&dir, ".exclusive-lock")),
    ] {
        let error = hold.without_sync().claim().unwrap_err();
        assert_eq!(error.code(), Code::Usage);
        let words = format!(
            "{} is always synced to the disk: after a power cut an empty one would stop every daemon; only a lock:PATH \
             of another name can do without",
            file.display()
        );
        assert_eq!(error.to_string(), words);
        assert!(!file.exists());
    }
}

/// Traced, this test is the program that claims; else it starts itself again under strace.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the variable says to the test which of its two processes it is"
)]
fn a_lock_at_a_path_can_do_without_the_sync() {
    const TRACED: &str = "BEADLOCK_TEST_TRACED_IN";
    if let Some(dir) = std::env::var_os(TRACED) {
        let dir = Path::new(&dir);
        let synced = Hold::target(lock_at(dir, "synced.lock"));
        let unsynced = Hold::target(lock_at(dir, "unsynced.lock")).without_sync();
        for hold in [synced, unsynced] {
            let claim = hold.claim().unwrap();
            claim.still_held().unwrap();
            claim.release().unwrap();
        }
        return;
    }
    let Some(strace) = beadlock_testkit::tool("strace") else {
        return;
    };
    let top = tempfile::tempdir().unwrap();
    let trace = top.path().join("calls");
    let name = "hold::tests::a_lock_at_a_path_can_do_without_the_sync";
    let ended = std::process::Command::new(strace)
        .args(["-f", "-e", "trace=fsync,fdatasync,linkat", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(TRACED, top.path())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let calls = std::fs::read_to_string(trace).unwrap();
    let names = [
        "fsync(",
        "fdatasync(",
        "\"synced.lock\"",
        "\"unsynced.lock\"",
    ];
    let seen: Vec<_> = calls
        .lines()
        .filter(|line| line.ends_with(" = 0"))
        .filter_map(|line| names.iter().find(|name| line.contains(**name)))
        .collect();
    assert_eq!(
        seen,
        [&"fdatasync(", &"\"synced.lock\"", &"\"unsynced.lock\""],
        "{calls}"
    );
}

#[test]
fn guards_go_to_other_threads() {
    fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<Claim>();
    is_send_and_sync::<crate::file::FileLock>();
    is_send_and_sync::<crate::memory::Guard>();
    is_send_and_sync::<beadlock_core::Cycle>();
    is_send_and_sync::<ReleaseError<Claim>>();
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "somebody else takes the lock away"
)]
fn a_release_says_whether_the_lock_stood() {
    let (_top, dir) = database();
    let claim = || Hold::on(&dir).claim().unwrap();
    let lost = |claim: Claim, how: &str| {
        let error = claim.release().unwrap_err();
        assert!(
            error.is_lost() && error.to_string().contains(how),
            "{error}"
        );
        assert!(error.into_guard().is_none());
    };
    assert_eq!(claim().release().unwrap(), Released::Ended);

    let vanishes = claim();
    std::fs::rename(vanishes.path(), dir.join("elsewhere")).unwrap();
    lost(vanishes, "vanished");

    let changes = claim();
    let path = changes.path();
    std::fs::write(&path, "another's").unwrap();
    lost(changes, "overwritten");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "another's");
}

#[test]
fn a_cycle_that_went_to_another_thread_is_waited_for() {
    let (_top, dir) = database();
    let enter = || match beadlock_core::Cycle::enter(&dir) {
        beadlock_core::Entered::Cycle(cycle) => cycle,
        beadlock_core::Entered::Skipped(decision) => panic!("{decision}"),
    };
    let own = enter();
    let begun = std::time::Instant::now();
    let error = Hold::on(&dir).claim().unwrap_err();
    assert_eq!(error.code(), Code::DrainTimeout);
    assert!(
        error.to_string().contains("leave the cycle first"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
    own.leave();

    let others = enter().detach();
    let end = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        others.leave();
    });
    Hold::on(&dir).claim().unwrap().release().unwrap();
    end.join().unwrap();
}
