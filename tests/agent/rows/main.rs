//! Repositories as people have them. Each row: set up, one cycle, the state and its sentence; what the state says to
//! type is typed in a shell; another cycle, and the bytes at the place are compared.
//!
//! The rows are played with the `git` of this machine; all of them (`ROWS_STRIDE=1`) also with other versions, where it
//! has any.

mod behind;
mod bytes;
mod dolt;
mod held;
mod loops;
mod owners;
mod place;
mod play;
mod programs;
mod records;
mod refused;
mod repository;
mod your_git;

use crate::play::{Row, play};

#[test]
fn a_row_is_as_its_name_says() {
    play(&[Row {
        name: "one record appended",
        set_up: "append bd-2",
        state: "synced",
        ..Row::SYNCED
    }]);
}
