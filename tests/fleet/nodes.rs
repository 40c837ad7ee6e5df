//! Nodes that fail: killed, stopped, too few, without their data.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use beadlock_base::deadline::boottime;
use beadlock_fleet::{ClaimState, ErrorKind, Fleet, SessionLoss, SessionStanding, T};
use beadlock_testkit::{Etcd, until, wait_until};
use nix::sys::signal::Signal;

use super::actors::{Agent, claim, hold, until_held, until_state};
use super::ground::{Ground, joined};

const CYCLE: Duration = Duration::from_millis(20);

/// Two T after a fault has ended everything goes on.
const AGAIN: Duration = Duration::from_secs(2 * T.as_secs());

/// The next cycle comes in time.
#[track_caller]
fn goes_on(agent: &Agent) {
    let before = agent.cycles.load(Ordering::SeqCst);
    wait_until(AGAIN, "cycles go on", || {
        agent.cycles.load(Ordering::SeqCst) > before + 1
    });
}

#[test]
fn a_claim_outlives_the_node_that_it_talks_to_whichever_that_is() {
    let Some(etcd) = Etcd::three() else { return };
    let mut ground = Ground::on(etcd);
    let agent = Agent::start("m1", ground.config(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let claim = claim("m2", ground.config(), &ground.mark);
    let held = until_held(&claim);
    let leader = ground.etcd.leader();
    ground.etcd.kill(leader);
    let renewed = claim.deadlines().expect("a session").renewed;
    // More than T: the lease would have lapsed.
    wait_until(2 * T, "it is renewed for longer than T", || {
        assert_eq!(claim.standing(), SessionStanding::Live);
        claim
            .deadlines()
            .is_some_and(|deadlines| deadlines.renewed > renewed + T)
    });
    assert!(claim.may_begin());
    assert_eq!(
        ground
            .fleet()
            .claim_of(&ground.mark.name)
            .unwrap()
            .map(|claim| claim.created),
        Some(held.created)
    );
    claim.end().unwrap();
    goes_on(&agent);
    ground.witness.check();
    drop(agent);
    ground.etcd.start(leader);
    ground.until_empty();
}

#[test]
fn a_leader_that_is_stopped_for_12_seconds_lets_nobody_in() {
    let Some(etcd) = Etcd::three() else { return };
    let ground = Ground::on(etcd);
    let agent = Agent::start("m1", ground.config(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let first = claim("m2", ground.config(), &ground.mark);
    until_held(&first);
    let leader = ground.etcd.leader();
    ground.etcd.signal(leader, Signal::SIGSTOP);
    let stopped = Instant::now();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            hold(
                claim("m3", ground.config(), &ground.mark),
                "m3",
                &ground.witness,
                CYCLE * 5,
            )
        });
        hold(first, "m2", &ground.witness, Duration::from_secs(14));
        assert!(
            other.join().expect("no panic"),
            "the other claim had its turn"
        );
    });
    wait_until(Duration::from_secs(60), "12 s have passed", || {
        stopped.elapsed() >= Duration::from_secs(12)
    });
    ground.etcd.signal(leader, Signal::SIGCONT);
    goes_on(&agent);
    assert_eq!(ground.witness.claims(), 2);
    ground.witness.check();
}

#[test]
fn without_a_majority_everybody_stands_still_within_the_deadline_and_goes_on_after_it() {
    let Some(etcd) = Etcd::three() else { return };
    let mut ground = Ground::on(etcd);
    let agent = Agent::start("m1", ground.config(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    ground.etcd.kill(0);
    ground.etcd.kill(1);
    let lost = boottime();
    wait_until(2 * T, "no permit", || {
        agent.fleet.permit(&ground.mark).is_err()
    });
    assert!(boottime() - lost <= T, "{:?}", boottime() - lost);
    let refusal = agent.fleet.permit(&ground.mark).unwrap_err();
    assert_eq!(refusal.reason(), Some("fleet_unreachable"), "{refusal}");
    let waiting = claim("m2", ground.config(), &ground.mark);
    let is_told = |state: &ClaimState| matches!(state, ClaimState::Connecting { why: Some(_), .. });
    let state = until_state(&waiting, "it is told why", Duration::from_secs(20), is_told);
    let ClaimState::Connecting { why: Some(why), .. } = state else {
        unreachable!()
    };
    assert_eq!(why.kind(), ErrorKind::Unreachable, "{why}");
    wait_until(
        Duration::from_secs(60),
        "the majority is lost for 30 s",
        || boottime() - lost > Duration::from_secs(30),
    );
    let quiet = agent.cycles.load(Ordering::SeqCst);
    assert!(agent.fleet.permit(&ground.mark).is_err());
    assert_eq!(agent.cycles.load(Ordering::SeqCst), quiet);
    ground.etcd.start(0);
    hold(waiting, "m2", &ground.witness, CYCLE * 3);
    goes_on(&agent);
    ground.witness.check();
    assert_eq!(ground.witness.claims(), 1);
}

#[test]
fn all_nodes_restarted_with_their_data_lose_nothing() {
    let Some(etcd) = Etcd::one() else { return };
    let mut ground = Ground::on(etcd);
    let agent = Agent::start("m1", ground.config(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let claim = claim("m2", ground.config(), &ground.mark);
    let held = until_held(&claim);
    ground.etcd.restart();
    let renewed = claim.deadlines().expect("a session").renewed;
    wait_until(2 * T, "it is renewed", || {
        claim
            .deadlines()
            .is_some_and(|deadlines| deadlines.renewed > renewed)
    });
    assert_eq!(claim.standing(), SessionStanding::Live);
    assert_eq!(
        ground
            .fleet()
            .claim_of(&ground.mark.name)
            .unwrap()
            .map(|claim| claim.created),
        Some(held.created)
    );
    claim.end().unwrap();
    goes_on(&agent);
    ground.witness.check();
}

#[test]
fn when_the_data_is_lost_all_work_ends_and_nobody_begins_until_a_new_fleet_is_15_seconds_old() {
    let Some(etcd) = Etcd::one() else { return };
    let mut ground = Ground::on(etcd);
    let agent = Agent::start("m1", ground.config(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let first = claim("m2", ground.config(), &ground.mark);
    until_held(&first);
    ground.etcd.lose_data();
    wait_until(T, "the claim is lost", || {
        matches!(first.standing(), SessionStanding::Over(_))
    });
    let SessionStanding::Over(loss) = first.standing() else {
        unreachable!()
    };
    assert!(loss.kills_at_once(), "{loss}");
    let _ = first.end();
    wait_until(T, "no permit", || {
        agent
            .fleet
            .permit(&ground.mark)
            .is_err_and(|refusal| refusal.reason() == Some("fleet_lost"))
    });
    let fleet = Fleet::create(&ground.config(), None).unwrap().fleet;
    let made = boottime();
    // By its old mark the clone fits no more; it joins again.
    let mark = joined(&fleet, "acme/tracker", "here");
    let again = Agent::start("m3", ground.config(), &mark, &ground.witness, CYCLE);
    let claim = claim("m4", ground.config(), &mark);
    let held = until_held(&claim);
    assert!(
        boottime() - made >= T - Duration::from_secs(1),
        "{:?}",
        boottime() - made
    );
    claim.end().unwrap();
    goes_on(&again);
    assert!(held.token > 0);
    ground.witness.check();
}

#[test]
fn a_store_that_is_restored_behind_our_backs_ends_what_it_does_not_know() {
    let Some(etcd) = Etcd::one() else { return };
    let mut ground = Ground::on(etcd);
    let snapshot = ground.etcd.dir().join("snapshot");
    let agent = Agent::start("m1", ground.config(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    ground
        .etcd
        .ctl(&["snapshot", "save", snapshot.to_str().expect("UTF-8")]);
    // The store of the snapshot has the agent's session and right, and not this claim.
    let claim = claim("m2", ground.config(), &ground.mark);
    until_held(&claim);
    ground.etcd.restore(&snapshot);
    let restored = boottime();
    wait_until(T, "the claim is lost", || {
        matches!(claim.standing(), SessionStanding::Over(_))
    });
    assert!(
        boottime() - restored < T / 2,
        "a limit: until the next renewal, {:?}",
        boottime() - restored
    );
    assert!(
        matches!(claim.standing(), SessionStanding::Over(loss @ SessionLoss::Gone { .. }) if loss.kills_at_once())
    );
    let _ = claim.end();
    goes_on(&agent);
}

#[test]
fn a_lease_that_is_revoked_from_outside_ends_the_work_at_the_next_look() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let claim = claim("m2", ground.config(), &ground.mark);
    let held = until_held(&claim);
    ground
        .etcd
        .ctl(&["lease", "revoke", &held.session.to_string()]);
    let revoked = boottime();
    wait_until(T, "the claim is lost", || {
        matches!(
            claim.standing(),
            SessionStanding::Over(SessionLoss::Gone { .. })
        )
    });
    assert!(
        boottime() - revoked < T / 2,
        "a limit: until the next renewal, {:?}",
        boottime() - revoked
    );
    assert!(!claim.may_begin());
    claim.end().unwrap();
    ground.until_empty();
}

#[test]
fn a_deleted_fleet_ends_all_work_at_once() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let claim = claim("m2", ground.config(), &ground.mark);
    until_held(&claim);
    ground.etcd.ctl(&["del", "/beads/v1/fleet"]);
    until("the claim is lost", || {
        claim.standing() == SessionStanding::Over(SessionLoss::FleetGone)
    });
    claim.end().unwrap();
}
