//! The runbook of docs/fleet.md: a snapshot is restored, and the fleet is made anew above all tokens of before.

use std::sync::atomic::Ordering;
use std::time::Duration;

use beadlock_checker::internal::facts::boottime;
use beadlock_fleet::{Fleet, Standing, T};
use beadlock_testkit::{Etcd, wait_until};

use super::actors::{Agent, claim, until_held};
use super::ground::{Ground, joined};

const CYCLE: Duration = Duration::from_millis(20);

#[test]
fn a_snapshot_that_is_restored_by_the_runbook_lets_nobody_in_beside_old_work_and_tokens_rise() {
    let Some(etcd) = Etcd::one() else { return };
    let mut ground = Ground::on(etcd);
    let snapshot = ground.etcd.dir().join("snapshot");
    let agent = Agent::start("m1", ground.config(), &ground.mark, &ground.witness, CYCLE);
    agent.until_next();
    // The snapshot has this session and its right in it, and an older claim than the one that is lost.
    let early = claim("m2", ground.config(), &ground.mark);
    until_held(&early);
    ground.etcd.ctl(&["snapshot", "save", snapshot.to_str().expect("UTF-8")]);
    early.end().expect("its session ends");
    agent.until_next();
    let late = claim("m2", ground.config(), &ground.mark);
    let token = until_held(&late).token;

    ground.etcd.restore(&snapshot);
    ground.etcd.ctl(&["del", "/beads/v1/fleet"]);
    let fleet = Fleet::create(&ground.config(), Some(token)).expect("a fleet").fleet;
    let made = boottime();
    wait_until(T, "the claim is lost", || matches!(late.standing(), Standing::Over(_)));
    let _ = late.end();
    wait_until(T, "the agent stands still", || {
        agent.fleet.permit(&ground.mark).is_err_and(|refusal| refusal.reason() == Some("fleet_lost"))
    });
    let cycles = agent.cycles.load(Ordering::SeqCst);

    let mark = joined(&fleet, "acme/tracker", "here");
    let again = Agent::start("m3", ground.config(), &mark, &ground.witness, CYCLE);
    let claim = claim("m4", ground.config(), &mark);
    let held = until_held(&claim);
    assert!(boottime() - made >= T - Duration::from_secs(1), "{:?}", boottime() - made);
    assert!(held.token > token, "{} {token}", held.token);
    claim.end().expect("its session ends");
    again.until_next();
    assert_eq!(agent.cycles.load(Ordering::SeqCst), cycles, "the old mark is of another fleet");
    ground.witness.check();
}
