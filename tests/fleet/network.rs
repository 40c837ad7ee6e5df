//! A network that fails between a machine and etcd: silent, refusing, slow, losing answers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use beadlock_base::deadline::boottime;
use beadlock_fleet::{ClaimState, FleetAgent, PermitRefusal, SessionStanding, T};
use beadlock_testkit::{Etcd, Passing, Proxy, until, wait_until};

use super::actors::{Agent, claim, hold, until_held, until_state};
use super::ground::{Ground, who};

const CYCLE: Duration = Duration::from_millis(20);

fn cut(ground: &Ground) -> (Proxy, beadlock_fleet::Config) {
    let proxy = Proxy::to(ground.etcd.address(0));
    let config = ground.config_by(&[proxy.node()]);
    (proxy, config)
}

/// For each way to be cut off: its work ends before anybody else begins.
fn a_holder_that_is_cut_off(passing: Passing) {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let (proxy, by_proxy) = cut(&ground);
    let agent = Agent::start("m1", ground.config(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let first = claim("m2", by_proxy, &ground.mark);
    until_held(&first);
    std::thread::scope(|scope| {
        let worked = scope.spawn(|| hold(first, "m2", &ground.witness, Duration::from_secs(60)));
        until("its work has begun", || {
            !ground.witness.all().is_empty() || agent.fleet.permit(&ground.mark).is_err()
        });
        proxy.pass(passing);
        let cut = boottime();
        let second = claim("m3", ground.config(), &ground.mark);
        assert!(
            hold(second, "m3", &ground.witness, CYCLE * 5),
            "the next claim gets it"
        );
        assert!(boottime() - cut < 2 * T, "{:?}", boottime() - cut);
        assert!(!worked.join().expect("no panic"), "its work was ended");
    });
    agent.until_next();
    assert_eq!(ground.witness.claims(), 2);
    ground.witness.check();
}

#[test]
fn a_holder_that_is_cut_off_silently_has_ended_before_the_next_begins() {
    a_holder_that_is_cut_off(Passing::Silent);
}

#[test]
fn a_holder_whose_connections_are_refused_has_ended_before_the_next_begins() {
    a_holder_that_is_cut_off(Passing::Refuse);
}

#[test]
fn a_holder_that_gets_no_answers_keeps_its_claim_in_etcd_only_for_as_long_as_it_is_renewed() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let (proxy, by_proxy) = cut(&ground);
    let first = claim("m2", by_proxy, &ground.mark);
    until_held(&first);
    proxy.pass(Passing::NoAnswers);
    wait_until(2 * T, "its session is over", || {
        matches!(first.standing(), SessionStanding::Over(_))
    });
    let SessionStanding::Over(loss) = first.standing() else {
        unreachable!()
    };
    assert!(
        !loss.kills_at_once() && loss.to_string().contains("no answer within 1s"),
        "{loss}"
    );
    let second = claim("m3", ground.config(), &ground.mark);
    until_held(&second);
    second.end().unwrap();
    let error = first.end().unwrap_err();
    assert!(error.to_string().contains("no node of etcd://"), "{error}");
}

#[test]
fn an_agent_that_is_cut_off_ends_its_cycle_and_comes_back_by_itself() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let (proxy, by_proxy) = cut(&ground);
    let agent = Agent::start(
        "m1",
        by_proxy,
        &ground.mark,
        &ground.witness,
        Duration::from_secs(60),
    );
    until("its cycle has begun", || agent.fleet.status().permits == 1);
    proxy.pass(Passing::Silent);
    let claim = claim("m2", ground.config(), &ground.mark);
    let is_fading = |state: &ClaimState| matches!(state, ClaimState::Draining { agents, .. } if agents.iter().any(|agent| agent.gone_within.is_some()));
    until_state(&claim, "the agent is seen to be gone soon", T, is_fading);
    hold(claim, "m2", &ground.witness, CYCLE);
    assert_eq!(
        agent.cycles.load(Ordering::SeqCst),
        1,
        "its cycle was ended"
    );
    proxy.pass(Passing::All);
    wait_until(2 * T, "it has a permit again", || {
        agent.fleet.status().permits == 1
    });
    ground.witness.check();
    // Ends its long cycle.
    ground.etcd.ctl(&["del", "/beads/v1/fleet"]);
}

#[test]
fn the_answers_to_all_of_a_claims_transactions_may_be_lost() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let (proxy, by_proxy) = cut(&ground);
    proxy.pass(Passing::NoAnswers);
    let first = claim("m2", by_proxy.clone(), &ground.mark);
    let is_told = |state: &ClaimState| matches!(state, ClaimState::Connecting { why: Some(_), .. });
    until_state(&first, "nothing is answered", T, is_told);
    proxy.pass(Passing::All);
    let held = until_held(&first);
    // An agent that asks for its right while the answer is lost.
    first.end().unwrap();
    let agent = FleetAgent::start(by_proxy, who("m1")).unwrap();
    until("it has a session", || agent.status().standing.is_some());
    proxy.pass(Passing::NoAnswers);
    assert!(matches!(
        agent.permit(&ground.mark),
        Err(PermitRefusal::Asking)
    ));
    until("etcd has the right", || {
        ground
            .fleet()
            .overview()
            .unwrap()
            .sessions
            .values()
            .any(|one| !one.rights.is_empty())
    });
    let second = claim("m3", ground.config(), &ground.mark);
    until_state(&second, "it waits for that agent", T, |state| {
        matches!(state, ClaimState::Draining { .. })
    });
    proxy.pass(Passing::All);
    let next = until_held(&second);
    assert!(next.token > held.token);
    second.end().unwrap();
    agent.end().unwrap();
    ground.until_empty();
}

#[test]
fn a_slow_network_is_slow_and_nothing_else() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let (proxy, by_proxy) = cut(&ground);
    proxy.pass(Passing::Slow(Duration::from_millis(150)));
    let agent = Agent::start("m1", by_proxy.clone(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    assert!(
        hold(
            claim("m2", by_proxy, &ground.mark),
            "m2",
            &ground.witness,
            Duration::from_secs(16)
        ),
        "longer than T"
    );
    agent.until_next();
    ground.witness.check();
}

#[test]
fn the_next_node_is_asked_at_once_when_one_is_cut_off() {
    let Some(etcd) = Etcd::three() else { return };
    let ground = Ground::on(etcd);
    let proxies = [0, 1, 2].map(|node| Proxy::to(ground.etcd.address(node)));
    let config = ground.config_by(&proxies.each_ref().map(Proxy::node));
    let claim = claim("m2", config, &ground.mark);
    until_held(&claim);
    for (number, passing) in [(0, Passing::Silent), (1, Passing::Refuse)] {
        proxies[number].pass(passing);
        let renewed = claim.deadlines().expect("a session").renewed;
        wait_until(2 * T, "it is renewed", || {
            claim
                .deadlines()
                .is_some_and(|deadlines| deadlines.renewed > renewed + T / 2)
        });
        assert_eq!(claim.standing(), SessionStanding::Live);
    }
    claim.end().unwrap();
}

#[test]
fn a_watch_that_is_silently_dead_is_made_up_for_by_looks() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let (proxy, by_proxy) = cut(&ground);
    proxy.pass(Passing::DeadWatch);
    let agent = Agent::start("m1", by_proxy.clone(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    let first = claim("m2", ground.config(), &ground.mark);
    let begun = boottime();
    until_held(&first);
    assert!(
        boottime() - begun < T,
        "the agent gives way at its next renewal: {:?}",
        boottime() - begun
    );
    let second = claim("m3", by_proxy, &ground.mark);
    until_state(&second, "it waits", T, |state| {
        matches!(state, ClaimState::Waiting(_))
    });
    first.end().unwrap();
    let begun = boottime();
    until_held(&second);
    assert!(boottime() - begun < T, "{:?}", boottime() - begun);
    second.end().unwrap();
    agent.until_next();
}

#[test]
fn a_compaction_takes_nothing_away_from_a_wait() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let first = claim("m2", ground.config(), &ground.mark);
    until_held(&first);
    let second = claim("m3", ground.config(), &ground.mark);
    until_state(&second, "it waits", T, |state| {
        matches!(state, ClaimState::Waiting(_))
    });
    for number in 0..50 {
        ground.etcd.ctl(&["put", "noise", &number.to_string()]);
    }
    let status = ground.etcd.ctl(&["endpoint", "status", "--write-out=json"]);
    let revision =
        serde_json::from_str::<serde_json::Value>(&status).unwrap()[0]["Status"]["header"]["revision"].to_string();
    ground.etcd.ctl(&["compact", &revision]);
    first.end().unwrap();
    until_held(&second);
    second.end().unwrap();
    ground.until_empty();
}
