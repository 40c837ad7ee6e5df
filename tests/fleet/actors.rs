//! Agents and claimers, each a thread: they do as the programs do, with work that ends when it has to.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use beadlock_base::deadline::boottime;
use beadlock_fleet::{
    ClaimState, Config, Deadlines, FleetAgent, FleetClaim, FleetClaimRequest, HeldClaim, Mark,
    SessionStanding,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::ground::who;
use super::witness::Witness;

const LOOK: Duration = Duration::from_millis(2);

/// Waits for a bell, for so long at most.
pub fn heard(bell: impl AsFd, limit: Duration) -> bool {
    let limit = PollTimeout::try_from(limit).expect("a short time");
    poll(&mut [PollFd::new(bell.as_fd(), PollFlags::POLLIN)], limit).is_ok_and(|ready| ready > 0)
}

/// The work of a process under a session: for so long, or until it is ended. False: it was ended.
pub fn work(
    length: Duration,
    standing: impl Fn() -> SessionStanding,
    deadlines: impl Fn() -> Option<Deadlines>,
) -> bool {
    let end = boottime() + length;
    loop {
        let now = boottime();
        if now >= end {
            return true;
        }
        // What the programs ask to end at `term` has until `kill`; this work needs all of it.
        let is_killed = deadlines().is_some_and(|deadlines| now >= deadlines.kill);
        match standing() {
            SessionStanding::Over(loss) if loss.kills_at_once() || is_killed => return false,
            SessionStanding::Broken(_) => return false,
            _ if is_killed => return false,
            _ => sleep(LOOK.min(end - now)),
        }
    }
}

/// An agent whose cycles run back to back, until it is dropped.
pub struct Agent {
    pub fleet: FleetAgent,
    is_over: Arc<AtomicBool>,
    /// How many cycles it has run.
    pub cycles: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    #[track_caller]
    pub fn start(
        host: &str,
        config: Config,
        mark: &Mark,
        witness: &Arc<Witness>,
        cycle: Duration,
    ) -> Self {
        let fleet = FleetAgent::start(config, who(host)).expect("an agent");
        let (is_over, cycles) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let (host, mark, witness) = (host.to_owned(), mark.clone(), Arc::clone(witness));
        let (agent, over, count) = (fleet.clone(), Arc::clone(&is_over), Arc::clone(&cycles));
        let thread = spawn(move || {
            while !over.load(Ordering::SeqCst) {
                match agent.permit(&mark) {
                    Ok(permit) => {
                        witness.see(&host, None, || {
                            work(cycle, || permit.standing(), || Some(permit.deadlines()));
                        });
                        drop(permit);
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(_) => {
                        heard(agent.bell(), Duration::from_millis(50));
                        agent.hear();
                    }
                }
            }
        });
        Self {
            fleet,
            is_over,
            cycles,
            thread: Some(thread),
        }
    }

    /// Waits for its next cycle.
    #[track_caller]
    pub fn until_next(&self) {
        let before = self.cycles.load(Ordering::SeqCst);
        beadlock_testkit::until("the agent runs a cycle", || {
            self.cycles.load(Ordering::SeqCst) > before + 1
        });
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = self.fleet.end();
    }
}

/// Begins a claim for `host`.
#[track_caller]
pub fn claim(host: &str, config: Config, mark: &Mark) -> FleetClaim {
    let request = FleetClaimRequest {
        mark: mark.clone(),
        holder: format!("{host}-job"),
        id: format!("id-{host}"),
        who: who(host),
    };
    FleetClaim::begin(config, request).expect("a claim begins")
}

/// Waits until it is so far.
#[track_caller]
pub fn until_state(
    claim: &FleetClaim,
    what: &str,
    bound: Duration,
    is_so: impl Fn(&ClaimState) -> bool,
) -> ClaimState {
    let begun = Instant::now();
    loop {
        claim.hear();
        let state = claim.state();
        if is_so(&state) {
            return state;
        }
        assert!(
            begun.elapsed() < bound,
            "waited {bound:?} in vain for: {what}; it is {state:?}"
        );
        heard(claim.bell(), Duration::from_millis(500));
    }
}

#[track_caller]
pub fn until_held(claim: &FleetClaim) -> HeldClaim {
    match until_state(
        claim,
        "the claim is held",
        Duration::from_secs(60),
        |state| matches!(state, ClaimState::Held(_)),
    ) {
        ClaimState::Held(held) => held,
        _ => unreachable!("that was waited for"),
    }
}

/// Holds the claim for so long under the eyes of the witness, and ends it. False: its work was ended before.
#[track_caller]
pub fn hold(claim: FleetClaim, host: &str, witness: &Witness, length: Duration) -> bool {
    let held = until_held(&claim);
    let mut is_whole = false;
    if claim.may_begin() {
        witness.see(host, Some(held.token), || {
            is_whole = work(length, || claim.standing(), || claim.deadlines())
        });
    }
    let _ = claim.end();
    is_whole
}
