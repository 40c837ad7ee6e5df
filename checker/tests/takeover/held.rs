//! A lock that stands: where it has got to, and which guard it gets later.

use std::fs;
use std::time::{Duration, Instant};

use beadlock_checker::Place;
use beadlock_core::record::beads::Record;
use beadlock_core::take::{Adopted, Held, Means, Release, Settled, Step, Whereabouts};

use crate::scene::{
    Database, MEANS, REMOVAL, Writer, claimed, crash_at, dead, has_crashed, live, locked_by,
    record, released, site, with_claim_at,
};

fn ours() -> Record {
    Record::new("ours", "1").unwrap()
}

/// A claim and its id; the guard is gone, as in another process.
fn made(database: &Database, means: Means) -> String {
    let gate = database.gate();
    let held = claimed(&gate, means, &ours());
    held.id().to_owned()
}

#[test]
fn every_place_that_it_can_have_got_to() {
    let database = Database::new();
    let gate = database.gate();
    let held = claimed(&gate, Means::BEST, &ours());
    let (mine, lock) = (fs::read(database.lock()).unwrap(), database.lock());
    assert_eq!(held.whereabouts(), Whereabouts::InPlace);
    // The same words again are not a change, and neither is a link more.
    fs::write(&lock, &mine).unwrap();
    fs::hard_link(&lock, database.path().join("copy")).unwrap();
    assert_eq!(held.whereabouts(), Whereabouts::InPlace);
    fs::rename(&lock, database.aside()).unwrap();
    assert_eq!(held.whereabouts(), Whereabouts::Aside);
    // Another's at its place while it is aside: it has not been lost yet.
    fs::write(&lock, live("other")).unwrap();
    assert_eq!(held.whereabouts(), Whereabouts::Aside);
    fs::remove_file(database.aside()).unwrap();
    let Whereabouts::Changed(Some(other)) = held.whereabouts() else {
        panic!("{:?}", held.whereabouts())
    };
    assert_eq!(other.holder(), "other");
    // The same words in another file are another claim.
    fs::remove_file(&lock).unwrap();
    fs::write(&lock, &mine).unwrap();
    assert!(matches!(held.whereabouts(), Whereabouts::Changed(Some(_))));
    for unreadable in ["", "{", "null"] {
        fs::write(&lock, unreadable).unwrap();
        assert_eq!(
            held.whereabouts(),
            Whereabouts::Changed(None),
            "{unreadable:?}"
        );
    }
    fs::remove_file(&lock).unwrap();
    assert_eq!(held.whereabouts(), Whereabouts::Vanished);
    fs::create_dir(&lock).unwrap();
    assert_eq!(held.whereabouts(), Whereabouts::Changed(None));
    fs::remove_dir(&lock).unwrap();
    fs::rename(database.path().join("copy"), &lock).unwrap();
    assert_eq!(held.whereabouts(), Whereabouts::InPlace, "it has come back");
    fs::write(&lock, live("other")).unwrap();
    assert!(
        matches!(held.whereabouts(), Whereabouts::Changed(Some(_))),
        "overwritten in place"
    );
    let huge = " ".repeat(64 * 1024 + 1);
    fs::write(&lock, &huge).unwrap();
    assert_eq!(
        held.whereabouts(),
        Whereabouts::Changed(None),
        "and with more than anybody reads"
    );
    let released = held.release(Some(&gate)).unwrap();
    assert_eq!(
        (released, fs::read_to_string(&lock).unwrap()),
        (Release::NotOurs(None), huge)
    );
}

/// A remover of a stale lock moves a fresh one that came in between, looks, and puts it back: at no step is it lost.
#[test]
fn a_removal_that_meets_it_never_looks_like_a_loss() {
    for means in MEANS {
        let database = Database::new();
        fs::write(database.lock(), dead("crashed")).unwrap();
        let gate = database.gate();
        let mut held = None;
        let mut seen = Vec::new();
        let hook = |step| {
            if step == Step::JudgedAgain && held.is_none() {
                // A tool that heeds nothing has removed the stale one by hand.
                fs::remove_file(database.lock()).unwrap();
                held = Some(claimed(&gate, means, &ours()));
            }
            if let Some(held) = &held {
                seen.push((step, held.whereabouts()));
            }
        };
        let settled = site(&gate, means).with_hook(hook).settle();
        assert!(
            matches!(settled, Settled::Refused { .. }),
            "{means:?}: {settled:?}"
        );
        assert!(
            seen.iter().any(|(_, place)| *place == Whereabouts::Aside),
            "{means:?}: {seen:?}"
        );
        let is_there =
            |place: &Whereabouts| matches!(place, Whereabouts::InPlace | Whereabouts::Aside);
        assert!(
            seen.iter().all(|(_, place)| is_there(place)),
            "{means:?}: {seen:?}"
        );
        let held = held.unwrap();
        assert_eq!(held.whereabouts(), Whereabouts::InPlace, "{means:?}");
        assert_eq!(released(held, &gate), Release::Released);
        assert!(
            database.names().is_empty(),
            "{means:?}: {:?}",
            database.names()
        );
    }
}

/// While a release runs, its lock is in place or aside until it is deleted.
#[test]
fn a_release_is_a_loss_only_when_it_is_done() {
    for means in MEANS {
        let database = Database::new();
        let gate = database.gate();
        let held = claimed(&gate, means, &ours());
        let mut seen = Vec::new();
        let hook = |step| seen.push((step, held.whereabouts()));
        let released = site(&gate, means).with_hook(hook).release(&held);
        assert_eq!(released.unwrap(), Release::Released);
        for (step, place) in seen {
            let expected = match step {
                Step::MovedAside | Step::GraceOver => Whereabouts::Aside,
                Step::Deleted => Whereabouts::Vanished,
                _ => Whereabouts::InPlace,
            };
            assert_eq!(place, expected, "{step:?} with {means:?}");
        }
    }
}

#[test]
fn a_claim_is_adopted_by_its_id_and_by_nothing_else() {
    let database = Database::new();
    let place = Place::beads(database.path());
    let id = made(&database, Means::BEST);
    let before = fs::read(database.lock()).unwrap();
    let gate = database.gate();
    for other in [
        "",
        "x",
        &id[..31],
        &id.to_uppercase(),
        "sha256:000000000000",
    ] {
        let Adopted::NotOurs(Some(there)) = site(&gate, Means::BEST).adopt(other).unwrap() else {
            panic!("{other}")
        };
        assert_eq!(there.holder(), "ours");
        assert!(
            matches!(Held::adopt(&place, other), Ok(Adopted::NotOurs(Some(_)))),
            "{other}"
        );
    }
    let Ok(Adopted::Held(watching)) = Held::adopt(&place, &id) else {
        panic!("without the gate")
    };
    assert_eq!(
        (watching.id(), watching.whereabouts()),
        (id.as_str(), Whereabouts::InPlace)
    );
    let Ok(Adopted::Held(held)) = site(&gate, Means::BEST).adopt(&id) else {
        panic!("with it")
    };
    assert_eq!(fs::read(database.lock()).unwrap(), before);
    assert_eq!(released(held, &gate), Release::Released);
    assert_eq!(watching.whereabouts(), Whereabouts::Vanished);
    assert!(matches!(
        site(&gate, Means::BEST).adopt(&id),
        Ok(Adopted::Gone)
    ));
    assert!(matches!(Held::adopt(&place, &id), Ok(Adopted::Gone)));
    assert!(Held::adopt(&Place::beads(database.path().join("nowhere")), &id).is_err());
}

#[test]
fn what_has_no_id_or_cannot_be_read_is_nobodys_to_adopt() {
    let database = Database::new();
    let gate = database.gate();
    let adopt = |id: &str| site(&gate, Means::BEST).adopt(id).unwrap();
    for content in [
        live("naive"),
        dead("crashed"),
        record("remote", 1).replace("\"hostname\":\"", "\"hostname\":\"not-"),
    ] {
        fs::write(database.lock(), &content).unwrap();
        for id in ["", "x"] {
            assert!(matches!(adopt(id), Adopted::NotOurs(Some(_))), "{content}");
        }
        assert_eq!(fs::read_to_string(database.lock()).unwrap(), content);
    }
    for content in ["", "{", r#"{"beadlock":{"id":"x"}}"#] {
        fs::write(database.lock(), content).unwrap();
        assert!(matches!(adopt("x"), Adopted::Unreadable(_)), "{content}");
    }
    fs::remove_file(database.lock()).unwrap();
    fs::create_dir(database.lock()).unwrap();
    assert!(matches!(adopt("x"), Adopted::Unreadable(_)));
}

/// Its age is that of the record, not of the guard.
#[test]
fn who_is_adopted_is_as_old_as_the_record_says() {
    let database = Database::new();
    let id = made(&database, Means::BEST);
    let text = fs::read_to_string(database.lock()).unwrap();
    let field = text
        .lines()
        .find(|line| line.contains("\"started_at\""))
        .unwrap();
    for (since, days) in [("2001-01-01T00:00:00Z", 9000), ("9999-01-01T00:00:00Z", 0)] {
        let aged = text.replace(field, &format!("  \"started_at\": \"{since}\","));
        fs::write(database.lock(), aged).unwrap();
        let gate = database.gate();
        let Ok(Adopted::Held(held)) = site(&gate, Means::BEST).adopt(&id) else {
            panic!("{since}")
        };
        let age = held.age().as_secs() / 86_400;
        assert_eq!(
            (age >= days, age > 0),
            (true, days > 0),
            "{since}: {age} days"
        );
        assert_eq!(held.whereabouts(), Whereabouts::InPlace);
    }
}

/// A process that dealt with it has crashed and left it aside: under the gate it is put back first.
#[test]
fn it_is_adopted_out_of_the_side_file() {
    for means in MEANS {
        let database = Database::new();
        let id = made(&database, means);
        fs::rename(database.lock(), database.aside()).unwrap();
        let gate = database.gate();
        let Ok(Adopted::Held(held)) = site(&gate, means).adopt(&id) else {
            panic!("{means:?}")
        };
        assert!(database.lock().exists() && !database.aside().exists());
        assert_eq!(held.whereabouts(), Whereabouts::InPlace);
        assert_eq!(released(held, &gate), Release::Released);
        assert!(
            database.names().is_empty(),
            "{means:?}: {:?}",
            database.names()
        );
    }
}

/// A release that was cut short at any step is finished by any process that has the id.
#[test]
fn after_a_crash_at_any_step_of_its_release_it_is_held_or_gone() {
    for means in MEANS {
        for step in REMOVAL {
            let database = Database::new();
            let gate = database.gate();
            let held = claimed(&gate, means, &ours());
            let crash = |at| crash_at(at, step);
            let mut crashing = site(&gate, means).with_hook(crash);
            assert!(has_crashed(|| crashing.release(&held)), "{step:?}");
            match site(&gate, means).adopt(held.id()).unwrap() {
                Adopted::Held(again) => assert_eq!(released(again, &gate), Release::Released),
                Adopted::Gone => assert_eq!(step, Step::Deleted, "{means:?}"),
                other => panic!("{step:?} with {means:?}: {other:?}"),
            }
            assert!(
                database.names().is_empty(),
                "{step:?} with {means:?}: {:?}",
                database.names()
            );
        }
    }
}

/// Two claims, one of them aside: neither is ever taken for the other.
#[test]
fn beside_somebodys_claim_both_stay() {
    let database = Database::new();
    let id = made(&database, Means::BEST);
    fs::rename(database.lock(), database.aside()).unwrap();
    fs::write(database.lock(), live("other")).unwrap();
    let gate = database.gate();
    let adopt = || site(&gate, Means::BEST).adopt(&id).unwrap();
    let Adopted::NotOurs(Some(there)) = adopt() else {
        panic!("theirs is the lock")
    };
    assert_eq!(there.holder(), "other");
    assert!(database.aside().exists());
    // The other way round: releasing ours brings theirs back.
    fs::rename(database.lock(), database.path().join("theirs")).unwrap();
    fs::rename(database.aside(), database.lock()).unwrap();
    fs::rename(database.path().join("theirs"), database.aside()).unwrap();
    let Adopted::Held(held) = adopt() else {
        panic!("ours is the lock")
    };
    assert_eq!(
        (released(held, &gate), database.holder().as_str()),
        (Release::Released, "other")
    );
    drop(gate);
    assert!(locked_by("other")(&database.next_check()));
}

/// A tool that claims while the side file is put back keeps its claim, and so it is not ours.
#[test]
fn a_naive_claim_survives_an_adoption_at_any_step() {
    for means in MEANS {
        for writer in [Writer::InPlace, Writer::ByRename] {
            for step in [Step::SideFound, Step::SideJudged] {
                let database = Database::new();
                let id = made(&database, means);
                fs::rename(database.lock(), database.aside()).unwrap();
                let gate = database.gate();
                let adopted = with_claim_at(step, writer, &database, |hook| {
                    site(&gate, means).with_hook(hook).adopt(&id)
                });
                assert!(
                    !matches!(adopted, Ok(Adopted::Held(_))),
                    "{writer:?} at {step:?} with {means:?}"
                );
                drop(gate);
                let decision = beadlock_checker::should_skip_database(database.path());
                assert!(
                    locked_by("naive")(&decision),
                    "{writer:?} at {step:?} with {means:?}: {decision:?}"
                );
            }
        }
    }
}

#[test]
fn the_file_that_keeps_a_broken_lock_is_known_by_its_inode() {
    let database = Database::new();
    let gate = database.gate();
    let held = claimed(&gate, Means::BEST, &ours());
    let kept = |name: &str| {
        database
            .path()
            .join(format!(".exclusive-lock.broken-{name}"))
    };
    assert_eq!(held.broken_as(), None);
    fs::copy(database.lock(), kept("2026.json")).unwrap();
    fs::create_dir(kept("dir")).unwrap();
    assert_eq!(
        held.broken_as(),
        None,
        "the same words are not the same lock"
    );
    fs::rename(database.lock(), kept("2027.json")).unwrap();
    assert_eq!(
        (held.broken_as(), held.whereabouts()),
        (Some(kept("2027.json")), Whereabouts::Vanished)
    );
}

/// What is released by its id pays what is left of the grace since its claim, as its own process would: nothing, once
/// the claim is older.
#[test]
fn who_adopts_an_old_claim_waits_for_no_grace() {
    /// How long a release takes once the claim is of this age, and when it has ended, from before the claim.
    fn takes(age: Duration, adopts: bool) -> (Duration, Duration) {
        let database = Database::new();
        let gate = database.gate();
        let claim = Instant::now();
        let own = claimed(&gate, Means::BEST, &ours());
        std::thread::sleep(age);
        let held = match site(&gate, Means::BEST).adopt(own.id()) {
            Ok(Adopted::Held(held)) if adopts => held,
            Ok(Adopted::Held(_)) => own,
            adopted => panic!("not adopted: {adopted:?}"),
        };
        let begun = Instant::now();
        assert!(held.release(Some(&gate)).is_ok());
        (begun.elapsed(), claim.elapsed())
    }
    let grace = Duration::from_millis(10);
    // The two in turn, so that a busy machine is as slow to both.
    let rounds = (0..20).map(|_| [true, false].map(|adopts| takes(4 * grace, adopts).0));
    let [adopted, own] = rounds
        .reduce(|[a, b], [c, d]| [a.min(c), b.min(d)])
        .unwrap();
    assert!(
        adopted < own + grace / 2,
        "adopted {adopted:?}, its own process {own:?}"
    );
    for (_, ended) in (0..20).map(|_| takes(Duration::ZERO, true)) {
        assert!(
            ended >= grace,
            "gone {ended:?} after it was begun to be claimed"
        );
    }
}
