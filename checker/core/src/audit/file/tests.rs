//! Only a regular file is touched, and whatever happens to the file every line is whole.

use std::{io::Write, os::unix::fs::PermissionsExt, os::unix::fs::symlink};

use serde_json::Value;

use super::super::Event;
use super::*;

fn author() -> Author {
    Author::new("beadlock", "1")
}

fn entry(id: &str) -> AuditEntry {
    AuditEntry::new(
        Event::LockAcquired,
        id,
        "beads:.beads",
        Path::new("/r/.beads/.exclusive-lock"),
    )
}

fn scene() -> (tempfile::TempDir, PathBuf, Audit) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("audit.jsonl");
    let audit = Audit::open(&path, author()).unwrap();
    (root, path, audit)
}

/// The requests of all lines; every line has to be one JSON object.
fn requests(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let parsed = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect(line));
    parsed
        .map(|line| line["request_id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn opening_makes_an_empty_file_that_is_nobody_elses() {
    let (_root, path, audit) = scene();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.len(), meta.permissions().mode() & 0o7777), (0, 0o600));
    audit.write(&entry("a")).unwrap();
    audit.write(&entry("b")).unwrap();
    assert_eq!(requests(&path), ["a", "b"]);
    Audit::open(&path, author()).unwrap();
    assert_eq!(requests(&path), ["a", "b"], "opening changes nothing");
}

#[test]
fn no_link_is_followed_at_the_start_or_later() {
    let (root, path, audit) = scene();
    let victim = root.path().join("victim");
    fs::write(&victim, "").unwrap();
    fs::remove_file(&path).unwrap();
    for there in [&victim, &root.path().join("nowhere")] {
        symlink(there, &path).unwrap();
        let said = Audit::open(&path, author()).unwrap_err().to_string();
        let shown = path.display();
        assert_eq!(
            said,
            format!(
                "the audit file {shown} cannot be opened: it is a symbolic link; name a regular file in a \
                 directory that is there"
            )
        );
        let said = audit.write(&entry("a")).unwrap_err().to_string();
        assert_eq!(
            said,
            format!(
                "lock_acquired of /r/.beads/.exclusive-lock is not in the audit file {shown}: it is a symbolic \
                 link; name a regular file in a directory that is there; the work goes on without it"
            )
        );
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(fs::read(&victim).unwrap(), b"");
    assert!(!root.path().join("nowhere").exists());
    audit.write(&entry("b")).unwrap();
    assert_eq!(requests(&path), ["b"], "it goes on when it can");
}

#[test]
fn what_is_wrong_is_news_once() {
    let (root, path, audit) = scene();
    let is_news = || audit.write(&entry("a")).unwrap_err().is_news();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!([is_news(), is_news()], [true, false]);
    fs::remove_dir(&path).unwrap();
    audit.write(&entry("a")).unwrap();
    drop(root);
    assert_eq!(
        [is_news(), is_news()],
        [true, false],
        "again after it went well"
    );
}

#[test]
fn nothing_but_a_regular_file_is_written_and_none_blocks() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    nix::unistd::mkfifo(&at("fifo"), Mode::S_IRWXU).unwrap();
    nix::unistd::mkfifo(&at("read"), Mode::S_IRWXU).unwrap();
    let _reader = open(
        &at("read"),
        OFlag::O_RDONLY | OFlag::O_NONBLOCK,
        Mode::empty(),
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    let begun = Instant::now();
    for (path, words) in [
        (at("fifo"), "it is a FIFO; name a regular file"),
        (at("read"), "it is a FIFO; name a regular file"),
        (at("socket"), "it is a socket; name a regular file"),
        (at("dir"), "is a directory; name a regular file"),
        (
            at("no/file"),
            "no such file or directory; name a regular file in a directory that is there",
        ),
        (
            PathBuf::from("/dev/null"),
            "it is not a regular file; name a regular file",
        ),
        (
            PathBuf::from("/dev/stderr"),
            "it is a symbolic link; name a regular file",
        ),
        (PathBuf::new(), "name a regular file"),
    ] {
        let said = Audit::open(&path, author()).unwrap_err().to_string();
        assert!(said.contains(words), "{}: {said}", path.display());
    }
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

/// An open of a FIFO for both wakes a reader that waits for a writer.
#[test]
fn what_is_no_file_is_not_even_opened() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("fifo");
    nix::unistd::mkfifo(&path, Mode::S_IRWXU).unwrap();
    let reading = std::thread::spawn({
        let path = path.clone();
        move || fs::read(path).unwrap()
    });
    let opening = |_| Audit::open(&path, author()).unwrap_err();
    let failed: Vec<Failed> = (0..200)
        .map(opening)
        .inspect(|_| sleep(Duration::from_millis(1)))
        .collect();
    assert!(
        !reading.is_finished(),
        "its reader was woken: {:?}",
        failed.last()
    );
    File::options().write(true).open(&path).unwrap();
    assert_eq!(reading.join().unwrap(), b"");
}

#[test]
fn a_torn_line_does_not_swallow_the_next() {
    let (_root, path, audit) = scene();
    audit.write(&entry("a")).unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"{\"event\":\"lock_acq")
        .unwrap();
    audit.write(&entry("b")).unwrap();
    audit.write(&entry("c")).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        (lines.len(), lines[1]),
        (4, "{\"event\":\"lock_acq"),
        "{text}"
    );
    for (line, id) in [(lines[0], "a"), (lines[2], "b"), (lines[3], "c")] {
        assert_eq!(
            serde_json::from_str::<Value>(line).unwrap()["request_id"],
            id
        );
    }
}

#[test]
fn who_has_the_file_locked_keeps_nobody_from_writing() {
    let (_root, path, audit) = scene();
    let theirs = File::open(&path).unwrap();
    assert!(flock(&theirs, Flock::Try).unwrap());
    audit.write(&entry("a")).unwrap();
    audit.write(&entry("b")).unwrap();
    assert_eq!(requests(&path), ["a", "b"]);
}

#[test]
fn a_file_that_may_not_be_read_is_written() {
    let (_root, path, audit) = scene();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o200)).unwrap();
    audit.write(&entry("a")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(requests(&path), ["a"]);
}

#[test]
fn who_rotates_it_tells_nobody() {
    let (root, path, audit) = scene();
    audit.write(&entry("a")).unwrap();
    fs::rename(&path, root.path().join("audit.1")).unwrap();
    audit.write(&entry("b")).unwrap();
    assert_eq!(
        (requests(&root.path().join("audit.1")), requests(&path)),
        (vec!["a".into()], vec!["b".into()])
    );
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
        0o600
    );
}

#[test]
fn the_lines_of_many_never_mix() {
    const LINES: usize = 1000;
    let (_root, path, audit) = scene();
    let other = Audit::open(&path, author()).unwrap();
    let write = |audit: &Audit, name: &str| {
        for number in 0..LINES {
            let long = name.repeat(1 + number * 7 % 1000);
            audit
                .write(&entry(&format!("{name}{number}")).detail(long))
                .unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(&audit, "a"));
        scope.spawn(|| write(&audit, "b"));
        scope.spawn(|| write(&other, "c"));
    });
    let found = requests(&path);
    assert_eq!(found.len(), 3 * LINES);
    for name in ["a", "b", "c"] {
        let of_one = found
            .iter()
            .filter_map(|id| id.strip_prefix(name)?.parse::<usize>().ok());
        assert!(of_one.eq(0..LINES), "{name} has all of its lines, in order");
    }
}
