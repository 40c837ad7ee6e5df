//! Where the fleet of this user is (docs/fleet.md): the environment says where its configuration file may be.

use beadlock_fleet::{Config, Places};

use crate::fleet::error::fleet_error;
use beadlock_claim::environment::Environment;
use beadlock_claim::error::Error;

/// The places where the fleet's configuration file may be.
pub fn places(environment: &Environment) -> Places {
    let variable = |name| environment.get(name);
    let cwd = environment.of_database().cwd;
    Places::of(
        variable("BEADLOCK_FLEET_CONFIG"),
        variable("XDG_CONFIG_HOME"),
        variable("HOME"),
        &cwd,
    )
}

/// The configuration: exit 1 where there is none, 2 where it is wrong.
pub fn config(environment: &Environment) -> Result<Config, Error> {
    Config::read(&places(environment)).map_err(fleet_error)
}
