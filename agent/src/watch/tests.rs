use super::classify::LOCK;
use super::*;
use nix::errno::Errno;
use notify::Event;
use notify::event::{EventKind, Flag};
use std::fs::File;
use std::time::Instant;

const BOUND: Duration = Duration::from_secs(30);

const CHANGED: Marks = Marks {
    changed: true,
    lock_gone: false,
};
const GONE: Marks = Marks {
    changed: false,
    lock_gone: true,
};
const NOTHING: Marks = Marks {
    changed: false,
    lock_gone: false,
};

fn scene() -> (tempfile::TempDir, PathBuf, DatabaseWatch) {
    let root = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(root.path()).unwrap().join(".beads");
    fs::create_dir(&dir).unwrap();
    let watch = DatabaseWatch::new().unwrap();
    watch.ensure(0, &dir);
    (root, dir, watch)
}

/// Reports an overflow to the watch, as the kernel does when its queue was full.
fn lose(watch: &DatabaseWatch) {
    let lost = Event::new(EventKind::Other).set_flag(Flag::Rescan);
    watch.directories.as_ref().unwrap().hear(0, Ok(lost));
    watch.drain();
}

/// Everything that happened so far.
fn marks(watch: &DatabaseWatch, number: usize) -> Marks {
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
    watch.unwatch(&[0]);
    fs::write(dir.join("file"), "x").unwrap();
    assert_eq!(
        (marks(&watch, 7), marks(&watch, 0)),
        (CHANGED, NOTHING),
        "it is back"
    );
    assert_eq!(std::mem::take(&mut watch.shared.lock().news).marked, [7]);
    watch.unwatch(&[7]);
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
        while begun.elapsed() < BOUND {
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
fn in_a_database_in_another_the_inner_ones_lock_counts() {
    let (_root, dir, watch) = scene();
    let inner = dir.join("sub/.beads");
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join(LOCK), "{}").unwrap();
    for order in [[&dir, &inner], [&inner, &dir]] {
        watch.unwatch(&[0, 1]);
        order
            .iter()
            .for_each(|at| watch.ensure(usize::from(**at == inner), at));
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
    let watch = DatabaseWatch::new().unwrap();
    watch.mind(&[fs::canonicalize(&log).unwrap()]);
    watch.ensure(0, &dir);
    fs::write(&log, "line").unwrap();
    fs::rename(&log, dir.join("sync.log.1")).unwrap();
    assert_eq!(marks(&watch, 0), NOTHING);
}

#[test]
fn what_cannot_be_watched_is_said_and_for_whom() {
    let why =
        "the limit of inotify watches is reached; raise fs.inotify.max_user_watches".to_owned();
    let limit = WatchProblem::new(Some(3), &Errno::ENOSPC.into());
    assert_eq!(
        limit,
        WatchProblem {
            database: None,
            why
        },
        "a limit is everyone's"
    );
    let denied = Errno::EACCES.into();
    assert_eq!(
        WatchProblem::new(Some(3), &denied),
        WatchProblem {
            database: Some(3),
            why: "permission denied".to_owned()
        }
    );
}

#[test]
fn what_was_missed_is_a_change_of_everything_that_is_not_at_work() {
    let (_root, dir, watch) = scene();
    lose(&watch);
    assert_eq!(watch.take(0), CHANGED);
    watch.ensure(0, &dir);
    watch.mute(0);
    lose(&watch);
    assert_eq!(
        watch.take(0),
        GONE,
        "a lost end of a claim would never be repeated"
    );
    watch.unmute(0, &dir);
    assert_eq!(std::mem::take(&mut watch.shared.lock().news).resyncs, 2);
    fs::write(dir.join("file"), "x").unwrap();
    assert_eq!(marks(&watch, 0), CHANGED, "it is watched anew");
}

#[test]
fn a_new_watcher_is_a_change_of_all_others_and_each_is_watched_again() {
    let root = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(root.path()).unwrap();
    let watch = DatabaseWatch::new().unwrap();
    let dirs: Vec<_> = (0..300)
        .map(|number| root.join(number.to_string()))
        .collect();
    for (number, dir) in dirs.iter().enumerate() {
        fs::create_dir_all(dir.join("sub")).unwrap();
        watch.ensure(number, dir);
    }
    watch.unwatch(&(0..10).collect::<Vec<_>>());
    assert_eq!(marks(&watch, 299), NOTHING);
    watch.mute(298);
    watch
        .directories
        .as_ref()
        .unwrap()
        .take_back(&(10..200).collect::<Vec<_>>(), 0);
    assert_eq!((marks(&watch, 299), marks(&watch, 298)), (CHANGED, GONE));
    assert_eq!(watch.shared.lock().news.resyncs, 1);
    for (number, dir) in dirs.iter().enumerate() {
        if number >= 200 {
            watch.ensure(number, dir);
        }
        watch.take(number);
        fs::write(dir.join("sub/file"), "x").unwrap();
    }
    watch.drain();
    let changed: Vec<_> = (0..300)
        .filter(|number| watch.take(*number).changed)
        .collect();
    assert_eq!(
        changed,
        (200..300)
            .filter(|number| *number != 298)
            .collect::<Vec<_>>()
    );
}

#[test]
fn what_an_ancestor_takes_away_and_brings_back_is_watched_again() {
    let (_root, dir, watch) = scene();
    let inner = dir.join("sub/.beads");
    fs::create_dir_all(&inner).unwrap();
    watch.unwatch(&[0]);
    watch.ensure(0, &dir);
    watch.ensure(1, &inner);
    fs::rename(dir.join("sub"), dir.with_extension("away")).unwrap();
    assert_eq!((marks(&watch, 0), marks(&watch, 1)), (CHANGED, CHANGED));
    fs::rename(dir.with_extension("away"), dir.join("sub")).unwrap();
    watch.drain();
    watch.ensure(1, &inner);
    watch.take(1);
    fs::write(inner.join("file"), "x").unwrap();
    assert_eq!(marks(&watch, 1), CHANGED, "the same inode at the same path");
}

#[test]
fn a_directory_replaced_at_every_moment_is_watched_at_the_end() {
    let (_root, dir, watch) = scene();
    let (watch, dir) = (&watch, &dir);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    for round in 0..20 {
        is_over.store(false, std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    watch.ensure(0, dir);
                }
            });
            for number in 0..50 {
                let away = dir.with_extension(format!("{round}-{number}"));
                match number % 2 {
                    0 => fs::rename(dir, away).unwrap(),
                    _ => fs::remove_dir_all(dir).unwrap(),
                }
                fs::create_dir(dir).unwrap();
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        watch.drain();
        watch.ensure(0, dir);
        watch.take(0);
        fs::write(dir.join("file"), "x").unwrap();
        assert_eq!(marks(watch, 0), CHANGED, "round {round}");
    }
}

#[test]
fn a_name_that_is_no_text_is_as_good_as_any() {
    use std::os::unix::ffi::OsStrExt;
    let root = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"\xff\xfe \n");
    let dir = fs::canonicalize(root.path())
        .unwrap()
        .join(odd)
        .join(".beads");
    fs::create_dir_all(dir.join(odd)).unwrap();
    let watch = DatabaseWatch::new().unwrap();
    watch.ensure(0, &dir);
    fs::write(dir.join(odd).join(odd), "x").unwrap();
    assert_eq!(marks(&watch, 0), CHANGED);
}

#[test]
fn a_watcher_that_does_not_answer_is_given_up() {
    let (_root, dir, mut watch) = scene();
    let directories =
        WatchedDirectories::new(Arc::clone(&watch.shared), Duration::from_millis(200)).unwrap();
    watch.directories = Some(Arc::clone(&directories));
    // Its turn never ends.
    let hung = directories.asked();
    watch.forget_lock_gone(0);
    assert_eq!(
        watch.take(0),
        CHANGED,
        "what it would have told counts as a change"
    );
    watch.ensure(0, &dir);
    fs::write(dir.join("file"), "x").unwrap();
    assert_eq!(marks(&watch, 0), CHANGED, "another one hears");
    drop(hung);
    fs::write(dir.join("file"), "y").unwrap();
    assert_eq!(
        marks(&watch, 0),
        CHANGED,
        "and stays, when the first one is back"
    );
    assert_eq!(watch.shared.lock().news.resyncs, 1);
}
