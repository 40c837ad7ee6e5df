//! Configuration of the fleet's etcd (docs/fleet.md): `/etc/beadlock/fleet.toml`, else `fleet.toml` in the user's
//! configuration. Never from a repository or a database directory, and no proxy of the environment is used.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_base::regular::{self, Links};
use beadlock_base::secrets::masked_url;
use serde::Deserialize;

use crate::{Error, ErrorKind};

/// The largest configuration file, password file and file of certificates.
const LIMIT: u64 = 4 * 1024 * 1024;

/// Where the configuration file may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The file that `BEADLOCK_FLEET_CONFIG` names: then no other is read.
    pub named: Option<PathBuf>,
    /// The file for the whole machine.
    pub system: PathBuf,
    /// The file of this user; `None`: the user's configuration directory is not known.
    pub user: Option<PathBuf>,
}

impl Places {
    /// The places by the values of `BEADLOCK_FLEET_CONFIG`, `XDG_CONFIG_HOME` and `HOME`, and the working directory.
    pub fn of(
        named: Option<&OsStr>,
        config_home: Option<&OsStr>,
        home: Option<&OsStr>,
        cwd: &Path,
    ) -> Self {
        let config_home = config_home
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute());
        let config_home = config_home.or_else(|| home.map(|home| Path::new(home).join(".config")));
        Self {
            named: named.map(|named| cwd.join(named)),
            system: PathBuf::from("/etc/beadlock/fleet.toml"),
            user: config_home.map(|dir| dir.join("beadlock/fleet.toml")),
        }
    }

    fn all(&self) -> Vec<&Path> {
        match &self.named {
            Some(named) => vec![named],
            None => [Some(&self.system), self.user.as_ref()]
                .into_iter()
                .flatten()
                .map(PathBuf::as_path)
                .collect(),
        }
    }

    /// The place for a new configuration file that root writes, or another user.
    pub fn to_write(&self, is_root: bool) -> &Path {
        let user = self.user.as_ref().filter(|_| !is_root);
        self.named.as_ref().or(user).unwrap_or(&self.system)
    }
}

/// A fleet's etcd, and how to log in there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    source: PathBuf,
    nodes: Vec<String>,
    is_tls: bool,
    prefix: String,
    login: Option<Login>,
    ca: Option<PathBuf>,
}

/// A user and where the password is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: String,
    password_file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    url: String,
    user: Option<String>,
    password_file: Option<PathBuf>,
    ca: Option<PathBuf>,
}

impl Config {
    /// Reads the first file that is there.
    ///
    /// # Errors
    /// [`ErrorKind::NoConfig`] names all places and what to write; [`ErrorKind::Config`] says what is wrong; [`ErrorKind::Io`].
    pub fn read(places: &Places) -> Result<Self, Error> {
        for path in places.all() {
            match bounded(path) {
                Ok(text) => return Self::parse(&text, path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Error::io("read", path, &error)),
            }
        }
        let looked: Vec<String> = places.all().into_iter().map(escaped_path).collect();
        Err(Error::new(
            ErrorKind::NoConfig,
            format!(
                "no fleet is configured here: there is no {}; write into it: url = \"etcd://HOST:2379/PREFIX\"",
                looked.join(" and no ")
            ),
        ))
    }

    /// The configuration of a file at `path` that contains `text`. Relative paths begin in its directory.
    ///
    /// # Errors
    /// [`ErrorKind::Config`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let wrong =
            |why: String| Error::new(ErrorKind::Config, format!("{}: {why}", escaped_path(path)));
        let written: Written =
            toml::from_str(text).map_err(|error| wrong(escaped(error.message()).to_string()))?;
        let base = path.parent().unwrap_or(Path::new("/"));
        let login = match (written.user, written.password_file) {
            (Some(user), Some(file)) => Some(Login {
                user,
                password_file: base.join(file),
            }),
            (None, None) => None,
            (Some(_), None) => return Err(wrong("user without password-file".to_owned())),
            (None, Some(_)) => return Err(wrong("password-file without user".to_owned())),
        };
        let config = Self::of_url(&written.url, path).map_err(wrong)?;
        if written.ca.is_some() && !config.is_tls {
            return Err(wrong(
                "ca is for etcds://, and url begins with etcd://".to_owned(),
            ));
        }
        Ok(Self {
            login,
            ca: written.ca.map(|ca| base.join(ca)),
            ..config
        })
    }

    /// The configuration of a url alone: no user, and the root certificates of the system. `source` is the file that it
    /// is from.
    ///
    /// # Errors
    /// A sentence that says what is wrong with the url.
    pub fn of_url(url: &str, source: &Path) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "url \"{}\" {why}; write etcd://HOST:2379/PREFIX, with etcds:// for TLS",
                escaped(&masked_url(url))
            )
        };
        if url.contains('@') {
            return Err(wrong(
                "has a user name or a password, which belong in user and password-file of fleet.toml",
            ));
        }
        let (is_tls, rest) = match (url.strip_prefix("etcd://"), url.strip_prefix("etcds://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(wrong("does not begin with etcd:// or etcds://")),
        };
        let (hosts, prefix) = rest.split_once('/').ok_or_else(|| wrong("has no prefix"))?;
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        let parts_are_fit = prefix.split('/').all(|part| !part.is_empty());
        if prefix.len() > 200 || !prefix.bytes().all(is_fit) || !parts_are_fit {
            return Err(wrong(
                "has a prefix that is not 1 to 200 of A-Z a-z 0-9 . _ - and / between two parts",
            ));
        }
        let nodes: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if nodes.len() > 16 {
            return Err(wrong("names more than 16 nodes"));
        }
        if let Some(node) = nodes.iter().find(|node| !is_node(node)) {
            return Err(wrong(&format!(
                "has \"{}\" where HOST:PORT belongs",
                escaped(&masked_url(node))
            )));
        }
        let (login, ca) = (None, None);
        Ok(Self {
            source: source.to_owned(),
            nodes,
            is_tls,
            prefix: format!("/{prefix}"),
            login,
            ca,
        })
    }

    /// The file that the configuration is from.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The url, as it is written.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "etcds" } else { "etcd" };
        format!("{scheme}://{}{}", self.nodes.join(","), self.prefix)
    }

    /// The text of a configuration file with this url: without user and `ca`.
    pub fn text(&self) -> String {
        format!("url = \"{}\"\n", self.url())
    }

    /// `HOST:PORT` of each node, as written.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// The text of the root certificates: the file `ca`, else the system's bundle.
    pub(crate) fn roots(&self) -> Result<Vec<u8>, Error> {
        /// Where systems have their bundle.
        const BUNDLES: [&str; 3] = [
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/ssl/cert.pem",
        ];
        if let Some(ca) = &self.ca {
            return bounded(ca)
                .map(String::into_bytes)
                .map_err(|error| Error::io("read", ca, &error));
        }
        BUNDLES
            .iter()
            .find_map(|path| bounded(Path::new(path)).ok())
            .map(String::into_bytes)
            .ok_or_else(|| {
                let words = format!(
                    "no {}: name the file of your CA as ca in {}",
                    BUNDLES[0],
                    escaped_path(&self.source)
                );
                Error::new(ErrorKind::Config, words)
            })
    }
}

impl Login {
    /// The password: the file without the newline at its end. Read at each log-in, so that it may be changed.
    pub(crate) fn password(&self) -> Result<String, Error> {
        let path = &self.password_file;
        let text = bounded(path).map_err(|error| Error::io("read", path, &error))?;
        let mode = std::fs::metadata(path).map(|meta| meta.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o007 != 0) {
            let path = escaped_path(path);
            return Err(Error::new(
                ErrorKind::Config,
                format!("{path} is open to every user; type: chmod o= {path}"),
            ));
        }
        Ok(text.trim_end_matches(['\n', '\r']).to_owned())
    }
}

fn is_node(node: &str) -> bool {
    let Some((host, port)) = node.rsplit_once(':') else {
        return false;
    };
    let is_host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
            (1..=253).contains(&host.len()) && host.bytes().all(is_fit)
        }
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0);
    is_host && is_port
}

/// The text of a regular file, at most 4 MiB.
fn bounded(path: &Path) -> io::Result<String> {
    Ok(regular::read_text(path, Links::Followed, LIMIT)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Config, Error> {
        Config::parse(text, Path::new("/etc/beadlock/fleet.toml"))
    }

    #[test]
    fn a_whole_configuration() {
        let text = "url = \"etcds://h1:2379,[::1]:2380/team/beads\"\nuser = \"bot\"\npassword-file = \"pw\"\nca = \"/c.pem\"";
        let config = parsed(text).unwrap();
        assert_eq!(config.nodes(), ["h1:2379", "[::1]:2380"]);
        assert_eq!((config.prefix(), config.is_tls()), ("/team/beads", true));
        assert_eq!(
            config.login().unwrap().password_file,
            Path::new("/etc/beadlock/pw")
        );
        assert_eq!(config.url(), "etcds://h1:2379,[::1]:2380/team/beads");
        assert_eq!(
            Config::parse(&config.text(), config.source())
                .unwrap()
                .url(),
            config.url()
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_the_file() {
        for (text, why) in [
            ("", "url"),
            ("url = 7", "string"),
            ("url = \"http://h:1/p\"", "etcd://"),
            ("url = \"etcd://h:1\"", "prefix"),
            ("url = \"etcd://h:1/\"", "prefix"),
            ("url = \"etcd://h:1/a//b\"", "prefix"),
            ("url = \"etcd://h/p\"", "HOST:PORT"),
            ("url = \"etcd://h:0/p\"", "HOST:PORT"),
            ("url = \"etcd://h:65536/p\"", "HOST:PORT"),
            ("url = \"etcd://u:p@h:1/p\"", "user name or a password"),
            ("url = \"etcd://h:1,/p\"", "HOST:PORT"),
            ("url = \"etcd://h:1/p?x\"", "prefix"),
            ("url = \"etcd://h:1/p\"\npassword = \"x\"", "unknown field"),
            (
                "url = \"etcd://h:1/p\"\nuser = \"x\"",
                "without password-file",
            ),
            ("url = \"etcd://h:1/p\"\nca = \"x\"", "etcds://"),
        ] {
            let error = parsed(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{text}");
            let words = error.to_string();
            assert!(
                words.starts_with("/etc/beadlock/fleet.toml: ") && words.contains(why),
                "{text}: {words}"
            );
        }
    }

    #[test]
    fn no_refusal_shows_the_password_of_a_url() {
        for url in [
            "etcd://bot:S3cret@h:1/p",
            "etcd://bot:S3,cret@h:1",
            "etcd://bot:1/S3cret@h:1/p",
            "etcd://bot:S3 cret@h:1,h:2/p",
            "http://bot:S3cret@h:1/p",
            "bot:S3cret@h:1/p",
            "etcd://h:1?token=S3cret/p",
            "etcd://h:1/p?token=S3cret",
        ] {
            let words = parsed(&format!("url = \"{url}\"")).unwrap_err().to_string();
            assert!(!words.contains("S3") && !words.contains("cret"), "{words}");
            assert!(words.contains("***"), "{words}");
        }
    }

    #[test]
    fn a_fifo_in_place_of_a_file_is_refused_and_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let places = Places {
            named: Some(fifo.clone()),
            system: fifo.clone(),
            user: None,
        };
        let text = "url = \"etcds://h:1/p\"\nuser = \"u\"\npassword-file = \"fifo\"\nca = \"fifo\"";
        let config = Config::parse(text, &dir.path().join("fleet.toml")).unwrap();
        for error in [
            Config::read(&places).unwrap_err(),
            config.roots().unwrap_err(),
            config.login().unwrap().password().unwrap_err(),
        ] {
            let words = error.to_string();
            assert!(words.contains("fifo: it is not a regular file"), "{words}");
        }
    }

    #[test]
    fn the_first_file_that_is_there_counts_and_none_says_what_to_write() {
        let dir = tempfile::tempdir().unwrap();
        let (system, user) = (dir.path().join("system.toml"), dir.path().join("user.toml"));
        let places = Places {
            named: None,
            system: system.clone(),
            user: Some(user.clone()),
        };
        let error = Config::read(&places).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoConfig);
        assert!(
            error.to_string().contains("system.toml and no ")
                && error.to_string().contains("url ="),
            "{error}"
        );
        std::fs::write(&user, "url = \"etcd://user:1/p\"").unwrap();
        assert_eq!(Config::read(&places).unwrap().nodes(), ["user:1"]);
        std::fs::write(&system, "url = \"etcd://system:1/p\"").unwrap();
        assert_eq!(Config::read(&places).unwrap().nodes(), ["system:1"]);
        let named = Places {
            named: Some(dir.path().join("named.toml")),
            ..places
        };
        assert_eq!(
            Config::read(&named).unwrap_err().kind(),
            ErrorKind::NoConfig,
            "a named one is the only one"
        );
    }

    #[test]
    fn the_places_by_the_environment() {
        let os = OsStr::new;
        let cwd = Path::new("/w");
        let user = |home: Option<&str>, config: Option<&str>| {
            Places::of(None, config.map(os), home.map(os), cwd).user
        };
        assert_eq!(
            user(Some("/h"), None),
            Some("/h/.config/beadlock/fleet.toml".into())
        );
        assert_eq!(
            user(Some("/h"), Some("/c")),
            Some("/c/beadlock/fleet.toml".into())
        );
        assert_eq!(user(None, None), None);
        assert_eq!(
            user(Some("/h"), Some("relative")),
            Some("/h/.config/beadlock/fleet.toml".into())
        );
        assert_eq!(
            Places::of(Some(os("f.toml")), None, None, cwd).named,
            Some("/w/f.toml".into())
        );
    }

    #[test]
    fn a_password_is_for_few_eyes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pw");
        std::fs::write(&file, "s3cret\n").unwrap();
        let login = Login {
            user: "u".to_owned(),
            password_file: file.clone(),
        };
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(
            login
                .password()
                .unwrap_err()
                .to_string()
                .contains("chmod o=")
        );
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        assert_eq!(login.password().unwrap(), "s3cret");
    }
}
