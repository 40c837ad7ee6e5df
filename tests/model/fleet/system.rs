//! The fleet for `stateright`: the actors, what may go wrong, and whose step is next.

use std::fmt;

use stateright::{Model, Property};

use super::agent::{Agent, Right, Stage, Step, View};
use super::claimer::{self, Claimer};
use super::rules::Rules;
use super::server::{Answer, Ask, Lease, Leases, Revision, Verdict};
use super::world::{Delivery, Faults, World};
use super::{events, properties};
use crate::set::Who;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    Claimer(Claimer),
    Agent(Agent),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub world: World,
    pub actors: Vec<Actor>,
}

/// The actors, on which machines, by which rules, and what may happen to them.
#[derive(Clone, Copy, Debug)]
pub struct Fleets {
    pub rules: Rules,
    /// The machine of each claimer.
    pub claimers: &'static [u8],
    /// The machine of each agent.
    pub agents: &'static [u8],
    pub faults: Faults,
}

/// What happens to an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mishap {
    /// It runs out of patience.
    GiveUp,
    Kill,
    /// Its watchdog or its cycle runner is killed.
    KillGuard,
    Stop,
    Continue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Claimer(Who, Delivery),
    /// A renewal of a claimer's session.
    Renew(Who),
    Agent(Who, Step, Delivery),
    Mishap(Who, Mishap),
    Etcd(events::Event),
}

impl Action {
    /// Neither a fault nor patience that has run out: what leads to the end.
    pub fn is_ordinary(&self) -> bool {
        match self {
            Self::Claimer(_, delivery) | Self::Agent(_, _, delivery) => *delivery == Delivery::Well,
            Self::Renew(_) => true,
            Self::Mishap(_, mishap) => *mishap == Mishap::Continue,
            Self::Etcd(event) => event.is_ordinary(),
        }
    }
}

impl State {
    /// Leases that living sessions and work need.
    pub fn used(&self) -> Leases {
        let mut used = Leases::default();
        for (who, actor) in (0..).zip(&self.actors) {
            match actor {
                Actor::Claimer(claimer) if claimer.has_session() => {
                    used.insert(Claimer::lease(who))
                }
                Actor::Claimer(_) => {}
                Actor::Agent(agent) => {
                    agent
                        .session
                        .iter()
                        .for_each(|session| used.insert(session.lease));
                    agent.work.iter().for_each(|work| used.insert(work.lease));
                }
            }
        }
        used
    }

    /// The sessions and the work whose deadline a new fleet waits for.
    pub fn deadlines(&self) -> Leases {
        let mut deadlines = self.used();
        for (who, actor) in (0..).zip(&self.actors) {
            match actor {
                Actor::Claimer(claimer) if claimer.stage == claimer::Stage::Known => {
                    deadlines.remove(Claimer::lease(who))
                }
                Actor::Claimer(_) => {}
                Actor::Agent(agent) => {
                    let asking = agent
                        .session
                        .filter(|session| session.stage == Stage::Asking);
                    asking
                        .iter()
                        .for_each(|session| deadlines.remove(session.lease));
                }
            }
        }
        deadlines.but(self.world.passed)
    }

    /// A living program renews this lease, and nothing but the network can keep it from that.
    pub fn is_renewed(&self, lease: Lease, rules: &Rules) -> bool {
        let renews = |(who, actor): (Who, &Actor)| match actor {
            Actor::Claimer(claimer) => {
                let counts = claimer.stage >= claimer::Stage::Released
                    || claimer.verdict(who, &self.world, rules) == Verdict::Good;
                Claimer::lease(who) == lease && claimer.renews() && counts
            }
            Actor::Agent(agent) => {
                let is_mine = agent.session.is_some_and(|session| session.lease == lease);
                is_mine && !agent.stopped && agent.verdict(&self.world, rules) == Verdict::Good
            }
        };
        (0..).zip(&self.actors).any(renews)
    }

    /// Whatever was read before says nothing about etcd as it is now.
    pub fn harm(&mut self, leases: Leases) {
        self.world.harmed = true;
        self.world.unverified = self.world.unverified.or(leases);
        for actor in &mut self.actors {
            if let Actor::Agent(Agent {
                view: Some(view), ..
            }) = actor
            {
                view.fresh = false;
            }
        }
    }

    fn step(&mut self, action: Action, rules: &Rules) -> Option<()> {
        let world = &mut self.world;
        match action {
            Action::Claimer(who, delivery) => {
                let Actor::Claimer(claimer) = &mut self.actors[usize::from(who)] else {
                    return None;
                };
                *claimer = if claimer.stopped {
                    None
                } else {
                    claimer.step(who, delivery, world, rules)
                }?;
            }
            Action::Renew(who) => {
                let Actor::Claimer(claimer) = &mut self.actors[usize::from(who)] else {
                    return None;
                };
                *claimer = claimer.renew(who, world, rules)?;
            }
            Action::Agent(who, step, delivery) => {
                let Actor::Agent(agent) = &mut self.actors[usize::from(who)] else {
                    return None;
                };
                *agent = agent.step(who, step, delivery, world, rules)?;
            }
            Action::Mishap(who, mishap) => self.befall(who, mishap)?,
            Action::Etcd(event) => self.happen(event, rules)?,
        }
        let used = self.used();
        self.world.tidy(used);
        Some(())
    }

    fn befall(&mut self, who: Who, mishap: Mishap) -> Option<()> {
        let world = &mut self.world;
        let actor = &mut self.actors[usize::from(who)];
        match (mishap, &mut *actor) {
            (Mishap::GiveUp, Actor::Claimer(claimer)) => {
                if !claimer.may_give_up() || claimer.stopped {
                    return None;
                }
                claimer.stage = claimer::Stage::GivingUp;
            }
            (Mishap::Kill, actor) => {
                world.faults.kills = world.faults.kills.checked_sub(1)?;
                *actor = match *actor {
                    Actor::Claimer(claimer) => Actor::Claimer(claimer.kill(world)?),
                    Actor::Agent(agent) => Actor::Agent(agent.kill(world)?),
                };
            }
            (Mishap::KillGuard, actor) => {
                world.faults.guards = world.faults.guards.checked_sub(1)?;
                let guard = match actor {
                    Actor::Claimer(claimer) if claimer.works() => &mut claimer.guard,
                    Actor::Agent(Agent {
                        work: Some(work), ..
                    }) if work.runs => &mut work.guard,
                    _ => return None,
                };
                if !std::mem::replace(guard, false) {
                    return None;
                }
            }
            (Mishap::Stop | Mishap::Continue, actor) => {
                let (stopped, lives) = match actor {
                    Actor::Claimer(claimer) => (
                        &mut claimer.stopped,
                        claimer.stage < claimer::Stage::Orphaned,
                    ),
                    Actor::Agent(agent) => (&mut agent.stopped, true),
                };
                let stops = mishap == Mishap::Stop;
                if stops {
                    world.faults.stops = world.faults.stops.checked_sub(1)?;
                }
                if !lives || *stopped == stops {
                    return None;
                }
                *stopped = stops;
            }
            (Mishap::GiveUp, _) => return None,
        }
        Some(())
    }

    /// Numbers revisions anew, in their order: how many lie between two of them does not matter. Those of each session
    /// are compared with each other, and so are those of claims. Where revisions go back their distance does matter,
    /// because a new one may be equal to one that somebody remembers.
    fn number_anew(&mut self) {
        let used = self.world.server.leases.or(self.used());
        let sessions = used
            .members()
            .map(|lease| number(|each| self.revisions_of(lease, each)));
        let highest = sessions.max().unwrap_or(0);
        self.world.server.revision = highest.max(number(|each| self.revisions_of_claims(each)));
    }

    /// Revisions of `sessions/L`, wherever they are remembered.
    fn revisions_of(&mut self, lease: Lease, each: &mut dyn FnMut(&mut Revision)) {
        each(&mut self.world.server.sessions[usize::from(lease)]);
        for actor in &mut self.actors {
            let Actor::Agent(agent) = actor else { continue };
            let Some(session) = agent
                .session
                .as_mut()
                .filter(|session| session.lease == lease)
            else {
                continue;
            };
            each(&mut session.right_at);
            if let Right::Answered(answer) = &mut agent.right {
                each(&mut answer.revision);
            }
            if let Some(view) = &mut agent.view {
                each(&mut view.modified);
            }
        }
    }

    /// Create revisions of `claims/NAME`, wherever they are remembered.
    fn revisions_of_claims(&mut self, each: &mut dyn FnMut(&mut Revision)) {
        if let Some(claim) = &mut self.world.server.claim {
            each(&mut claim.created);
        }
        each(&mut self.world.token.1);
        for stray in &mut self.world.strays {
            if let Ask::Yield(claim) | Ask::Drained(claim) = &mut stray.ask {
                each(claim);
            }
        }
        for actor in &mut self.actors {
            match actor {
                Actor::Claimer(claimer) => each(&mut claimer.claim),
                Actor::Agent(agent) => {
                    agent.claim.iter_mut().for_each(&mut *each);
                    if let Right::Answered(Answer {
                        claim: Some(claim), ..
                    }) = &mut agent.right
                    {
                        each(&mut claim.created);
                    }
                    if let Some(View {
                        claim: Some(claim), ..
                    }) = &mut agent.view
                    {
                        each(claim);
                    }
                }
            }
        }
    }
}

/// Gives these revisions the numbers from 1 on, in their order, and returns the highest; 0 stays.
fn number(mut visit: impl FnMut(&mut dyn FnMut(&mut Revision))) -> Revision {
    let mut all: Vec<Revision> = vec![0];
    visit(&mut |revision| all.push(*revision));
    all.sort_unstable();
    all.dedup();
    let rank = |revision: &Revision| all.binary_search(revision).expect("it was collected");
    visit(&mut |revision| *revision = Revision::try_from(rank(revision)).expect("few revisions"));
    Revision::try_from(all.len() - 1).expect("few revisions")
}

impl Fleets {
    fn goes_back(&self) -> bool {
        self.faults.restores > 0 || self.faults.announced > 0
    }

    /// Every claim has had its turn, and every agent may run its cycles.
    pub fn is_over(state: &State) -> bool {
        let is_done = |actor: &Actor| match actor {
            Actor::Claimer(claimer) => claimer.stage == claimer::Stage::Gone,
            Actor::Agent(agent) => agent.is_ready(),
        };
        state.world.server.claim.is_none() && state.actors.iter().all(is_done)
    }
}

impl Model for Fleets {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let claimers = self
            .claimers
            .iter()
            .map(|machine| Actor::Claimer(Claimer::new(*machine)));
        let agents = self
            .agents
            .iter()
            .map(|machine| Actor::Agent(Agent::new(*machine)));
        vec![State {
            world: World::new(self.faults),
            actors: claimers.chain(agents).collect(),
        }]
    }

    /// What might be done; [`Model::next_state`] knows who has to wait.
    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let deliveries = if state.world.faults.messages > 0 {
            &Delivery::ALL[..]
        } else {
            &Delivery::ALL[..1]
        };
        for (who, actor) in (0..).zip(&state.actors) {
            match actor {
                Actor::Claimer(_) => {
                    actions.extend(
                        deliveries
                            .iter()
                            .map(|delivery| Action::Claimer(who, *delivery)),
                    );
                    actions.push(Action::Renew(who));
                }
                Actor::Agent(_) => {
                    for step in Step::ALL {
                        let count = if step.sends() { deliveries.len() } else { 1 };
                        actions.extend(
                            deliveries[..count]
                                .iter()
                                .map(|delivery| Action::Agent(who, step, *delivery)),
                        );
                    }
                }
            }
            let mishaps = [
                Mishap::GiveUp,
                Mishap::Kill,
                Mishap::KillGuard,
                Mishap::Stop,
                Mishap::Continue,
            ];
            actions.extend(mishaps.map(|mishap| Action::Mishap(who, mishap)));
        }
        state.events(actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        next.step(action, &self.rules)?;
        if !self.goes_back() {
            next.number_anew();
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}

/// The actors, in words.
impl fmt::Display for Fleets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Faults {
            kills,
            guards,
            stops,
            cuts,
            messages,
            losses,
            restores,
            announced,
            revokes,
            breaks,
        } = self.faults;
        let claimers = u8::try_from(self.claimers.len()).expect("few");
        let agents = u8::try_from(self.agents.len()).expect("few");
        let counts = [
            (claimers, ["claimer", "claimers"]),
            (agents, ["agent", "agents"]),
            (kills, ["kill", "kills"]),
            (guards, ["kill of a watchdog", "kills of watchdogs"]),
            (stops, ["stop", "stops"]),
            (cuts, ["cut", "cuts"]),
            (messages, ["bad message", "bad messages"]),
            (losses, ["loss of data", "losses of data"]),
            (restores, ["unannounced restore", "unannounced restores"]),
            (announced, ["announced restore", "announced restores"]),
            (revokes, ["foreign revoke", "foreign revokes"]),
            (breaks, ["break", "breaks"]),
        ];
        let shown = counts.iter().filter(|(count, _)| *count > 0);
        let shown: Vec<_> = shown
            .map(|(count, [one, more])| format!("{count} {}", if *count == 1 { one } else { more }))
            .collect();
        let machines = self
            .claimers
            .iter()
            .chain(self.agents)
            .max()
            .map_or(1, |machine| machine + 1);
        write!(
            f,
            "{}, {machines} machine{}",
            shown.join(", "),
            if machines == 1 { "" } else { "s" }
        )
    }
}
