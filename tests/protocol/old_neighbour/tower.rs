//! The tower-fleet document's own script (its sections 10.2 and 5.3), run by bash beside beadlock in one lock
//! directory: each sees the other's locks, and ours overwrites or takes none of them. What its force path calls
//! (`steal_lock`) the document never defines.

mod street;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use beadlock_checker::{Options, Place, Skip};
use beadlock_core::record::tower::{LockName, Record, StartedAt};
use beadlock_core::take::{Attempt, Site, Step};
use beadlock_core::{facts, gate::Gate};
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, run, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use street::{ITS_CLAIM, NAME, Street, TARGET};

#[test]
fn it_sees_ours_as_held() {
    let Some(street) = Street::new() else { return };
    let holder = street.holder(&[]);
    let text = street.text();
    let refused = street.it(ITS_CLAIM);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(
        refused.err,
        format!("ERROR: Lock is held by active process.\n{text}")
    );
    let refused = street.it(&format!("{ITS_CLAIM} true"));
    assert_eq!(
        refused.err,
        format!("ERROR: Lock is held by active process.\n{text}"),
        "force is for stale ones"
    );
    let refused = street.it(&format!("release_lock {NAME} old-1"));
    assert_eq!(
        (refused.code, &*refused.err),
        (1, "ERROR: Lock held by different request: ours-1\n")
    );
    assert_eq!(street.text(), text);
    drop(holder);
}

#[test]
fn it_sees_ours_as_stale() {
    let Some(street) = Street::new() else { return };
    let holder = street.holder(&["--ttl", "5"]);
    assert_eq!(street.it("is_lock_stale \"$LOCK\"").code, 1, "active");
    holder.signal(Signal::SIGKILL);
    wait_until(PATIENCE, "its judgement that ours is stale", || {
        street.it("is_lock_stale \"$LOCK\"").code == 0
    });
    let text = street.text();
    let refused = street.it(ITS_CLAIM);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(
        refused.err,
        format!("ERROR: Lock is stale. Use --force-lock to acquire.\n{text}")
    );
    // Its judgement and ours are one.
    assert_eq!(street.ours(&["check", TARGET]).code, 4);
    assert!(street.ours(&["status", TARGET]).out.starts_with("stale "));
    // What it calls to steal is nowhere defined.
    let forced = street.it(&format!("{ITS_CLAIM} true"));
    assert!(
        forced.code != 0 && forced.err.contains("steal_lock"),
        "{forced:?}"
    );
    assert_eq!(street.text(), text);
}

#[test]
fn it_sees_ours_as_gone() {
    let Some(street) = Street::new() else { return };
    let mut holder = street.holder(&[]);
    assert_eq!(street.it(ITS_CLAIM).code, 1);
    holder.signal(Signal::SIGTERM);
    holder.wait(PATIENCE);
    let taken = street.it(ITS_CLAIM);
    assert_eq!(
        (taken.code, &*taken.out),
        (0, "Lock acquired: app-production\n"),
        "{taken:?}"
    );
    assert_eq!(street.record()["request_id"], "old-1");
    let released = street.it(&format!("release_lock {NAME} old-1"));
    assert_eq!(
        (released.code, &*released.out),
        (0, "Lock released: app-production\n"),
        "{released:?}"
    );
    assert_eq!(street.names(), [""; 0]);
}

#[test]
fn ours_sees_its_as_held() {
    let Some(street) = Street::new() else { return };
    assert_eq!(street.it(ITS_CLAIM).code, 0);
    let text = street.text();
    let check = street.ours(&["check", TARGET]);
    assert_eq!(
        (check.code, check.out.trim_end()),
        (4, "Skipping (locked by old-tool)"),
        "{check:?}"
    );
    let status = street.ours(&["status", "-v", TARGET]);
    assert!(
        status.code == 0 && status.out.starts_with("active "),
        "{status:?}"
    );
    assert!(
        status.out.contains("intent: deploy-app, version 1.2.0"),
        "{status:?}"
    );
    let refused = Ended::from(run(street.hold(&["--force-lock", "--raw"], "echo >at-work")));
    let answer: Value = serde_json::from_str(&refused.out).expect("the document's answer");
    assert_eq!(
        (
            refused.code,
            &answer["error"],
            &answer["held_by"]["request_id"]
        ),
        (4, &"lock_blocked".into(), &"old-1".into())
    );
    assert!(!street.has_run());
    let release = street.ours(&["release", TARGET, "--id", "ours-1"]);
    assert_ne!(release.code, 0, "another request's: {release:?}");
    assert_eq!(street.text(), text);
    assert_eq!(street.it(&format!("release_lock {NAME} old-1")).code, 0);
    assert_eq!(street.ours(&["check", TARGET]).code, 0);
}

#[test]
fn ours_sees_its_as_stale() {
    let Some(street) = Street::new() else { return };
    assert_eq!(street.it(&format!("DEFAULT_TTL=1; {ITS_CLAIM}")).code, 0);
    let line = "Skipping (stale lock of old-tool, no heartbeat for ";
    let mut check = street.ours(&["check", TARGET]);
    wait_until(PATIENCE, "our judgement that its is stale", || {
        check = street.ours(&["check", TARGET]);
        check.out.starts_with(line)
    });
    assert!(
        check.code == 4 && check.out.trim_end().ends_with("s; --force-lock takes it)"),
        "{check:?}"
    );
    assert_eq!(
        street.it("is_lock_stale \"$LOCK\"").code,
        0,
        "its judgement and ours are one"
    );
    let status = street.ours(&["status", "-v", TARGET]);
    assert!(
        status.code == 0 && status.out.starts_with("stale "),
        "{status:?}"
    );
    let text = street.text();
    let refused = Ended::from(run(street.hold(&["--raw"], "echo >at-work")));
    let answer: Value = serde_json::from_str(&refused.out).expect("the document's answer");
    assert_eq!(
        (
            refused.code,
            &answer["error"],
            &answer["held_by"]["request_id"]
        ),
        (4, &"lock_stale".into(), &"old-1".into())
    );
    assert!(
        !street.has_run() && street.text() == text,
        "nothing without --force-lock"
    );
    let taken = Ended::from(run(street.hold(&["--force-lock"], "echo >at-work")));
    assert!(taken.code == 0 && street.has_run(), "{taken:?}");
    assert_eq!(street.names(), [""; 0]);
}

/// Rounds in which one has a start of up to 90 ms, where each program takes some hundredths of a second.
const RACES: u32 = 24;

/// What is left of a busy machine, whose programs take longer: the second begins when the first has its lock.
const ROUNDS: u32 = RACES + 2;

/// Both begin at once, round after round. Where its file has truly moved, it stays, and ours does not run beside it.
#[test]
fn ours_never_creates_beside_its() {
    let Some(street) = Street::new() else { return };
    assert_eq!(street.it(ITS_CLAIM).code, 0);
    let before = (street.text(), street.inode());
    let refused = Ended::from(run(street.hold(&["--force-lock"], "echo >at-work")));
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(!street.has_run());
    assert_eq!((street.text(), street.inode()), before);
    assert_eq!(street.names(), [format!("{NAME}.lock")]);
    let moved_in = "[[ -e $LOCK.old-1.tmp ]] || echo moved";
    let (mut its, mut ours) = (0, 0);
    for round in 0..ROUNDS {
        // Only until both have won.
        if round >= RACES && its > 0 && ours > 0 {
            break;
        }
        let _ = fs::remove_file(street.lock());
        let _ = fs::remove_file(street.dir().join(format!("{NAME}.lock.old-1.tmp")));
        // It says what the lock is at its begin and at its end.
        let work = "jq -r .request_id \"$LOCK\"; sleep 0.02; jq -r .request_id \"$LOCK\"";
        let mut hold = street.hold(&["--force-lock"], work);
        hold.env("LOCK", street.lock());
        let its_claim = street.bash(&format!("{ITS_CLAIM}; {moved_in}"));
        // Now one has a start, now the other.
        let (first, second) = if round % 2 == 0 {
            (hold, its_claim)
        } else {
            (its_claim, hold)
        };
        let mut first = Running::start(first);
        if round < RACES {
            std::thread::sleep(Duration::from_millis(8) * (round / 2));
        } else {
            wait_until(PATIENCE, "the first one's lock", || {
                street.lock().exists() || !first.is_running()
            });
        }
        let second = Running::start(second);
        let (held, it) = if round % 2 == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let held = Ended::from(held.finish(PATIENCE));
        let it = Ended::from(it.finish(PATIENCE));
        if it.out.contains("moved") {
            its += 1;
            assert_eq!(
                street.record()["request_id"],
                "old-1",
                "its lock stays: {held:?}"
            );
        }
        match held.code {
            0 => {
                ours += 1;
                assert_eq!(held.out, "ours-1\nours-1\n", "{it:?}");
            }
            code => assert_eq!((code, &*held.out), (4, ""), "{held:?}"),
        }
    }
    assert!(
        its > 0 && ours > 0,
        "the rounds are no race: {its} its, {ours} ours"
    );
}

/// Its heartbeat is two steps: a copy with another time, and the move of that over the lock. The second one arrives at
/// each step of a steal in turn.
#[test]
fn its_heartbeat_is_respected_by_our_steal() {
    let Some(street) = Street::new() else { return };
    let steps = [
        Step::Recovered,
        Step::Judged,
        Step::Leased,
        Step::JudgedAgain,
        Step::MovedAside,
        Step::GraceOver,
        Step::Deleted,
        Step::Absent,
        Step::Synced,
    ];
    for step in steps {
        let _ = fs::remove_file(street.lock());
        street.its_stale_lock();
        let mut beat = Beat::before_its_move(&street);
        let place = Place::tower(street.dir(), &LockName::parse(NAME).expect("a name"));
        let gate = Gate::take_blocking(place.dir()).expect("a gate");
        let options = Options {
            force_lock: true,
            ..Options::default()
        };
        let site = Site::new(&gate, &options).with_names(place.names());
        let hook = |at: Step| {
            if at == step {
                beat.goes_on();
            }
        };
        let attempt = site
            .with_hook(hook)
            .claim(of_ours())
            .expect("a claim or none");
        assert!(
            matches!(attempt, Attempt::Refused(Skip::Locked(..), _)),
            "{step:?}: {attempt:?}"
        );
        drop(gate);
        assert!(beat.has_moved, "{step:?} was not reached");
        assert_eq!(street.record()["request_id"], "old-1", "{step:?}");
        assert_eq!(street.names(), [format!("{NAME}.lock")], "{step:?}");
    }
    // The program: the move as soon as the old file is aside, or at the latest over our lock, which is newer than the
    // copy.
    fs::remove_file(street.lock()).expect("remove its lock");
    street.its_stale_lock();
    let it = Running::start(
        street.bash(
            "mv() { until [[ -e $LOCK.aside || $LOCK -nt $1 ]]; do :; done; command mv \"$@\"; }; update_heartbeat \"$LOCK\"",
        ),
    );
    wait_until(PATIENCE, "its copy", || {
        fs::read_to_string(street.dir().join(format!("{NAME}.lock.heartbeat.tmp")))
            .is_ok_and(|text| text.contains('}'))
    });
    let ours = Ended::from(run(
        street.hold(&["--force-lock"], "echo >at-work; exec sleep 60")
    ));
    assert!(matches!(ours.code, 4 | 9), "{ours:?}");
    assert_eq!(street.record()["request_id"], "old-1");
    drop(it);
}

/// With a time to live that lets ours alone: what it sees is the other file.
#[test]
fn its_move_over_ours_is_noticed_as_a_loss() {
    let Some(street) = Street::new() else { return };
    let copy = "jq '.request_id = \"old-1\"' \"$LOCK\" >copy; mv copy \"$LOCK\"";
    for (move_over, its, words) in [
        (
            "update_heartbeat \"$LOCK\"",
            "ours-1",
            "was replaced by a copy of itself",
        ),
        (copy, "old-1", "is ours's now"),
    ] {
        let _ = fs::remove_file(street.lock());
        let _ = fs::remove_file(street.scene.path().join("at-work"));
        let holder = street.holder(&["--kill-after", "1s"]);
        let before = street.inode();
        assert_eq!(street.it(move_over).code, 0);
        assert_ne!(street.inode(), before, "it has moved");
        let ended = Ended::from(holder.finish(PATIENCE));
        assert!(ended.code == 9 && ended.err.contains(words), "{ended:?}");
        assert_eq!(street.record()["request_id"], its, "and it was not touched");
    }
}

/// A heartbeat of its own, stopped between its copy and its move.
struct Beat {
    bash: Child,
    says: BufReader<ChildStdout>,
    has_moved: bool,
}

impl Beat {
    fn before_its_move(street: &Street) -> Self {
        let mut command = street.bash(
            "mv() { echo copied; read -r; command mv \"$@\"; }; update_heartbeat \"$LOCK\"; echo moved; read -r || :",
        );
        let mut bash = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let says = BufReader::new(bash.stdout.take().expect("a pipe"));
        let mut beat = Self {
            bash,
            says,
            has_moved: false,
        };
        beat.wait_for("copied");
        beat
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("a line");
        assert_eq!(line.trim_end(), word);
    }

    /// Once, at the first time that it is asked to.
    fn goes_on(&mut self) {
        if !std::mem::replace(&mut self.has_moved, true) {
            self.bash
                .stdin
                .as_mut()
                .expect("a pipe")
                .write_all(b"\n")
                .expect("bash reads");
            self.wait_for("moved");
        }
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        let _ = self.bash.kill();
        let _ = self.bash.wait();
    }
}

fn of_ours() -> Record {
    let now = StartedAt::from_unix(facts::now().0.as_secs(), 0);
    Record {
        lock_name: LockName::parse(NAME).expect("a name"),
        request_id: "ours-1".to_owned(),
        actor: "ours".to_owned(),
        intent: "i".to_owned(),
        intent_version: "1".to_owned(),
        host_id: "here".to_owned(),
        pid: std::process::id().into(),
        created_at: now,
        last_heartbeat_at: now,
        ttl_seconds: 900,
        metadata: None,
        others: serde_json::Map::new(),
    }
}
