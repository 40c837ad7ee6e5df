//! The claim of one target, and where that is a database that has joined a fleet, the claim in it.

use crate::claim::{fleet, session_claim::SessionClaim};
use crate::error::Error;
use crate::output::trail::Trail;
use crate::protocol::session_claim;
use crate::settings::{Claim, OnLoss, environment::Environment};

use super::wanted::Named;

/// Under an outer claim of the same clone the fleet is not asked: that claim is proof enough.
pub fn claim<'a>(
    named: Named,
    settings: &Claim,
    on_loss: OnLoss,
    trail: &'a Trail<'a>,
    environment: &'a Environment,
) -> Result<Box<dyn SessionClaim + 'a>, Error> {
    #[cfg(feature = "fleet")]
    if named.outer.is_none() && !settings.options.has_fleet_right {
        use crate::run::fleet::{InFleet, Joined};
        if let Some(joined) = Joined::of(&named.target, environment)? {
            joined.refuse_claim(on_loss, environment)?;
            let patience = settings.patience(named.target.protocol.rules().default_wait);
            let names = (named.holder.clone(), named.id.clone());
            let local = claim(
                named,
                &settings.clone().with_fleet_right(),
                on_loss,
                trail,
                environment,
            )?;
            return Ok(Box::new(InFleet::around(
                local, joined, names, patience, trail,
            )));
        }
    }
    #[cfg(not(feature = "fleet"))]
    let _ = on_loss;
    let Named {
        target,
        words,
        holder,
        id,
        outer,
    } = named;
    session_claim(
        target,
        words,
        (holder, id, outer),
        settings,
        trail,
        environment,
    )
}

/// Says which of the databases are claimed without their fleets, where that was typed.
pub fn waive(named: &[Named], trails: &[Trail<'_>], settings: &Claim) -> Result<(), Error> {
    if !settings.options.has_fleet_right {
        return Ok(());
    }
    let mut claimed = named
        .iter()
        .zip(trails)
        .filter(|(named, _)| named.outer.is_none());
    claimed.try_for_each(|(named, trail)| fleet::waive(&named.target, trail))
}
