//! The claim of one target, and where that is a database that has joined a fleet, the claim in it.

use beadlock_claim::audit_trail::AuditTrail;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;
use beadlock_claim::fleet;
use beadlock_claim::request::{ClaimRequest, LockDraft};
use beadlock_session::kernel_claim::KernelClaim;
use beadlock_session::on_loss::OnLoss;
use beadlock_session::{record_claim::RecordClaim, session_claim::SessionClaim};

/// Under an outer claim of the same clone the fleet is not asked: that claim is proof enough.
pub fn claim<'a>(
    request: ClaimRequest,
    on_loss: OnLoss,
    trail: &'a AuditTrail<'a>,
    environment: &'a Environment,
) -> Result<Box<dyn SessionClaim + 'a>, Error> {
    #[cfg(feature = "fleet")]
    if request.outer.is_none() && !request.options.has_fleet_right {
        use crate::fleet::{InFleet, Joined};
        if let Some(joined) = Joined::of(&request.target, environment)? {
            joined.refuse_claim(on_loss, environment)?;
            let patience = (request.wait, request.drain);
            let names = (request.holder.clone(), request.id.clone());
            // The claim in the fleet comes next, and is its right.
            let mut request = request;
            request.options.has_fleet_right = true;
            let local = here(request, trail, environment)?;
            return Ok(Box::new(InFleet::around(
                local, joined, names, patience, trail,
            )));
        }
    }
    #[cfg(not(feature = "fleet"))]
    let _ = on_loss;
    here(request, trail, environment)
}

/// The claim on this machine.
fn here<'a>(
    request: ClaimRequest,
    trail: &'a AuditTrail<'a>,
    environment: &'a Environment,
) -> Result<Box<dyn SessionClaim + 'a>, Error> {
    Ok(match request.draft {
        LockDraft::Kernel(kernel, mode) => {
            Box::new(KernelClaim::new(request, kernel, mode, trail, environment)?)
        }
        LockDraft::Record(_) => Box::new(RecordClaim::new(request, trail, environment)?),
    })
}

/// Says which of the databases are claimed without their fleets, where that was typed.
pub fn waive(requests: &[ClaimRequest], trails: &[AuditTrail<'_>]) -> Result<(), Error> {
    let mut claimed = requests
        .iter()
        .zip(trails)
        .filter(|(request, _)| request.outer.is_none() && request.options.has_fleet_right);
    claimed.try_for_each(|(request, trail)| fleet::waive(&request.target, trail))
}
