//! A `beadlock` that is killed at any moment leaves nothing that stays in the way, and no work without a lock where
//! the lock is kept up by beadlock.

use std::fs;

use beadlock_tests::{Dice, Running, lives, until};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::protocol::Orphan;
use crate::site::{Site, UNTIL_GO};

/// How often a hold is killed at a moment by chance.
const ROUNDS: u32 = 6;

pub fn tell(site: &Site) {
    killed_before_its_claim(site);
    killed_while_it_waits(site);
    killed_while_its_command_runs(site);
    killed_at_any_moment(site);
}

/// Something else is at work on the lock file, so the claim has not begun.
fn killed_before_its_claim(site: &Site) {
    let gate = site.shut_gate();
    let waiting = site.waiting(&["--wait", "1h"], "touch ran");
    let before = site.names();
    waiting.signal(Signal::SIGKILL);
    waiting.end();
    drop(gate);
    assert_eq!(site.names(), before, "it has left nothing");
    the_next_claim_is_granted(site);
    assert!(!site.scene.file("ran").exists());
}

fn killed_while_it_waits(site: &Site) {
    let holding = site.holding(&[], UNTIL_GO);
    let waiting = site.waiting(&["--wait", "1h"], "touch ran");
    waiting.signal(Signal::SIGKILL);
    waiting.end();
    site.assert_held();
    site.go();
    assert_eq!(holding.beadlock.end().code, 0, "the holder does not notice");
    fs::remove_file(site.scene.file("go")).expect("it is there");
    site.assert_tidy();
    assert!(!site.scene.file("ran").exists());
    the_next_claim_is_granted(site);
}

/// Another claim waits meanwhile, and must not be granted while the command works.
fn killed_while_its_command_runs(site: &Site) {
    let work = format!("exec 9<>work; flock 9; {UNTIL_GO}");
    let holding = site.holding(site.protocol.short_lived, &work);
    let next = site.waiting(
        &next_options(site),
        "exec 9<>work; flock -n 9 || echo >>overlap; echo has it",
    );
    let (beadlock, command) = (holding.beadlock.pid(), holding.command);
    holding.beadlock.signal(Signal::SIGKILL);
    holding.beadlock.end();
    match site.protocol.orphan {
        Orphan::KeepsTheLock => {
            site.assert_held();
            let ended = site.hold(&["--no-wait"], "touch ran");
            assert_eq!(
                ended.code, site.protocol.refusal.exit_code,
                "the command works on: {ended:?}"
            );
            assert!(lives(command) && !site.scene.file("ran").exists());
            site.go();
        }
        Orphan::IsEnded => until("the command is ended", || !lives(command)),
    }
    until_gone(beadlock);
    let ended = next.end();
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "has it\n"),
        "{ended:?}"
    );
    assert!(
        !site.scene.file("overlap").exists(),
        "the next one was at work beside the orphan"
    );
    site.assert_free();
    site.assert_tidy();
    let _ = fs::remove_file(site.scene.file("go"));
}

/// The commands have an flock of their own while they work, so that two at once are seen.
fn killed_at_any_moment(site: &Site) {
    let seed = Dice::seed("CONFORMANCE_SEED");
    let mut dice = Dice::new(seed, site.protocol.target);
    let script = "exec 9<>work; flock -n 9 || echo >>overlap; echo >>turns; sleep 0.05";
    for _ in 0..ROUNDS {
        let options = [site.protocol.short_lived, &["-q", "--wait", "30s"]].concat();
        let beadlock = Running::apart(site.hold_command(&options, script));
        dice.pause(0, 60);
        beadlock.signal(Signal::SIGKILL);
        let pid = beadlock.pid();
        // The next one comes while the command may still work.
        drop(beadlock);
        let next = site.hold_command(&[next_options(site).as_slice(), &["-q"]].concat(), script);
        let next = Running::apart(next);
        until_gone(pid);
        let ended = next.end();
        assert_eq!(ended.code, 0, "{ended:?}");
    }
    assert!(
        !site.scene.file("overlap").exists(),
        "two were at work at once (CONFORMANCE_SEED={seed})"
    );
    assert!(site.scene.read("turns").lines().count() >= ROUNDS as usize);
    site.assert_free();
    site.assert_tidy();
}

/// What the next claim needs when the holder was killed.
fn next_options(site: &Site) -> Vec<&'static str> {
    [
        &["--wait", "30s"][..],
        site.protocol.short_lived,
        &site.protocol.takeover.options(),
    ]
    .concat()
}

#[track_caller]
fn the_next_claim_is_granted(site: &Site) {
    let ended = site.hold(&next_options(site), "echo has it");
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "has it\n"),
        "{ended:?}"
    );
    site.assert_free();
    site.assert_tidy();
}

/// Waits until this process and all in its session are gone. Orphans fall to the tests, which reap them.
#[track_caller]
fn until_gone(session: i32) {
    until("all that it has started has ended", || {
        let left = beadlock_tests::process::pids()
            .into_iter()
            .filter(|pid| session_of(*pid) == Some(session));
        let left: Vec<i32> = left.collect();
        for pid in &left {
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
        }
        left.is_empty()
    });
}

/// The session of a process, also of a zombie.
fn session_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(3)?.parse().ok()
}
