//! How the file has the values of the options, for serde: what is written is read as the same. A text or a number means
//! what it does on the command line.
//!
//! An error has the place of its value, but not the key.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_base::address::Address;
use beadlock_base::escape::escaped_path;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer, Serializer, de, ser};
use toml::Value;

use super::options;
use crate::log;

/// Reads a value by `read`, whose error says what it must be.
fn value<'de, D: Deserializer<'de>, T>(
    from: D,
    read: impl FnOnce(&Value) -> Result<T, String>,
) -> Result<T, D::Error> {
    // It fails for what TOML does not have: a number from 2^63 on, say.
    let value = Value::deserialize(from).unwrap_or(Value::Float(f64::INFINITY));
    read(&value).map_err(de::Error::custom)
}

/// Reads a text or a number as the command line does.
fn typed<'de, D: Deserializer<'de>, T, E: Display>(
    from: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    value(from, |value| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Float(number) if number.is_infinite() => {
                return Err("must be a text in quotes, or a number below 2^63".to_owned());
            }
            Value::Integer(_) | Value::Float(_) => value.to_string(),
            _ => return Err("must be a text in quotes, or a number".to_owned()),
        };
        parse(&text).map_err(|why| why.to_string())
    })
}

pub(super) fn read_above_zero<'de, D: Deserializer<'de>, T: From<Duration>>(
    from: D,
) -> Result<T, D::Error> {
    typed(from, options::above_zero).map(T::from)
}

pub(super) fn read_at_most_a_year<'de, D: Deserializer<'de>, T: From<Duration>>(
    from: D,
) -> Result<T, D::Error> {
    typed(from, options::at_most_a_year).map(T::from)
}

/// Writes a duration exactly, to the nanosecond.
pub(super) fn write_duration<S: Serializer>(
    duration: &(impl Into<Option<Duration>> + Copy),
    to: S,
) -> Result<S::Ok, S::Error> {
    match (*duration).into().map(jiff::SignedDuration::try_from) {
        Some(exact) => to.collect_str(&format_args!("{:#}", exact.map_err(ser::Error::custom)?)),
        None => to.serialize_none(),
    }
}

pub(super) fn read_flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    value(from, |value| {
        value.as_bool().ok_or("must be true or false".to_owned())
    })
}

/// Reads one of the names that the command line has for the values.
pub(super) fn read_name<'de, D: Deserializer<'de>, T: ValueEnum>(from: D) -> Result<T, D::Error> {
    value(from, |value| {
        let named = value
            .as_str()
            .and_then(|name| T::from_str(name, false).ok());
        named.ok_or_else(|| {
            let all = T::value_variants().iter().filter_map(T::to_possible_value);
            let names = all.map(|value| format!("{:?}", value.get_name()));
            format!("must be {}", names.collect::<Vec<_>>().join(" or "))
        })
    })
}

pub(super) fn write_name<S: Serializer>(value: &impl ValueEnum, to: S) -> Result<S::Ok, S::Error> {
    let value = value.to_possible_value();
    to.serialize_str(value.as_ref().map_or("", |value| value.get_name()))
}

pub(super) fn read_jobs<'de, D: Deserializer<'de>>(from: D) -> Result<NonZeroUsize, D::Error> {
    typed(from, |text| {
        options::jobs(text).map_err(|why| format!("{text:?} is no number of cycles: {why}"))
    })
}

pub(super) fn read_fetch_jobs<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<NonZeroUsize, D::Error> {
    typed(from, options::jobs)
}

pub(super) fn read_keep<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    typed(from, log::parse_keep)
}

pub(super) fn read_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    typed(from, log::parse_size)
}

/// Writes a size exactly, in the largest unit that divides it; without a unit: bytes.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
pub(super) fn write_size<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")].into_iter();
    let exact = |(shift, _): &(u32, _)| bytes.trailing_zeros() >= *shift;
    let (shift, unit) = units.clone().find(exact).unwrap_or((0, ""));
    to.collect_str(&format_args!("{}{unit}", bytes >> shift))
}

pub(super) fn read_command<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<OsString>, D::Error> {
    value(from, |value| match value.as_str() {
        Some(command) if command.contains('\0') => Err("no command has a NUL in it".to_owned()),
        Some("") => Err("has no command; write exec = './sync.sh'".to_owned()),
        Some(command) => Ok(Some(command.into())),
        None => Err("must be a command, in quotes".to_owned()),
    })
}

pub(super) fn read_path<'de, D: Deserializer<'de>, T: From<PathBuf>>(
    from: D,
) -> Result<T, D::Error> {
    value(from, |value| match value.as_str() {
        Some(text) if text.contains('\0') => Err("no path has a NUL in it".to_owned()),
        Some(text) if !text.is_empty() => Ok(PathBuf::from(text).into()),
        _ => Err("must be a path, in quotes".to_owned()),
    })
}

/// A path or a command.
pub(super) fn write_text<S: Serializer>(
    text: &Option<impl AsRef<OsStr>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => to.serialize_str(utf8(text)?),
        None => to.serialize_none(),
    }
}

pub(super) fn write_paths<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    let paths: Result<Vec<&str>, S::Error> = paths.iter().map(utf8).collect();
    to.collect_seq(paths?)
}

/// # Errors
/// When it is not UTF-8: TOML is.
pub(super) fn utf8<E: ser::Error>(text: &impl AsRef<OsStr>) -> Result<&str, E> {
    let text = text.as_ref();
    text.to_str().ok_or_else(|| {
        let shown = escaped_path(Path::new(text));
        E::custom(format!("{shown} is not UTF-8, and TOML is"))
    })
}

pub(super) fn read_address<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Address>, D::Error> {
    value(from, |value| {
        let text = value.as_str().ok_or("must be an address, in quotes")?;
        Address::parse(OsStr::new(text)).map(Some)
    })
}

pub(super) fn write_address<S: Serializer>(
    address: &Option<Address>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match address {
        Some(Address::Tcp(address)) => to.collect_str(address),
        Some(Address::Unix(path)) => to.collect_str(&format_args!("unix:{}", utf8(path)?)),
        None => to.serialize_none(),
    }
}
