//! The runbook of docs/fleet.md: a snapshot is restored, the fleet is made anew above all tokens of before, a full etcd is
//! emptied, and the lease of a dead holder is revoked.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use beadlock_base::deadline::boottime;
use beadlock_fleet::{Fleet, SessionStanding, T};
use beadlock_testkit::{Etcd, Running, Scene, until, wait_until};

use super::actors::{Agent, claim, until_held};
use super::ground::{Ground, joined};
use super::site::Site;

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
    ground
        .etcd
        .ctl(&["snapshot", "save", snapshot.to_str().expect("UTF-8")]);
    early.end().expect("its session ends");
    agent.until_next();
    let late = claim("m2", ground.config(), &ground.mark);
    let token = until_held(&late).token;

    ground.etcd.restore(&snapshot);
    ground.etcd.ctl(&["del", "/beads/v1/fleet"]);
    let fleet = Fleet::create(&ground.config(), Some(token))
        .expect("a fleet")
        .fleet;
    let made = boottime();
    wait_until(T, "the claim is lost", || {
        matches!(late.standing(), SessionStanding::Over(_))
    });
    let _ = late.end();
    wait_until(2 * T, "the agent stands still", || {
        agent.fleet.permit(&ground.mark).is_err_and(|refusal| {
            refusal.reason() == Some("fleet_lost")
                || refusal.to_string().contains("has joined another fleet")
        })
    });
    let cycles = agent.cycles.load(Ordering::SeqCst);

    let mark = joined(&fleet, "acme/tracker", "here");
    let again = Agent::start("m3", ground.config(), &mark, &ground.witness, CYCLE);
    let claim = claim("m4", ground.config(), &mark);
    let held = until_held(&claim);
    assert!(
        boottime() - made >= T - Duration::from_secs(1),
        "{:?}",
        boottime() - made
    );
    assert!(held.token > token, "{} {token}", held.token);
    claim.end().expect("its session ends");
    again.until_next();
    assert_eq!(
        agent.cycles.load(Ordering::SeqCst),
        cycles,
        "the old mark is of another fleet"
    );
    ground.witness.check();
}

#[test]
fn a_full_etcd_refuses_a_claim_in_words_keeps_the_agents_cycles_and_is_emptied_by_the_runbook() {
    let Some(etcd) = Etcd::of(1, &["--quota-backend-bytes", "16777216"]) else {
        return;
    };
    let site = Site::at(etcd);
    let (here, there) = (site.clone_of("acme/tracker"), site.clone_of("acme/tracker"));
    let _agent = site.agent(&there, "true");
    let cycles = || there.log().matches("Sync cycle complete").count();
    until("its first cycle", || cycles() > 0);
    let value = "x".repeat(100_000);
    while site.etcd.try_ctl(&["put", "/others/big", &value]).is_some() {}

    let refused = Running::start(site.beadlock(&here, &["hold", "--", "true"])).end();
    refused.expect(5, &["database space exceeded"]);
    let before = cycles();
    until("its cycles go on", || cycles() > before + 2);

    // The commands of the page, and the revision out of the first one.
    let shown = site
        .etcd
        .ctl(&["endpoint", "status", "--write-out", "json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let revision = shown[0]["Status"]["header"]["revision"].to_string();
    site.etcd.ctl(&["compact", &revision]);
    site.etcd.ctl(&["defrag", "--command-timeout=20s"]);
    site.etcd.ctl(&["alarm", "disarm"]);
    let claimed = Running::start(site.beadlock(&here, &["hold", "--", "true"])).end();
    claimed.expect(0, &["1 agent on 1 host drained"]);
}

/// The status of the only claim, as people see it and as programs do. Nothing: it is free.
fn claim_shown(site: &Site, clone: &Scene) -> Option<(String, serde_json::Value)> {
    let status = |words: &[&str]| {
        Running::start(site.beadlock(clone, words))
            .end()
            .expect(0, &[])
            .out
    };
    let text = status(&["fleet", "status"]);
    let json: serde_json::Value =
        serde_json::from_str(&status(&["fleet", "status", "--json"])).expect("JSON");
    let claim = json["data"]["databases"][0]["claim"].clone();
    (!claim.is_null()).then_some((text, claim))
}

const NOT_RENEWED: &str = "not renewed in the 7s of this look";

#[test]
fn the_claim_of_a_dead_holder_that_stays_while_leaders_change_is_named_and_revoked_by_the_runbook()
{
    let Some(etcd) = Etcd::three() else { return };
    let site = Site::at(etcd);
    let here = site.clone_of("acme/tracker");
    let hold = Running::start(site.beadlock(
        &here,
        &["hold", "--holder", "release-job", "--", "sleep", "600"],
    ));
    until("the claim", || claim_shown(&site, &here).is_some());
    let begun = boottime();
    wait_until(2 * T, "a claim that is older than T", || {
        boottime() - begun > T
    });
    let (text, claim) = claim_shown(&site, &here).expect("it stands");
    assert!(
        !text.contains(NOT_RENEWED) && claim["renewed"] == true,
        "{text}"
    );

    // Its machine goes off: nothing of it is left.
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                site.etcd.move_leader();
                std::thread::sleep(T / 5);
            }
        });
        let end_of_leaders = EndOf(&is_over);
        drop(hold);
        let dead = boottime();
        let session = claim["session"].as_str().expect("a session");
        let mut seen = None;
        wait_until(
            3 * T,
            "the claim has outlived its holder by more than T",
            || {
                // Before the look, which may take long.
                let now = boottime();
                seen = claim_shown(&site, &here);
                now - dead > T + T / 3
            },
        );
        let (text, claim) = seen.expect("a claim that a leader has kept alive");
        assert!(
            text.contains(NOT_RENEWED) && claim["renewed"] == false,
            "{text}"
        );
        let typed = format!("etcdctl lease revoke {session} ");
        assert!(text.contains(&typed), "{text}");
        site.etcd.ctl(&["lease", "revoke", session]);
        assert!(claim_shown(&site, &here).is_none(), "it is free");
        drop(end_of_leaders);
    });
    let again = Running::start(site.beadlock(&here, &["hold", "--", "true"]));
    again.end().expect(0, &["claimed"]);
}

/// Also when an assertion fails.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
