//! What the system may not give.

/// The system does not give what a daemon waits with.
pub(crate) fn no_events(error: std::io::Error) -> std::io::Error {
    let why = beadlock_checker::internal::system_words(&error);
    let message = format!(
        "no threads or descriptors to wait with: {why}; look at `ulimit -n` and `ulimit -u`"
    );
    std::io::Error::new(error.kind(), message)
}
