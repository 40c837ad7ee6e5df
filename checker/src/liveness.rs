//! Whether a process lives, as far as the system says.

/// Whether a process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// `kill(pid, 0)` succeeded.
    Alive,
    /// EPERM: it lives, and belongs to someone else.
    NotPermitted,
    /// ESRCH: there is no such process.
    Gone,
    /// Any other answer, or a PID that cannot be asked; counts as alive.
    Unknown,
    /// Another host's process, or another namespace's.
    NotAsked,
}
