//! In which order the lines of a merged file stand.

use crate::json::Value;
use crate::keys::{LineKey, LineKeys, VERSIONS, Version};
use crate::time::Rank;

/// The keys that the result has, in its order. `is_kept` says for each key whether the result has it.
pub fn merged(keys: &LineKeys<'_>, is_kept: &[bool]) -> Vec<u32> {
    let is_sorted = |version: Version| {
        let lines: Vec<&LineKey<'_>> = keys.sequence(version).map(|key| keys.key(key)).collect();
        lines.iter().all(|key| key.is_record()) && lines.is_sorted()
    };
    let [base, ours, theirs] = VERSIONS.map(|version| -> Vec<u32> {
        let kept = keys.sequence(version).filter(|key| is_kept[*key as usize]);
        kept.collect()
    });
    if is_sorted(Version::Ours) && is_sorted(Version::Theirs) {
        let mut all = ours;
        all.extend(theirs.iter().filter(|key| !keys.has(**key, Version::Ours)));
        all.sort_by(|one, two| keys.key(*one).cmp(keys.key(*two)));
        return all;
    }
    let old = old_keys(keys, &base, &ours, &theirs);
    with_additions(keys, &old, &ours, &theirs)
}

/// The keys of BASE that are still there: in BASE's order, or in that of the side that alone changed it. What only one side
/// still has goes where BASE has it, which is behind the nearest key before it that both have.
fn old_keys(keys: &LineKeys<'_>, base: &[u32], ours: &[u32], theirs: &[u32]) -> Vec<u32> {
    let is_everywhere = |key: &u32| VERSIONS.iter().all(|version| keys.has(*key, *version));
    let [in_base, in_ours, in_theirs] = [base, ours, theirs].map(|sequence| -> Vec<u32> {
        let common = sequence.iter().copied().filter(is_everywhere);
        common.collect()
    });
    let order = if in_ours == in_base {
        &in_theirs
    } else if in_theirs == in_base || in_theirs == in_ours {
        &in_ours
    } else {
        &in_base
    };
    if order == &in_base {
        return base.to_vec();
    }
    // A stable sort puts each key that is not everywhere behind the one that it follows in BASE.
    let mut place = vec![0; keys.count()];
    for (index, key) in order.iter().enumerate() {
        place[*key as usize] = index + 1;
    }
    let mut behind = 0;
    let mut placed: Vec<(usize, u32)> = base
        .iter()
        .map(|&key| {
            if is_everywhere(&key) {
                behind = place[key as usize];
            }
            (behind, key)
        })
        .collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, key)| key).collect()
}

/// Puts what was added behind the nearest old key before it in its own file, the earlier one of two.
fn with_additions(keys: &LineKeys<'_>, old: &[u32], ours: &[u32], theirs: &[u32]) -> Vec<u32> {
    /// Not yet seen.
    const NOWHERE: usize = usize::MAX;
    let mut place = vec![NOWHERE; keys.count()];
    for (index, key) in old.iter().enumerate() {
        place[*key as usize] = index + 1;
    }
    let is_old = |key: u32| keys.has(key, Version::Base);
    for side in [ours, theirs] {
        let mut behind = 0;
        for &key in side {
            let place = &mut place[key as usize];
            match is_old(key) {
                true => behind = *place,
                false => *place = behind.min(*place),
            }
        }
    }
    let added = |side: &[u32]| {
        let mut added: Vec<u32> = side.iter().copied().filter(|key| !is_old(*key)).collect();
        added.sort_by_key(|key| place[*key as usize]);
        added
    };
    let (ours, theirs) = (added(ours), added(theirs));
    let (mut ours, mut theirs) = (ours.as_slice(), theirs.as_slice());
    let mut all = Vec::with_capacity(old.len() + ours.len() + theirs.len());
    let mut additions = Additions::new(keys);
    for here in 0..=old.len() {
        if let Some(last) = here.checked_sub(1) {
            all.push(old[last]);
        }
        let at_this_place = |side: &mut &[u32]| {
            let count = side.partition_point(|key| place[*key as usize] <= here);
            let (now, later) = side.split_at(count);
            *side = later;
            now.to_vec()
        };
        let (from_ours, from_theirs) = (at_this_place(&mut ours), at_this_place(&mut theirs));
        additions.merge(&from_ours, &from_theirs, &mut all);
    }
    all
}

/// Merges two sides' additions at one place.
struct Additions<'k, 'a> {
    keys: &'k LineKeys<'a>,
    is_written: Vec<bool>,
}

/// An addition, and when it was made.
struct Addition {
    key: u32,
    rank: Rank,
}

impl<'k, 'a> Additions<'k, 'a> {
    fn new(keys: &'k LineKeys<'a>) -> Self {
        let is_written = vec![false; keys.count()];
        Self { keys, is_written }
    }

    /// Like two sorted lists, by time and key; the order of each side stays. What both have comes once, when each side
    /// has come to it; if they have come to two such keys in different orders, by time and key as well.
    fn merge(&mut self, ours: &[u32], theirs: &[u32], all: &mut Vec<u32>) {
        if ours.is_empty() || theirs.is_empty() {
            all.extend(ours.iter().chain(theirs));
            return;
        }
        let ranked = |side: &[u32]| -> Vec<Addition> {
            let ranked = side.iter().map(|&key| self.addition(key));
            ranked.collect()
        };
        let (ours, theirs) = (ranked(ours), ranked(theirs));
        let (mut ours, mut theirs) = (ours.as_slice(), theirs.as_slice());
        loop {
            let next = match (self.next(&mut ours), self.next(&mut theirs)) {
                (None, None) => return,
                (Some(next), None) | (None, Some(next)) => next,
                (Some(one), Some(two)) => match (self.is_common(one), self.is_common(two)) {
                    (true, false) => two,
                    (false, true) => one,
                    _ if self.comes_first(one, two) => one,
                    _ => two,
                },
            };
            self.is_written[next.key as usize] = true;
            all.push(next.key);
        }
    }

    /// The first that is not written yet.
    fn next<'s>(&self, side: &mut &'s [Addition]) -> Option<&'s Addition> {
        while let Some((first, rest)) = side.split_first() {
            if !self.is_written[first.key as usize] {
                return Some(first);
            }
            *side = rest;
        }
        None
    }

    fn is_common(&self, addition: &Addition) -> bool {
        let key = addition.key;
        self.keys.has(key, Version::Ours) && self.keys.has(key, Version::Theirs)
    }

    fn comes_first(&self, one: &Addition, two: &Addition) -> bool {
        (&one.rank, self.keys.key(one.key)) <= (&two.rank, self.keys.key(two.key))
    }

    /// The addition of this key, with its time; with the earlier time if the sides have two.
    fn addition(&self, key: u32) -> Addition {
        let lines = self
            .keys
            .lines(key, Version::Ours)
            .chain(self.keys.lines(key, Version::Theirs));
        let values = lines.filter_map(|line| Value::read(line.text));
        let rank = values.map(|value| Rank::of(&value)).min();
        Addition {
            key,
            rank: rank.unwrap_or(Rank::Nothing),
        }
    }
}
