//! A test by its full name, as a row writes it.

use std::fmt;
use std::str::FromStr;

/// The packages, and the folder of each.
const PACKAGES: [(&str, &str); 20] = [
    ("beadlock-base", "checker/base"),
    ("beadlock-checker", "checker"),
    ("beadlock-core", "checker/core"),
    ("beadlock-supervise", "checker/supervise"),
    ("beadlock-records", "checker/records"),
    ("beadlock", "integration"),
    ("beadlock-claim", "integration/claim"),
    ("beadlock-cli", "integration/cli"),
    ("beadlock-console", "integration/console"),
    ("beadlock-explain", "integration/explain"),
    ("beadlock-files", "integration/files"),
    ("beadlock-log", "integration/log"),
    ("beadlock-oncall", "integration/oncall"),
    ("beadlock-session", "integration/session"),
    ("beadlock-agent", "agent"),
    ("beadlock-fleet", "integration/fleet"),
    ("beadlock-git", "agent/git"),
    ("beadlock-repository", "agent/repository"),
    ("beadlock-tests", "tests"),
    ("beadlock-trust", "agent/trust"),
];

/// A test.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// `PACKAGE lib PATH`, `PACKAGE tests/NAME PATH`: `PATH` as the test runner prints it.
    Cargo {
        package: &'static str,
        target: Target,
        path: String,
    },
    /// `FILE: NAME`, the file from the checkout's top.
    Bats { file: String, name: String },
    /// `FILE: NAME`, the file from the checkout's top, and the name of a function in it.
    Python { file: String, name: String },
}

/// A test binary of a package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The library's own.
    Lib,
    /// One of those below `tests/`.
    Test(String),
}

/// The folder of a package.
pub fn folder(package: &str) -> &'static str {
    PACKAGES
        .iter()
        .find(|(name, _)| *name == package)
        .map_or("", |(_, folder)| folder)
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no test (`PACKAGE lib PATH`, `PACKAGE tests/NAME PATH`, `FILE.bats: NAME`, \
                 `FILE.py: NAME`)"
            )
        };
        let is_inside = |file: &str| {
            !file.starts_with('/') && file.split('/').all(|part| !matches!(part, "" | "." | ".."))
        };
        if let Some((file, name)) = text.split_once(".bats: ") {
            let name = name.trim();
            if !is_inside(file) || name.is_empty() {
                return Err(wrong());
            }
            return Ok(Self::Bats {
                file: format!("{file}.bats"),
                name: name.to_owned(),
            });
        }
        if let Some((file, name)) = text.split_once(".py: ") {
            if !is_inside(file) || !is_word(name) {
                return Err(wrong());
            }
            return Ok(Self::Python {
                file: format!("{file}.py"),
                name: name.to_owned(),
            });
        }
        let words: Vec<&str> = text.split(' ').collect();
        let [package, target, path] = words[..] else {
            return Err(wrong());
        };
        let package = PACKAGES
            .iter()
            .find(|(name, _)| *name == package)
            .ok_or_else(wrong)?
            .0;
        let target = match target.strip_prefix("tests/") {
            Some(name) if is_word(name) => Target::Test(name.to_owned()),
            None if target == "lib" => Target::Lib,
            _ => return Err(wrong()),
        };
        if !path.split("::").all(is_word) {
            return Err(wrong());
        }
        Ok(Self::Cargo {
            package,
            target,
            path: path.to_owned(),
        })
    }
}

/// What may be the name of a module or a function.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cargo {
                package,
                target: Target::Lib,
                path,
            } => write!(f, "{package} lib {path}"),
            Self::Cargo {
                package,
                target: Target::Test(name),
                path,
            } => {
                write!(f, "{package} tests/{name} {path}")
            }
            Self::Bats { file, name } | Self::Python { file, name } => write!(f, "{file}: {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_written_as_it_was_read() {
        for text in [
            "beadlock-core lib record::tower::judge::tests::fresh",
            "beadlock tests/tower hold::a_2",
            "beadlock-tests tests/docs top_level",
            "integration/shell/tests/lock-manager.bats: release: a missing lock is a warning",
            "integration/python/tests/test_memory.py: test_ctrl_c_ends_the_wait",
        ] {
            assert_eq!(
                text.parse::<Named>()
                    .map(|named| named.to_string())
                    .as_deref(),
                Ok(text)
            );
        }
    }

    #[test]
    fn what_could_mean_two_tests_is_none() {
        for text in [
            "",
            "hold::a",
            "beadlock hold::a",
            "beadlock tests/ hold::a",
            "beadlock tests/a/b hold::a",
            "beadlock bin hold::a",
            "beadlock tests/tower",
            "beadlock tests/tower hold::",
            "beadlock tests/tower hold::a b",
            "beadlock tests/tower hold::*",
            "serde lib a::b",
            "a.bats: ",
            "/a.bats: b",
            "../a.bats: b",
            "a.py: ",
            "a.py: test_a[1]",
            "../a.py: test_a",
        ] {
            assert!(text.parse::<Named>().is_err(), "{text:?}");
        }
    }
}
