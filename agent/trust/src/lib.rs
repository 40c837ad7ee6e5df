//! The users that may change what leads to a database (docs/design.md#whose-databases). `beadlock-agent` and its sync
//! through git share this crate; siblings alone use it and pin it with `=`.
//!
//! [`Trusted`] asks about one open directory, and [`Doubt`] is why it is not trusted. [`Owners`] asks about a whole
//! database: its directory, those above it, and the one whose redirect leads to it; [`Refusal`] says why it is not
//! served, and what to do. [`Trusted::go`] asks about all that is on the way to a file. A [`DirStamp`] tells whether a
//! directory has changed since such a question.
//!
//! # Limits
//! - The mode is what is looked at. A POSIX ACL shows in it: the group bits are its mask then, so a user or a group
//!   of the list that may write shows as a group that may. Lists of other kinds (NFSv4, a mount's own rules) do not
//!   show.
//! - What was found about the directories further above holds for a second, in all databases below them; only root or
//!   the trusted user can have changed it.
//! - Members of a group are asked for at most every ten seconds: a member that an administrator adds is seen by then.

#![forbid(unsafe_code)]

mod above;
mod owner;
mod stamp;
mod trusted;
mod way;

pub use owner::{GitUse, Mend, Opened, Owners, Refusal, WayRefusal};
pub use stamp::{DirStamp, SETTLED};
pub use trusted::{Doubt, Sticky, Trusted};
pub use way::{Doubted, WayEnd};
