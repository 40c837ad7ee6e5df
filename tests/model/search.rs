//! Searches that `stateright` does not have.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model, Path};

/// Every state, and those from which no way leads to the end.
pub struct Ways<S> {
    pub states: usize,
    pub stuck: Vec<S>,
}

/// Goes through all states, then back from every end over the actions that may be counted on.
///
/// `stateright` has no property for this: its `eventually` looks at one path to each state, and does not see loops.
pub fn ways<M>(
    model: &M,
    is_over: impl Fn(&M::State) -> bool,
    counts: impl Fn(&M::Action) -> bool,
) -> Ways<M::State>
where
    M: Model,
    M::State: Clone + Eq + Hash,
    M::Action: Clone,
{
    let mut numbers = HashMap::new();
    let mut came_from: Vec<Vec<u32>> = Vec::new();
    let mut pending: VecDeque<(u32, M::State)> = (0..).zip(model.init_states()).collect();
    for (number, state) in &pending {
        numbers.insert(state.clone(), *number);
        came_from.push(Vec::new());
    }
    let mut ends = Vec::new();
    let mut actions = Vec::new();
    while let Some((number, state)) = pending.pop_front() {
        if is_over(&state) {
            ends.push(number);
        }
        model.actions(&state, &mut actions);
        for action in actions.drain(..) {
            let Some(next) = model.next_state(&state, action.clone()) else {
                continue;
            };
            let next_number = *numbers.entry(next).or_insert_with_key(|next| {
                let number = u32::try_from(came_from.len()).expect("fewer states");
                came_from.push(Vec::new());
                pending.push_back((number, next.clone()));
                number
            });
            if counts(&action) {
                came_from[next_number as usize].push(number);
            }
        }
    }
    let mut leads_there = vec![false; numbers.len()];
    while let Some(number) = ends.pop() {
        if !std::mem::replace(&mut leads_there[number as usize], true) {
            ends.append(&mut came_from[number as usize]);
        }
    }
    let states = numbers.len();
    let stuck = numbers
        .into_iter()
        .filter(|(_, number)| !leads_there[*number as usize])
        .map(|(state, _)| state);
    Ways {
        states,
        stuck: stuck.collect(),
    }
}

/// The shortest way to where this does not hold. `stateright` keeps the last way that it has found at the time, so it
/// is asked for shorter ones until there is none.
pub fn shortest<M>(model: M, property: &'static str) -> Option<Path<M::State, M::Action>>
where
    M: Model + Clone + Send + Sync + 'static,
    M::State: Hash + Send + Sync + Clone + std::fmt::Debug + PartialEq,
    M::Action: Clone + std::fmt::Debug + PartialEq + Send + Sync,
{
    let mut found: Option<Path<M::State, M::Action>> = None;
    loop {
        let wanted = HasDiscoveries::AllOf(BTreeSet::from([property]));
        let mut checker = model.clone().checker().threads(1).finish_when(wanted);
        if let Some(path) = &found {
            checker = checker.target_max_depth(path.clone().into_actions().len() + 1);
        }
        match checker.spawn_bfs().join().discovery(property) {
            Some(path) => found = Some(path),
            None => return found,
        }
    }
}
