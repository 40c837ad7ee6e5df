//! An agent runs nothing that another user may have put there: as root or as anybody else, also while that user
//! exchanges directories. Only root can have such scenes.

mod every_user;
mod swapped;

/// The user that the others must not work for.
const SOMEBODY: u32 = 54_321;
