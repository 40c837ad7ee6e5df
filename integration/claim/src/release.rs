//! The release of a claim, with the gate held.

use std::{path::Path, time::Duration};

use beadlock_core::take::{Held, Release};

use super::gate;
use crate::error::Error;
use crate::observe::WaitControl;
use crate::wait::CYCLE;

/// Ends a claim with the gate held, waiting for it at most `patience`, and no longer than until a signal. The guard
/// comes back with an error. No release waits without an end: not for the gate that the claim was to wait for so.
pub fn release(
    held: Held,
    dir: &Path,
    patience: Duration,
    control: &mut dyn WaitControl,
) -> Result<Release, Box<(Held, Error)>> {
    let patience = match patience {
        Duration::MAX => CYCLE,
        patience => patience,
    };
    let gate = match gate::take(dir, &held.reach(), patience, control) {
        Ok(gate) => gate.ok(),
        Err(stopped) => return Err(Box::new((held, stopped.into()))),
    };
    held.release(gate.as_ref())
        .map_err(|(held, error)| Box::new((held, error.into())))
}
