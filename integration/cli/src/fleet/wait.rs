//! The wait for a claim in the fleet: for its etcd, for another claim, and for the agents' cycles.

use beadlock_claim::error::Problem;
use std::{fmt, time::Duration, time::Instant};

use beadlock_base::{duration::shown, escape::escaped};
use beadlock_core::facts;
use beadlock_fleet::{AgentSeen, ClaimState, ClaimValue, FleetClaim, HeldClaim, Name};

use crate::fleet::error::fleet_error;
use beadlock_base::poll::wait_for;
use beadlock_base::words::counted;
use beadlock_claim::error::{Code, Error};
use beadlock_claim::observe::{NOTICE_AFTER, NotAcquired, TICK, WaitControl, WaitingFor};
use beadlock_claim::wait::{Deadline, Wait};
use beadlock_claim::words::{shown_age, to_type};

/// With `--no-wait` etcd has this long to answer: that is not a wait for a holder.
const TO_ANSWER: Duration = Duration::from_secs(2);

/// The limits of the wait for a claim in the fleet.
#[derive(Debug, Clone, Copy)]
pub struct FleetTimeouts {
    /// The limit for another claim to end, and for etcd to answer.
    pub wait: Wait,
    /// The limit for the agents' cycles to end, from when the claim is raised.
    pub drain: Duration,
}

/// A claim in the fleet that stands. `Display` is the end of the line that says so.
#[derive(Debug)]
pub struct StandingClaim(pub HeldClaim);

impl FleetTimeouts {
    /// Waits until the claim of `name` is held.
    pub fn until_held(
        self,
        claim: &FleetClaim,
        name: &Name,
        control: &mut dyn WaitControl,
    ) -> Result<StandingClaim, NotAcquired> {
        let begun = Instant::now();
        let (wait, answer) = (
            Deadline::after(self.wait.limit()),
            Deadline::after(self.wait.limit().max(TO_ANSWER)),
        );
        let mut drain = None;
        let mut notice = Deadline::after(NOTICE_AFTER);
        loop {
            claim.hear();
            let state = claim.state();
            let deadline = match &state {
                ClaimState::Held(held) => {
                    control.waited(begun.elapsed());
                    return Ok(StandingClaim(held.clone()));
                }
                ClaimState::Failed(error) => return Err(fleet_error(error.clone()).into()),
                ClaimState::Connecting { .. } | ClaimState::New => answer,
                ClaimState::Waiting(_) => wait,
                ClaimState::Draining { .. } => {
                    *drain.get_or_insert_with(|| Deadline::after(self.drain))
                }
            };
            if let beadlock_fleet::SessionStanding::Broken(broken) = claim.standing() {
                let message = format!(
                    "the claim of {name} in the fleet was broken before it was held: {broken}"
                );
                return Err(Error::new(Code::LockLost, message).into());
            }
            if deadline.is_over() {
                return Err(self.gave_up(&state, name, begun.elapsed()).into());
            }
            if notice.is_over() {
                let (what, left) = (in_words(&state), deadline.left());
                control.waiting(&WaitingFor::Fleet {
                    name: name.as_str(),
                    what: &what,
                    left,
                })?;
                notice = Deadline::after(TICK);
            }
            let limit = deadline.left().min(notice.left());
            let [_, signalled] = wait_for([Some(claim.bell()), control.signals()], limit);
            control.check_stop(signalled)?;
        }
    }

    fn gave_up(self, state: &ClaimState, name: &Name, waited: Duration) -> Error {
        let (wait, limit) = (self.wait, shown(self.drain));
        let retry = Duration::from_secs(5);
        let status = to_type("beadlock fleet status", &[]);
        let error = match state {
            ClaimState::Waiting(seen) => {
                let holder = &seen.value;
                let message = format!(
                    "{name} in the fleet is claimed by {}; {wait}; who else: {status}",
                    of(holder)
                );
                Error::new(Code::LockHeld, message).detailed(format!(
                    "fleet={name} holder_pid={} holder_host={}",
                    holder.pid,
                    escaped(&holder.host)
                ))
            }
            ClaimState::Draining { .. } => {
                let message = format!(
                    "{name} is busy in the fleet: {} within {limit}; wait longer with --drain DUR, or see to them",
                    in_words(state)
                );
                Error::new(Code::DrainTimeout, message)
                    .detailed(format!("fleet={name} drain_ms={}", self.drain.as_millis()))
            }
            state => {
                let message = format!(
                    "fleet: {}; gave up after {}; try again",
                    in_words(state),
                    shown(waited)
                );
                Error::new(Code::FleetUnreachable, message)
            }
        };
        error.retry_after(retry)
    }
}

/// The reason why a claim in this state is not held yet, for messages; "" if it is held or has failed.
fn in_words(state: &ClaimState) -> String {
    match state {
        ClaimState::Connecting { why: Some(why), .. } => format!("no node has answered: {why}"),
        ClaimState::Connecting { why: None, .. } => "no node has answered yet".to_owned(),
        ClaimState::New => {
            "the fleet was made a moment ago, and nobody may begin within 15s of that".to_owned()
        }
        ClaimState::Waiting(seen) => of(&seen.value),
        ClaimState::Draining { agents, more } => {
            let names: Vec<String> = agents.iter().map(agent).collect();
            let others = if *more { " and others" } else { "" };
            format!("the cycles of {}{others} have not ended", names.join(", "))
        }
        ClaimState::Held(_) | ClaimState::Failed(_) => String::new(),
    }
}

fn of(claim: &ClaimValue) -> String {
    let ClaimValue {
        holder,
        pid,
        host,
        started_at,
        ..
    } = claim;
    format!(
        "{} (PID {pid}, on {}) since {started_at}",
        escaped(holder),
        escaped(host)
    )
}

/// `build-9 (PID 77) since 2026-11-25T19:00:00Z`
fn agent(
    AgentSeen {
        session,
        who,
        since,
        gone_within,
    }: &AgentSeen,
) -> String {
    let mut words = match who {
        Some(who) => format!("{} (PID {})", escaped(&who.host), who.pid),
        None => format!("the session {session}"),
    };
    if let Some(since) = since {
        words.push_str(&format!(" since {since}"));
    }
    if let Some(within) = gone_within {
        words.push_str(&format!(
            " (it does not renew; gone within {})",
            shown(*within)
        ));
    }
    words
}

impl fmt::Display for StandingClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HeldClaim {
            token,
            agents,
            hosts,
            not_seen,
            ..
        } = &self.0;
        let (agents, hosts) = (
            counted(*agents, "agent", "agents"),
            counted(*hosts, "host", "hosts"),
        );
        write!(f, "token {token}: {agents} on {hosts} drained")?;
        for member in not_seen {
            let joined = facts::age_of_time(member.since, None)
                .map(|age| format!(" (joined {} ago)", shown_age(age)));
            write!(
                f,
                "; {} not seen{}",
                escaped(&member.host),
                joined.unwrap_or_default()
            )?;
        }
        Ok(())
    }
}
