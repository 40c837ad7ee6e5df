//! How many fetches there are at once: a few of all, and one of each host.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use beadlock_base::regular::{self, Links};
use tokio::sync::Notify;

/// How much of a repository's settings is read for a guess.
const LONGEST: u64 = 256 * 1024;

/// The fetches that are under way.
#[derive(Debug, Default)]
pub struct FetchCrowd {
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
    crowd: Arc<FetchCrowd>,
    host: Option<String>,
}

impl FetchCrowd {
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

/// What is asked at this URL: a host, or for a path the repository there. `top` is where a relative path begins.
pub(crate) fn host_of(url: &str, top: &Path) -> String {
    let path = |path: &str| {
        let path = top.join(path);
        fs::canonicalize(&path)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned()
    };
    let authority = match url.split_once("://") {
        Some(("file", rest)) => return path(rest),
        Some((_, rest)) => rest.split(['/', '?', '#']).next().unwrap_or_default(),
        None => match url.split_once(':') {
            Some((host, _)) if !host.contains('/') => host,
            _ => return path(url),
        },
    };
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let host = host
        .rsplit_once(':')
        .filter(|(_, port)| is_port(port))
        .map_or(host, |(host, _)| host);
    host.to_ascii_lowercase()
}

/// The host of the first remote in the repository around a database, as its file of settings has it: before the first
/// sync git was not asked yet.
pub fn guess_host(database: &Path) -> Option<String> {
    let top = database
        .ancestors()
        .skip(1)
        .find(|dir| dir.join(".git").exists())?;
    let mut settings = String::new();
    let opened = regular::open(&top.join(".git/config"), Links::Followed);
    let mut file = opened.ok()?.take(LONGEST);
    file.read_to_string(&mut settings).ok()?;
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "url").then(|| value.trim().trim_matches('"').to_owned())
    };
    settings
        .lines()
        .find_map(value)
        .map(|url| host_of(&url, top))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_from_any_url() {
        let top = Path::new("/no/such");
        for (url, host) in [
            ("https://user:pw@Example.org:8443/x.git", "example.org"),
            ("ssh://git@example.org/x", "example.org"),
            ("git@example.org:x/y.git", "example.org"),
            ("example.org:x", "example.org"),
            ("ssh://git@[::1]:22/x", "[::1]"),
            ("/srv/git/x.git", "/srv/git/x.git"),
            ("file:///srv/git/x.git", "/srv/git/x.git"),
            ("./a:b", "/no/such/./a:b"),
        ] {
            assert_eq!(host_of(url, top), host, "{url}");
        }
    }

    #[test]
    fn before_the_first_sync_the_settings_tell_the_host() {
        let top = tempfile::tempdir().unwrap();
        let database = top.path().join("a/.beads");
        fs::create_dir_all(&database).unwrap();
        assert_eq!(guess_host(&database), None);
        fs::create_dir(top.path().join(".git")).unwrap();
        let settings =
            "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = git@example.org:x.git\n";
        fs::write(top.path().join(".git/config"), settings).unwrap();
        assert_eq!(guess_host(&database).as_deref(), Some("example.org"));
    }

    #[tokio::test]
    async fn there_are_few_at_once_and_one_of_each_host() {
        let crowd = Arc::new(FetchCrowd::default());
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
