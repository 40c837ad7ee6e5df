//! What people see of a fleet when nothing fails.

use std::time::Duration;

use beadlock_fleet::{
    BrokenValue, Change, ClaimState, ErrorKind, Evicted, Fleet, PermitRefusal, SessionStanding,
};
use beadlock_testkit::{Etcd, until};

use super::actors::{Agent, claim, hold, until_held, until_state};
use super::ground::{Ground, config_at, joined, made};

const SOON: Duration = Duration::from_secs(20);

fn why() -> BrokenValue {
    let at = beadlock_core::facts::now();
    BrokenValue {
        by: "ann".into(),
        host: "desk".into(),
        why: "it hangs".into(),
        at,
    }
}

#[test]
fn a_claim_keeps_the_cycles_of_every_machine_away_and_they_go_on_after_it() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let agents = ["m1", "m2", "m3"].map(|host| {
        Agent::start(
            host,
            ground.config(),
            &ground.mark,
            &ground.witness,
            Duration::from_millis(30),
        )
    });
    agents.iter().for_each(Agent::until_next);
    for round in 0..3 {
        let claim = claim(&format!("c{round}"), ground.config(), &ground.mark);
        let held = until_held(&claim);
        assert_eq!((held.agents, held.hosts), (3, 3));
        assert!(
            hold(claim, "c", &ground.witness, Duration::from_millis(300)),
            "it ended by itself"
        );
        agents.iter().for_each(Agent::until_next);
    }
    drop(agents);
    ground.witness.check();
    assert_eq!(ground.witness.claims(), 3);
    ground.until_empty();
}

#[test]
fn the_second_claim_waits_for_the_first_and_knows_who_it_is() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let first = claim("m1", ground.config(), &ground.mark);
    let held = until_held(&first);
    assert!(first.may_begin());
    let second = claim("m2", ground.config(), &ground.mark);
    let state = until_state(&second, "it waits", SOON, |state| {
        matches!(state, ClaimState::Waiting(_))
    });
    let ClaimState::Waiting(seen) = state else {
        unreachable!()
    };
    assert_eq!(
        (
            seen.value.holder.as_str(),
            seen.value.host.as_str(),
            seen.created
        ),
        ("m1-job", "m1", held.created)
    );
    assert!(!second.may_begin());
    assert_eq!(
        ground
            .fleet()
            .claim_of(&ground.mark.name)
            .unwrap()
            .map(|claim| claim.created),
        Some(held.created)
    );
    assert_eq!(ground.fleet().token(&seen), Some(held.token));
    first.end().unwrap();
    let next = until_held(&second);
    assert!(next.token > held.token, "{} {}", next.token, held.token);
    second.end().unwrap();
    ground.until_empty();
}

#[test]
fn a_claim_waits_for_a_running_cycle_and_says_whose_it_is() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let agent =
        beadlock_fleet::FleetAgent::start(ground.config(), super::ground::who("m1")).unwrap();
    let mut permit = None;
    until("a permit", || {
        permit = agent.permit(&ground.mark).ok();
        permit.is_some()
    });
    let claim = claim("m2", ground.config(), &ground.mark);
    let is_draining = |state: &ClaimState| matches!(state, ClaimState::Draining { agents, .. } if !agents.is_empty());
    let state = until_state(&claim, "it drains", SOON, is_draining);
    let ClaimState::Draining { agents, more } = state else {
        unreachable!()
    };
    let who = agents[0].who.as_ref().expect("its session can be read");
    assert_eq!(
        (agents.len(), more, who.host.as_str(), who.pid),
        (1, false, "m1", std::process::id())
    );
    until("the agent knows of the claim", || {
        matches!(agent.permit(&ground.mark), Err(PermitRefusal::Held(_)))
    });
    let refusal = agent.permit(&ground.mark).unwrap_err();
    assert_eq!(refusal.reason(), Some("fleet_held"));
    assert!(
        refusal
            .to_string()
            .starts_with("held in the fleet by m2-job (PID "),
        "{refusal}"
    );
    assert!(
        matches!(claim.state(), ClaimState::Draining { .. }),
        "as long as the cycle runs"
    );
    drop(permit);
    until_held(&claim);
    agent.hear();
    claim.end().unwrap();
    until("a cycle is due at once", || {
        agent
            .hear()
            .contains(&Change::Due(ground.mark.name.clone()))
    });
    assert!(agent.permit(&ground.mark).is_ok());
    assert!(agent.status().last_yield.is_some());
    agent.end().unwrap();
    ground.until_empty();
}

#[test]
fn a_broken_claim_is_told_by_whom_and_its_work_runs_on_until_it_ends_it() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let claim = claim("m1", ground.config(), &ground.mark);
    let held = until_held(&claim);
    let marked = ground.fleet().evict(held.session, &why()).unwrap();
    assert!(matches!(marked, Evicted::Marked(session) if session.who.host == "m1"));
    until("the holder is told", || {
        matches!(claim.standing(), SessionStanding::Broken(_))
    });
    let SessionStanding::Broken(broken) = claim.standing() else {
        unreachable!()
    };
    assert_eq!(broken.to_string(), "broken by ann on desk: it hangs");
    assert!(!claim.may_begin());
    assert!(
        ground
            .fleet()
            .claim_of(&ground.mark.name)
            .unwrap()
            .is_some(),
        "nothing is revoked"
    );
    claim.end().unwrap();
    assert_eq!(
        ground.fleet().evict(held.session, &why()).unwrap(),
        Evicted::NotThere
    );
    ground.until_empty();
}

#[test]
fn an_evicted_agent_begins_anew() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let agent = Agent::start(
        "m1",
        ground.config(),
        &ground.mark,
        &ground.witness,
        Duration::from_millis(10),
    );
    agent.until_next();
    let overview = ground.fleet().overview().unwrap();
    let session = *overview.sessions.keys().next().expect("its session");
    assert!(
        overview.sessions[&session]
            .rights
            .contains(&ground.mark.name)
    );
    ground.fleet().evict(session, &why()).unwrap();
    until("another session has the right", || {
        let sessions = ground.fleet().overview().unwrap().sessions;
        !sessions.contains_key(&session)
            && sessions.values().any(|session| !session.rights.is_empty())
    });
    agent.until_next();
}

#[test]
fn an_overview_names_clones_on_whose_hosts_nothing_runs() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    joined(&ground.fleet(), "acme/tracker", "build-9");
    let agent = Agent::start(
        "here",
        ground.config(),
        &ground.mark,
        &ground.witness,
        Duration::from_millis(10),
    );
    agent.until_next();
    let overview = ground.fleet().overview().unwrap();
    let unseen: Vec<_> = overview
        .members
        .iter()
        .filter(|member| !member.is_seen)
        .map(|member| &member.value.host)
        .collect();
    assert_eq!(
        (overview.members.len(), unseen),
        (2, vec![&"build-9".to_owned()])
    );
    let claim = claim("m1", ground.config(), &ground.mark);
    let held = until_held(&claim);
    assert_eq!(
        held.not_seen
            .iter()
            .map(|member| member.host.as_str())
            .collect::<Vec<_>>(),
        ["build-9"]
    );
    claim.end().unwrap();
}

#[test]
fn a_name_that_nobody_joined_and_another_fleet_fail_for_good() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let failed = |mark| {
        let claim = claim("m1", ground.config(), &mark);
        let state = until_state(&claim, "it fails", SOON, |state| {
            matches!(state, ClaimState::Failed(_))
        });
        let ClaimState::Failed(error) = state else {
            unreachable!()
        };
        (error.kind(), error.to_string())
    };
    let mark = |fleet: &str, name: &str| beadlock_fleet::Mark {
        fleet: fleet.to_owned(),
        name: beadlock_fleet::Name::parse(name).unwrap(),
        clone: "c".to_owned(),
    };
    let (kind, words) = failed(mark(&ground.mark.fleet, "acme/other"));
    assert_eq!(kind, ErrorKind::NoName);
    assert!(words.contains("beadlock fleet join acme/other"), "{words}");
    let (kind, words) = failed(mark("another", "acme/tracker"));
    assert_eq!(kind, ErrorKind::OtherFleet);
    assert!(words.contains("fleet leave"), "{words}");
    ground.fleet().destroy().unwrap();
    let (kind, words) = failed(ground.mark.clone());
    assert_eq!(kind, ErrorKind::NoFleet);
    assert!(words.contains("beadlock fleet create"), "{words}");
}

#[test]
fn a_new_fleet_lets_nobody_begin_for_15_seconds() {
    let Some(etcd) = Etcd::one() else { return };
    let config = config_at(&etcd.url("beads"));
    let begun = std::time::Instant::now();
    let created = Fleet::create(&config, None).unwrap();
    assert!(created.is_new);
    let again = Fleet::create(&config, None).unwrap();
    assert!(
        !again.is_new && again.fleet.nonce() == created.fleet.nonce(),
        "it is made once"
    );
    let mark = joined(&created.fleet, "acme/tracker", "here");
    let agent =
        beadlock_fleet::FleetAgent::start(config.clone(), super::ground::who("m1")).unwrap();
    let claim = claim("m2", config, &mark);
    until_state(&claim, "it is new", SOON, |state| *state == ClaimState::New);
    until("the agent is told", || {
        agent
            .permit(&mark)
            .is_err_and(|refusal| refusal.reason() == Some("fleet_new"))
    });
    until_held(&claim);
    assert!(
        begun.elapsed() >= Duration::from_secs(14),
        "{:?}",
        begun.elapsed()
    );
    claim.end().unwrap();
    until("the agent has a permit", || agent.permit(&mark).is_ok());
    agent.end().unwrap();
}

#[test]
fn tokens_rise_from_one_fleet_to_the_next() {
    let Some(etcd) = Etcd::one() else { return };
    let config = config_at(&etcd.url("beads"));
    let token = |above: Option<u64>| {
        let fleet = Fleet::create(&config, above).unwrap().fleet;
        etcd.ctl(&["del", "/beads/v1/new"]);
        let mark = joined(&fleet, "acme/tracker", "here");
        let claim = claim("m1", config.clone(), &mark);
        let token = until_held(&claim).token;
        claim.end().unwrap();
        fleet.destroy().unwrap();
        token
    };
    let (one, two) = (token(None), token(None));
    assert!(two > one);
    let above = two + 1_000_000_000_000;
    let three = token(Some(above));
    assert!(three > above && three < 1 << 53, "{three}");
    let _ = made(&etcd, &config);
}
