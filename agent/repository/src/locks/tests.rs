use super::*;
use crate::{RepositoryFacts, SyncRequest};

/// The clocks `boottime` seconds after the boot. `booted` is in Unix seconds.
fn clocks(booted: i64, boottime: u64) -> Clocks {
    Clocks {
        wall: booted + i64::try_from(boottime).unwrap(),
        boottime: Duration::from_secs(boottime),
        devices: i64::MAX,
        boot: Some("this".to_owned()),
    }
}

/// A lock that was made now, and its stamp.
fn lock() -> (tempfile::TempDir, FileStamp) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("HEAD.lock");
    fs::write(&path, "").unwrap();
    let stamp = FileStamp::of(&path).unwrap();
    (root, stamp)
}

fn noted(stamp: &FileStamp, boot: &str, seen: u64) -> NotedLock {
    NotedLock {
        path: "HEAD.lock".into(),
        stamp: stamp.clone(),
        boot: boot.to_owned(),
        seen: Duration::from_secs(seen),
    }
}

#[test]
fn only_a_lock_from_before_this_boot_that_stays_as_it_is_is_proved_to_be_nobodys() {
    let (root, stamp) = lock();
    let made = stamp.changed().as_secs().cast_signed();
    // This kernel was started an hour after the lock was made.
    let booted = made + 3600;
    let at = |boottime| clocks(booted, boottime);
    let life = |boottime, noted: Option<&NotedLock>| judge(&stamp, &at(boottime), noted);
    assert_eq!(
        life(5, None),
        LockLife::BeforeBoot,
        "seen for the first time"
    );
    let first = noted(&stamp, "this", 5);
    assert_eq!(
        life(604, Some(&first)),
        LockLife::BeforeBoot,
        "not for long"
    );
    assert_eq!(life(605, Some(&first)), LockLife::Gone);
    assert_eq!(
        life(4, Some(&first)),
        LockLife::BeforeBoot,
        "from the future"
    );
    let stood_still = Clocks {
        devices: made - 60,
        ..at(605)
    };
    assert_eq!(
        judge(&stamp, &stood_still, Some(&first)),
        LockLife::Unknown,
        "made after the devices of this boot"
    );
    let other = noted(&stamp, "other", 5);
    assert_eq!(
        life(605, Some(&other)),
        LockLife::BeforeBoot,
        "another boot"
    );
    fs::write(root.path().join("x"), "x").unwrap();
    let changed = noted(&FileStamp::of(&root.path().join("x")).unwrap(), "this", 5);
    assert_eq!(
        life(605, Some(&changed)),
        LockLife::BeforeBoot,
        "another lock"
    );
}

#[test]
fn a_lock_of_this_boot_is_never_proved_however_old_it_is() {
    let (_root, stamp) = lock();
    let first = noted(&stamp, "this", 5);
    for since_boot in [-3600, 0, 59] {
        // It was made so long after the boot; or a moment before, by a clock that is not that exact.
        let clocks = clocks(
            stamp.changed().as_secs().cast_signed() + since_boot,
            1_000_000,
        );
        let life = judge(&stamp, &clocks, Some(&first));
        assert_eq!(life, LockLife::Unknown, "{since_boot}");
    }
}

#[test]
fn without_a_clock_that_counts_from_the_boot_nothing_is_proved() {
    let (_root, stamp) = lock();
    let first = noted(&stamp, "this", 5);
    let clocks = Clocks {
        boot: None,
        ..clocks(stamp.changed().as_secs().cast_signed() + 3600, 605)
    };
    assert_eq!(judge(&stamp, &clocks, Some(&first)), LockLife::Unknown);
}

#[test]
fn a_lock_that_is_proved_to_be_nobodys_is_removed_and_one_that_has_changed_meanwhile_is_not() {
    let root = tempfile::tempdir().unwrap();
    let top = fs::canonicalize(root.path()).unwrap();
    let database = top.join(".beads");
    fs::create_dir_all(&database).unwrap();
    fs::create_dir(top.join(".git")).unwrap();
    let request = SyncRequest::for_tests(&database);
    let known = RepositoryFacts::for_tests(&top, &database);
    let repository = Repository::known(&request, &known).unwrap();
    let lock = top.join(".git/HEAD.lock");
    fs::write(&lock, "").unwrap();
    let made = FileStamp::of(&lock)
        .unwrap()
        .changed()
        .as_secs()
        .cast_signed();
    let look_at = |boottime| look(&repository, &lock, &clocks(made + 3600, boottime));
    if !is_local_file(&lock) {
        return assert_eq!(look_at(5), LockLife::Unknown, "others may have it");
    }
    assert_eq!(look_at(5), LockLife::BeforeBoot);
    assert_eq!(look_at(300), LockLife::BeforeBoot, "the first look counts");
    fs::write(&lock, "changed").unwrap();
    assert_eq!(look_at(605), LockLife::BeforeBoot, "another look begins");
    assert!(lock.exists());
    assert_eq!(look_at(1205), LockLife::Gone);
    assert!(!lock.exists());
    let left = fs::read_dir(top.join(".git")).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["beadlock"], "nothing else is left");
    // As a git has made it in this moment.
    fs::write(&lock, "live").unwrap();
    let stamp = FileStamp::of(&lock).unwrap();
    fs::write(&lock, "of another").unwrap();
    assert_eq!(remove(&repository, &lock, &stamp), Ok(false));
    assert_eq!(fs::read(&lock).unwrap(), b"of another");
}
