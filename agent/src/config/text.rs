//! Values as they are typed, for a file.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use beadlock_checker::internal::address::Address;
use beadlock_checker::internal::escape::escaped_path;
use clap::ValueEnum;
use serde::ser::{Error, Serializer};

/// A duration to the nanosecond.
pub(super) fn duration<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    let exact = jiff::SignedDuration::try_from(*duration);
    to.serialize_str(&exact.map_or_else(|_| format!("{}s", duration.as_secs()), |exact| format!("{exact:#}")))
}

/// The name that the command line has for it.
pub(super) fn name<S: Serializer>(value: &impl ValueEnum, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.to_possible_value().as_ref().map_or("", |value| value.get_name()))
}

/// A size to the byte.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
pub(super) fn size<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes.trailing_zeros() >= *shift);
    to.serialize_str(
        &unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift)),
    )
}

/// A path or a command.
pub(super) fn some_words<S: Serializer>(words: &Option<impl AsRef<OsStr>>, to: S) -> Result<S::Ok, S::Error> {
    match words {
        Some(words) => to.serialize_str(utf8(words.as_ref())?),
        None => to.serialize_none(),
    }
}

/// Paths.
pub(super) fn all_words<S: Serializer>(all: &[impl AsRef<OsStr>], to: S) -> Result<S::Ok, S::Error> {
    let all: Vec<&str> = all.iter().map(|words| utf8(words.as_ref())).collect::<Result<_, S::Error>>()?;
    to.collect_seq(all)
}

/// An address.
pub(super) fn some_address<S: Serializer>(address: &Option<Address>, to: S) -> Result<S::Ok, S::Error> {
    match address {
        Some(Address::Tcp(address)) => to.collect_str(address),
        Some(Address::Unix(path)) => to.serialize_str(&format!("unix:{}", utf8(path.as_os_str())?)),
        None => to.serialize_none(),
    }
}

/// TOML is UTF-8.
pub(super) fn utf8<E: Error>(text: &OsStr) -> Result<&str, E> {
    let refused = || E::custom(format!("{} is not UTF-8, and TOML is", escaped_path(Path::new(text))));
    text.to_str().ok_or_else(refused)
}
