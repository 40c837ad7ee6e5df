//! Removal, recovery, creation and release by DESIGN 6, with something bad happening between any two steps: a writer
//! that knows nothing of the gate, in place or by rename, or a crash. Each with leases and with the portable means.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where something is not as it must be"
)]
#![expect(clippy::disallowed_methods, reason = "what careless tools do to a lock file")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use beadlock_checker::dialect::beads::Record;
use beadlock_checker::take::{Attempt, Held, Means, Release, Settled, Site, Step};
use beadlock_checker::{
    Decision, Gate, Options, Reason, Removed, Skip, Watched, check, should_skip_database,
};

const MEANS: [Means; 4] = [
    Means::BEST,
    Means { leases: false, ..Means::BEST },
    Means { renameat2: false, ..Means::BEST },
    Means::PORTABLE,
];

/// Every step of a removal.
const REMOVAL: [Step; 7] = [
    Step::Recovered,
    Step::Judged,
    Step::Leased,
    Step::JudgedAgain,
    Step::MovedAside,
    Step::GraceOver,
    Step::Deleted,
];

struct Database {
    dir: tempfile::TempDir,
}

impl Database {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn lock(&self) -> PathBuf {
        self.path().join(".exclusive-lock")
    }

    fn aside(&self) -> PathBuf {
        self.path().join(".exclusive-lock.aside")
    }

    fn gate(&self) -> Gate {
        Gate::try_take(self.path()).unwrap().expect("the gate is free")
    }

    fn holder(&self) -> String {
        Record::parse(&fs::read(self.lock()).unwrap_or_default())
            .map_or_else(|no| no.to_string(), |there| there.holder)
    }

    /// What the next check says, and that it leaves no side file behind.
    fn next_check(&self) -> Decision {
        let decision = should_skip_database(self.path());
        assert!(!self.aside().exists(), "a side file for ever, after: {decision:?}");
        decision
    }

    fn names(&self) -> Vec<String> {
        let names =
            fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }
}

fn record(holder: &str, pid: u32) -> String {
    let host = hostname::get().unwrap().into_string().unwrap();
    format!(r#"{{"holder":"{holder}","pid":{pid},"hostname":"{host}","started_at":"2025-10-25T12:00:00Z"}}"#)
}

fn live(holder: &str) -> String {
    record(holder, std::process::id())
}

fn dead(holder: &str) -> String {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    record(holder, child.id())
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Writer {
    InPlace,
    ByRename,
}

/// A tool that claims without the gate: it overwrites what is there. Under a lease a writer in place stands still
/// until the lease ends, so it works beside us, and 30 ms are enough for one that need not wait.
fn claim_naively(writer: Writer, lock: PathBuf) -> JoinHandle<()> {
    let (done, claimed) = channel();
    let thread = std::thread::spawn(move || {
        let record = live("naive");
        match writer {
            Writer::InPlace => fs::File::create(&lock).unwrap().write_all(record.as_bytes()).unwrap(),
            Writer::ByRename => {
                let draft = lock.with_extension("draft");
                fs::write(&draft, record).unwrap();
                fs::rename(draft, &lock).unwrap();
            }
        }
        let _ = done.send(());
    });
    let _ = claimed.recv_timeout(Duration::from_millis(30));
    thread
}

/// The step never continues; what the kernel does for a dead process, unwinding does here.
fn crash_at(at: Step, step: Step) {
    if at == step {
        resume_unwind(Box::new("a crash"));
    }
}

fn locked_by(holder: &str) -> impl Fn(&Decision) -> bool {
    move |decision| matches!(decision, Decision::Skip(Skip::Locked(record, Reason::PidAlive)) if record.holder == holder)
}

#[test]
fn a_stale_lock_is_removed_and_nothing_is_left() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.lock(), dead("crashed")).unwrap();
        let gate = database.gate();
        let settled = Site::new(&gate, &Options::default()).with_means(means).settle();
        let Settled::Free { removed: Some(Removed { record, reason, watched }) } = settled else {
            panic!("{means:?}: {settled:?}")
        };
        assert_eq!((record.holder.as_str(), reason), ("crashed", Reason::PidGone));
        let expected = if means.leases { Watched::ByLease } else { Watched::ByComparison };
        assert_eq!(watched, expected, "{means:?}");
        assert!(database.names().is_empty(), "{means:?}: {:?}", database.names());
    }
}

/// Whatever the step, a tool that claims over a stale lock that is being removed keeps its claim.
#[test]
fn a_naive_claim_survives_a_removal_at_any_step() {
    for means in MEANS {
        for writer in [Writer::InPlace, Writer::ByRename] {
            for step in REMOVAL {
                let database = Database::new();
                fs::write(database.lock(), dead("crashed")).unwrap();
                let gate = database.gate();
                let mut claiming = None;
                let hook = |at| {
                    if at == step && claiming.is_none() {
                        claiming = Some(claim_naively(writer, database.lock()));
                    }
                };
                let settled =
                    Site::new(&gate, &Options::default()).with_means(means).with_hook(hook).settle();
                claiming.unwrap().join().unwrap();
                drop(gate);
                let scene = format!("{writer:?} at {step:?} with {means:?}: {settled:?}");
                assert!(!matches!(settled, Settled::Free { .. }), "proceeded beside a claim: {scene}");
                assert!(locked_by("naive")(&database.next_check()), "the claim is lost: {scene}");
                assert_eq!(database.holder(), "naive", "{scene}");
            }
        }
    }
}

/// A remover that dies between any two steps leaves nothing that the next check cannot put right.
#[test]
fn a_crash_at_any_step_of_a_removal_is_recovered() {
    for means in MEANS {
        for step in REMOVAL {
            let database = Database::new();
            fs::write(database.lock(), dead("crashed")).unwrap();
            let gate = database.gate();
            let crash = |at| crash_at(at, step);
            let mut site = Site::new(&gate, &Options::default()).with_means(means).with_hook(crash);
            let crashed = catch_unwind(AssertUnwindSafe(|| site.settle()));
            assert!(crashed.is_err(), "{step:?} was not reached with {means:?}");
            drop(gate);
            let decision = database.next_check();
            assert!(!decision.is_skip(), "{step:?} with {means:?}: {decision:?}");
            assert!(database.names().is_empty(), "{step:?} with {means:?}: {:?}", database.names());
        }
    }
}

/// MODEL V3 and V5: a remover moved a claim aside that had just come, and died before it could move it back.
#[test]
fn a_live_side_file_goes_back_to_an_empty_path() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.aside(), live("naive")).unwrap();
        let gate = database.gate();
        let settled = Site::new(&gate, &Options::default()).with_means(means).settle();
        assert!(matches!(settled, Settled::Refused(Skip::Locked(..))), "{settled:?}");
        assert_eq!(database.names(), [".exclusive-lock"]);
    }
}

/// MODEL V5, V8: a plain check that finds the path absent and a side file takes the gate and recovers.
#[test]
fn a_plain_check_recovers_a_side_file() {
    let database = Database::new();
    fs::write(database.aside(), live("naive")).unwrap();
    assert!(locked_by("naive")(&database.next_check()));

    fs::remove_file(database.lock()).unwrap();
    fs::write(database.aside(), dead("crashed")).unwrap();
    assert_eq!(database.next_check().to_string(), "Removed stale lock (crashed), proceeding with sync");
    assert!(database.names().is_empty());

    fs::write(database.aside(), live("naive")).unwrap();
    fs::write(database.lock(), "torn").unwrap();
    let decision = should_skip_database(database.path());
    assert_eq!(decision.reason(), Reason::Malformed, "both must stay, and the lock's is the answer");
    assert!(database.aside().exists());

    fs::remove_file(database.lock()).unwrap();
    let gate = database.gate();
    assert_eq!(should_skip_database(database.path()).reason(), Reason::GateBusy);
    drop(gate);
    assert!(locked_by("naive")(&database.next_check()));
}

/// MODEL V7: a live claim aside and a dead lock at the path change places; a dead one aside never gets to the path.
#[test]
fn a_live_side_file_and_a_stale_lock_change_places() {
    let database = Database::new();
    fs::write(database.aside(), live("naive")).unwrap();
    fs::write(database.lock(), dead("crashed")).unwrap();
    assert!(locked_by("naive")(&database.next_check()));
    assert_eq!(database.names(), [".exclusive-lock"]);

    fs::write(database.aside(), dead("crashed")).unwrap();
    let before = fs::metadata(database.lock()).unwrap().ino();
    let gate = database.gate();
    let settled = Site::new(&gate, &Options::default()).settle();
    assert!(matches!(settled, Settled::Refused(Skip::Locked(..))), "{settled:?}");
    assert_eq!(database.names(), [".exclusive-lock"], "the dead one is deleted first");
    assert_eq!(fs::metadata(database.lock()).unwrap().ino(), before);
}

/// Without `RENAME_EXCHANGE` both stay, and the answer is to skip; nothing live is lost.
#[test]
fn where_nothing_can_be_exchanged_both_stay() {
    let database = Database::new();
    fs::write(database.aside(), live("naive")).unwrap();
    fs::write(database.lock(), dead("crashed")).unwrap();
    let gate = database.gate();
    let settled = Site::new(&gate, &Options::default()).with_means(Means::PORTABLE).settle();
    assert!(matches!(settled, Settled::Refused(Skip::InProgress)), "{settled:?}");
    assert!(database.aside().exists() && database.lock().exists());
}

/// A move back without `renameat2`, cut short between its two calls.
#[test]
fn one_file_under_both_names_is_one_lock() {
    let database = Database::new();
    fs::write(database.lock(), live("naive")).unwrap();
    fs::hard_link(database.lock(), database.aside()).unwrap();
    let gate = database.gate();
    let settled = Site::new(&gate, &Options::default()).settle();
    assert!(matches!(settled, Settled::Refused(Skip::Locked(..))), "{settled:?}");
    assert_eq!(database.names(), [".exclusive-lock"]);
}

/// Whatever lies aside and cannot be judged is somebody's.
#[test]
fn a_strange_side_file_is_put_back_and_never_deleted() {
    let database = Database::new();
    fs::write(database.aside(), "").unwrap();
    assert_eq!(database.next_check().reason(), Reason::Malformed);
    fs::remove_file(database.lock()).unwrap();
    std::os::unix::fs::symlink("/nowhere", database.aside()).unwrap();
    assert_eq!(database.next_check().reason(), Reason::Unreadable);
    assert!(database.lock().is_symlink());
}

/// A dry run says what would come of a side file, and touches nothing.
#[test]
fn a_dry_run_foresees_a_recovery() {
    let database = Database::new();
    let foreseen = || check(database.path(), &Options { dry_run: true, ..Options::default() });
    fs::write(database.aside(), dead("crashed")).unwrap();
    assert_eq!(foreseen().to_string(), "Stale lock (crashed) would be removed, proceeding with sync");
    fs::write(database.aside(), live("naive")).unwrap();
    assert!(locked_by("naive")(&foreseen()));
    assert_eq!(database.names(), [".exclusive-lock.aside"]);
}

fn claimed(gate: &Gate, means: Means, record: &Record) -> Held {
    match Site::new(gate, &Options::default()).with_means(means).claim(record).unwrap() {
        Attempt::Claimed(held, _) => held,
        Attempt::Refused(skip) => panic!("{means:?}: {skip:?}"),
    }
}

#[test]
fn a_claim_is_whole_is_seen_and_is_released() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.lock(), dead("crashed")).unwrap();
        let gate = database.gate();
        let record = Record::new("ours", "1.0").unwrap();
        let held = claimed(&gate, means, &record);
        assert_eq!(fs::read_to_string(database.lock()).unwrap(), record.to_json());
        assert_eq!(fs::metadata(database.lock()).unwrap().mode() & 0o7777, 0o644);
        assert_eq!(database.names(), [".exclusive-lock"], "{means:?}");
        let again = Site::new(&gate, &Options::default()).with_means(means).claim(&record).unwrap();
        assert!(matches!(again, Attempt::Refused(Skip::Locked(..))), "{again:?}");
        assert!(locked_by("ours")(&should_skip_database(database.path())));
        let released = Site::new(&gate, &Options::default()).with_means(means).release(&held).unwrap();
        assert_eq!(released, Release::Released, "{means:?}");
        assert!(database.names().is_empty(), "{means:?}: {:?}", database.names());
        let again = Site::new(&gate, &Options::default()).release(&held).unwrap();
        assert_eq!(again, Release::Gone);
    }
}

/// A claim that dies at any step leaves nothing, or a whole record of a process that may be asked for.
#[test]
fn a_crash_at_any_step_of_a_claim_leaves_a_whole_record_or_none() {
    for means in MEANS {
        for step in [Step::Absent, Step::Synced, Step::Linked] {
            let database = Database::new();
            let gate = database.gate();
            let record = Record::new("ours", "").unwrap();
            let crash = |at| crash_at(at, step);
            let site = Site::new(&gate, &Options::default()).with_means(means).with_hook(crash);
            assert!(
                catch_unwind(AssertUnwindSafe(|| site.claim(&record))).is_err(),
                "{step:?} was not reached"
            );
            match step {
                Step::Linked => assert_eq!(fs::read_to_string(database.lock()).unwrap(), record.to_json()),
                _ => assert!(!database.lock().exists()),
            }
        }
    }
}

/// A named unfinished lock, where there are no unnamed files, is swept once its process is dead.
#[test]
fn unfinished_locks_of_the_dead_are_swept() {
    let database = Database::new();
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let dead = format!(".exclusive-lock.tmp-{}-abc", child.id());
    let living = format!(".exclusive-lock.tmp-{}-abc", std::process::id());
    for name in [&dead, &living] {
        fs::write(database.path().join(name), "{").unwrap();
    }
    let gate = database.gate();
    let held = claimed(&gate, Means::PORTABLE, &Record::new("ours", "").unwrap());
    assert!(!database.path().join(dead).exists() && database.path().join(living).exists());
    assert_eq!(held.release(Some(&gate)).map_err(|(_, error)| error).unwrap(), Release::Released);
}

/// Nobody's lock but one's own is ever released: neither a later one, nor one written over it in place.
#[test]
fn a_release_leaves_a_lock_that_is_not_ours() {
    for means in MEANS {
        for writer in [Writer::InPlace, Writer::ByRename] {
            let database = Database::new();
            let gate = database.gate();
            let held = claimed(&gate, means, &Record::new("ours", "").unwrap());
            claim_naively(writer, database.lock()).join().unwrap();
            let released = Site::new(&gate, &Options::default()).with_means(means).release(&held).unwrap();
            let Release::NotOurs(Some(there)) = released else { panic!("{writer:?}: {released:?}") };
            assert_eq!(there.holder, "naive");
            assert_eq!(database.holder(), "naive");
        }
    }
}

/// MODEL V12: a claim that comes while we release is never taken for ours.
#[test]
fn a_naive_claim_survives_a_release_at_any_step() {
    for means in MEANS {
        for writer in [Writer::InPlace, Writer::ByRename] {
            for step in REMOVAL {
                let database = Database::new();
                let gate = database.gate();
                let held = claimed(&gate, means, &Record::new("ours", "").unwrap());
                let mut claiming = None;
                let hook = |at| {
                    if at == step && claiming.is_none() {
                        claiming = Some(claim_naively(writer, database.lock()));
                    }
                };
                let mut site = Site::new(&gate, &Options::default()).with_means(means).with_hook(hook);
                let released = site.release(&held).unwrap();
                claiming.unwrap().join().unwrap();
                drop(gate);
                let scene = format!("{writer:?} at {step:?} with {means:?}: {released:?}");
                assert!(locked_by("naive")(&database.next_check()), "the claim is lost: {scene}");
            }
        }
    }
}

/// A release that was cut short is finished by the next one with the gate.
#[test]
fn a_crash_at_any_step_of_a_release_is_recovered() {
    for means in MEANS {
        for step in REMOVAL {
            let database = Database::new();
            let gate = database.gate();
            let held = claimed(&gate, means, &Record::new("ours", "").unwrap());
            let crash = |at| crash_at(at, step);
            let mut site = Site::new(&gate, &Options::default()).with_means(means).with_hook(crash);
            assert!(
                catch_unwind(AssertUnwindSafe(|| site.release(&held))).is_err(),
                "{step:?} was not reached"
            );
            let released = Site::new(&gate, &Options::default()).release(&held).unwrap();
            assert!(matches!(released, Release::Released | Release::Gone), "{step:?}: {released:?}");
            assert!(database.names().is_empty(), "{step:?} with {means:?}: {:?}", database.names());
        }
    }
}

/// Ours at the path and somebody's live claim aside: releasing ours puts theirs in its place.
#[test]
fn a_release_brings_back_what_lies_aside() {
    let database = Database::new();
    let gate = database.gate();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    fs::write(database.aside(), live("naive")).unwrap();
    let released = Site::new(&gate, &Options::default()).release(&held).unwrap();
    assert_eq!((released, database.holder().as_str()), (Release::Released, "naive"));
    drop(gate);
    assert!(locked_by("naive")(&database.next_check()));
}

/// A reader never stands in the way, neither of a removal nor of a release.
#[test]
fn readers_are_not_noticed() {
    let database = Database::new();
    fs::write(database.lock(), dead("crashed")).unwrap();
    let reader = fs::File::open(database.lock()).unwrap();
    let gate = database.gate();
    let settled = Site::new(&gate, &Options::default()).settle();
    assert!(matches!(settled, Settled::Free { removed: Some(_) }), "{settled:?}");
    drop(reader);
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    let _reader = fs::File::open(database.lock()).unwrap();
    assert_eq!(held.release(Some(&gate)).map_err(|(_, error)| error).unwrap(), Release::Released);
}

/// Somebody has the stale lock open for writing: a claim may be on its way, so it stays for now.
#[test]
fn a_lock_that_is_open_for_writing_is_not_removed() {
    let database = Database::new();
    fs::write(database.lock(), dead("crashed")).unwrap();
    let writer = fs::OpenOptions::new().write(true).open(database.lock()).unwrap();
    let gate = database.gate();
    let settled = Site::new(&gate, &Options::default()).settle();
    assert!(matches!(settled, Settled::Refused(Skip::InProgress)), "{settled:?}");
    drop(writer);
    let settled = Site::new(&gate, &Options::default()).settle();
    assert!(matches!(settled, Settled::Free { removed: Some(_) }), "{settled:?}");
}

/// While the lock cannot be looked at (here: under somebody's write lease), a release says neither "gone" nor "not
/// ours"; it comes again until it can.
#[test]
fn a_release_waits_until_it_can_look() {
    let database = Database::new();
    let gate = database.gate();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    let script = "import fcntl, signal, sys\n\
        signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
        file = open(sys.argv[1], 'r+')\n\
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
        print('leased', flush=True)\n\
        sys.stdin.read()";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(database.lock()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut leaser = match python.spawn() {
        Ok(leaser) => leaser,
        Err(error) => {
            let is_ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
            assert!(!is_ci, "python3: {error}");
            return println!("skipped: a release under a foreign write lease: needs python3");
        }
    };
    let mut line = String::new();
    BufReader::new(leaser.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "leased\n");
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(leaser.stdin.take());
        leaser.wait().unwrap();
    });
    assert_eq!(held.release(Some(&gate)).map_err(|(_, error)| error).unwrap(), Release::Released);
    later.join().unwrap();
}

/// What no reader would accept is never written: it would block the database for ever.
#[test]
fn a_record_that_nobody_could_read_is_not_claimed_with() {
    let database = Database::new();
    let gate = database.gate();
    let mut nameless = Record::new("ours", "").unwrap();
    nameless.holder.clear();
    for record in [nameless, Record::new("ours", &"1".repeat(70_000)).unwrap()] {
        let error = Site::new(&gate, &Options::default()).claim(&record).unwrap_err().to_string();
        assert!(error.contains("that nobody could read") && error.contains(".exclusive-lock"), "{error}");
        assert!(database.names().is_empty());
    }
}

/// A record without an id is known by its fields, as a reader sees them.
#[test]
fn a_claim_without_an_id_is_released_too() {
    for means in MEANS {
        let database = Database::new();
        let gate = database.gate();
        let held = claimed(&gate, means, &Record { beadlock: None, ..Record::new("ours", "1").unwrap() });
        assert_eq!(held.release(Some(&gate)).map_err(|(_, error)| error).unwrap(), Release::Released);
    }
}

#[test]
fn the_gate_of_another_database_releases_nothing() {
    let (ours, other) = (Database::new(), Database::new());
    let gate = ours.gate();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    let (held, error) = held.release(Some(&other.gate())).unwrap_err();
    assert!(error.to_string().contains("another directory"), "{error}");
    assert_eq!(ours.holder(), "ours");
    assert_eq!(held.release(Some(&gate)).map_err(|(_, error)| error).unwrap(), Release::Released);
}

/// Whoever waits to write into a side file goes on only when it is in its place again.
#[test]
fn a_writer_into_a_side_file_claims_at_the_path() {
    let database = Database::new();
    fs::write(database.aside(), dead("crashed")).unwrap();
    let gate = database.gate();
    let mut claiming = None;
    let mut was_aside = false;
    let hook = |at| match at {
        Step::SideFound if claiming.is_none() => {
            let aside = database.aside();
            // It looked the path up before the file was moved; its open comes during the grace.
            claiming = Some(std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                fs::write(aside, live("naive")).unwrap();
            }));
        }
        Step::SideJudged => {
            was_aside |= fs::read_to_string(database.aside()).is_ok_and(|text| text.contains("naive"))
        }
        _ => {}
    };
    let settled = Site::new(&gate, &Options::default()).with_hook(hook).settle();
    claiming.unwrap().join().unwrap();
    drop(gate);
    assert!(!was_aside, "it claimed where nobody looks");
    assert!(!matches!(settled, Settled::Free { .. }), "{settled:?}");
    assert!(locked_by("naive")(&database.next_check()));
}

/// The lock goes with its directory when that is renamed during the hold, and so does its release.
#[test]
fn a_release_follows_its_directory() {
    let top = tempfile::tempdir().unwrap();
    let (old, new) = (top.path().join("old"), top.path().join("new"));
    fs::create_dir(&old).unwrap();
    let gate = Gate::try_take(&old).unwrap().unwrap();
    let held = claimed(&gate, Means::BEST, &Record::new("ours", "").unwrap());
    drop(gate);
    fs::rename(&old, &new).unwrap();
    let gate = Gate::try_take(&held.reach()).unwrap().unwrap();
    assert!(Gate::try_take(&new).unwrap().is_none(), "it is that directory's gate");
    assert_eq!(held.release(Some(&gate)).map_err(|(_, error)| error).unwrap(), Release::Released);
    assert_eq!(fs::read_dir(&new).unwrap().count(), 0);
}
