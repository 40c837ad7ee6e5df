//! What the library of the fleet says went wrong, as the contract has it.

use std::time::Duration;

use beadlock_fleet::Kind;

use super::{Code, Error};

impl From<beadlock_fleet::Error> for Error {
    fn from(error: beadlock_fleet::Error) -> Self {
        let code = match error.kind() {
            Kind::Unreachable | Kind::New => Code::FleetUnreachable,
            Kind::Refused | Kind::NotPermitted => Code::NotPermitted,
            Kind::NoFleet | Kind::OtherFleet | Kind::NoName | Kind::NotJoined => Code::NoTarget,
            Kind::Config | Kind::Usage => Code::Usage,
            Kind::TooOld | Kind::NoConfig | Kind::Mark | Kind::Io => Code::Io,
        };
        let words = Self::new(code, error.to_string());
        if error.kind().is_retryable() {
            words.retry_after(Duration::from_secs(5))
        } else {
            words
        }
    }
}
