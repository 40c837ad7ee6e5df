//! A fleet on an etcd of the test's own, old enough for everybody to begin.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use beadlock_core::facts;
use beadlock_fleet::{Config, Fleet, Mark, MemberValue, Name, Who};
use beadlock_testkit::Etcd;

use super::witness::Witness;

pub const PREFIX: &str = "beads";

pub struct Ground {
    pub etcd: Etcd,
    pub mark: Mark,
    pub witness: Arc<Witness>,
}

impl Ground {
    /// On these nodes.
    #[track_caller]
    pub fn on(etcd: Etcd) -> Self {
        let config = config_at(&etcd.url(PREFIX));
        Self::with(etcd, &config)
    }

    /// The same by a configuration that knows how to log in.
    #[track_caller]
    pub fn with(etcd: Etcd, config: &Config) -> Self {
        let fleet = made(&etcd, config);
        let mark = joined(&fleet, "acme/tracker", "here");
        Self {
            etcd,
            mark,
            witness: Arc::default(),
        }
    }

    pub fn config(&self) -> Config {
        config_at(&self.etcd.url(PREFIX))
    }

    /// By a way to etcd of its own.
    pub fn config_by(&self, nodes: &[String]) -> Config {
        config_at(&format!("etcd://{}/{PREFIX}", nodes.join(",")))
    }

    #[track_caller]
    pub fn fleet(&self) -> Fleet {
        Fleet::of_mark(&self.config(), &self.mark).expect("the fleet is there")
    }

    /// Nothing is left of sessions, rights and claims.
    #[track_caller]
    pub fn until_empty(&self) {
        beadlock_testkit::until("nothing is left in etcd", || {
            let keys = self
                .etcd
                .try_ctl(&["get", "--prefix", "--keys-only", &format!("/{PREFIX}/v1/")])
                .unwrap_or("?".into());
            !["sessions/", "agents/", "claims/", "broken/", "?"]
                .iter()
                .any(|folder| keys.contains(folder))
        });
    }
}

/// The fleet of this configuration, made now, and old enough.
#[track_caller]
pub fn made(etcd: &Etcd, config: &Config) -> Fleet {
    let fleet = Fleet::create(config, None).expect("a fleet").fleet;
    // Nothing has run under an earlier one.
    let root: &[&str] = if config.source().ends_with("with-user.toml") {
        &["--user", "root:rootpw"]
    } else {
        &[]
    };
    etcd.ctl(&[root, &["del", &format!("/{PREFIX}/v1/new")]].concat());
    fleet
}

/// A clone that joins, as if on this host.
#[track_caller]
pub fn joined(fleet: &Fleet, name: &str, host: &str) -> Mark {
    let mark = Mark::of_new_clone(fleet.nonce(), &Name::parse(name).expect("a name"));
    let (path, version) = ("/srv/tracker/.beads".to_owned(), "0.1.0".to_owned());
    fleet
        .join(
            &mark,
            &MemberValue {
                host: host.to_owned(),
                path,
                version,
                since: facts::now(),
            },
        )
        .expect("joined");
    mark
}

#[track_caller]
pub fn config_at(url: &str) -> Config {
    Config::of_url(url, Path::new("fleet.toml")).expect("a url")
}

/// A configuration in a file, with these lines more.
#[track_caller]
pub fn config_in(file: &Path, url: &str, more: &str) -> Config {
    Config::parse(&format!("url = \"{url}\"\n{more}"), file).expect("a configuration")
}

/// A file that its owner alone may read.
#[track_caller]
pub fn secret(dir: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = dir.join(name);
    std::fs::write(&file, text).expect("a file");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("its mode");
    file
}

/// A process of a host of this name.
pub fn who(host: &str) -> Who {
    Who {
        host: host.to_owned(),
        ..Who::this_process()
    }
}
