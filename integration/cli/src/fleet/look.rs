//! The answers of a database's fleet, for commands that look.

use beadlock_base::escape::escaped;
use beadlock_fleet::{Fleet, SeenClaim};
use serde_json::{Value, json};

use super::Joined;
use crate::fleet::error::fleet_error;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::{fleet::has_joined, target::Target};
use beadlock_oncall::status::FleetSight;

/// A claim that stands.
pub struct FleetClaimSeen {
    pub claim: SeenClaim,
    token: Option<u64>,
}

/// One look at the fleet of a target; it changes nothing. `None`: it has not joined a fleet.
pub fn look_at_fleet(target: &Target, environment: &Environment) -> Option<FleetSight> {
    if matches!(has_joined(target), Ok(false)) {
        return None;
    }
    let joined = Joined::of(target, environment).transpose()?;
    let claim = joined
        .as_ref()
        .map_err(Error::clone)
        .and_then(Joined::claim);
    let joined = joined.as_ref().ok();
    let name = joined.map(|joined| joined.mark.name.as_str());
    let line = match &claim {
        Ok(None) => "is free there; who is in it: beadlock fleet status".to_owned(),
        Ok(Some(seen)) => {
            let value = &seen.claim.value;
            let (holder, host, pid) = (escaped(&value.holder), escaped(&value.host), value.pid);
            format!(
                "is claimed by {holder} (PID {pid} on {host}) since {}",
                value.started_at
            )
        }
        Err(error) => format!("is not to be seen: {error}"),
    };
    let shown = name.map(|name| format!("{name} ")).unwrap_or_default();
    let seen = claim.as_ref().ok().and_then(Option::as_ref);
    Some(FleetSight {
        line: format!("fleet: {shown}{line}"),
        json: json!({
            "name": name,
            "url": joined.map(|joined| joined.config.url()),
            "claim": seen.map(FleetClaimSeen::json),
            "error": claim.as_ref().err().map(ToString::to_string),
        }),
    })
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
        let fleet = Fleet::of_mark(&self.config, &self.mark).map_err(fleet_error)?;
        let claim = fleet.claim_of(&self.mark.name).map_err(fleet_error)?;
        Ok(claim.map(|claim| FleetClaimSeen {
            token: fleet.token(&claim),
            claim,
        }))
    }
}
