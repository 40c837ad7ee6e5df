//! What happens without an actor: deadlines pass, leases lapse, late requests arrive, etcd loses data, an operator
//! acts.

use super::rules::Rules;
use super::server::{Fleet, Lease, Leases, Server};
use super::system::{Action, Actor, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The deadline of a session passes that nobody renews any more.
    Pass(Lease),
    /// A living session does not get through, and its deadline passes.
    CutOff(Lease),
    /// etcd gives up a lease.
    Lapse(Lease),
    /// A late request arrives. None does after a restore, because that ends every connection.
    Arrive(u8),
    /// T after a fleet was made.
    NewIsOver,
    Create,
    Lose,
    Snapshot,
    Restore,
    /// The snapshot is restored with the clients kept away, `fleet` is deleted and made anew.
    RestoreAsAnnounced,
    Revoke(Lease),
    Break(Lease),
}

impl Event {
    pub fn is_ordinary(self) -> bool {
        matches!(
            self,
            Self::Pass(_) | Self::Lapse(_) | Self::Arrive(_) | Self::NewIsOver | Self::Create
        )
    }
}

impl State {
    pub fn events(&self, actions: &mut Vec<Action>) {
        let used = self.used();
        let faults = self.world.faults;
        let mut add = |event| actions.push(Action::Etcd(event));
        for lease in used.but(self.world.passed).members() {
            add(Event::Pass(lease));
            add(Event::CutOff(lease));
        }
        for lease in self.world.server.leases.members() {
            add(Event::Lapse(lease));
            if faults.revokes > 0 {
                add(Event::Revoke(lease));
            }
            if faults.breaks > 0 {
                add(Event::Break(lease));
            }
        }
        (0..self.world.strays.len())
            .for_each(|stray| add(Event::Arrive(u8::try_from(stray).expect("few"))));
        add(Event::NewIsOver);
        add(Event::Create);
        if faults.losses > 0 {
            add(Event::Lose);
        }
        if faults.restores > 0 || faults.announced > 0 {
            add(Event::Snapshot);
            add(Event::Restore);
            add(Event::RestoreAsAnnounced);
        }
    }

    pub fn happen(&mut self, event: Event, rules: &Rules) -> Option<()> {
        let used = self.used();
        let world = &mut self.world;
        let faults = &mut world.faults;
        match event {
            Event::Pass(lease) => {
                if self.is_renewed(lease, rules) {
                    return None;
                }
                self.pass(lease, rules);
            }
            Event::CutOff(lease) => {
                faults.cuts = faults.cuts.checked_sub(1)?;
                if !self.is_renewed(lease, rules) {
                    return None;
                }
                self.pass(lease, rules);
            }
            Event::Lapse(lease) => {
                if used.has(lease) && !world.passed.has(lease) {
                    return None;
                }
                world.server.revoke(lease);
            }
            Event::Arrive(stray) => {
                let request = world.strays.remove(usize::from(stray));
                world.server.apply(request, rules);
            }
            Event::NewIsOver => {
                let is_waited_for = |lease| !self.is_renewed(lease, rules);
                if !self.world.server.new || self.world.older.members().any(is_waited_for) {
                    return None;
                }
                self.world.server.new = false;
            }
            Event::Create => {
                if world.server.fleet.is_some() {
                    return None;
                }
                let put_at = world.newest.put_at;
                self.create(put_at, rules);
            }
            Event::Lose => {
                faults.losses = faults.losses.checked_sub(1)?;
                world.server = Server::empty();
                self.harm(Leases::default());
            }
            Event::Snapshot => {
                if world.snapshot.is_some() || world.server.fleet.is_none() {
                    return None;
                }
                world.snapshot = Some(Box::new(world.server.clone()));
            }
            Event::Restore => {
                faults.restores = faults.restores.checked_sub(1)?;
                world.server = *world.snapshot.take()?;
                world.strays.clear();
                world.rolled_back = true;
                self.harm(used);
            }
            Event::RestoreAsAnnounced => {
                faults.announced = faults.announced.checked_sub(1)?;
                world.server = *world.snapshot.take()?;
                world.strays.clear();
                let put_at = world.newest.put_at + 1;
                self.create(put_at, rules);
                self.harm(Leases::default());
            }
            Event::Revoke(lease) => {
                faults.revokes = faults.revokes.checked_sub(1)?;
                world.server.revoke(lease);
                let mut revoked = Leases::default();
                revoked.insert(lease);
                self.harm(revoked.and(used));
            }
            Event::Break(lease) => {
                faults.breaks = faults.breaks.checked_sub(1)?;
                if rules.break_marks {
                    world.server.broken.insert(lease);
                } else {
                    world.server.revoke(lease);
                }
            }
        }
        Some(())
    }

    /// The deadline passes, and each process that can ends the work.
    fn pass(&mut self, lease: Lease, rules: &Rules) {
        self.world.passed.insert(lease);
        for (who, actor) in (0..).zip(&mut self.actors) {
            match actor {
                Actor::Claimer(claimer) if lease == who * 4 => claimer.pass(&mut self.world, rules),
                Actor::Claimer(_) => {}
                Actor::Agent(agent) => agent.pass(lease, &mut self.world, rules),
            }
        }
    }

    fn create(&mut self, put_at: u8, rules: &Rules) {
        let fleet = Fleet {
            nonce: self.world.newest.nonce + 1,
            put_at,
        };
        self.world.newest = fleet;
        self.world.server.create(fleet, rules);
        self.world.older = self.deadlines();
    }
}
