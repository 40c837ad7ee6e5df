//! Recorded inputs against the check as a daemon calls it, on real files. The answer is that of the Go reader in each
//! of 129 cases and in what real writers put there, except where docs/design.md#reading differs on purpose.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::Chars;

use beadlock_checker::{Decision, Proceed, Skip, should_skip_database};
use beadlock_tests::vector::{Zombie, input};
use beadlock_tests::{dead_pid, may_be_root, root, run, shared, skip, this_host, tool};
use tempfile::TempDir;

const CASES: usize = 129;
const VARIANTS: usize = 20;

/// Names the directory that [`checked_by_nobody`] checks.
const BY_NOBODY: &str = "BEADLOCK_TEST_CHECK_BY_NOBODY";
const NOBODY: u32 = 65_534;

/// Where the answer is not the original's: case, class, holder, file after, and the words of docs/design.md#reading for
/// it.
const DEVIATIONS: [(&str, &str, &str, &str, &str); 8] = [
    ("big-10MB-spaces", "unreadable", "", "kept", LARGE),
    ("deep-array-100000", "unreadable", "", "kept", LARGE),
    ("deep-unclosed", "unreadable", "", "kept", LARGE),
    (
        "deep-array-9998",
        "malformed",
        "",
        "kept",
        "JSON may be nested up to 128 levels",
    ),
    (
        "samehost-pid-2p31",
        "locked",
        "vc-executor",
        "kept",
        "A PID above 2^31-1 is never passed to `kill` and counts as alive",
    ),
    ("fs-symlink-to-live", "unreadable", "", "kept", FOLLOWED),
    ("fs-dangling-symlink", "unreadable", "", "kept", FOLLOWED),
    ("fs-symlink-devnull", "unreadable", "", "kept", FOLLOWED),
];
const LARGE: &str =
    "a file over 64 KiB are unreadable. The original follows the link, hangs, or reads on";
const FOLLOWED: &str = "A symlink, a FIFO, a socket and a file over 64 KiB are unreadable. The original follows the link, hangs";

/// What a check answered: the class of the vectors' README, the holder, and whether the file is there afterwards.
#[derive(Debug, PartialEq)]
struct Answer {
    class: String,
    holder: String,
    file_after: String,
}

impl Answer {
    fn new(class: &str, holder: &str, file_after: &str) -> Self {
        Self {
            class: class.to_owned(),
            holder: holder.to_owned(),
            file_after: file_after.to_owned(),
        }
    }

    fn of(dir: &Path) -> Self {
        let decision = should_skip_database(dir);
        let class = match &decision {
            Decision::Proceed(Proceed::NoLock | Proceed::RemovedStale(..)) => "proceed",
            Decision::Skip(Skip::Locked(..)) => "locked",
            Decision::Skip(Skip::CheckFailed { reason, .. }) => reason.as_str(),
            other => panic!("no answer to an undisturbed check: {other:?}"),
        };
        let line = decision.to_string();
        let begins = match class {
            "locked" => "Skipping database (locked by ",
            "malformed" => "Skipping database (lock check failed: malformed lock file: ",
            "invalid" => "Skipping database (lock check failed: invalid lock file: ",
            "unreadable" => "Skipping database (lock check failed: failed to read lock file: ",
            "removal_failed" => {
                "Skipping database (lock check failed: failed to remove stale lock: "
            }
            _ if decision.removed().is_some() => "Removed stale lock (",
            _ => "",
        };
        assert!(
            line.starts_with(begins) && begins.is_empty() == line.is_empty(),
            "{class}: {line}"
        );
        let holder = decision
            .record()
            .map(|record| record.holder())
            .unwrap_or_default();
        let file_after = if lock(dir).symlink_metadata().is_ok() {
            "kept"
        } else {
            "gone"
        };
        let aside = dir.join(".exclusive-lock.aside");
        assert!(
            aside.symlink_metadata().is_err(),
            "a side file is left behind"
        );
        Self::new(class, holder, file_after)
    }
}

fn lock(dir: &Path) -> PathBuf {
    dir.join(".exclusive-lock")
}

/// A directory of its own for one case, that everybody may look into.
struct Place {
    top: TempDir,
}

impl Place {
    fn new() -> Self {
        let top = TempDir::with_prefix("beadlock-vector-").expect("a temporary directory");
        fs::set_permissions(top.path(), Permissions::from_mode(0o755)).expect("chmod");
        fs::create_dir(top.path().join(".beads")).expect("create .beads");
        Self { top }
    }

    fn beads(&self) -> PathBuf {
        self.top.path().join(".beads")
    }

    fn lock(&self) -> PathBuf {
        lock(&self.beads())
    }

    /// Checks these bytes as a lock file; what is kept must be kept as it was.
    fn check(&self, bytes: &[u8]) -> Answer {
        fs::write(self.lock(), bytes).expect("write the lock");
        let answer = Answer::of(&self.beads());
        assert!(
            answer.file_after == "gone" || fs::read(self.lock()).expect("read the lock") == bytes,
            "changed"
        );
        answer
    }

    /// Checks as a user that the modes bind: as this user, or as nobody when this is root.
    fn check_unprivileged(&self) -> Answer {
        if !may_be_root() {
            return Answer::of(&self.beads());
        }
        // The magic link leads to this very program wherever it lies, also where nobody may not go by path.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["checked_by_nobody", "--exact", "--ignored", "--nocapture"])
            .env_clear()
            .env(BY_NOBODY, self.beads());
        command.current_dir("/").uid(NOBODY).gid(NOBODY);
        let output = run(command);
        let text = String::from_utf8_lossy(&output.stdout);
        let answer = text.lines().find_map(|line| line.strip_prefix("answer\t"));
        let fields: Vec<&str> = answer
            .unwrap_or_else(|| panic!("no answer: {output:?}"))
            .split('\t')
            .collect();
        let [class, holder, file_after] = fields[..] else {
            panic!("no answer: {output:?}")
        };
        Answer::new(class, holder, file_after)
    }
}

#[test]
#[ignore = "a part of the others: what Place::check_unprivileged starts as nobody"]
fn checked_by_nobody() {
    let Some(dir) = std::env::var_os(BY_NOBODY) else {
        return skip::cannot("is a part of other tests");
    };
    assert_eq!(nix::unistd::geteuid().as_raw(), NOBODY);
    let Answer {
        class,
        holder,
        file_after,
    } = Answer::of(Path::new(&dir));
    println!("\nanswer\t{class}\t{holder}\t{file_after}");
}

fn stale_lock() -> String {
    let host = this_host();
    let dead = dead_pid();
    format!(
        r#"{{"holder":"vc-executor","pid":{dead},"hostname":"{host}","started_at":"2025-10-25T12:00:00Z"}}"#
    )
}

fn remote_lock() -> &'static str {
    r#"{"holder":"vc-executor","pid":12345,"hostname":"remote-host-xyz","started_at":"2025-10-25T12:00:00Z"}"#
}

/// Sets up what a `.txt` case says in words, and checks it; `None`: not possible here, and said so.
fn on_the_file_system(case: &str) -> Option<Answer> {
    let place = Place::new();
    let (beads, lock, beside) = (place.beads(), place.lock(), place.beads().join("beside"));
    match case {
        "fs-no-file" => Some(Answer::of(&beads)),
        "fs-beadsdir-is-file" => {
            fs::write(&beside, "").expect("write a file");
            Some(Answer::of(&beside))
        }
        "fs-symlink-to-live" => {
            fs::write(&beside, remote_lock()).expect("write a lock");
            symlink("beside", &lock).expect("link");
            let answer = Answer::of(&beads);
            assert_eq!(
                fs::read_to_string(&beside).expect("the target"),
                remote_lock()
            );
            Some(answer)
        }
        "fs-dangling-symlink" => {
            symlink("nowhere", &lock).expect("link");
            Some(Answer::of(&beads))
        }
        "fs-symlink-devnull" => {
            symlink("/dev/null", &lock).expect("link");
            Some(Answer::of(&beads))
        }
        "fs-socket" => {
            let _listener = UnixListener::bind(&lock).expect("bind");
            Some(Answer::of(&beads))
        }
        "fs-mode000-nobody" => {
            fs::write(&lock, remote_lock()).expect("write a lock");
            fs::set_permissions(&lock, Permissions::from_mode(0o000)).expect("chmod");
            Some(place.check_unprivileged())
        }
        "fs-dir-unsearchable-nobody" => {
            fs::set_permissions(&beads, Permissions::from_mode(0o600)).expect("chmod");
            Some(place.check_unprivileged())
        }
        "fs-stale-immutable" => immutable(&place),
        "fs-hardlink-stale" => {
            let stale = stale_lock();
            fs::write(&beside, &stale).expect("write a lock");
            fs::hard_link(&beside, &lock).expect("link");
            let answer = Answer::of(&beads);
            assert_eq!(fs::read_to_string(&beside).expect("the other name"), stale);
            Some(answer)
        }
        _ => panic!("no set-up for {case}"),
    }
}

fn immutable(place: &Place) -> Option<Answer> {
    let chattr = tool("chattr").filter(|_| root())?;
    let with = |flag: &str| {
        let mut command = Command::new(&chattr);
        command.arg(flag).arg(place.lock());
        run(command).status.success()
    };
    fs::write(place.lock(), stale_lock()).expect("write a lock");
    if !with("+i") {
        skip::cannot("cannot make a file immutable here");
        return None;
    }
    let answer = std::panic::catch_unwind(|| Answer::of(&place.beads()));
    assert!(
        with("-i"),
        "the file stays immutable: {}",
        place.lock().display()
    );
    Some(answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Undoes `\n`, `\t`, `\0`, `\\`, `\xHH` and `\uHHHH` in a cell.
fn unescaped(cell: &str) -> String {
    let hex = |chars: &mut Chars, digits| {
        let digits: String = chars.take(digits).collect();
        u32::from_str_radix(&digits, 16)
            .ok()
            .and_then(char::from_u32)
            .expect("a character")
    };
    let mut text = String::new();
    let mut chars = cell.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next().expect("something after a backslash") {
                'n' => '\n',
                't' => '\t',
                '0' => '\0',
                'x' => hex(&mut chars, 2),
                'u' => hex(&mut chars, 4),
                other => other,
            },
            c => c,
        });
    }
    text
}

/// What the vectors expect, where it hangs on the machine that they were made on.
fn expected_here(case: &str, recorded: Answer) -> Answer {
    match case {
        "samehost-pid-999999" if Path::new("/proc/999999").exists() => {
            Answer::new("locked", "vc-executor", "kept")
        }
        "host-localhost-dead" if this_host().eq_ignore_ascii_case("localhost") => {
            Answer::new("proceed", "vc-executor", "gone")
        }
        _ => recorded,
    }
}

#[test]
fn every_case_is_answered_as_recorded_or_deviates_on_purpose() {
    let Some(shared) = shared() else { return };
    let design =
        fs::read_to_string(skip::checkout().join("docs/design.md")).expect("docs/design.md");
    let design: Vec<&str> = design.split_whitespace().collect();
    let design = design.join(" ");
    let beads = shared.join("vectors/beads");
    let index = fs::read_to_string(beads.join("cases.tsv")).expect("cases.tsv");
    let zombie = Zombie::new();
    let (mut checked, mut skipped, mut wrong, mut deviating) = (0, 0, Vec::new(), Vec::new());
    for line in index.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [case, file, class, holder, file_after, _note] = cells[..] else {
            panic!("not a case: {line}")
        };
        let path = beads.join(file);
        let answer = match path.extension().and_then(|extension| extension.to_str()) {
            Some("txt") => on_the_file_system(case),
            _ => input(&path, &zombie).map(|bytes| Place::new().check(&bytes)),
        };
        let Some(answer) = answer else {
            skipped += 1;
            continue;
        };
        checked += 1;
        let recorded = expected_here(case, Answer::new(class, &unescaped(holder), file_after));
        if answer == recorded {
            continue;
        }
        match DEVIATIONS.iter().find(|row| row.0 == case) {
            Some((_, class, holder, file_after, why))
                if answer == Answer::new(class, holder, file_after) =>
            {
                assert!(design.contains(why), "docs/design.md does not say: {why}");
                deviating.push(case);
            }
            _ => wrong.push(format!("{case}: {answer:?}, recorded {recorded:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!(
        "{checked} cases checked, {skipped} skipped, {} deviate on purpose",
        deviating.len()
    );
    assert_eq!(checked + skipped, CASES);
    let unused: Vec<&str> = DEVIATIONS
        .iter()
        .map(|row| row.0)
        .filter(|case| !deviating.contains(case))
        .collect();
    assert!(
        unused.is_empty() || skipped > 0,
        "rows without a deviation: {unused:?}"
    );
}

#[test]
fn what_real_writers_put_there_is_answered_as_recorded() {
    let Some(shared) = shared() else { return };
    let variants = shared.join("vectors/beads/variants");
    let index = fs::read_to_string(variants.join("INDEX.tsv")).expect("INDEX.tsv");
    let mut checked = 0;
    for line in index.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        let [file, skips, holder, words] = cells[..] else {
            panic!("not a variant: {line}")
        };
        let class = match words.split(' ').next() {
            Some("malformed") => "malformed",
            Some("invalid") => "invalid",
            _ => "locked",
        };
        let quoted = holder.get(1..holder.len() - 1).expect("a quoted holder");
        assert_eq!(skips, "True", "{file}");
        let answer = Place::new().check(&fs::read(variants.join(file)).expect("a variant"));
        assert_eq!(
            answer,
            Answer::new(class, &unescaped(quoted), "kept"),
            "{file}"
        );
        checked += 1;
    }
    println!("{checked} variants checked");
    assert_eq!(checked, VARIANTS);
}
