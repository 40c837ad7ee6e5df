//! The participants of a round: drawn by dice.

use beadlock_tests::Dice;

/// How many at once.
pub const CONTENDERS: usize = 8;

/// What one of them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Claims, works, releases.
    Claim,
    /// A daemon that knows the gate: cycle after cycle.
    Cycle,
    /// A daemon that only asks, again and again.
    Check,
    /// Knows nothing of the gate: looks, and writes over what is dead.
    InPlace,
    /// The same by a rename over what is dead.
    ByRename,
}

/// The contenders of one round.
pub type Cast = [Role; CONTENDERS];

/// Draws who takes part. `two_in_place`: there may be two writers in place at a time, which leases alone are safe
/// against.
pub fn draw(dice: &mut Dice, two_in_place: bool) -> Cast {
    let mut cast = [Role::Claim; CONTENDERS];
    // Half of the rounds are for claims alone.
    if dice.below(2) == 0 {
        for role in &mut cast[1..] {
            *role = [Role::Claim, Role::Cycle, Role::Check][dice.below(3) as usize];
        }
    }
    let writers: &[Role] = match dice.below(if two_in_place { 5 } else { 4 }) {
        0 => &[],
        1 => &[Role::InPlace],
        2 => &[Role::ByRename],
        3 => &[Role::InPlace, Role::ByRename],
        _ => &[Role::InPlace, Role::InPlace],
    };
    // Beside daemons alone now and then: no claim that may come in between.
    if !writers.is_empty() && dice.below(4) == 0 {
        cast = cast.map(|role| {
            if role == Role::Claim {
                Role::Check
            } else {
                role
            }
        });
    }
    cast[CONTENDERS - writers.len()..].copy_from_slice(writers);
    cast
}
