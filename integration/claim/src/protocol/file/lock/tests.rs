use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::{fs, path::PathBuf, thread::sleep};

use beadlock_base::asker::Asker;
use beadlock_core::record::file;

use super::super::queue;
use crate::error::Code;

/// A directory and a file in it.
fn scene() -> (tempfile::TempDir, PathBuf) {
    let top = tempfile::tempdir().unwrap();
    let file = fs::canonicalize(top.path()).unwrap().join("todo.json");
    fs::write(&file, "{}").unwrap();
    (top, file)
}

fn at_once(file: &Path) -> Result<FileLock, Error> {
    FileLock::on(file).wait(Wait::No).acquire()
}

/// `flock -F OPTION FILE.lock sleep 60`, once it has the lock; by `-F` it is one process.
struct Other(Child);

impl Other {
    fn holding(file: &Path, option: &str) -> Self {
        let lock = file::lock_of(file);
        let mut command = Command::new("flock");
        command
            .args(["-F", option])
            .arg(&lock)
            .args(["sleep", "60"])
            .stdin(Stdio::null());
        let other = Self(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(30);
        while Command::new("flock")
            .args(["-n"])
            .arg(&lock)
            .arg("true")
            .status()
            .unwrap()
            .success()
        {
            assert!(Instant::now() < deadline, "flock(1) does not get it");
            sleep(Duration::from_millis(2));
        }
        other
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_lock_is_made_kept_and_never_written() {
    let (_top, file) = scene();
    let lock = FileLock::exclusive(&file).unwrap();
    assert_eq!(lock.lock_path(), file.with_file_name("todo.json.lock"));
    let meta = fs::metadata(lock.lock_path()).unwrap();
    assert_eq!(
        (meta.len(), meta.permissions().mode() & 0o133),
        (0, 0),
        "0644 less the umask"
    );
    assert_eq!(lock.id().pid.unsigned_abs(), std::process::id());
    let path = lock.lock_path().to_owned();
    lock.release().unwrap();
    assert!(path.exists());
    fs::write(&path, "somebody's").unwrap();
    drop(at_once(&file).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
}

#[test]
fn a_file_that_is_not_there_can_be_locked_and_is_not_made() {
    let (_top, file) = scene();
    let new = file.with_file_name("new.json");
    drop(at_once(&new).unwrap());
    assert!(!new.exists());
    let error = at_once(&file.with_file_name("nowhere").join("x")).unwrap_err();
    assert_eq!(error.code(), Code::NoTarget, "{error}");
}

#[test]
fn files_in_one_directory_have_a_lock_each() {
    let (_top, file) = scene();
    let _one = at_once(&file).unwrap();
    let _other = at_once(&file.with_file_name("todo-log.jsonl")).unwrap();
}

#[test]
fn the_same_file_twice_is_an_error_at_once_by_whatever_name() {
    let (top, file) = scene();
    symlink("todo.json", file.with_file_name("link.json")).unwrap();
    let first = FileLock::exclusive(&file).unwrap();
    let begun = Instant::now();
    for name in ["todo.json", "./todo.json", "link.json", "x/../todo.json"] {
        fs::create_dir_all(top.path().join("x")).unwrap();
        let error = FileLock::exclusive(top.path().join(name)).unwrap_err();
        assert_eq!(
            (error.code(), error.is_retryable()),
            (Code::LockFailed, false),
            "{name}"
        );
        assert!(
            error
                .to_string()
                .contains("is locked by this thread or task already"),
            "{name}: {error}"
        );
        assert_eq!(
            FileLock::shared(top.path().join(name)).unwrap_err().code(),
            Code::LockFailed
        );
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "not one of them has waited"
    );
    first.release().unwrap();
    FileLock::exclusive(file.with_file_name("link.json"))
        .unwrap()
        .release()
        .unwrap();
}

fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !seen() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        sleep(Duration::from_millis(2));
    }
}

/// How many places of this process there are in the queue for a file, with the holders'.
fn places(file: &Path) -> usize {
    let stat = fs::metadata(FileTarget::of(file).unwrap().lock());
    stat.map_or(0, |stat| queue::places((stat.dev(), stat.ino())).0)
}

/// How many of them wait for those before them.
fn waiting_for(file: &Path) -> usize {
    let stat = fs::metadata(FileTarget::of(file).unwrap().lock()).unwrap();
    queue::places((stat.dev(), stat.ino())).1
}

#[test]
fn threads_wait_for_each_other_in_the_order_in_which_they_came() {
    let (_top, file) = scene();
    let order = Mutex::new(Vec::new());
    let first = FileLock::exclusive(&file).unwrap();
    std::thread::scope(|threads| {
        for number in 0..8 {
            threads.spawn({
                let (file, order) = (&file, &order);
                move || {
                    let lock = FileLock::exclusive(file).unwrap();
                    order.lock().unwrap().push(number);
                    lock.still_held().unwrap();
                    lock.release().unwrap();
                }
            });
            until("it waits", || waiting_for(&file) == number + 1);
        }
        assert!(at_once(&file).is_err());
        first.release().unwrap();
    });
    assert_eq!(order.into_inner().unwrap(), (0..8).collect::<Vec<_>>());
}

#[test]
fn a_thread_that_waits_for_another_gives_up_in_time_and_says_so() {
    let (_top, file) = scene();
    let first = FileLock::exclusive(&file).unwrap();
    std::thread::scope(|threads| {
        let waits = |wait| {
            let locking = FileLock::on(&file).wait(wait);
            threads
                .spawn(move || locking.acquire().unwrap_err())
                .join()
                .unwrap()
        };
        let limit = Duration::from_millis(200);
        let begun = Instant::now();
        let error = waits(Wait::UpTo(limit));
        assert!(begun.elapsed() >= limit);
        assert!(error.is_retryable(), "{error}");
        let me = std::process::id();
        let words = format!(
            "{} is locked by another thread or task of this process (PID {me}); ",
            file.display()
        );
        assert!(error.to_string().contains(&words), "{error}");
        assert!(!error.to_string().contains("ps -fp"), "{error}");
        let begun = Instant::now();
        assert!(waits(Wait::No).to_string().contains(&words));
        assert!(begun.elapsed() < Duration::from_secs(20));
    });
    // Nobody is left in the queue.
    first.release().unwrap();
    drop(at_once(&file).unwrap());
}

#[test]
fn threads_that_share_read_together_and_a_writer_between_them_has_its_turn() {
    let (_top, file) = scene();
    let shared = || FileLock::on(&file).shared().acquire().unwrap();
    let first = shared();
    let are_inside = std::sync::Barrier::new(2);
    std::thread::scope(|threads| {
        let second = threads.spawn(|| {
            let lock = shared();
            are_inside.wait();
            lock.release().unwrap();
        });
        are_inside.wait();
        second.join().unwrap();
        let order = Mutex::new(Vec::new());
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let lock = FileLock::exclusive(&file).unwrap();
                order.lock().unwrap().push("writer");
                lock.release().unwrap();
            });
            until("the writer waits", || waiting_for(&file) == 1);
            threads.spawn(|| {
                let lock = shared();
                order.lock().unwrap().push("reader");
                lock.release().unwrap();
            });
            until("the reader waits", || waiting_for(&file) == 2);
            first.release().unwrap();
        });
        assert_eq!(order.into_inner().unwrap(), ["writer", "reader"]);
    });
}

#[test]
fn a_thread_waits_for_another_process_and_the_next_thread_for_it() {
    let (_top, file) = scene();
    let other = Other::holding(&file, "-x");
    std::thread::scope(|threads| {
        let mut all = Vec::new();
        for number in 0..3 {
            all.push(threads.spawn(|| {
                let lock = FileLock::exclusive(&file).unwrap();
                lock.still_held().unwrap();
                lock.release().unwrap();
            }));
            until("it waits", || places(&file) == number + 1);
        }
        drop(other);
        for thread in all {
            thread.join().unwrap();
        }
    });
    assert_eq!(places(&file), 0);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "somebody else takes the lock file away"
)]
fn a_lock_file_that_is_replaced_is_not_waited_for_in_the_queue() {
    let (_top, file) = scene();
    let first = FileLock::exclusive(&file).unwrap();
    std::thread::scope(|threads| {
        let second = threads.spawn(|| FileLock::exclusive(&file).unwrap().release());
        until("it waits", || waiting_for(&file) == 1);
        fs::rename(first.lock_path(), file.with_file_name("gone")).unwrap();
        second.join().unwrap().unwrap();
        assert!(first.release().unwrap_err().is_lost());
    });
}

#[test]
fn a_task_may_wait_where_its_thread_goes_on() {
    let (_top, file) = scene();
    let thread = Asker::thread();
    let task = |number, blocks| {
        let locking = FileLock::on(&file).wait(Wait::UpTo(Duration::from_millis(50)));
        Asker::task(thread, number, blocks).run(|| locking.acquire())
    };
    let first = task(1, false).unwrap();
    let twice = |result: Result<FileLock, Error>| {
        let error = result.unwrap_err();
        error.to_string().contains("this thread or task already")
    };
    assert!(twice(task(1, false)), "the same task");
    assert!(!twice(task(2, false)), "another one, which waits");
    assert!(twice(task(2, true)), "another one, which blocks the thread");
    assert!(twice(FileLock::exclusive(&file)));
    first.release().unwrap();
    task(2, true).unwrap().release().unwrap();
}

#[test]
fn a_path_is_followed_when_the_locking_is_made_and_not_again() {
    let (_top, file) = scene();
    let (link, other) = (
        file.with_file_name("link.json"),
        file.with_file_name("other.json"),
    );
    symlink(&file, &link).unwrap();
    let locking = FileLock::on(&link);
    assert!(
        Command::new("ln")
            .arg("-sfn")
            .arg(&other)
            .arg(&link)
            .status()
            .unwrap()
            .success()
    );
    for _ in 0..2 {
        let lock = locking.acquire().unwrap();
        assert_eq!(lock.path(), file);
        drop(at_once(&link).unwrap());
        assert!(at_once(&file).is_err());
        lock.release().unwrap();
    }
    let error = FileLock::on(file.parent().unwrap()).acquire().unwrap_err();
    assert_eq!(
        error.code(),
        Code::Usage,
        "told when it is to be locked: {error}"
    );
}

#[test]
fn flock_of_the_shell_is_waited_for_and_named() {
    let (_top, file) = scene();
    let other = Other::holding(&file, "-x");
    let begun = Instant::now();
    let limit = Duration::from_millis(300);
    let error = FileLock::on(&file)
        .wait(Wait::UpTo(limit))
        .acquire()
        .unwrap_err();
    assert!(begun.elapsed() >= limit);
    assert_eq!(
        (error.code(), error.is_retryable()),
        (Code::LockFailed, true)
    );
    let words = error.to_string();
    assert!(
        words.starts_with("Failed to acquire lock (timeout after 0.3s): "),
        "{words}"
    );
    assert!(
        words.contains(&format!("PID {} (sleep 60)", other.0.id())),
        "{words}"
    );
    assert!(
        words.ends_with(&format!("to see its process: ps -fp {}", other.0.id()))
            && !words.contains("lsof"),
        "{words}"
    );
    let error = at_once(&file).unwrap_err();
    let shown = file.display();
    let begin = format!("Cannot acquire lock on {shown} (another process may be active): ");
    assert!(error.to_string().starts_with(&begin), "{error}");
    let waiting = std::thread::spawn({
        let file = file.clone();
        move || FileLock::exclusive(file).map(|lock| lock.is_nested())
    });
    sleep(Duration::from_millis(20));
    drop(other);
    assert!(!waiting.join().unwrap().unwrap());
}

#[test]
fn readers_share_and_keep_writers_out() {
    let (_top, file) = scene();
    let other = Other::holding(&file, "-s");
    let reader = FileLock::on(&file)
        .shared()
        .wait(Wait::No)
        .acquire()
        .unwrap();
    assert_eq!(reader.mode(), Mode::Shared);
    reader.release().unwrap();
    assert_eq!(at_once(&file).unwrap_err().code(), Code::LockFailed);
    drop(other);
    let _writer = at_once(&file).unwrap();
}

/// A thread that cannot be called back from the kernel is there once, however often its process gives up, and lets go
/// of what it gets too late.
#[test]
fn a_wait_that_ran_out_leaves_one_thread_and_no_lock() {
    let (_top, file) = scene();
    let other = Other::holding(&file, "-x");
    let threads = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name == "file lock\n").count()
    };
    let before = threads();
    for _ in 0..10 {
        assert!(
            FileLock::on(&file)
                .wait(Wait::UpTo(Duration::from_millis(5)))
                .acquire()
                .is_err()
        );
    }
    // Other tests of this process have theirs.
    assert!(threads() < before + 8, "{} then {}", before, threads());
    drop(other);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut free = 0;
    while free < 20 {
        assert!(Instant::now() < deadline, "the late thread keeps the lock");
        free = if at_once(&file).is_ok() { free + 1 } else { 0 };
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_lock_file_that_is_deleted_or_replaced_is_a_loss_and_the_new_one_is_locked() {
    let (_top, file) = scene();
    let lock = FileLock::exclusive(&file).unwrap();
    lock.still_held().unwrap();
    let path = lock.lock_path().to_owned();
    let (old, new) = (path.with_extension("old"), path.with_extension("new"));
    fs::hard_link(&path, &old).unwrap();
    fs::write(&new, "").unwrap();
    assert!(
        Command::new("mv")
            .args([&new, &path])
            .status()
            .unwrap()
            .success()
    );
    let error = lock.still_held().unwrap_err();
    assert_eq!(error.code(), Code::LockLost);
    assert!(
        error.to_string().contains("is another file by now"),
        "{error}"
    );
    assert_eq!(lock.turn().unwrap_err().code(), Code::LockLost);
    // Another file has the name: that one counts.
    let second = at_once(&file).unwrap();
    second.still_held().unwrap();
    assert!(lock.release().unwrap_err().is_lost());
    assert!(Command::new("rm").arg(&path).status().unwrap().success());
    assert!(
        second
            .still_held()
            .unwrap_err()
            .to_string()
            .contains("vanished")
    );
}

#[test]
fn a_lock_file_that_is_replaced_while_it_is_waited_for_is_let_be() {
    let (_top, file) = scene();
    let other = Other::holding(&file, "-x");
    let waiting = std::thread::spawn({
        let file = file.clone();
        move || FileLock::exclusive(file).map(|lock| lock.inode())
    });
    sleep(Duration::from_millis(20));
    let (path, new) = (file::lock_of(&file), file.with_file_name("new"));
    fs::write(&new, "").unwrap();
    assert!(
        Command::new("mv")
            .args([&new, &path])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(
        Some(waiting.join().unwrap().unwrap()),
        named_inode(&FileTarget::of(&file).unwrap())
    );
    drop(other);
}

#[test]
fn what_is_no_lock_file_is_not_touched() {
    let (_top, file) = scene();
    let path = file::lock_of(&file);
    let refused = |what: &str| {
        let error = at_once(&file).unwrap_err();
        assert_eq!(error.code(), Code::LockFailed, "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    fs::create_dir(&path).unwrap();
    refused("is a directory, and was not touched");
    fs::remove_dir(&path).unwrap();
    symlink(&file, &path).unwrap();
    refused("is a symbolic link");
    assert!(Command::new("rm").arg(&path).status().unwrap().success());
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refused("no regular file");
    assert!(Command::new("rm").arg(&path).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    refused("is a socket");
}

#[test]
fn turns_exclude_each_other_under_one_lock() {
    let (_top, file) = scene();
    let lock = FileLock::on(&file)
        .wait(Wait::UpTo(Duration::from_millis(100)))
        .acquire()
        .unwrap();
    let turn = lock.turn().unwrap();
    // Somebody who is nested in it, in another process.
    let held = Held::There(lock.id());
    let target = lock.target.clone();
    let (mode, wait, since) = (
        Mode::Exclusive,
        Wait::UpTo(Duration::from_millis(100)),
        Instant::now(),
    );
    let inner = FileLock {
        target,
        mode,
        held,
        wait,
        since,
        turns: Mutex::new(()),
    };
    let error = inner.turn().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("Failed to acquire lock (timeout after 0.1s)"),
        "{error}"
    );
    drop(turn);
    let deadline = Instant::now() + Duration::from_secs(30);
    // The thread that came too late lets it go.
    while inner.turn().is_err() {
        assert!(Instant::now() < deadline);
    }
    let turn = inner.turn().unwrap();
    assert!(lock.turn().is_err());
    drop(turn);
}

#[test]
fn a_wait_that_is_called_off_locks_nothing_and_a_refusal_names_the_holder() {
    let (_top, file) = scene();
    let other = Other::holding(&file, "-x");
    let mut asked = 0;
    let called_off = FileLock::on(&file)
        .wait(Wait::UpTo(Duration::MAX))
        .acquire_unless(|| {
            asked += 1;
            asked == 3
        });
    assert!(
        called_off.unwrap().is_none() && asked == 3,
        "asked {asked} times"
    );
    let error = at_once(&file).unwrap_err();
    let holder = error.holder().unwrap();
    assert_eq!(
        (holder.pid, holder.path.as_path()),
        (Some(i64::from(other.0.id())), &*file::lock_of(&file))
    );
    drop(other);
    let deadline = Instant::now() + Duration::from_secs(30);
    while at_once(&file).is_err() {
        assert!(
            Instant::now() < deadline,
            "what was called off keeps the lock"
        );
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_file_and_a_directory_are_locked_themselves() {
    let (top, file) = scene();
    for itself in [file.as_path(), top.path()] {
        let lock = FileLock::itself(itself).wait(Wait::No).acquire().unwrap();
        assert_eq!(lock.lock_path(), fs::canonicalize(itself).unwrap());
        let refused = lock.write("{}").unwrap_err();
        assert_eq!(refused.code(), Code::Usage, "{refused}");
        lock.release().unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn a_lock_file_is_made_with_the_permissions_that_were_asked_for() {
    let (_top, file) = scene();
    let mode = || {
        fs::metadata(file::lock_of(&file))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    FileLock::on(&file)
        .permissions(0o666)
        .acquire()
        .unwrap()
        .release()
        .unwrap();
    assert_eq!(mode(), 0o666, "whatever the umask is");
    FileLock::on(&file)
        .permissions(0o600)
        .acquire()
        .unwrap()
        .release()
        .unwrap();
    assert_eq!(mode(), 0o666, "of one that is there they stay");
}
