//! How many fetches there are at once: a few of all, and one of each host.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The fetches that are under way.
#[derive(Debug, Default)]
pub struct FetchLimit {
    busy: Mutex<BusyHosts>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct BusyHosts {
    fetches: usize,
    hosts: HashSet<String>,
}

/// One fetch may be made.
#[must_use = "dropped, it is the next one's turn"]
#[derive(Debug)]
pub struct FetchTurn {
    crowd: Arc<FetchLimit>,
    host: Option<String>,
}

impl FetchLimit {
    /// A turn, unless there are `most` fetches already, or one of this host.
    pub fn try_enter(self: &Arc<Self>, host: Option<&str>, most: usize) -> Option<FetchTurn> {
        let mut busy = self.busy();
        if busy.fetches >= most || host.is_some_and(|host| busy.hosts.contains(host)) {
            return None;
        }
        busy.fetches += 1;
        busy.hosts.extend(host.map(str::to_owned));
        Some(FetchTurn {
            crowd: Arc::clone(self),
            host: host.map(str::to_owned),
        })
    }

    /// Waits for a turn.
    pub async fn enter(self: &Arc<Self>, host: Option<&str>, most: usize) -> FetchTurn {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // From here on no end is missed.
            ended.as_mut().enable();
            if let Some(turn) = self.try_enter(host, most) {
                return turn;
            }
            ended.await;
        }
    }

    fn busy(&self) -> MutexGuard<'_, BusyHosts> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for FetchTurn {
    fn drop(&mut self) {
        let mut busy = self.crowd.busy();
        busy.fetches -= 1;
        if let Some(host) = &self.host {
            busy.hosts.remove(host);
        }
        drop(busy);
        self.crowd.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn there_are_few_at_once_and_one_of_each_host() {
        let crowd = Arc::new(FetchLimit::default());
        let first = crowd.try_enter(Some("a"), 2).unwrap();
        assert!(crowd.try_enter(Some("a"), 2).is_none(), "the same host");
        let second = crowd.try_enter(None, 2).unwrap();
        assert!(crowd.try_enter(Some("b"), 2).is_none(), "two are enough");
        let waiting = tokio::spawn({
            let crowd = Arc::clone(&crowd);
            async move { drop(crowd.enter(Some("a"), 2).await) }
        });
        drop(second);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the host is still busy");
        drop(first);
        waiting.await.unwrap();
        assert!(
            crowd.try_enter(Some("a"), 1).is_some(),
            "nothing is left behind"
        );
    }
}
