use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use beadlock_base::sys::{Flock, flock};

use super::*;

const LINE: &str = "[2026-01-01 00:00:00] Sync cycle complete\n";
const HEADER: &str = "[2026-01-01 00:00:00] beadlock-agent 1.2.3, times in UTC\n";
const LIMITS: LogLimits = LogLimits { size: 300, keep: 3 };

fn head(is_new: bool) -> String {
    if is_new {
        HEADER.to_owned()
    } else {
        String::new()
    }
}

/// A directory and a log in it.
struct Scene {
    root: tempfile::TempDir,
    path: PathBuf,
    file: LogFile,
}

impl Scene {
    fn new(limits: LogLimits) -> Self {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("daemon.log");
        let file = LogFile::at(&path, limits);
        Self { root, path, file }
    }

    fn older(&self, number: u32) -> PathBuf {
        self.root.path().join(format!("daemon.log.{number}"))
    }

    /// Writes this line; what is complained of.
    fn write(&mut self, line: &str) -> Vec<String> {
        self.file.write(line, head)
    }

    #[track_caller]
    fn number(&mut self, number: u32) {
        assert_eq!(self.write(&numbered(number)), [""; 0], "{number}");
    }

    fn size(&self) -> u64 {
        fs::metadata(&self.path).unwrap().len()
    }

    /// The numbers of all lines, those of the oldest file first.
    fn numbers(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for number in (1..=9).rev() {
            numbers.extend(numbers_in(&self.older(number)));
        }
        numbers.extend(numbers_in(&self.path));
        numbers
    }
}

fn numbered(number: u32) -> String {
    format!("[2026-01-01 00:00:00] line {number}\n")
}

fn numbers_in(path: &Path) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(" line ")?.1.parse().ok())
        .collect()
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[test]
fn a_new_file_begins_with_its_header() {
    let mut scene = Scene::new(LIMITS);
    assert_eq!([scene.write(LINE), scene.write(LINE)].concat(), [""; 0]);
    assert_eq!(
        fs::read_to_string(&scene.path).unwrap(),
        [HEADER, LINE, LINE].concat()
    );
}

#[test]
fn the_current_file_is_always_daemon_log_and_so_many_are_kept() {
    for keep in [1, 3] {
        let mut scene = Scene::new(LogLimits { keep, ..LIMITS });
        for number in 0..60 {
            scene.number(number);
            assert!(scene.size() <= 300);
        }
        let mut names: Vec<_> = fs::read_dir(scene.root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(
            names,
            ["daemon.log", "daemon.log.1", "daemon.log.2", "daemon.log.3"][..=keep as usize]
        );
        for name in names {
            let text = fs::read_to_string(scene.root.path().join(name)).unwrap();
            assert!(
                text.starts_with(HEADER) && text.matches(HEADER).count() == 1,
                "{text}"
            );
        }
        let kept = scene.numbers();
        assert!(kept.len() > 5 * keep as usize);
        assert_eq!(
            kept,
            (kept[0]..60).collect::<Vec<_>>(),
            "in order, without a gap"
        );
    }
}

#[test]
fn with_none_kept_a_full_file_begins_anew() {
    let mut scene = Scene::new(LogLimits { keep: 0, ..LIMITS });
    for number in 0..60 {
        scene.number(number);
        assert!(scene.size() <= 300);
        assert!(fs::read_to_string(&scene.path).unwrap().starts_with(HEADER));
    }
    assert!(!scene.older(1).exists());
    let kept = scene.numbers();
    assert_eq!(kept, (kept[0]..60).collect::<Vec<_>>());
}

#[test]
fn a_line_longer_than_a_file_has_one_of_its_own() {
    let mut scene = Scene::new(LIMITS);
    scene.number(1);
    let long = "x".repeat(1000) + "\n";
    assert_eq!(scene.write(&long), [""; 0]);
    assert_eq!(
        fs::read_to_string(&scene.path).unwrap(),
        [HEADER, &long].concat()
    );
    scene.number(2);
    assert_eq!(
        (numbers_in(&scene.older(2)), numbers_in(&scene.path)),
        (vec![1], vec![2])
    );
    for _ in 0..10 {
        scene.write(&long);
        assert_eq!(scene.size() as usize, HEADER.len() + long.len());
    }
}

#[test]
fn a_file_moved_or_removed_or_emptied_is_made_anew() {
    let mut scene = Scene::new(LIMITS);
    scene.write(LINE);
    let moved = scene.root.path().join("moved");
    fs::rename(&scene.path, &moved).unwrap();
    scene.write(LINE);
    fs::remove_file(&scene.path).unwrap();
    scene.write(LINE);
    File::create(&scene.path).unwrap();
    scene.write(LINE);
    assert_eq!(
        fs::read_to_string(&scene.path).unwrap(),
        [HEADER, LINE].concat()
    );
    assert_eq!(fs::read_to_string(moved).unwrap(), [HEADER, LINE].concat());
}

#[test]
fn a_link_is_not_followed_and_said_once() {
    let mut scene = Scene::new(LIMITS);
    let victim = scene.root.path().join("victim");
    fs::write(&victim, "").unwrap();
    symlink(&victim, &scene.path).unwrap();
    let complaints = scene.write(LINE);
    assert!(
        complaints[0].contains("daemon.log: it is a symbolic link; cycles go on"),
        "{complaints:?}"
    );
    assert_eq!(scene.write(LINE), [""; 0], "said once");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "");
    fs::remove_file(&scene.path).unwrap();
    assert_eq!(scene.write(LINE), [""; 0]);
    assert!(
        fs::read_to_string(&scene.path).unwrap().ends_with(LINE),
        "it goes on when it can"
    );
}

#[test]
fn a_hard_link_is_not_written_and_said_once() {
    let mut scene = Scene::new(LIMITS);
    let victim = scene.root.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    fs::hard_link(&victim, &scene.path).unwrap();
    let complaints = scene.write(LINE);
    assert!(
        complaints[0].contains("daemon.log: it has 2 hard links; cycles go on"),
        "{complaints:?}"
    );
    assert_eq!(scene.write(LINE), [""; 0], "said once");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    fs::remove_file(&victim).unwrap();
    assert_eq!(scene.write(LINE), [""; 0]);
    assert!(
        fs::read_to_string(&scene.path).unwrap().ends_with(LINE),
        "it goes on when it can"
    );
    // The open one gets a second name.
    fs::hard_link(&scene.path, &victim).unwrap();
    let before = fs::read_to_string(&victim).unwrap();
    assert_eq!(scene.write(LINE).len(), 1);
    assert_eq!(fs::read_to_string(&victim).unwrap(), before);
}

#[test]
fn a_file_that_becomes_a_hard_link_is_neither_emptied_nor_moved() {
    for keep in [0, 3] {
        let mut scene = Scene::new(LogLimits { keep, ..LIMITS });
        let victim = scene.root.path().join("victim");
        fs::write(&victim, "x".repeat(1000)).unwrap();
        for number in 0..60 {
            scene.write(&numbered(number));
            let _ = fs::remove_file(&scene.path);
            if number % 7 == 3 {
                fs::hard_link(&victim, &scene.path).unwrap();
            }
            assert_eq!(fs::metadata(&victim).unwrap().len(), 1000, "{number}");
        }
    }
}

/// The second name comes between the look and the rotation.
#[test]
fn a_rotation_empties_no_file_with_two_names() {
    let scene = Scene::new(LIMITS);
    let other = scene.root.path().join("other");
    fs::write(&scene.path, "x".repeat(1000)).unwrap();
    fs::hard_link(&scene.path, &other).unwrap();
    let file = File::open(&scene.path).unwrap();
    let dir = open_dir(scene.root.path()).unwrap();
    let limits = LogLimits { keep: 0, ..LIMITS };
    let full = FullLog {
        dir: &dir,
        name: "daemon.log".as_ref(),
        file: &file,
        limits,
        more: 1,
    };
    let stuck = full.rotate().unwrap_err();
    assert_eq!(stuck.0.to_string(), "it has 2 hard links");
    assert_eq!(fs::metadata(&other).unwrap().len(), 1000);
}

#[test]
fn a_file_that_becomes_a_link_is_not_followed_when_it_is_full() {
    let mut scene = Scene::new(LIMITS);
    let victim = scene.root.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    for number in 0..60 {
        scene.write(&numbered(number));
        if number % 7 == 3 {
            let _ = fs::remove_file(&scene.path);
            symlink(&victim, &scene.path).unwrap();
            let _ = fs::remove_file(scene.older(1));
            symlink(&victim, scene.older(1)).unwrap();
        } else if number % 7 == 5 {
            let _ = fs::remove_file(&scene.path);
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine", "{number}");
    }
}

#[test]
fn a_link_among_the_older_ones_is_moved_on_and_out() {
    let mut scene = Scene::new(LIMITS);
    let victim = scene.root.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, scene.older(1)).unwrap();
    for number in 0..60 {
        scene.number(number);
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert!((1..=3).all(|number| fs::symlink_metadata(scene.older(number)).unwrap().is_file()));
}

#[test]
fn a_fifo_neither_hangs_nor_is_written() {
    let mut scene = Scene::new(LIMITS);
    nix::unistd::mkfifo(&scene.path, Mode::S_IRWXU).unwrap();
    assert!(scene.write(LINE)[0].contains("it is a FIFO"));
    let _reader = open(
        &scene.path,
        OFlag::O_RDONLY | OFlag::O_NONBLOCK,
        Mode::empty(),
    )
    .unwrap();
    scene.file.is_failing = false;
    assert!(scene.write(LINE)[0].contains("it is not a regular file"));
}

#[test]
fn no_directory_is_a_complaint() {
    let mut scene = Scene::new(LIMITS);
    scene.file = LogFile::at(&scene.root.path().join("gone/daemon.log"), LIMITS);
    assert!(scene.write(LINE)[0].contains("no such file or directory"));
}

#[test]
fn a_directory_among_the_older_ones_costs_an_older_one_and_no_line_after_it() {
    for stuck in 1..=3 {
        let mut scene = Scene::new(LIMITS);
        fs::create_dir_all(scene.older(stuck).join("not empty")).unwrap();
        for number in 0..60 {
            scene.number(number);
            assert!(scene.size() <= 300);
        }
        let kept = scene.numbers();
        assert!(kept.len() > 10, "{kept:?}");
        assert_eq!(kept, (kept[0]..60).collect::<Vec<_>>(), "{stuck}");
        assert!((1..=3).any(|number| scene.older(number).join("not empty").exists()));
    }
}

#[test]
fn where_nothing_can_be_moved_aside_it_is_emptied_and_said_once() {
    let mut scene = Scene::new(LIMITS);
    for number in 1..=3 {
        fs::create_dir_all(scene.older(number).join("not empty")).unwrap();
    }
    let complaints: Vec<_> = (0..60)
        .flat_map(|number| scene.write(&numbered(number)))
        .collect();
    let path = shown(&scene.path);
    let expected = format!(
        "cannot move the full log {path} aside: is a directory; it is emptied whenever it is full; make its \
         directory writable and move {path}.1 out of the way"
    );
    assert_eq!(complaints, [expected]);
    assert!(scene.size() <= 300);
    let kept = scene.numbers();
    assert_eq!(kept, (kept[0]..60).collect::<Vec<_>>());
    // And again when it has been mended and breaks once more.
    fs::remove_dir_all(scene.older(1)).unwrap();
    (0..20).for_each(|number| scene.number(number));
    fs::remove_file(scene.older(1)).unwrap();
    fs::create_dir_all(scene.older(1).join("not empty")).unwrap();
    assert_eq!(
        (0..20)
            .map(|number| scene.write(&numbered(number)).len())
            .sum::<usize>(),
        1
    );
}

#[test]
fn in_a_directory_that_may_not_be_written_it_stays_bounded() {
    if is_root() {
        // The test above has the same outcome.
        return beadlock_testkit::skip::cannot("permissions do not stop root");
    }
    let mut scene = Scene::new(LIMITS);
    scene.number(0);
    fs::set_permissions(scene.root.path(), Permissions::from_mode(0o555)).unwrap();
    let complaints: Vec<_> = (1..60)
        .flat_map(|number| scene.write(&numbered(number)))
        .collect();
    fs::set_permissions(scene.root.path(), Permissions::from_mode(0o755)).unwrap();
    assert!(
        complaints.len() == 1 && complaints[0].contains("permission denied"),
        "{complaints:?}"
    );
    assert!(scene.size() <= 300);
}

#[test]
fn who_keeps_the_flock_keeps_nobody_from_rotating() {
    let mut scene = Scene::new(LIMITS);
    scene.number(0);
    let other = File::open(&scene.path).unwrap();
    assert!(flock(&other, Flock::Try).unwrap());
    for number in 1..60 {
        scene.number(number);
        assert!(scene.size() <= 600 + LINE.len() as u64, "{}", scene.size());
    }
    assert!(scene.older(1).exists());
    let kept = scene.numbers();
    assert_eq!(kept, (kept[0]..60).collect::<Vec<_>>());
}

#[test]
fn a_rotation_leaves_no_flock_behind() {
    let mut scene = Scene::new(LIMITS);
    (0..60).for_each(|number| scene.number(number));
    for path in [scene.path.clone(), scene.older(1)] {
        assert!(flock(File::open(path).unwrap(), Flock::Try).unwrap());
    }
}

/// The interleaving that would lose a file: both see that it is full, one has already moved it aside.
#[test]
fn who_comes_second_does_not_move_the_fresh_file_aside() {
    let mut scene = Scene::new(LIMITS);
    let mut second = LogFile::at(&scene.path, LIMITS);
    scene.number(0);
    second.ready().unwrap();
    (1..8).for_each(|number| scene.number(number));
    let before = scene.numbers();
    scene.number(8);
    assert!(
        scene.older(1).exists() && numbers_in(&scene.path) == [8],
        "it was full and has been moved"
    );
    assert_eq!(
        second.make_room(1000),
        None,
        "for the file that it has open, which is .1 now"
    );
    assert_eq!(scene.numbers(), [&before[..], &[8]].concat());
    assert!(!scene.older(2).exists());
    // Neither does one that has the fresh file open, and was told a size from before.
    second.close();
    second.ready().unwrap();
    assert_eq!(second.make_room(10), None);
    assert!(!scene.older(2).exists());
}

/// Several agents have one log: as many files, each of which believes that it is alone.
#[test]
fn of_agents_that_share_a_log_no_line_is_lost_and_none_is_twice() {
    const EACH: u32 = 3_000;
    let limits = LogLimits {
        size: 8 * 1024,
        keep: 200,
    };
    let scene = Scene::new(limits);
    std::thread::scope(|scope| {
        for agent in 0..4 {
            let path = &scene.path;
            scope.spawn(move || {
                let mut file = LogFile::at(path, limits);
                for number in 0..EACH {
                    let line = numbered(agent * EACH + number);
                    assert_eq!(file.write(&line, head), [""; 0]);
                }
            });
        }
    });
    let files: Vec<_> = (1..=limits.keep)
        .rev()
        .map(|number| scene.older(number))
        .filter(|file| file.exists())
        .collect();
    assert!(
        files.len() > 10 && files.len() < limits.keep as usize,
        "{}",
        files.len()
    );
    let mut numbers: Vec<_> = files
        .iter()
        .chain([&scene.path])
        .flat_map(|file| numbers_in(file))
        .collect();
    for file in &files {
        // While one moves it aside the others write on; each may have looked when there was room for its line.
        let size = fs::metadata(file).unwrap().len();
        assert!(size <= 2 * limits.size + 4 * LINE.len() as u64, "{size}");
        assert!(
            size > limits.size / 2,
            "moved aside when it was full, not before: {size}"
        );
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..4 * EACH).collect::<Vec<_>>());
}

/// Somebody removes, empties and replaces the file all the time.
#[test]
fn under_attack_it_stays_bounded_and_writes_nowhere_else() {
    let limits = LogLimits {
        size: 1024,
        keep: 2,
    };
    let mut scene = Scene::new(limits);
    let root = scene.root.path().to_owned();
    let victim = root.join("victim");
    fs::write(&victim, "mine").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = root.join("daemon.log");
            let mut turn = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                turn += 1;
                let _ = match turn % 6 {
                    0 => fs::remove_file(&path),
                    1 => fs::write(&path, ""),
                    2 => fs::rename(&path, root.join("daemon.log.1")),
                    3 => fs::remove_file(&path).and_then(|()| symlink(&victim, &path)),
                    4 => fs::remove_file(root.join("daemon.log.1"))
                        .and_then(|()| symlink(&victim, root.join("daemon.log.1"))),
                    _ => fs::remove_file(&path).and_then(|()| fs::write(&path, "x".repeat(5000))),
                };
            }
        });
        for number in 0..5_000 {
            scene.write(&numbered(number));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let _ = fs::remove_file(&scene.path);
    for number in 0..100 {
        scene.number(number);
        assert!(scene.size() <= limits.size);
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    let mut names: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    let known = ["daemon.log", "daemon.log.1", "daemon.log.2", "victim"];
    assert!(
        names
            .iter()
            .all(|name| known.iter().any(|known| name == known)),
        "{names:?}"
    );
}

#[test]
fn a_line_that_was_torn_before_ends_before_the_next() {
    let mut scene = Scene::new(LIMITS);
    fs::write(&scene.path, "[2026-01-01 00:00:00] Sync cyc").unwrap();
    scene.number(1);
    scene.number(2);
    let expected = [
        "[2026-01-01 00:00:00] Sync cyc\n",
        &numbered(1),
        &numbered(2),
    ]
    .concat();
    assert_eq!(fs::read_to_string(&scene.path).unwrap(), expected);
}
