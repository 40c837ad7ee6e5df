//! What the fleet of a database says of it, for commands that look.

use beadlock_base::escape::escaped;
use beadlock_fleet::{Fleet, SeenClaim};
use serde_json::{Value, json};

use super::Joined;
use crate::claim::{fleet::has_joined, target::Target};
use crate::error::Error;
use crate::settings::environment::Environment;

/// One look; it changes nothing.
pub struct FleetSight {
    joined: Result<Joined, Error>,
    claim: Result<Option<FleetClaimSeen>, Error>,
}

/// A claim that stands.
pub struct FleetClaimSeen {
    pub claim: SeenClaim,
    token: Option<u64>,
}

impl FleetSight {
    /// Of a target; `None`: it has not joined a fleet.
    pub fn of(target: &Target, environment: &Environment) -> Option<Self> {
        if matches!(has_joined(target), Ok(false)) {
            return None;
        }
        let joined = Joined::of(target, environment).transpose()?;
        let claim = joined
            .as_ref()
            .map_err(Error::clone)
            .and_then(Joined::claim);
        Some(Self { joined, claim })
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let name = self
            .joined
            .as_ref()
            .map(|joined| format!("{} ", joined.mark.name))
            .unwrap_or_default();
        match &self.claim {
            Ok(None) => format!("fleet: {name}is free there; who is in it: beadlock fleet status"),
            Ok(Some(seen)) => {
                let value = &seen.claim.value;
                let (holder, host, pid) = (escaped(&value.holder), escaped(&value.host), value.pid);
                format!(
                    "fleet: {name}is claimed by {holder} (PID {pid} on {host}) since {}",
                    value.started_at
                )
            }
            Err(error) => format!("fleet: {name}is not to be seen: {error}"),
        }
    }

    /// The same for programs.
    pub fn json(&self) -> Value {
        let joined = self.joined.as_ref().ok();
        let seen = self.claim.as_ref().ok().and_then(Option::as_ref);
        json!({
            "name": joined.map(|joined| joined.mark.name.as_str()),
            "url": joined.map(|joined| joined.config.url()),
            "claim": seen.map(FleetClaimSeen::json),
            "error": self.claim.as_ref().err().map(ToString::to_string),
        })
    }
}

impl FleetClaimSeen {
    pub fn json(&self) -> Value {
        let SeenClaim { value, session, .. } = &self.claim;
        json!({
            "id": value.id, "holder": value.holder, "host": value.host, "pid": value.pid,
            "started_at": value.started_at, "phase": value.phase, "token": self.token,
            "session": session.to_string(),
        })
    }
}

impl Joined {
    /// The claim that stands on the database in its fleet.
    pub fn claim(&self) -> Result<Option<FleetClaimSeen>, Error> {
        let fleet = Fleet::of_mark(&self.config, &self.mark)?;
        let claim = fleet.claim_of(&self.mark.name)?;
        Ok(claim.map(|claim| FleetClaimSeen {
            token: fleet.token(&claim),
            claim,
        }))
    }
}
