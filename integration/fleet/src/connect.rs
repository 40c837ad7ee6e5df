//! The first look at etcd: which fleet there is.

use crate::etcd::{Client, Op, Txn};
use crate::keys::FleetKeys;
use crate::transactions::KnownFleet;
use crate::{Error, ErrorKind, Mark};

/// Reads `fleet`, which this version must be admitted to.
///
/// # Errors
/// [`ErrorKind::NoFleet`], [`ErrorKind::TooOld`], and what the server says.
pub(crate) fn fleet(client: &Client) -> Result<KnownFleet, Error> {
    let keys = FleetKeys::below(client.config().prefix());
    let fleet = keys.fleet();
    let found = client
        .txn(&Txn::look(&[Op::Get(&fleet)]))
        .map_err(|failure| failure.error(client))?
        .next_one();
    let url = client.config().url();
    let known = KnownFleet::read(keys, found)
        .map_err(|why| Error::new(ErrorKind::NoFleet, format!("{fleet} of {url}: {why}")))?;
    let Some(known) = known else {
        let words = format!("there is no fleet at {url}; to make it, once: beadlock fleet create");
        return Err(Error::new(ErrorKind::NoFleet, words));
    };
    let (version, least) = (env!("CARGO_PKG_VERSION"), &known.value.min_version);
    if !known.value.admits(version) {
        let least = beadlock_base::escape::escaped(least);
        let words =
            format!("the fleet at {url} asks for beadlock {least} or later, and this is {version}");
        return Err(Error::new(ErrorKind::TooOld, words));
    }
    Ok(known)
}

/// Reads `fleet`, which must be the fleet that the mark names.
///
/// # Errors
/// [`ErrorKind::OtherFleet`], and those of `fleet`.
pub(crate) fn fleet_of(client: &Client, mark: &Mark) -> Result<KnownFleet, Error> {
    let known = fleet(client)?;
    if known.value.nonce != mark.fleet {
        return Err(other_fleet(client, mark));
    }
    Ok(known)
}

pub(crate) fn other_fleet(client: &Client, mark: &Mark) -> Error {
    let (name, url) = (&mark.name, client.config().url());
    let words = format!(
        "{name} has joined another fleet than the one at {url}, which was made since or is a different one; if this is \
         the one: beadlock fleet leave, then beadlock fleet join {name}"
    );
    Error::new(ErrorKind::OtherFleet, words)
}

pub(crate) fn no_name(mark: &Mark) -> Error {
    let name = &mark.name;
    let words =
        format!("nobody has joined the fleet under {name}; type: beadlock fleet join {name}");
    Error::new(ErrorKind::NoName, words)
}
