//! The settings of a repository for remotes, branches, ssh and hooks, by one question to git.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Git, SyncStop, nul_separated};

/// The settings in question, as git has merged them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitSettings(Vec<(String, String)>);

pub(crate) const ASKED: &str = r"^(core\.(sshcommand|hookspath|excludesfile|attributesfile|ignorecase|ignorestat)|commit\.gpgsign|gpg\.(.*\.)?(format|program|defaultkeycommand)|user\.signingkey|merge\..*\.driver|push\.(default|autosetupremote|gpgsign)|(remote|branch|url|hook|filter|include|includeif)\..*)$";
/// They go to the agent in a message, and to the next sync through a pipe; more than this is asked anew.
const LONG: usize = 16 * 1024;

impl GitSettings {
    pub(crate) fn read(git: &Git) -> Result<Self, SyncStop> {
        let answer = git.call(["config", "-z", "--get-regexp", ASKED]).run()?;
        match answer.status.code() {
            Some(0) => Ok(Self::parse(&answer.stdout)),
            // There are none.
            Some(1) => Ok(Self::default()),
            _ => Err(answer.refused("git config failed")),
        }
    }

    /// Reads what `git config --list -z` prints.
    pub fn parse(printed: &[u8]) -> Self {
        let pair = |word: &Vec<u8>| {
            let text = String::from_utf8_lossy(word).into_owned();
            // A key without a value is true.
            let (key, value) = text.split_once('\n').unwrap_or((&text, "true"));
            (key.to_owned(), value.to_owned())
        };
        Self(nul_separated(printed).iter().map(pair).collect())
    }

    /// The values of a key, of which the last one counts.
    pub(crate) fn all(&self, key: &str) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The value of a key; the last one, where there are several.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.all(key).pop()
    }

    /// Whether a key is set to true, in any of git's words for it.
    pub fn is_true(&self, key: &str) -> bool {
        let is_word = |value: &str| {
            let words = ["true", "yes", "on"];
            words.iter().any(|word| value.eq_ignore_ascii_case(word))
        };
        self.get(key).is_some_and(|value| {
            is_word(value) || value.parse().is_ok_and(|number: i64| number != 0)
        })
    }

    /// Whether the next sync may go on with them, while the stamps of git's own files are the same. Not where other
    /// files are included.
    pub(crate) fn can_be_kept(&self) -> bool {
        let is_include = |(key, _): &(String, String)| {
            key.starts_with("include.") || key.starts_with("includeif.")
        };
        let length: usize = self
            .0
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        length <= LONG && !self.0.iter().any(is_include)
    }

    /// Whether any program merges files.
    pub fn has_merge_drivers(&self) -> bool {
        let is_driver =
            |(key, _): &(String, String)| key.starts_with("merge.") && key.ends_with(".driver");
        self.0.iter().any(is_driver)
    }

    /// Whether a filter that writes files of the working tree names a file there by its path from the top.
    pub fn has_filters_in(&self, top: &Path) -> bool {
        let is_filter = |(key, _): &&(String, String)| {
            key.starts_with("filter.") && (key.ends_with(".smudge") || key.ends_with(".process"))
        };
        let is_there = |word: &str| {
            let word = word.trim_matches(['"', '\'']);
            !word.is_empty() && !word.starts_with('/') && top.join(word).is_file()
        };
        let mut filters = self.0.iter().filter(is_filter);
        filters.any(|(_, command)| command.split_ascii_whitespace().any(is_there))
    }

    /// Whether a key has any value.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    /// All keys with their values, in git's order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The names of the remotes, each once.
    pub(crate) fn remotes(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (key, _) in self.entries() {
            let name = key
                .strip_prefix("remote.")
                .and_then(|key| key.rsplit_once('.'));
            if let Some((name, _)) = name
                && !name.starts_with('/')
                && !names.contains(&name)
            {
                names.push(name);
            }
        }
        names
    }

    /// Whether the settings have hooks: from git 2.54 on they may.
    pub(crate) fn have_hooks(&self) -> bool {
        self.0.iter().any(|(key, _)| key.starts_with("hook."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts() {
        let printed = b"remote.a.b.url\nx\ny\0core.sshcommand\nssh -v\0core.sshcommand\nssh\0remote.o.mirror\0";
        let settings = GitSettings::parse(printed);
        assert_eq!(settings.get("core.sshcommand"), Some("ssh"));
        assert_eq!(settings.all("core.sshcommand").len(), 2);
        assert_eq!(settings.get("remote.a.b.url"), Some("x\ny"));
        assert_eq!(
            (settings.get("remote.o.mirror"), settings.get("none")),
            (Some("true"), None)
        );
        assert!(
            !settings.have_hooks() && GitSettings::parse(b"hook.x.command\nmake\0").have_hooks()
        );
    }

    #[test]
    fn remotes_and_truths_are_as_git_reads_them() {
        let printed =
            b"remote.pushdefault\na\0remote.a.url\n1\0remote.a.b.fetch\n+x:y\0remote.a.url\n2\0\
            remote.a.mirror\nYes\0push.autosetupremote\0remote.b.mirror\n0\0remote.c.mirror\n2\0";
        let settings = GitSettings::parse(printed);
        assert_eq!(settings.remotes(), ["a", "a.b", "b", "c"]);
        assert!(settings.has("remote.a.url") && !settings.has("remote.b.url"));
        for (key, is_true) in [
            ("remote.a.mirror", true),
            ("push.autosetupremote", true),
            ("remote.b.mirror", false),
            ("remote.c.mirror", true),
            ("remote.d.mirror", false),
        ] {
            assert_eq!(settings.is_true(key), is_true, "{key}");
        }
    }

    #[test]
    fn settings_that_may_change_unseen_are_asked_each_time() {
        let can_be_kept = |printed: &[u8]| GitSettings::parse(printed).can_be_kept();
        assert!(can_be_kept(b"") && can_be_kept(b"branch.include.remote\norigin\0"));
        assert!(!can_be_kept(b"include.path\nmore\0"));
        assert!(!can_be_kept(b"includeif.gitdir:~/work/.path\nmore\0"));
        assert!(can_be_kept(
            b"remote.origin.url\ngit@host:x.git\0remote.o.url\nhttps://host/x.git\0"
        ));
        assert!(
            can_be_kept(b"remote.origin.url\nhttps://TOKEN@host/x.git\0"),
            "a secret goes through a pipe"
        );
        assert!(can_be_kept(b"url.git@host:.pushinsteadof\nhttps://host/\0"));
        assert!(
            !can_be_kept(&[b"remote.origin.url\n", &[b'x'; LONG][..], b"\0"].concat()),
            "too long"
        );
    }
}
