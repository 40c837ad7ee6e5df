use super::*;
use std::fs::{File, FileTimes};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::thread;
use std::time::SystemTime;

use beadlock_repository::RepositoryFacts;

use crate::for_tests::known;

/// A database in a repository, as far as files are looked at.
struct Site {
    _root: tempfile::TempDir,
    top: PathBuf,
    database: PathBuf,
    repository: RepositoryFacts,
    own_files: Vec<PathBuf>,
}

impl Site {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        let database = top.join("a/.beads");
        let site = Self {
            _root: root,
            repository: known(&top, &database),
            own_files: vec![database.join("logs/agent.log")],
            top,
            database,
        };
        for (path, text) in [
            ("a/.beads/issues.jsonl", "{}\n"),
            ("a/.beads/sub/x", "x"),
            (".git/HEAD", "ref: refs/heads/main\n"),
            (".git/index", "DIRC"),
            (".git/config", "[core]\n"),
            (".git/packed-refs", "# pack-refs\n"),
            (".git/refs/heads/main", "1\n"),
            (".git/refs/remotes/origin/main", "1\n"),
            (".git/refs/heads/other", "1\n"),
            (".gitignore", "target\n"),
            ("a/other", "other\n"),
        ] {
            site.write(path, text);
        }
        site
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A snapshot with this time as its `now`, since 1970.
    fn stamps(&self, now: Duration) -> io::Result<Snapshot> {
        let (database, own_files) = (self.database.as_path(), self.own_files.as_slice());
        let subjects = Subjects {
            database,
            own_files,
            repository: &self.repository,
            settings: [false, false],
        };
        Snapshot::stamps(&subjects, now)
    }

    /// A snapshot as if a minute later: nothing has changed for a while then.
    fn later(&self) -> Snapshot {
        self.stamps(now() + Duration::from_secs(60)).unwrap()
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
}

#[test]
fn without_a_change_the_proof_holds() {
    let site = Site::new();
    // SQLite's side files do not count beside their databases.
    fs::create_dir_all(site.database.join("sub")).unwrap();
    site.write("a/.beads/beads.db", "");
    site.write("a/.beads/sub/beads.db", "");
    let before = site.later();
    assert!(before.proves(&site.later()));
    for (path, text) in [
        ("a/.beads/.exclusive-lock", "{}"),
        ("a/.beads/daemon.log", "line\n"),
        ("a/.beads/daemon.log.1", "line\n"),
        ("a/.beads/beads.db-wal", "wal"),
        ("a/.beads/sub/beads.db-shm", "shm"),
        ("a/other", "something else\n"),
        (".git/refs/heads/other", "2\n"),
        (".git/objects/aa/bb", "object"),
        (".git/logs/HEAD", "line\n"),
    ] {
        site.write(path, text);
        assert!(before.proves(&site.later()), "{path} does not count");
    }
    fs::create_dir(site.database.join("logs")).unwrap();
    let with_dir = site.later();
    site.write("a/.beads/logs/agent.log", "line\n");
    site.write("a/.beads/logs/agent.log.1", "line\n");
    assert!(
        with_dir.proves(&site.later()),
        "the agent's own log does not count"
    );
}

#[test]
fn every_change_that_counts_ends_the_proof() {
    type Change = (&'static str, fn(&Site));
    let changes: &[Change] = &[
        ("a file has more in it", |site| {
            site.write("a/.beads/issues.jsonl", "{}\n{}\n")
        }),
        ("as long as before", |site| {
            site.write("a/.beads/issues.jsonl", "[]\n")
        }),
        ("with its old times", |site| {
            let path = site.database.join("issues.jsonl");
            let old = fs::metadata(&path).unwrap().modified().unwrap();
            fs::write(&path, "[]\n").unwrap();
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_times(FileTimes::new().set_modified(old))
                .unwrap();
        }),
        ("a new file", |site| site.write("a/.beads/sub/new", "")),
        ("a new directory", |site| {
            fs::create_dir(site.database.join("empty")).unwrap()
        }),
        ("a file is gone", |site| {
            fs::remove_file(site.database.join("sub/x")).unwrap()
        }),
        ("another name", |site| {
            fs::rename(site.database.join("sub/x"), site.database.join("sub/y")).unwrap()
        }),
        ("executable", |site| {
            fs::set_permissions(
                site.database.join("sub/x"),
                fs::Permissions::from_mode(0o755),
            )
            .unwrap();
        }),
        ("a link in its place", |site| {
            fs::remove_file(site.database.join("sub/x")).unwrap();
            symlink("/dev/null", site.database.join("sub/x")).unwrap();
        }),
        ("a copy in its place", |site| {
            fs::copy(site.database.join("sub/x"), site.top.join("copy")).unwrap();
            fs::rename(site.top.join("copy"), site.database.join("sub/x")).unwrap();
        }),
        ("the branch moves", |site| {
            site.write(".git/refs/heads/main", "2\n")
        }),
        ("the tracking branch moves", |site| {
            site.write(".git/refs/remotes/origin/main", "2\n")
        }),
        ("another branch", |site| {
            site.write(".git/HEAD", "ref: refs/heads/next\n")
        }),
        ("refs are packed", |site| {
            site.write(".git/packed-refs", "# pack-refs\n1 refs/heads/main\n");
            fs::remove_file(site.top.join(".git/refs/heads/main")).unwrap();
        }),
        ("the index", |site| site.write(".git/index", "DIRC2")),
        ("a lock of the index", |site| {
            site.write(".git/index.lock", "")
        }),
        ("the settings", |site| {
            site.write(".git/config", "[core]\n\tbare = false\n")
        }),
        ("info/exclude", |site| {
            site.write(".git/info/exclude", "x\n")
        }),
        ("a merge", |site| site.write(".git/MERGE_HEAD", "1\n")),
        ("a rebase", |site| {
            fs::create_dir(site.top.join(".git/rebase-merge")).unwrap()
        }),
        (".gitignore at the top", |site| {
            site.write(".gitignore", "*.jsonl\n")
        }),
        (".gitignore above the database", |site| {
            site.write("a/.gitignore", "*.jsonl\n")
        }),
        (".gitattributes", |site| {
            site.write("a/.gitattributes", "* text\n")
        }),
        ("a repository in between", |site| {
            fs::create_dir(site.top.join("a/.git")).unwrap()
        }),
        ("no repository any more", |site| {
            fs::rename(site.top.join(".git"), site.top.join("git")).unwrap()
        }),
        ("refs in tables", |site| {
            fs::create_dir(site.top.join(".git/reftable")).unwrap()
        }),
        ("a move that has begun", |site| {
            site.write(".git/beadlock.turn", "")
        }),
        ("everybody may write", |site| {
            fs::set_permissions(site.top.join(".git"), fs::Permissions::from_mode(0o777)).unwrap();
        }),
    ];
    for (case, change) in changes {
        let site = Site::new();
        let before = site.later();
        change(&site);
        // A directory that is gone may make the look fail: that does not prove anything either.
        let is_proof = site
            .stamps(now() + Duration::from_secs(60))
            .is_ok_and(|later| before.proves(&later));
        assert!(!is_proof, "{case}");
    }
}

/// A second change within one tick of the clock leaves the same stamp, as here by hand.
#[test]
fn a_stamp_that_is_too_young_proves_nothing() {
    let site = Site::new();
    let young = site.stamps(now()).unwrap();
    assert_eq!(
        young.all.digest,
        site.later().all.digest,
        "the stamps are the same"
    );
    assert!(!young.proves(&site.later()), "changed just before the look");
}

/// A test by the real clock: as soon as a look proves something, no later write can hide from it.
#[test]
fn no_write_after_a_proof_has_the_same_stamp() {
    let site = Site::new();
    let ref_of_main = ".git/refs/heads/main";
    for round in 0..20 {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        let proof = loop {
            let seen = site.stamps(now()).unwrap();
            if seen.all.is_settled {
                break seen;
            }
            assert!(std::time::Instant::now() < deadline, "it is never settled");
            thread::yield_now();
        };
        // As git moves a ref: a new file of the same length, renamed.
        let path = if round % 2 == 0 {
            ref_of_main
        } else {
            "a/.beads/issues.jsonl"
        };
        site.write("a/next", &format!("{}\n", round % 10));
        fs::rename(site.top.join("a/next"), site.top.join(path)).unwrap();
        assert!(
            !proof.proves(&site.stamps(now()).unwrap()),
            "{path} in round {round}"
        );
    }
}

#[test]
fn too_many_entries_are_left_to_git() {
    let site = Site::new();
    for number in 0..=MANY {
        File::create(site.database.join(format!("sub/{number}"))).unwrap();
    }
    assert!(site.stamps(now()).is_err());
}

#[test]
fn other_settings_end_the_proof() {
    let site = Site::new();
    let before = site.later();
    let (database, own_files) = (site.database.as_path(), site.own_files.as_slice());
    let subjects = Subjects {
        database,
        own_files,
        repository: &site.repository,
        settings: [true, false],
    };
    assert!(!before.proves(&Snapshot::stamps(&subjects, now() + Duration::from_secs(60)).unwrap()));
}
