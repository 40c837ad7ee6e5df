//! What a named lock is to say, and whether there is to be one: what was typed, over the intent, over the defaults.

use beadlock_base::escape::escaped;
use beadlock_claim::error::Problem;
use beadlock_core::record::tower::{DEFAULT_TTL, LockName, Record, request_id_is_fit};
use beadlock_core::{facts, record::beads::holder_name_is_fit};
use serde_json::{Map, Value};

use super::TowerArgs;
use super::intent::{Intent, IntentMode, Params};
use crate::targets::{Claimer, Requested};
use beadlock_claim::draft::RecordDraft;
use beadlock_claim::protocol::tower::{in_environment, name_of, user_name};
use beadlock_claim::request::{ClaimRequest, LockDraft};
use beadlock_claim::{environment::Environment, error::Error, target::Target};

/// The longest metadata, as a lock file has it: one is read up to 64 KiB, and the other fields need some of that.
const LONGEST_METADATA: usize = 48 * 1024;
/// How deep metadata may be: a lock file is read up to 128 deep.
const DEEPEST_METADATA: usize = 100;

/// What is typed and what the intent says, before it is known whether there is a lock.
#[derive(Debug)]
pub struct IntentClaim<'a> {
    typed: &'a TowerArgs,
    environment: &'a Environment,
    intent: Option<Intent>,
    params: Params,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockChoice {
    /// No lock is needed: the mode only observes.
    Observe,
    /// No lock is taken, because nothing names one; the sentence that warns of it.
    Unnamed(&'static str),
    Named(LockName),
}

impl<'a> IntentClaim<'a> {
    pub fn resolve(typed: &'a TowerArgs, environment: &'a Environment) -> Result<Self, Error> {
        let params = typed.params()?;
        let intent = typed.intent.as_deref().map(Intent::read).transpose()?;
        Ok(Self {
            typed,
            environment,
            intent,
            params,
        })
    }

    /// The mode that was typed, else that of the intent, else mutate.
    pub fn mode(&self) -> IntentMode {
        let of_intent = || self.intent.as_ref().and_then(|intent| intent.mode);
        self.typed.mode.or_else(of_intent).unwrap_or_default()
    }

    /// Whether there is to be a lock; `named` is the target's name, which beats the intent's.
    pub fn locking(&self, named: Option<&LockName>) -> Result<LockChoice, Error> {
        let Some(warning) = self.mode().without_lock() else {
            return Ok(LockChoice::Observe);
        };
        if let Some(name) = named {
            return Ok(LockChoice::Named(name.clone()));
        }
        let name = self
            .intent
            .as_ref()
            .map(|intent| intent.lock_name(&self.params))
            .transpose()?
            .flatten();
        Ok(name.map_or(LockChoice::Unnamed(warning), LockChoice::Named))
    }

    /// The record to be: without an owner yet, as of now.
    pub fn record(&self, lock_name: LockName) -> Result<Record, Error> {
        let typed = self.typed;
        let intent = self.intent.as_ref();
        let name = typed.intent_name.clone().or_else(|| intent?.name.clone());
        let version = typed
            .intent_version
            .clone()
            .or_else(|| intent?.version.clone());
        let (name, version) = match (name, version) {
            (Some(name), Some(version)) => (name, version),
            (name, version) => return Err(missing(name.is_none(), version.is_none(), intent)),
        };
        let request_id = match &typed.request_id {
            Some(id) if request_id_is_fit(id) => id.clone(),
            Some(id) => {
                return Err(Error::usage(format!(
                    "--request-id \"{}\": wanted are 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-'",
                    escaped(id)
                )));
            }
            None => facts::new_request_id(),
        };
        let now = facts::now();
        Ok(Record {
            lock_name,
            request_id,
            actor: fit("the actor", "--actor NAME", self.actor()?)?,
            intent: fit("the intent's name", "--intent-name NAME", name)?,
            intent_version: fit("the intent's version", "--intent-version VERSION", version)?,
            host_id: fit("the host's name", "--host-id NAME", self.host_id())?,
            pid: 0,
            created_at: now,
            last_heartbeat_at: now,
            ttl_seconds: typed
                .ttl
                .or_else(|| intent?.lock_ttl)
                .unwrap_or(DEFAULT_TTL),
            metadata: Some(typed.metadata.as_deref().map_or(Ok(Map::new()), metadata)?),
            others: Map::new(),
        })
    }

    fn actor(&self) -> Result<String, Error> {
        if let Some(actor) = &self.typed.actor {
            return Ok(actor.clone());
        }
        if let Some(actor) = self
            .environment
            .parsed("ACTOR", |actor| Ok(actor.to_owned()))?
        {
            return Ok(actor);
        }
        Ok(user_name())
    }

    fn host_id(&self) -> String {
        let own = || {
            facts::hostname()
                .map(|name| name.to_string())
                .unwrap_or_default()
        };
        self.typed.host_id.clone().unwrap_or_else(own)
    }
}

fn missing(name: bool, version: bool, intent: Option<&Intent>) -> Error {
    let missing: Vec<&str> = [
        (name, "--intent-name NAME"),
        (version, "--intent-version VERSION"),
    ]
    .into_iter()
    .filter_map(|(is_missing, option)| is_missing.then_some(option))
    .collect();
    let missing = missing.join(" and ");
    Error::usage(match intent {
        None => {
            format!("a named lock says what it is for: {missing}; or --intent FILE, which has them")
        }
        Some(intent) => {
            let keys = match (name, version) {
                (true, true) => "metadata.name and metadata.version",
                (true, false) => "metadata.name",
                _ => "metadata.version",
            };
            format!(
                "{} has no {keys}: write it there, or type {missing}",
                intent.file()
            )
        }
    })
}

fn fit(what: &str, option: &str, name: String) -> Result<String, Error> {
    if holder_name_is_fit(&name) {
        return Ok(name);
    }
    let (shown, count) = (escaped(&name), name.chars().count());
    Err(Error::usage(format!(
        "{what} is 1 to 128 printable characters, and \"{shown}\" is not ({count} characters): {option}"
    )))
}

fn metadata(text: &str) -> Result<Map<String, Value>, Error> {
    let wrong = |why: String| {
        Error::usage(format!(
            "--metadata: {why}; wanted: a JSON object, as '{{\"ticket\": 7}}'"
        ))
    };
    let what =
        match serde_json::from_str(text).map_err(|error| wrong(format!("no JSON ({error})")))? {
            Value::Object(map) => return fitting(map),
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
        };
    Err(wrong(format!("it is {what}")))
}

/// Metadata that fits into a lock file.
fn fitting(map: Map<String, Value>) -> Result<Map<String, Value>, Error> {
    // In a record it is indented once more.
    let json = serde_json::to_string_pretty(&map).unwrap_or_default();
    let length = json.len() + 2 * json.lines().count();
    if length > LONGEST_METADATA {
        return Err(Error::usage(format!(
            "--metadata: it takes {length} bytes of the lock file, and {LONGEST_METADATA} is the most"
        )));
    }
    let deepest = map.values().map(depth).max().unwrap_or(0) + 1;
    if deepest > DEEPEST_METADATA {
        let why = format!("--metadata: it is {deepest} deep, and {DEEPEST_METADATA} is the most");
        return Err(Error::usage(why));
    }
    Ok(map)
}

/// The parser stops at 128, so this does not go deeper.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The claim of the named lock `target`, or of the lock that the intent names.
pub fn request(
    target: Option<Target>,
    typed: &TowerArgs,
    claimer: Claimer<'_>,
) -> Result<Requested, Error> {
    let wanted = IntentClaim::resolve(typed, claimer.environment)?;
    let named = target.as_ref().and_then(name_of);
    let name = match wanted.locking(named.as_ref())? {
        LockChoice::Observe => return Ok(Requested::NoLock(None)),
        LockChoice::Unnamed(warning) => return Ok(Requested::NoLock(Some(warning))),
        LockChoice::Named(name) => name,
    };
    let fields = wanted.record(name.clone())?;
    let target = target.unwrap_or_else(|| in_environment(&name, claimer.environment));
    let (holder, id) = (fields.actor.clone(), fields.request_id.clone());
    let draft = LockDraft::Record(RecordDraft::Tower {
        fields: Box::new(fields),
        about: claimer.about(),
    });
    Ok(ClaimRequest {
        holder,
        id,
        ..claimer.request(target, draft)
    }
    .into())
}

#[cfg(test)]
mod tests;
