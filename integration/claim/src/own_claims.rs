//! The claims of this process: who asks again for what it has claimed would wait for itself.

use beadlock_base::{asker::Asker, own::Own};

/// The ids of the claims, and who has made them; `None`: whoever asks waits for it.
static CLAIMS: Own<Vec<(String, Option<Asker>)>> = Own::new();

/// A claim of this process, until this is dropped.
#[derive(Debug)]
pub struct OwnClaim(String);

impl OwnClaim {
    /// Notes the claim with this id as made by who asks now.
    pub fn note(id: &str) -> Self {
        let asker = Some(Asker::current());
        CLAIMS.with(|claims| claims.push((id.to_owned(), asker)));
        Self(id.to_owned())
    }

    /// Notes that whoever asks waits for this one: it goes to another thread.
    pub fn detach(&self) {
        CLAIMS.with(|claims| {
            if let Some(own) = claims.iter_mut().find(|(id, _)| *id == self.0) {
                own.1 = None;
            }
        });
    }
}

impl Drop for OwnClaim {
    fn drop(&mut self) {
        CLAIMS.with(|claims| claims.retain(|(id, _)| *id != self.0));
    }
}

/// Whether who asks now has made the claim with this id, and would wait for itself.
pub fn is_own(id: &str) -> bool {
    let asker = Asker::current();
    CLAIMS.with(|claims| {
        let mut own = claims.iter().filter(|(own, _)| own == id);
        own.any(|(_, by)| by.is_some_and(|by| asker.would_wait_for_itself(&by)))
    })
}
