//! A lock that waits for a process which it runs in itself: a shell that has locked the file by a descriptor
//! (`exec 9>x.lock; flock 9`), or an flock(1) around it. A shell becomes the last command that it runs, which then has
//! the descriptor itself.

use std::fmt;

use beadlock_base::sys::process_id;
use beadlock_core::gate_holders::{GateHolder, descriptors_of};

use super::open::named_inode;
use super::{outer::is_above, refused::names, target::FileTarget};
use crate::words::{Part, to_type};

/// The process that has the lock and cannot end before this one, and its descriptor.
pub struct Ancestor<'h> {
    /// `None`: this process itself, which a shell has become, or which has locked the file by other means.
    holder: Option<&'h GateHolder>,
    pub descriptor: i32,
}

impl<'h> Ancestor<'h> {
    /// The one of `holders` that this process runs in, else itself; `None`: it is neither, or `/proc` does not show the
    /// descriptor.
    pub fn among(holders: &'h [GateHolder], target: &FileTarget) -> Option<Self> {
        let inode = named_inode(target)?;
        let first_of = |pid: i32| descriptors_of(pid, inode).first().copied();
        // A program that has started this one may let the lock go by itself; a shell or an flock(1) waits for its end.
        let waits = |holder: &&GateHolder| is_above(holder.pid) && waits_for_its_command(holder);
        let mut above = holders.iter().filter(waits);
        let above = above.find_map(|holder| Some((Some(holder), first_of(holder.pid)?)));
        let itself = || Some((None, first_of(process_id().cast_signed())?));
        let (holder, descriptor) = above.or_else(itself)?;
        Some(Self { holder, descriptor })
    }
}

/// Whether it is a program that ends after the command that it runs: a shell, or flock(1).
fn waits_for_its_command(holder: &GateHolder) -> bool {
    program(holder).is_some_and(|name| name == "flock" || name.ends_with("sh"))
}

/// The name of the program that a process runs, without its directory.
fn program(holder: &GateHolder) -> Option<&str> {
    let program = holder.command.split_ascii_whitespace().next()?;
    program.rsplit('/').next()
}

/// Who it is and what to do about it: `PID 77 (bash), which this runs in, by its descriptor 9: …`
impl fmt::Display for Ancestor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { holder, descriptor } = self;
        match holder {
            Some(holder) => {
                let name = names(std::slice::from_ref(holder));
                write!(f, "{name}, which this runs in, by its descriptor")?;
            }
            None => f.write_str("this process itself, by the descriptor")?,
        }
        write!(f, " {descriptor}: it would wait for itself; ")?;
        match holder.and_then(program) {
            Some("flock") => f.write_str("leave out that flock, or this beadlock"),
            _ => {
                let unlock = to_type("flock -u {}", &[Part::Pid((*descriptor).into())]);
                write!(f, "unlock it there first: {unlock}")
            }
        }
    }
}
