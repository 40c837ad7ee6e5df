//! Errors of the fleet library, as the errors and exit codes of the contract.

use beadlock_claim::error::Problem;
use std::time::Duration;

use beadlock_fleet::ErrorKind;

use beadlock_claim::error::{Code, Error};

/// The error of the fleet's library as one of beadlock.
pub fn fleet_error(error: beadlock_fleet::Error) -> Error {
    let code = match error.kind() {
        ErrorKind::Unreachable | ErrorKind::New => Code::FleetUnreachable,
        ErrorKind::Refused | ErrorKind::NotPermitted => Code::NotPermitted,
        ErrorKind::NoFleet | ErrorKind::OtherFleet | ErrorKind::NoName | ErrorKind::NotJoined => {
            Code::NoTarget
        }
        ErrorKind::Config | ErrorKind::Usage => Code::Usage,
        ErrorKind::TooOld | ErrorKind::NoConfig | ErrorKind::Mark | ErrorKind::Io => Code::Io,
    };
    let words = Error::new(code, error.to_string());
    if error.kind().is_retryable() {
        words.retry_after(Duration::from_secs(5))
    } else {
        words
    }
}
