//! A new fleet: nobody may begin anything for T, since what ran under an earlier one may still have to end.
//!
//! `new` is put without a lease at first, and gets one when the fleet is known to be there. A lease that was granted
//! before might be almost over when the fleet comes into being, because the request was late; then `new` would go too
//! early. If the process that makes the fleet ends in between, `new` stays: nobody begins anything until somebody
//! else says `create` again.

use std::time::Duration;

use beadlock_core::facts;

use super::Fleet;
use crate::etcd::{CallFailure, Client, Compare, Op, Txn, http::code};
use crate::keys::{FleetKeys, Lease};
use crate::record::{TOKENS_END, written};
use crate::transactions::KnownFleet;
use crate::{Config, Error, ErrorKind, FleetValue, connect};

/// Tokens of a new fleet begin below this, so that enough are left.
const LATEST_BASE: u64 = TOKENS_END / 2;

/// The first version that knows fleets.
const FIRST_VERSION: &str = "0.1.0";

/// Result of [`Fleet::create`].
#[derive(Debug)]
pub struct Created {
    /// The fleet that is there now.
    pub fleet: Fleet,
    /// Whether this call has made the fleet.
    pub is_new: bool,
}

impl Fleet {
    /// Makes the fleet of the configuration. Its tokens are above `above`. A fleet that is there already stays as it
    /// is.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`]: no token can be above `above`. As [`Fleet::open`] besides, without [`ErrorKind::NoFleet`].
    pub fn create(config: &Config, above: Option<u64>) -> Result<Created, Error> {
        let client = Client::new(config.clone())?;
        let value = FleetValue {
            nonce: facts::random_id(),
            base: base(above)?,
            min_version: FIRST_VERSION.to_owned(),
        };
        let (keys, bytes) = (FleetKeys::below(client.config().prefix()), written(&value));
        let (fleet, new) = (keys.fleet(), keys.new_fleet());
        let make = Txn::when(&[Compare::Absent(&fleet)])
            .then(&[Op::Put(&fleet, &bytes, None), Op::Put(&new, b"", None)])
            .otherwise(&[Op::Get(&fleet)]);
        let mut answer = client
            .txn(&make)
            .map_err(|failure| failure.error(&client))?;
        let is_new =
            answer.succeeded || answer.next_one().is_some_and(|found| found.value == bytes);
        let known = match is_new {
            true => KnownFleet { keys, value, bytes },
            false => connect::fleet(&client)?,
        };
        end_of_new(&client, &known).map_err(|failure| failure.error(&client))?;
        Ok(Created {
            fleet: Self { client, known },
            is_new,
        })
    }

    /// Time, at most, until claims and cycles may begin in a new fleet; `None`: the fleet is old enough.
    ///
    /// # Errors
    /// As [`Fleet::open`].
    pub fn is_new(&self) -> Result<Option<Duration>, Error> {
        let key = self.known.keys.new_fleet();
        let Some(found) = self.txn(&Txn::look(&[Op::Get(&key)]))?.next_one() else {
            return Ok(None);
        };
        let left = self.client.lease_left(Lease(found.lease)).ok().flatten();
        Ok(Some(left.map_or(crate::T, |lease| lease.left)))
    }
}

/// Gives `new` a lease of T, where it is there without one.
fn end_of_new(client: &Client, known: &KnownFleet) -> Result<(), CallFailure> {
    let (fleet, new) = (known.keys.fleet(), known.keys.new_fleet());
    for _ in 0..3 {
        let found = client.txn(&Txn::look(&[Op::Get(&new)]))?.next_one();
        if found.is_none_or(|found| found.lease != 0) {
            return Ok(());
        }
        let lease = Lease::random().map_err(|error| CallFailure::Silent(error.to_string()))?;
        client.grant(lease)?;
        let without = Lease(0);
        let put = Txn::when(&[
            Compare::Value(&fleet, &known.bytes),
            Compare::Present(&new),
            Compare::Lease(&new, without),
        ])
        .then(&[Op::Put(&new, b"", Some(lease))]);
        match client.txn(&put) {
            // The lease was over when the request arrived.
            Err(CallFailure::Refused(code::NOT_FOUND, _)) => {}
            Err(failure) => return Err(failure),
            Ok(answer) if answer.succeeded => return Ok(()),
            Ok(_) => client.revoke(lease)?,
        }
    }
    Ok(())
}

/// The number from which the tokens of a new fleet are counted: microseconds since 1970, or `above` where that is
/// more.
fn base(above: Option<u64>) -> Result<u64, Error> {
    let now = facts::now()
        .to_system_time()
        .and_then(|now| now.duration_since(std::time::UNIX_EPOCH).ok());
    let now = now
        .and_then(|since| u64::try_from(since.as_micros()).ok())
        .unwrap_or_default();
    let base = now.max(above.unwrap_or_default());
    if base < LATEST_BASE {
        return Ok(base);
    }
    let words = format!(
        "tokens above {base} would not stay below 2^53: --above is at most {}",
        LATEST_BASE - 1
    );
    Err(Error::new(ErrorKind::Usage, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_a_new_fleet_are_above_all_earlier_ones() {
        let now = base(None).unwrap();
        assert!(base(Some(7)).unwrap() >= now, "never below the clock");
        assert_eq!(base(Some(LATEST_BASE - 1)).unwrap(), LATEST_BASE - 1);
        for above in [LATEST_BASE, TOKENS_END, u64::MAX] {
            assert_eq!(base(Some(above)).unwrap_err().kind(), ErrorKind::Usage);
        }
    }
}
