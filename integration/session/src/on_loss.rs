//! The choice of what happens to the command when its lock is lost.

use nix::sys::signal::Signal;

/// The choice of what happens to the command when its lock is lost: it is ended, runs on, or gets a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLoss {
    /// The command is ended, with all that it has started.
    #[default]
    Kill,
    /// The command runs on, and a warning tells of the loss.
    Warn,
    /// The command gets this signal, and runs on; a warning tells of the loss.
    Signal(Signal),
}

impl OnLoss {
    /// The signals that a command may ask for.
    const SIGNALS: [Signal; 5] = [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
    ];

    /// `kill`, `warn`, or `signal:USR1`, in capital letters or not. The error says what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let signal = |name: &str| {
            let name = name.strip_prefix("SIG").unwrap_or(name);
            Self::SIGNALS
                .into_iter()
                .find(|signal| signal.as_str().strip_prefix("SIG") == Some(name))
        };
        match (
            upper.as_str(),
            upper.strip_prefix("SIGNAL:").and_then(signal),
        ) {
            ("KILL", _) => Ok(Self::Kill),
            ("WARN", _) => Ok(Self::Warn),
            (_, Some(signal)) => Ok(Self::Signal(signal)),
            _ => Err(format!(
                "{text:?} is neither of kill, warn, signal:NAME (HUP, INT, TERM, USR1, USR2)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_loss_means_is_one_of_a_short_list() {
        let parsed = |text: &str| OnLoss::parse(text).ok();
        assert_eq!(
            (parsed("kill"), parsed("WARN")),
            (Some(OnLoss::Kill), Some(OnLoss::Warn))
        );
        for signal in OnLoss::SIGNALS {
            let name = signal.as_str().trim_start_matches("SIG");
            for text in [
                format!("signal:{name}"),
                format!("signal:SIG{name}"),
                format!("signal:{name}").to_lowercase(),
            ] {
                assert_eq!(parsed(&text), Some(OnLoss::Signal(signal)), "{text}");
            }
        }
        for text in [
            "",
            "signal",
            "signal:",
            "signal:SIG",
            "signal:KILL",
            "signal:9",
            "signal:SIGSIGHUP",
            "USR1",
        ] {
            let error = OnLoss::parse(text).unwrap_err();
            assert!(
                error.ends_with(
                    " is neither of kill, warn, signal:NAME (HUP, INT, TERM, USR1, USR2)"
                ),
                "{error}"
            );
        }
    }
}
