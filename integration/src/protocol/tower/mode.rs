//! What an intent does to the world, and so whether it locks (section 9 in docs/protocols/tower.md#the-requirements).

use clap::ValueEnum;

/// An intent's mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Mode {
    /// It reads: takes no lock and is blocked by none.
    Observe,
    /// It changes things: locks where it names a lock.
    #[default]
    Mutate,
    /// It brings things to a wanted state: locks like [`Mode::Mutate`].
    Reconcile,
}

impl Mode {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "observe" => Some(Self::Observe),
            "mutate" => Some(Self::Mutate),
            "reconcile" => Some(Self::Reconcile),
            _ => None,
        }
    }

    /// The sentence for an intent that names no lock; `None` for one that needs none.
    pub fn without_lock(self) -> Option<&'static str> {
        match self {
            Self::Observe => None,
            Self::Mutate => Some("Mutate intent without lock - concurrent execution possible"),
            Self::Reconcile => Some("Reconcile intent without lock - concurrent execution possible"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_command_line() {
        for mode in Mode::value_variants() {
            let word = mode.to_possible_value().unwrap().get_name().to_owned();
            assert_eq!(Mode::parse(&word), Some(*mode));
        }
        assert_eq!(Mode::parse("Observe"), None);
    }
}
