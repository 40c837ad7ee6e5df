//! Claims of three machines beside six agents whose cycles run back to back, while nodes and networks fail at random.
//! The witness sees no work beside a claim; beside it the obvious way, which must be seen to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use beadlock_testkit::{Dice, Etcd, OverAtLast, Passing, Proxy};
use nix::sys::signal::Signal;

use super::actors::{Agent, claim, hold, work};
use super::ground::Ground;
use super::witness::Witness;

/// `FLEET_ROUNDS`, else as many as fit into `make test`.
fn rounds() -> usize {
    std::env::var("FLEET_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(10)
}

/// What happens to etcd and to the ways there, until it is over. All is whole again at the end.
fn trouble(etcd: &mut Etcd, proxies: &[Proxy], dice: &mut Dice, over: &AtomicBool) {
    const WAYS: [Passing; 5] = [
        Passing::Silent,
        Passing::Refuse,
        Passing::NoAnswers,
        Passing::DeadWatch,
        Passing::Slow(Duration::from_millis(100)),
    ];
    while !over.load(Ordering::SeqCst) {
        dice.pause(200, 3000);
        let node = usize::try_from(dice.below(3)).expect("small");
        match dice.below(8) {
            0 => {
                etcd.kill(node);
                dice.pause(100, 4000);
                etcd.start(node);
            }
            1 => {
                etcd.signal(node, Signal::SIGSTOP);
                dice.pause(100, 6000);
                etcd.signal(node, Signal::SIGCONT);
            }
            2 => etcd.restart(),
            _ => {
                let proxy = dice.one_of(proxies);
                proxy.pass(*dice.one_of(&WAYS));
                dice.pause(100, 16_000);
                proxy.pass(Passing::All);
            }
        }
    }
}

#[test]
fn no_work_runs_beside_a_claim_whatever_fails() {
    let Some(etcd) = Etcd::three() else { return };
    let seed = Dice::seed("FLEET_SEED");
    let mut ground = Ground::on(etcd);
    // Each machine has a way of its own to each node.
    let ways: Vec<Vec<Proxy>> = (0..3)
        .map(|_| {
            (0..3)
                .map(|node| Proxy::to(ground.etcd.address(node)))
                .collect()
        })
        .collect();
    let config = |machine: usize| {
        ground.config_by(&ways[machine].iter().map(Proxy::node).collect::<Vec<_>>())
    };
    let configs: Vec<_> = (0..3).map(config).collect();
    let (mark, witness) = (ground.mark.clone(), Arc::clone(&ground.witness));
    let agents: Vec<Agent> = (0..6)
        .map(|number| {
            let cycle = Duration::from_millis(5 + 20 * number);
            Agent::start(
                &format!("m{}", number % 3),
                configs[number as usize % 3].clone(),
                &mark,
                &witness,
                cycle,
            )
        })
        .collect();
    let (over, done, rounds) = (AtomicBool::new(false), AtomicUsize::new(0), rounds());
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let is_over = OverAtLast(&over);
        let proxies: Vec<Proxy> = ways.into_iter().flatten().collect();
        let etcd = &mut ground.etcd;
        let failing = scope.spawn(|| {
            let proxies = proxies;
            trouble(etcd, &proxies, &mut Dice::new(seed, "trouble"), &over);
            proxies
        });
        let claimers: Vec<_> = configs
            .iter()
            .enumerate()
            .map(|(machine, config)| {
                let (mark, witness, done) = (&mark, &witness, &done);
                scope.spawn(move || {
                    let mut dice = Dice::new(seed, &format!("claimer {machine}"));
                    while done.fetch_add(1, Ordering::SeqCst) < rounds {
                        let host = format!("m{machine}");
                        hold(
                            claim(&host, config.clone(), mark),
                            &host,
                            witness,
                            Duration::from_millis(5 + dice.below(100)),
                        );
                        dice.pause(1, 50);
                    }
                })
            })
            .collect();
        claimers
            .into_iter()
            .for_each(|claimer| claimer.join().expect("a claimer comes to its end"));
        drop(is_over);
        let proxies = failing.join().expect("the trouble comes to its end");
        agents.iter().for_each(Agent::until_next);
        drop(agents);
        drop(proxies);
    });
    let (claims, cycles) = (witness.claims(), witness.cycles());
    println!(
        "{claims} claims, {cycles} cycles, {} s",
        begun.elapsed().as_secs()
    );
    let revoked = (0..3).any(|node| ground.etcd.log(node).contains("lease expired"));
    assert!(
        claims * 10 > rounds * 8 && cycles > rounds,
        "{claims} claims, {cycles} cycles; leases have lapsed: {revoked}"
    );
    witness.check();
}

/// Looks whether somebody claims, and runs its cycle then: what a script does with `etcdctl get`.
#[test]
fn the_obvious_way_runs_cycles_beside_claims() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let fleet = ground.fleet();
    let witness = Witness::default();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = OverAtLast(&over);
        for number in 0..3 {
            let (fleet, witness, over, name) = (&fleet, &witness, &over, &ground.mark.name);
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    if fleet.claim_of(name).is_ok_and(|claim| claim.is_none()) {
                        let standing = || beadlock_fleet::SessionStanding::Live;
                        witness.see(&format!("a{number}"), None, || {
                            work(Duration::from_millis(20), standing, || None);
                        });
                    }
                }
            });
        }
        // On a busy machine the first claims may begin while no cycle runs.
        for _ in 0..500 {
            hold(
                claim("m1", ground.config(), &ground.mark),
                "m1",
                &witness,
                Duration::from_millis(20),
            );
            if !witness.overlaps().is_empty() {
                break;
            }
        }
        drop(is_over);
    });
    assert!(
        !witness.overlaps().is_empty(),
        "a control that finds nothing is none: {} claims",
        witness.claims()
    );
}
