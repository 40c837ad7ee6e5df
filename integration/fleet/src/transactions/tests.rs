//! Each transaction against a real etcd: once, twice, and late.

use std::path::Path;

use beadlock_core::facts;
use beadlock_testkit::{Etcd, until};

use super::*;
use crate::etcd::Client;
use crate::{Config, ErrorKind, Fleet, Mark, MemberValue, Who, connect};

/// A fleet that is old enough, with one name in it.
struct Ground {
    etcd: Etcd,
    client: Client,
    known: KnownFleet,
    name: Name,
}

impl Ground {
    fn new() -> Option<Self> {
        let etcd = Etcd::one()?;
        let config = Config::of_url(&etcd.url("beads"), Path::new("fleet.toml")).unwrap();
        let fleet = Fleet::create(&config, None).unwrap().fleet;
        etcd.ctl(&["del", "/beads/v1/new"]);
        let name = Name::parse("acme/tracker").unwrap();
        let mark = Mark::of_new_clone(fleet.nonce(), &name);
        let member = MemberValue {
            host: "h".into(),
            path: "/p".into(),
            version: "0.1.0".into(),
            since: facts::now(),
        };
        fleet.join(&mark, &member).unwrap();
        let client = Client::new(config).unwrap();
        let known = connect::fleet(&client).unwrap();
        Some(Self {
            etcd,
            client,
            known,
            name,
        })
    }

    fn session(&self) -> (Lease, Vec<u8>) {
        let (lease, value) = (Lease::random().unwrap(), self.session_value());
        self.client.grant(lease).unwrap();
        assert_eq!(self.begin(lease, &value), Ok(true));
        (lease, value)
    }

    fn session_value(&self) -> Vec<u8> {
        let nonce = facts::random_id();
        written(&SessionValue {
            nonce,
            who: Who::this_process(),
            since: facts::now(),
        })
    }

    fn begin(&self, lease: Lease, value: &[u8]) -> Result<bool, TransactionRefusal> {
        self.known.session_answer(
            value,
            self.client.txn(&self.known.session(lease, value)).unwrap(),
        )
    }

    fn claim_value(&self, phase: Phase) -> Vec<u8> {
        let (id, holder, host) = ("i".to_owned(), "h".to_owned(), "b".to_owned());
        written(&ClaimValue {
            id,
            holder,
            host,
            pid: 1,
            started_at: facts::now(),
            phase,
        })
    }

    fn raise(&self, lease: Lease) -> Result<i64, TransactionRefusal> {
        let txn = self
            .known
            .raise(lease, &self.name, &self.claim_value(Phase::Draining));
        self.known
            .raise_answer(lease, &self.name, self.client.txn(&txn).unwrap())
    }

    fn right(&self, lease: Lease, session: &[u8]) -> Result<i64, TransactionRefusal> {
        self.known.right_answer(
            &self.name,
            self.client
                .txn(&self.known.right(lease, &self.name, session))
                .unwrap(),
        )
    }

    fn give_way(&self, lease: Lease, claimer: Lease, created: i64) -> bool {
        let way = ClaimId {
            created,
            session: claimer,
        };
        self.client
            .txn(&self.known.give_way(lease, &self.name, way))
            .unwrap()
            .succeeded
    }

    fn drain(&self, lease: Lease, created: i64) -> Drained {
        let txn = self
            .known
            .drained(lease, &self.name, created, &self.claim_value(Phase::Held));
        self.known
            .drained_answer(&self.name, created, self.client.txn(&txn).unwrap())
    }

    fn break_it(&self, lease: Lease, created: i64) -> bool {
        let why = BrokenValue {
            by: "ann".into(),
            host: "h".into(),
            why: "stuck".into(),
            at: facts::now(),
        };
        self.client
            .txn(&self.known.break_session(lease, created, &why))
            .unwrap()
            .succeeded
    }

    fn is_there(&self, key: &str) -> bool {
        self.client
            .txn(&Txn::look(&[Op::Get(key)]))
            .unwrap()
            .next_one()
            .is_some()
    }

    fn created(&self, key: &str) -> i64 {
        self.client
            .txn(&Txn::look(&[Op::Get(key)]))
            .unwrap()
            .next_one()
            .unwrap()
            .create_revision
    }
}

fn held_by(answer: Result<i64, TransactionRefusal>) -> Lease {
    match answer {
        Err(TransactionRefusal::Held(claim)) => claim.session,
        other => panic!("not held: {other:?}"),
    }
}

#[test]
fn a_session_begins_once_and_a_second_request_is_the_same_one() {
    let Some(ground) = Ground::new() else { return };
    let (lease, value) = ground.session();
    assert_eq!(
        ground.begin(lease, &value),
        Ok(true),
        "the answer to the first was lost"
    );
    assert_eq!(
        ground.begin(lease, &ground.session_value()),
        Ok(false),
        "another session's"
    );
    ground
        .client
        .grant(lease)
        .expect("a grant that comes twice");
    ground.client.revoke(lease).unwrap();
    ground
        .client
        .revoke(lease)
        .expect("an end that comes twice");
    let late = ground.client.txn(&ground.known.session(lease, &value));
    assert!(
        late.is_err(),
        "its lease has gone, and no key is left without one: {late:?}"
    );
    assert!(!ground.is_there(&ground.known.keys.session(lease)));
}

#[test]
fn one_claim_is_raised_and_a_second_request_is_the_same_one() {
    let Some(ground) = Ground::new() else { return };
    let ((one, _), (other, _)) = (ground.session(), ground.session());
    let created = ground.raise(one).unwrap();
    assert_eq!(
        ground.raise(one),
        Ok(created),
        "the answer to the first was lost"
    );
    assert_eq!(held_by(ground.raise(other)), one);
    ground.client.revoke(one).unwrap();
    assert_eq!(
        ground.raise(one),
        Err(TransactionRefusal::SessionGone),
        "late"
    );
    let later = ground.raise(other).unwrap();
    assert!(later > created, "tokens rise: {created} {later}");
    assert_eq!(ground.drain(one, created), Drained::Lost, "late");
}

#[test]
fn a_claim_needs_a_name_that_somebody_has_joined() {
    let Some(ground) = Ground::new() else { return };
    let (lease, _) = ground.session();
    ground.etcd.ctl(&["del", "/beads/v1/names/acme:tracker"]);
    assert_eq!(ground.raise(lease), Err(TransactionRefusal::NoName));
}

#[test]
fn a_right_and_a_claim_are_never_taken_at_once() {
    let Some(ground) = Ground::new() else { return };
    let ((agent, session), (claimer, _)) = (ground.session(), ground.session());
    let first = ground.right(agent, &session).unwrap();
    let again = ground.right(agent, &session).unwrap();
    assert!(again > first, "the session's revision rises with each");
    let created = ground.raise(claimer).unwrap();
    assert_eq!(
        held_by(ground.right(agent, &session)),
        claimer,
        "a right that comes late"
    );
    assert_eq!(
        ground.drain(claimer, created),
        Drained::Agents(vec![agent], false)
    );
    assert!(
        !ground.give_way(agent, agent, created),
        "another session's claim, with a revision that came again"
    );
    assert!(ground.give_way(agent, claimer, created));
    assert!(ground.give_way(agent, claimer, created), "twice");
    assert_eq!(ground.drain(claimer, created), Drained::Held);
    assert_eq!(
        ground.drain(claimer, created),
        Drained::Held,
        "the answer to the first was lost"
    );
    assert_eq!(held_by(ground.right(agent, &session)), claimer);
    ground.client.revoke(claimer).unwrap();
    ground.right(agent, &session).unwrap();
    assert!(
        !ground.give_way(agent, claimer, created),
        "late: the claim that it names has gone"
    );
    assert!(ground.is_there(&ground.known.keys.agent(&ground.name, agent)));
}

#[test]
fn the_end_of_a_session_takes_all_its_keys_and_no_other() {
    let Some(ground) = Ground::new() else { return };
    let ((one, session), (other, others)) = (ground.session(), ground.session());
    ground.right(one, &session).unwrap();
    ground.right(other, &others).unwrap();
    ground.client.revoke(one).unwrap();
    assert!(!ground.is_there(&ground.known.keys.agent(&ground.name, one)));
    assert!(ground.is_there(&ground.known.keys.agent(&ground.name, other)));
}

#[test]
fn a_break_marks_the_session_that_it_names_and_hinders_it_alone() {
    let Some(ground) = Ground::new() else { return };
    let (lease, session) = ground.session();
    let key = ground.known.keys.session(lease);
    let created = ground.created(&key);
    let claim = ground.raise(lease).unwrap();
    assert!(
        !ground.break_it(lease, created - 1),
        "another session's revision"
    );
    assert!(ground.break_it(lease, created));
    assert!(ground.break_it(lease, created), "twice");
    assert!(matches!(ground.drain(lease, claim), Drained::Broken(why) if why.by == "ann"));
    assert!(
        ground.is_there(&ground.known.keys.claim(&ground.name)),
        "nothing is revoked: the work may run"
    );
    ground.client.revoke(lease).unwrap();
    assert!(
        !ground.is_there(&ground.known.keys.broken(lease)),
        "the mark goes with the session"
    );
    assert!(!ground.break_it(lease, created), "late");
    let (agent, value) = ground.session();
    assert!(ground.break_it(agent, ground.created(&ground.known.keys.session(agent))));
    assert!(matches!(
        ground.right(agent, &value),
        Err(TransactionRefusal::Broken(_))
    ));
    assert!(matches!(
        ground.raise(agent),
        Err(TransactionRefusal::Broken(_))
    ));
    let _ = session;
}

#[test]
fn nobody_begins_anything_in_a_new_fleet_or_in_another() {
    let Some(ground) = Ground::new() else { return };
    let (lease, session) = ground.session();
    ground.etcd.ctl(&["put", "/beads/v1/new", ""]);
    assert_eq!(ground.raise(lease), Err(TransactionRefusal::New));
    assert_eq!(ground.right(lease, &session), Err(TransactionRefusal::New));
    assert_eq!(
        ground.begin(Lease::random().unwrap(), &session),
        Err(TransactionRefusal::New)
    );
    ground.etcd.ctl(&["del", "/beads/v1/new"]);
    ground.etcd.ctl(&[
        "put",
        "/beads/v1/fleet",
        r#"{"nonce":"other","base":1,"min_version":"0.1.0"}"#,
    ]);
    assert_eq!(ground.raise(lease), Err(TransactionRefusal::FleetGone));
    assert_eq!(
        ground.right(lease, &session),
        Err(TransactionRefusal::FleetGone)
    );
    assert_eq!(
        ground.begin(Lease::random().unwrap(), &session),
        Err(TransactionRefusal::FleetGone)
    );
    ground.etcd.ctl(&["del", "/beads/v1/fleet"]);
    assert_eq!(ground.raise(lease), Err(TransactionRefusal::FleetGone));
    assert_eq!(
        connect::fleet(&ground.client).unwrap_err().kind(),
        ErrorKind::NoFleet
    );
}

#[test]
fn the_databases_below_a_name_are_not_that_names() {
    let Some(ground) = Ground::new() else { return };
    let ((agent, session), (claimer, _)) = (ground.session(), ground.session());
    ground.right(agent, &session).unwrap();
    let above = Ground {
        name: Name::parse("acme").unwrap(),
        ..ground
    };
    above.etcd.ctl(&["put", "/beads/v1/names/acme", ""]);
    let created = above.raise(claimer).unwrap();
    assert_eq!(
        above.drain(claimer, created),
        Drained::Held,
        "the agent of acme/tracker is not one of acme"
    );
}

#[test]
fn hostile_values_are_claims_and_never_none() {
    let Some(ground) = Ground::new() else { return };
    let (lease, session) = ground.session();
    for value in ["", "{", "null", &"x".repeat(100_000)] {
        ground
            .etcd
            .ctl(&["put", "/beads/v1/claims/acme:tracker", value]);
        let Err(TransactionRefusal::Held(claim)) = ground.raise(lease) else {
            panic!("not held")
        };
        assert!(claim.value.holder.contains("cannot be read"), "{claim:?}");
        assert!(matches!(
            ground.right(lease, &session),
            Err(TransactionRefusal::Held(_))
        ));
    }
    ground.etcd.ctl(&["del", "/beads/v1/claims/acme:tracker"]);
    ground
        .etcd
        .ctl(&["put", "/beads/v1/agents/acme:tracker/x", ""]);
    let created = ground.raise(lease).unwrap();
    assert_eq!(
        ground.drain(lease, created),
        Drained::Agents(Vec::new(), false),
        "not held, whatever is there"
    );
    for value in [
        "{}",
        "[]",
        "\"x\"",
        r#"{"nonce":"a","base":-1,"min_version":"0.1.0"}"#,
    ] {
        ground.etcd.ctl(&["put", "/beads/v1/fleet", value]);
        let error = connect::fleet(&ground.client).unwrap_err();
        assert!(
            error.to_string().contains("cannot be understood"),
            "{error}"
        );
    }
    ground.etcd.ctl(&[
        "put",
        "/beads/v1/fleet",
        r#"{"nonce":"a","base":1,"min_version":"99.0.0"}"#,
    ]);
    let error = connect::fleet(&ground.client).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooOld);
    assert!(error.to_string().contains("99.0.0"), "{error}");
}

#[test]
fn new_goes_by_itself_and_a_creator_that_was_killed_leaves_a_fleet_that_create_finishes() {
    let Some(ground) = Ground::new() else { return };
    let config = Config::of_url(&ground.etcd.url("other"), Path::new("fleet.toml")).unwrap();
    // As it is after the first transaction.
    ground.etcd.ctl(&[
        "put",
        "/other/v1/fleet",
        r#"{"nonce":"a","base":1,"min_version":"0.1.0"}"#,
    ]);
    ground.etcd.ctl(&["put", "/other/v1/new", ""]);
    let again = Fleet::create(&config, None).unwrap();
    assert!(!again.is_new && again.fleet.nonce() == "a");
    let left = again.fleet.is_new().unwrap().expect("it is new");
    assert!(
        (std::time::Duration::from_secs(10)..=crate::T).contains(&left),
        "{left:?}"
    );
    until("new goes by itself", || {
        again.fleet.is_new().unwrap().is_none()
    });
}
