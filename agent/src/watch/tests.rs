use super::classify::LOCK;
use super::tree::Report;
use super::*;
use std::fs::File;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(30);

const CHANGED: Marks = Marks { changed: true, lock_gone: false };
const GONE: Marks = Marks { changed: false, lock_gone: true };
const NOTHING: Marks = Marks { changed: false, lock_gone: false };

fn scene() -> (tempfile::TempDir, PathBuf, Watch) {
    let root = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(root.path()).unwrap().join(".beads");
    fs::create_dir(&dir).unwrap();
    let watch = Watch::new().unwrap();
    watch.ensure(0, &dir);
    (root, dir, watch)
}

/// Everything that happened so far.
fn marks(watch: &Watch, number: usize) -> Marks {
    watch.drain();
    watch.take(number)
}

#[test]
fn what_a_cycle_writes_is_no_news_and_what_comes_after_it_is() {
    let (_root, dir, watch) = scene();
    for round in 0..50 {
        watch.mute(0);
        for number in 0..200 {
            fs::write(dir.join(format!("file-{number}")), "x").unwrap();
            let _ = File::open(&dir); // What SQLite and git do as well.
        }
        watch.unmute(0, &dir);
        assert_eq!(marks(&watch, 0), NOTHING, "round {round}");
        fs::write(dir.join("later"), "x").unwrap();
        assert_eq!(marks(&watch, 0), CHANGED, "round {round}");
    }
}

#[test]
fn a_lock_that_goes_away_is_never_swallowed() {
    let (_root, dir, watch) = scene();
    fs::write(dir.join(LOCK), "{}").unwrap();
    assert_eq!(marks(&watch, 0), NOTHING, "it came");
    watch.mute(0);
    fs::remove_file(dir.join(LOCK)).unwrap();
    watch.unmute(0, &dir);
    assert_eq!(marks(&watch, 0), GONE);
    fs::write(dir.join(LOCK), "{}").unwrap();
    fs::rename(dir.join(LOCK), dir.join(".exclusive-lock.aside")).unwrap();
    assert_eq!(marks(&watch, 0), GONE);
    fs::write(dir.join(LOCK), "{}").unwrap();
    fs::remove_file(dir.join(LOCK)).unwrap();
    watch.forget_lock_gone(0);
    assert_eq!(marks(&watch, 0), NOTHING, "removed by the cycle itself");
}

#[test]
fn a_directory_made_anew_is_watched_again() {
    let (_root, dir, watch) = scene();
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    watch.drain();
    watch.ensure(0, &dir);
    watch.take(0);
    fs::create_dir(dir.join("sub")).unwrap();
    assert_eq!(marks(&watch, 0), CHANGED);
    fs::rename(&dir, dir.with_extension("old")).unwrap();
    fs::create_dir(&dir).unwrap();
    watch.ensure(0, &dir);
    watch.drain();
    watch.take(0);
    fs::write(dir.join("file"), "x").unwrap();
    assert_eq!(marks(&watch, 0), CHANGED);
}

#[test]
fn a_directory_that_goes_is_news_but_for_the_cycle_that_replaces_it() {
    let (_root, dir, watch) = scene();
    fs::rename(&dir, dir.with_extension("old")).unwrap();
    assert_eq!(marks(&watch, 0), CHANGED, "somebody else has moved it");
    fs::create_dir(&dir).unwrap();
    watch.ensure(0, &dir);
    watch.mute(0);
    fs::remove_dir_all(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    watch.unmute(0, &dir);
    assert_eq!(marks(&watch, 0), NOTHING);
    fs::write(dir.join("file"), "x").unwrap();
    assert_eq!(marks(&watch, 0), CHANGED, "the new one is watched at once");
}

#[test]
fn one_that_has_gone_is_watched_no_longer_unless_it_is_back_under_another_number() {
    let (_root, dir, watch) = scene();
    watch.ensure(7, &dir);
    watch.unwatch(0);
    fs::write(dir.join("file"), "x").unwrap();
    assert_eq!((marks(&watch, 7), marks(&watch, 0)), (CHANGED, NOTHING), "it is back");
    assert_eq!(std::mem::take(&mut watch.shared.lock().news).marked, [7]);
    watch.unwatch(7);
    fs::write(dir.join("file"), "y").unwrap();
    assert_eq!(marks(&watch, 7), NOTHING);
    watch.ensure(8, &dir);
    fs::write(dir.join("file"), "z").unwrap();
    assert_eq!(marks(&watch, 8), CHANGED, "and again");
}

#[test]
fn a_directory_that_comes_later_is_watched_too_and_one_that_goes_elsewhere_no_longer() {
    let (root, dir, watch) = scene();
    let is_heard = |file: PathBuf| {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            fs::write(&file, "x").unwrap();
            if marks(&watch, 0) == CHANGED {
                return true;
            }
        }
        false
    };
    fs::create_dir_all(dir.join("a/b")).unwrap();
    assert!(is_heard(dir.join("a/b/file")));
    fs::rename(dir.join("a"), dir.join("c")).unwrap();
    assert!(is_heard(dir.join("c/b/file")));
    fs::rename(dir.join("c"), root.path().join("elsewhere")).unwrap();
    assert_eq!(marks(&watch, 0), CHANGED);
    fs::write(root.path().join("elsewhere/b/file"), "y").unwrap();
    assert_eq!(marks(&watch, 0), NOTHING);
}

#[test]
fn what_is_only_opened_and_read_is_not_even_heard() {
    let (_root, dir, watch) = scene();
    fs::write(dir.join("file"), "x").unwrap();
    watch.drain();
    let _ = (File::open(&dir), fs::read(dir.join("file")), fs::read_dir(&dir));
    let ears = watch.ears.as_ref().unwrap();
    let mut heard = 0;
    ears.tree.read(|_| heard += 1).unwrap();
    assert_eq!(heard, 0);
}

#[test]
fn in_a_database_in_another_the_inner_ones_lock_counts() {
    let (_root, dir, watch) = scene();
    let inner = dir.join("sub/.beads");
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join(LOCK), "{}").unwrap();
    for order in [[&dir, &inner], [&inner, &dir]] {
        watch.unwatch(0);
        watch.unwatch(1);
        order.iter().for_each(|at| watch.ensure(usize::from(**at == inner), at));
        marks(&watch, 0);
        fs::remove_file(inner.join(LOCK)).unwrap();
        assert_eq!((marks(&watch, 1), marks(&watch, 0)), (GONE, NOTHING));
        fs::write(inner.join(LOCK), "{}").unwrap();
    }
}

#[test]
fn a_shared_log_in_the_database_is_no_change() {
    let (_root, dir, _) = scene();
    let log = dir.join("sync.log");
    fs::write(&log, "").unwrap();
    let watch = Watch::new().unwrap();
    watch.mind(&[fs::canonicalize(&log).unwrap()]);
    watch.ensure(0, &dir);
    fs::write(&log, "line").unwrap();
    fs::rename(&log, dir.join("sync.log.1")).unwrap();
    assert_eq!(marks(&watch, 0), NOTHING);
}

#[test]
fn what_cannot_be_watched_is_said_and_for_whom() {
    let why = "the limit of inotify watches is reached; raise fs.inotify.max_user_watches".to_owned();
    let limit = Wrong::new(Some(3), &Errno::ENOSPC.into());
    assert_eq!(limit, Wrong { database: None, why }, "a limit is everyone's");
    let denied = Errno::EACCES.into();
    assert_eq!(
        Wrong::new(Some(3), &denied),
        Wrong { database: Some(3), why: "permission denied".to_owned() }
    );
}

#[test]
fn what_was_missed_is_a_change_of_everything_that_is_not_at_work() {
    let (_root, dir, watch) = scene();
    watch.shared.take(&Report::Lost);
    assert_eq!(watch.take(0), CHANGED);
    watch.ensure(0, &dir);
    watch.mute(0);
    watch.shared.take(&Report::Lost);
    assert_eq!(watch.take(0), GONE, "a lost end of a claim would never be repeated");
    watch.unmute(0, &dir);
    assert_eq!(std::mem::take(&mut watch.shared.lock().news).resyncs, 2);
    fs::write(dir.join("file"), "x").unwrap();
    assert_eq!(marks(&watch, 0), CHANGED, "it is watched anew");
}
