//! The options that one place gives: the command line with the environment, a `[[database]]`, or the top of the file.
//! They override the places after it, and the built-in values come last.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::options::{Agent, BuiltIn, Policy};

/// The options that were given there.
#[derive(Debug, Clone, Default)]
pub(super) struct GivenOptions(Option<ArgMatches>);

impl GivenOptions {
    /// Without the built-in values, and without the roots: those of all places add up.
    pub(super) fn of(mut matches: ArgMatches) -> Self {
        let names: Vec<String> = matches.ids().map(|id| id.as_str().to_owned()).collect();
        for name in names {
            if name == "root" || matches.value_source(&name) == Some(ValueSource::DefaultValue) {
                let _ = matches.try_clear_id(&name);
            }
        }
        Self(Some(matches))
    }

    fn says(&self, name: &str) -> bool {
        self.0.as_ref().is_some_and(|matches| matches.contains_id(name))
    }

    fn tell(&self, options: &mut impl FromArgMatches) {
        if let Some(matches) = &self.0 {
            // It never fails: what is there was read by the same options.
            let _ = options.update_from_arg_matches(matches);
        }
    }
}

impl Policy {
    /// What holds when each of these places beats the ones before it.
    pub(super) fn of<'a>(mut self, places: impl IntoIterator<Item = &'a GivenOptions>) -> Self {
        for said in places {
            // They are one setting: each beats the other of a place below.
            if said.says("exec") || said.says("action") {
                (self.exec, self.action) = (None, BuiltIn::default());
            }
            said.tell(&mut self);
        }
        self
    }
}

impl Agent {
    /// What holds when each of these places beats the ones before it.
    pub(super) fn of<'a>(mut self, places: impl IntoIterator<Item = &'a GivenOptions>) -> Self {
        for said in places {
            said.tell(&mut self);
        }
        self
    }
}

/// The options of [`Policy`] or of [`Agent`], in their order.
pub(super) fn options<T: Args>() -> Vec<Arg> {
    T::augment_args(Command::new("options")).get_arguments().cloned().collect()
}

/// Their names.
pub(super) fn names<T: Args>() -> Vec<String> {
    options::<T>().iter().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
}
