//! A claim waits for the holder for as long as it was told, and no longer.

use std::time::{Duration, Instant};

use beadlock_tests::Running;
use nix::sys::signal::Signal;

use crate::protocol::DefaultWait;
use crate::site::{Site, UNTIL_GO};

pub fn tell(site: &Site) {
    let holding = site.holding(&[], UNTIL_GO);
    a_wait_that_runs_out_is_refused(site, holding.command);
    a_signal_ends_a_wait(site);
    a_claim_without_a_time_does_what_its_protocol_says(site);
    let claiming = site.waiting(&["--wait", "1h"], "echo has it");
    let looking = Running::apart(site.command("wait", &["--wait", "1h", "-v"]));
    beadlock_tests::until("wait waits", || looking.err().contains("waiting "));
    site.assert_held();
    site.go();
    assert_eq!(holding.beadlock.end().code, 0);
    let ended = claiming.end();
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "has it\n"),
        "{ended:?}"
    );
    let ended = looking.end();
    assert_eq!((ended.code, ended.out.as_str()), (0, ""), "{ended:?}");
    assert!(
        ended
            .err
            .contains(&format!("{} is free after ", site.protocol.target)),
        "{ended:?}"
    );
    assert_eq!(
        site.run("wait", &["--wait", "0s"]).code,
        0,
        "a free lock is not waited for"
    );
    each_of_several_has_its_turn(site);
    site.assert_tidy();
}

/// The commands have an flock of their own while they work, so that two at once are seen.
fn each_of_several_has_its_turn(site: &Site) {
    let claim = site.protocol.claim.join(" ");
    let work = "exec 9<>work; flock -n 9 || echo >>overlap; echo >>turns; sleep 0.01";
    let script = format!(
        "for turn in 1 2 3 4; do \
         \"$BEADLOCK\" hold \"$TARGET\" -q --wait 1h {claim} -- sh -c '{work}' || exit 1; done"
    );
    let several: Vec<Running> = (0..4).map(|_| site.start_shell(&script)).collect();
    for running in several {
        let ended = running.end();
        assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    }
    assert!(
        !site.scene.file("overlap").exists(),
        "two were at work at once"
    );
    assert_eq!(site.scene.read("turns").lines().count(), 16);
}

fn a_wait_that_runs_out_is_refused(site: &Site, command: i32) {
    let begun = Instant::now();
    let ended = site.hold(&["--wait", "300ms"], "touch ran");
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(ended.code, site.protocol.refusal.exit_code, "{ended:?}");
    let words = (site.protocol.refusal.after_300_ms)(command);
    assert!(ended.err.contains(&words), "no {words:?} in {ended:?}");
    let ended = site.run("wait", &["--wait", "300ms"]);
    assert_eq!(
        ended.code, 4,
        "a wait claims nothing, so every protocol has this code: {ended:?}"
    );
    assert!(ended.err.contains(&words), "no {words:?} in {ended:?}");
    assert!(!site.scene.file("ran").exists());
}

fn a_signal_ends_a_wait(site: &Site) {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130)] {
        let waiting = site.waiting(&["--wait", "1h"], "touch ran");
        waiting.signal(signal);
        let ended = waiting.end();
        assert_eq!(ended.code, code, "{signal}: {ended:?}");
    }
    assert!(!site.scene.file("ran").exists());
}

fn a_claim_without_a_time_does_what_its_protocol_says(site: &Site) {
    match site.protocol.default_wait {
        DefaultWait::RefusesAtOnce => {
            let ended = site.hold(&[], "touch ran");
            assert_eq!(ended.code, site.protocol.refusal.exit_code, "{ended:?}");
            assert!(!ended.err.contains("waiting "), "{ended:?}");
        }
        DefaultWait::Waits => {
            let waiting = site.waiting(&[], "touch ran");
            waiting.signal(Signal::SIGTERM);
            waiting.end();
        }
    }
    assert!(!site.scene.file("ran").exists());
}
