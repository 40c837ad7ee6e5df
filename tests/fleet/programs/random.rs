//! Claims of two machines beside the agents of two others, while processes are killed and stopped and etcd restarts,
//! at random. Beside it the obvious way, a look at etcd before each cycle, which must be seen to fail.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use beadlock_testkit::{Dice, OverAtLast};
use beadlock_tests::{Ended, PATIENCE, Running, Scene, run};
use nix::sys::signal::Signal;

use crate::programs::runs::Witness;
use crate::site::Site;

const NAME: &str = "acme/tracker";

/// `FLEET_CLAIMS`, else as many as fit into `make test`.
fn claims() -> usize {
    std::env::var("FLEET_CLAIMS")
        .ok()
        .and_then(|claims| claims.parse().ok())
        .unwrap_or(25)
}

/// What one fleet has; more claims are those of several fleets, side by side.
const MOST: usize = 1000;

/// Those who take part in one fleet, and what is written down.
struct World {
    site: Mutex<Site>,
    claimants: [Scene; 2],
    served: [Scene; 2],
    witness: Witness,
    /// Claims whose command has run to its end.
    done: AtomicUsize,
    over: AtomicBool,
}

impl World {
    fn agent(&self, of: usize) -> Running {
        let site = self.site.lock().expect("no panic");
        site.agent(&self.served[of], &self.witness.steps("cycle", 2))
    }

    /// Claims one after the other until there are enough, some of which are killed or stopped in the middle.
    fn claim(&self, who: usize, mut dice: Dice, wanted: usize) {
        let scene = &self.claimants[who];
        let tokens = self.claimants[0].file("tokens");
        while self.done.load(Ordering::SeqCst) < wanted {
            let work = self.witness.steps("claim", 1 + dice.below(6));
            let script = format!(
                "echo $BEADLOCK_FENCING_TOKEN >> {}; {work}",
                tokens.display()
            );
            let args = [
                "hold",
                "--wait",
                "60s",
                "--drain",
                "60s",
                "--kill-after",
                "1s",
                "--",
                "sh",
                "-c",
                &script,
            ];
            let command = self.site.lock().expect("no panic").beadlock(scene, &args);
            let mut hold = Running::start(command);
            match dice.below(40) {
                0 => {
                    dice.pause(50, 400);
                    if hold.is_running() {
                        hold.signal(Signal::SIGKILL);
                    }
                    hold.wait(PATIENCE);
                    continue;
                }
                1 => {
                    dice.pause(50, 400);
                    stop_for_a_while(&mut hold, &mut dice);
                }
                _ => {}
            }
            let ended = Ended::of(&hold.finish(Duration::from_secs(150)));
            match ended.code {
                0 => drop(self.done.fetch_add(1, Ordering::SeqCst)),
                4 | 5 | 9 | 125 => dice.pause(10, 100),
                code => panic!("exit {code}: {}", ended.err),
            }
        }
    }

    /// Kills and stops agents, and restarts etcd, until it is over.
    fn trouble(&self, agents: &mut [Running; 2], dice: &mut Dice) {
        while !self.over.load(Ordering::SeqCst) {
            dice.pause(500, 4000);
            let of = usize::try_from(dice.below(2)).expect("small");
            match dice.below(6) {
                0 => {
                    agents[of].signal(Signal::SIGKILL);
                    agents[of].wait(PATIENCE);
                    agents[of] = self.agent(of);
                }
                1 | 2 => stop_for_a_while(&mut agents[of], dice),
                3 => self.site.lock().expect("no panic").etcd.restart(),
                _ => {}
            }
        }
    }
}

fn stop_for_a_while(running: &mut Running, dice: &mut Dice) {
    if running.is_running() {
        running.signal(Signal::SIGSTOP);
        dice.pause(100, 17_000);
        running.signal(Signal::SIGCONT);
    }
}

#[test]
fn no_cycle_of_a_program_runs_beside_a_claim_whatever_is_killed_or_stopped() {
    let (wanted, seed) = (claims(), Dice::seed("FLEET_SEED"));
    let fleets = wanted.div_ceil(MOST);
    let counts: Vec<_> = std::thread::scope(|scope| {
        let fleet = |of: usize| scope.spawn(move || play(wanted.div_ceil(fleets), seed, of));
        let playing: Vec<_> = (0..fleets).map(fleet).collect();
        playing
            .into_iter()
            .map(|fleet| fleet.join().expect("what is asserted holds"))
            .collect()
    });
    let Some(counts) = counts.into_iter().collect::<Option<Vec<_>>>() else {
        return;
    };
    let (claims, cycles) = counts
        .iter()
        .fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    println!("{fleets} fleets, {claims} claims, {cycles} cycles, 0 overlaps; FLEET_SEED={seed}");
}

/// One fleet. Returns how many claims and how many cycles it had; `None` without etcd.
fn play(wanted: usize, seed: u64, of: usize) -> Option<(usize, usize)> {
    let site = Site::new()?;
    let of_clones = || [site.clone_of(NAME), site.clone_of(NAME)];
    let (claimants, served) = (of_clones(), of_clones());
    let witness = Witness::in_scene(&claimants[0]);
    let (site, done, over) = (
        Mutex::new(site),
        AtomicUsize::new(0),
        AtomicBool::new(false),
    );
    let world = World {
        site,
        claimants,
        served,
        witness,
        done,
        over,
    };
    let mut agents = [0, 1].map(|of| world.agent(of));
    std::thread::scope(|scope| {
        let is_over = OverAtLast(&world.over);
        let failing = scope
            .spawn(|| world.trouble(&mut agents, &mut Dice::new(seed, &format!("trouble {of}"))));
        let claiming = [0, 1].map(|who| {
            let (world, dice) = (&world, Dice::new(seed, &format!("claimant {of} {who}")));
            scope.spawn(move || world.claim(who, dice, wanted))
        });
        claiming
            .into_iter()
            .for_each(|claims| claims.join().expect("the claimant does not panic"));
        drop(is_over);
        failing.join().expect("what fails does not panic");
    });
    assert_eq!(world.witness.overlaps(), [], "FLEET_SEED={seed}");
    let tokens = world.claimants[0].read("tokens");
    let tokens: Vec<u64> = tokens
        .lines()
        .map(|token| token.parse().expect("a decimal"))
        .collect();
    assert!(
        tokens.windows(2).all(|two| two[0] < two[1]),
        "FLEET_SEED={seed}: {tokens:?}"
    );
    let (claims, cycles) = (world.witness.count("claim"), world.witness.count("cycle"));
    assert!(
        cycles > wanted,
        "the agents have worked between the claims: {cycles}"
    );
    Some((claims, cycles))
}

/// The obvious way: `etcdctl get`, and a cycle where there is no claim.
#[test]
fn a_look_before_each_cycle_does_not_keep_it_from_running_beside_a_claim() {
    let Some(site) = Site::new() else { return };
    let claimant = site.clone_of(NAME);
    let witness = Witness::in_scene(&claimant);
    let over = AtomicBool::new(false);
    let (cycle, claim) = (witness.steps("cycle", 3), witness.steps("claim", 3));
    std::thread::scope(|scope| {
        let _over = OverAtLast(&over);
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                if site
                    .etcd
                    .ctl(&["get", "--prefix", &site.key("claims/")])
                    .is_empty()
                {
                    run(claimant.shell(&cycle));
                }
            }
        });
        // On a busy machine the first claims may begin while no cycle runs.
        for _ in 0..100 {
            let held = Ended::of(&run(
                site.beadlock(&claimant, &["hold", "--", "sh", "-c", &claim])
            ));
            assert_eq!(held.code, 0, "{}", held.err);
            std::thread::sleep(Duration::from_millis(50));
            if !witness.overlaps().is_empty() {
                break;
            }
        }
    });
    assert!(
        !witness.overlaps().is_empty(),
        "of {} claims and {} cycles",
        witness.count("claim"),
        witness.count("cycle")
    );
}
