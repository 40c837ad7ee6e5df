//! The host that a repository's remote is at, and how it refuses.

use std::fs;
use std::io::Read;
use std::path::Path;

use beadlock_base::regular::{self, Links};
use serde::{Deserialize, Serialize};

/// How many bytes of a repository's settings are read for a guess.
const LONGEST: u64 = 256 * 1024;

const THROTTLED: [&str; 10] = [
    "error: 429",
    "http 429",
    "status 429",
    "error: 503",
    "too many requests",
    "too many connections",
    "rate limit exceeded",
    "rate limit reached",
    "exceeded the rate limit",
    "exceeded a secondary rate limit",
];
const CLOSED: [&str; 4] = [
    "connection refused",
    "connection reset",
    "reset by peer",
    "connection closed by",
];
/// A hook of the server that says one of these judges what is pushed, not how often.
const OF_CONTENTS: [&str; 5] = ["file", "issue", "object", "commit", "line"];

/// The host of a URL in lower case; for a path, the repository there. `top` is where a relative path begins.
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

/// Whether this is a host of the network, and not a path ([`host_of`]).
pub fn is_of_network(host: &str) -> bool {
    !host.is_empty() && !host.starts_with(['/', '.'])
}

/// How a host refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRefusal {
    /// The host does not take the connection, or ends it.
    Closed,
    /// The host takes fewer requests: its words are such as `HTTP 429` or `rate limit exceeded`.
    Throttled,
}

impl HostRefusal {
    /// Reads the refusal from git's stderr; `None`: that has no words of one.
    pub(crate) fn of(said: &str) -> Option<Self> {
        let words: Vec<String> = said.lines().filter_map(own_words).collect();
        let has = |phrases: &[&str]| {
            let mut lines = words.iter();
            lines.any(|line| phrases.iter().any(|phrase| has_phrase(line, phrase)))
        };
        if has(&THROTTLED) {
            return Some(Self::Throttled);
        }
        has(&CLOSED).then_some(Self::Closed)
    }
}

/// The words of git, ssh or the host in a line, without names: without URLs, paths and texts in quotes. `None` for a
/// line of a hook of the server that speaks of what was pushed.
fn own_words(line: &str) -> Option<String> {
    let line = line.to_ascii_lowercase();
    if line.starts_with("remote:") && OF_CONTENTS.iter().any(|word| line.contains(word)) {
        return None;
    }
    let outside = line.split(['\'', '"', '`']).step_by(2);
    let outside: Vec<&str> = outside.collect();
    let outside = outside.join(" ");
    let words = outside.split_whitespace();
    let words: Vec<&str> = words
        .filter(|word| !word.contains("://") && !word.contains('/') && !word.contains('@'))
        .collect();
    Some(words.join(" "))
}

/// Whether the line has the phrase as whole words.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || matches!(character, '-' | '_');
    line.match_indices(phrase).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + phrase.len()..);
        let after = after.and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
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

    #[test]
    fn a_refusal_is_read_from_what_git_says() {
        for (said, refusal) in [
            (
                "fatal: unable to access 'https://h/x/': The requested URL returned error: 429",
                Some(HostRefusal::Throttled),
            ),
            (
                "remote: GitLab: API rate limit exceeded\nfatal: Could not read from remote repository.",
                Some(HostRefusal::Throttled),
            ),
            ("remote: Too many requests", Some(HostRefusal::Throttled)),
            ("remote: error: too many files changed", None),
            (
                "remote: issue bd-7: rate limit exceeded is not documented",
                None,
            ),
            (
                "fatal: unable to access 'https://h/rate-limit/': The requested URL returned error: 404",
                None,
            ),
            (
                "fatal: repository 'https://h/too many requests.git/' not found",
                None,
            ),
            ("fatal: https://h/rate-limit.git/ not valid", None),
            (
                "git@h:team/rate-limit.git: Permission denied (publickey)",
                None,
            ),
            (
                "Connection closed by 10.0.0.1 port 22",
                Some(HostRefusal::Closed),
            ),
            (
                "fatal: unable to access 'http://h/': Failed to connect to h port 80: Connection refused",
                Some(HostRefusal::Closed),
            ),
            (
                "kex_exchange_identification: read: Connection reset by peer",
                Some(HostRefusal::Closed),
            ),
            ("fatal: repository 'https://h/429.git/' not found", None),
            (
                "fatal: '/r.git' does not appear to be a git repository",
                None,
            ),
            (
                "fatal: unable to access 'http://h/': Could not resolve host: h",
                None,
            ),
        ] {
            assert_eq!(HostRefusal::of(said), refusal, "{said}");
        }
        for (host, is_one) in [
            ("example.org", true),
            ("[::1]", true),
            ("/srv/r.git", false),
            ("", false),
        ] {
            assert_eq!(is_of_network(host), is_one, "{host}");
        }
    }
}
