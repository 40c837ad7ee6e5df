//! Errors of the fleet library, as the errors and exit codes of the contract.

use beadlock_claim::error::Problem;
use std::time::Duration;

use beadlock_fleet::Kind;

use beadlock_claim::error::{Code, Error};

/// The error of the fleet's library as one of beadlock.
pub fn fleet_error(error: beadlock_fleet::Error) -> Error {
    let code = match error.kind() {
        Kind::Unreachable | Kind::New => Code::FleetUnreachable,
        Kind::Refused | Kind::NotPermitted => Code::NotPermitted,
        Kind::NoFleet | Kind::OtherFleet | Kind::NoName | Kind::NotJoined => Code::NoTarget,
        Kind::Config | Kind::Usage => Code::Usage,
        Kind::TooOld | Kind::NoConfig | Kind::Mark | Kind::Io => Code::Io,
    };
    let words = Error::new(code, error.to_string());
    if error.kind().is_retryable() {
        words.retry_after(Duration::from_secs(5))
    } else {
        words
    }
}
