//! Which room imports from which, and the circles in that.

use std::collections::{BTreeMap, BTreeSet};

/// From room to room, and the places where: `claim/loss.rs has target::Found`.
pub type Arrows = BTreeMap<(String, String), Vec<String>>;

/// The circles, the largest first: rooms that all lead to each other.
pub fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let rooms: BTreeSet<&String> = arrows.keys().flat_map(|(from, to)| [from, to]).collect();
    let reached: BTreeMap<&String, BTreeSet<&String>> = rooms
        .iter()
        .map(|room| (*room, reached_from(room, arrows)))
        .collect();
    let leads = |from: &String, to: &String| reached.get(from).is_some_and(|all| all.contains(to));
    let mut circles = BTreeSet::new();
    for room in &rooms {
        let around: Vec<String> = rooms
            .iter()
            .filter(|other| leads(room, other) && leads(other, room))
            .map(ToString::to_string)
            .collect();
        if around.len() > 1 {
            circles.insert(around);
        }
    }
    let mut circles: Vec<Vec<String>> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn reached_from<'a>(room: &String, arrows: &'a Arrows) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![room];
    while let Some(room) = ahead.pop() {
        for (_, to) in arrows.keys().filter(|(from, _)| from == room) {
            if reached.insert(to) {
                ahead.push(to);
            }
        }
    }
    reached
}
