//! The knowledge of a sync about a repository, for the agent: which files to watch there, and how to fetch.

use std::env;
use std::path::{Path, PathBuf};

use beadlock_base::secrets::masked;
use serde::{Deserialize, Serialize};

use crate::host::host_of;
use crate::owners::LedTo;
use crate::repository::{IN_PROGRESS, Repository};
use crate::{BranchHead, GitSettings, Upstream, refs};

/// The repository of a database, as the last sync has found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryFacts {
    top: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    /// The database's directory.
    database: PathBuf,
    /// Full names of the branch and of the tracking branch, where they are known.
    refs: Vec<String>,
    /// The files of git's settings of this user and of this machine.
    settings_files: Vec<PathBuf>,
    /// The settings of git. `None` where they were not read, or have to be read each time.
    pub(crate) settings: Option<GitSettings>,
    /// The paths that the settings lead git to.
    pub(crate) led_to: Option<LedTo>,
    /// The paths that were refused because another user could change them. A person may mend that.
    refused: Vec<PathBuf>,
    /// How to fetch, where there is an upstream.
    pub upstream: Option<UpstreamFacts>,
}

/// The upstream of the branch, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamFacts {
    /// The remote, or the URL, as git is given it.
    pub remote: String,
    pub(crate) branch: String,
    pub(crate) tracking: String,
    /// Where the tracking branch was.
    pub commit: String,
    /// The command for ssh, where git is given one.
    pub ssh: Option<String>,
    pub(crate) url: Option<String>,
    /// A fetch of this branch alone tells all: it is the place, and its URL is that of its remote.
    pub is_all: bool,
    /// The copies of the place, where that is another branch, and their commits.
    pub places: Vec<(String, Option<String>)>,
}

/// Names to watch in the git directory of a working tree. (Refs in tables are never watched.)
const OF_WORKING_TREE: [&str; 6] = [
    "HEAD",
    "index",
    "index.lock",
    "beadlock.turn",
    "beadlock.stage",
    "info/sparse-checkout",
];
/// Names to watch in the git directory that all working trees share.
const SHARED: [&str; 4] = ["packed-refs", "info/exclude", "info/attributes", "shallow"];
/// Names to watch in each directory above the database, up to the top.
const ABOVE: [&str; 2] = [".gitignore", ".gitattributes"];
/// Names to watch there too: those that make a directory a repository.
const OF_A_REPOSITORY: [&str; 2] = [".git", "HEAD"];

impl RepositoryFacts {
    /// The repository for the agent. `None` where the paths cannot be told, or refs are not files.
    pub fn of(
        repository: &Repository,
        head: Option<&BranchHead>,
        upstream: Option<UpstreamFacts>,
    ) -> Option<Self> {
        let named = match repository.settings() {
            Ok(settings) => named_files(settings, &repository.git.dir)?,
            Err(_) => Vec::new(),
        };
        let branch = head.map(|head| format!("refs/heads/{}", head.branch));
        let copies = |upstream: &UpstreamFacts| {
            let places = upstream.places.iter().map(|(copy, _)| copy.clone());
            [upstream.tracking.clone()]
                .into_iter()
                .chain(places)
                .collect::<Vec<_>>()
        };
        let known = Self {
            top: repository.git.dir.clone(),
            git_dir: repository.git_dir.clone(),
            common_dir: repository.common_dir.clone(),
            database: repository.request.dir.clone(),
            refs: branch
                .into_iter()
                .chain(upstream.as_ref().map(copies).unwrap_or_default())
                .flat_map(|name| refs::chain(&repository.common_dir, name))
                .collect(),
            settings_files: settings_files().into_iter().chain(named).collect(),
            settings: repository.known_settings(),
            led_to: repository.led_to.get().cloned(),
            refused: repository.refused.get().cloned().unwrap_or_default(),
            upstream,
        };
        let paths = [
            &known.top,
            &known.git_dir,
            &known.common_dir,
            &known.database,
        ];
        let can_be_told = paths
            .into_iter()
            .chain(&known.settings_files)
            .chain(&known.refused)
            .all(|path| path.to_str().is_some())
            && known.led_to.as_ref().is_none_or(LedTo::is_text);
        (can_be_told && !known.common_dir.join("reftable").exists()).then_some(known)
    }

    /// A database without a repository: until one comes, git need not be asked again. `None` where the path is not
    /// text.
    pub fn nowhere(database: &Path) -> Option<Self> {
        let above = database.parent().unwrap_or(database).to_owned();
        let [top, git_dir, common_dir, database] =
            [Path::new("/"), &above, &above, database].map(Path::to_owned);
        let is_text = database.to_str().is_some();
        let (refs, settings_files, refused) = (Vec::new(), Vec::new(), Vec::new());
        let (settings, led_to, upstream) = (None, None, None);
        is_text.then_some(Self {
            top,
            git_dir,
            common_dir,
            database,
            refs,
            settings_files,
            settings,
            led_to,
            refused,
            upstream,
        })
    }

    /// The host of its upstream; `None` where no URL is known.
    pub fn host(&self) -> Option<String> {
        let url = self
            .upstream
            .as_ref()
            .and_then(|upstream| upstream.url.as_ref())?;
        Some(host_of(url, &self.top))
    }

    #[cfg(test)]
    pub(crate) fn for_tests(top: &Path, database: &Path) -> Self {
        Self {
            top: top.to_owned(),
            git_dir: top.join(".git"),
            common_dir: top.join(".git"),
            database: database.to_owned(),
            refs: vec![
                "refs/heads/main".to_owned(),
                "refs/remotes/origin/main".to_owned(),
            ],
            settings_files: Vec::new(),
            settings: None,
            led_to: None,
            refused: Vec::new(),
            upstream: None,
        }
    }

    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The git directory that all worktrees share.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The paths that must stay as they are, or away, for a sync to come to the same result: these and [`Self::setup`].
    pub fn content(&self) -> impl Iterator<Item = PathBuf> {
        let in_progress = IN_PROGRESS.iter().map(|(name, _)| self.git_dir.join(name));
        let of_tree = OF_WORKING_TREE.iter().map(|name| self.git_dir.join(name));
        let shared = SHARED
            .iter()
            .copied()
            .chain(self.refs.iter().map(String::as_str));
        let shared = shared.map(|name| self.common_dir.join(name));
        in_progress
            .chain(of_tree)
            .chain(shared)
            .chain(self.above(ABOVE))
    }

    /// The paths that must stay as they are, or away, for the repository to be at the same place, with the same
    /// settings.
    pub fn setup(&self) -> impl Iterator<Item = PathBuf> {
        let shared = ["config", "reftable"].map(|name| self.common_dir.join(name));
        let of_tree = [self.git_dir.join("config.worktree")];
        let files = shared
            .into_iter()
            .chain(of_tree)
            .chain(self.settings_files.iter().cloned());
        let files = files.chain(self.refused.iter().cloned());
        files.chain(self.above(OF_A_REPOSITORY))
    }

    fn above(&self, names: [&'static str; 2]) -> impl Iterator<Item = PathBuf> {
        let above = self
            .database
            .ancestors()
            .skip(1)
            .take_while(|dir| dir.starts_with(&self.top));
        above.flat_map(move |dir| names.map(|name| dir.join(name)))
    }

    /// Directories whose owner counts.
    pub fn owned(&self) -> [&Path; 3] {
        [&self.top, &self.git_dir, &self.common_dir]
    }
}

impl UpstreamFacts {
    /// How the upstream is reached, for fetches of the agent.
    pub fn of(
        upstream: &Upstream,
        commit: String,
        ssh: Option<String>,
        url: Option<String>,
    ) -> Self {
        let Upstream {
            remote,
            branch,
            tracking,
            ..
        } = upstream;
        let is_all = upstream.url.is_none() && !upstream.is_own();
        // It goes on a command line. A URL in a remote's place may have a secret, and is asked anew each time.
        let remote = masked(remote);
        let [branch, tracking] = [branch, tracking].map(String::clone);
        Self {
            remote,
            branch,
            tracking,
            commit,
            ssh,
            url,
            is_all,
            places: Vec::new(),
        }
    }

    /// Adds a copy of the place, which is another branch than the upstream, with the commit there.
    pub fn add(&mut self, place: &Upstream, commit: Option<String>) {
        self.is_all = false;
        self.places.push((place.tracking.clone(), commit));
    }
}

/// The files that settings name for what is ignored and for attributes. `None` where only git knows which they are.
fn named_files(settings: &GitSettings, top: &Path) -> Option<Vec<PathBuf>> {
    let named = ["core.excludesfile", "core.attributesfile"];
    let values = named.into_iter().flat_map(|key| settings.all(key));
    values.map(|value| expanded(value, top)).collect()
}

/// The files of attributes outside of the working tree and the git directory.
pub(crate) fn attributes_files(settings: &GitSettings, top: &Path) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.as_encoded_bytes().ends_with(b"attributes"))
    };
    let named = settings
        .get("core.attributesfile")
        .and_then(|file| expanded(file, top));
    settings_files()
        .into_iter()
        .filter(is_one)
        .chain(named)
        .collect()
}

/// A path in a setting, as git reads it where it can be told.
#[expect(
    clippy::disallowed_methods,
    reason = "git finds its settings by this variable"
)]
pub fn expanded(value: &str, top: &Path) -> Option<PathBuf> {
    match value.strip_prefix("~/") {
        Some(rest) => Some(Path::new(&env::var_os("HOME")?).join(rest)),
        None if value.starts_with(['~', '%']) => None,
        None => Some(top.join(value)),
    }
}

/// The files of git's settings outside of repositories, whether they are there or not.
#[expect(
    clippy::disallowed_methods,
    reason = "git finds its settings by these variables"
)]
pub fn settings_files() -> Vec<PathBuf> {
    let variable = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let named = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"]
        .into_iter()
        .filter_map(variable);
    let home = variable("HOME");
    let config =
        variable("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let in_config = ["config", "ignore", "attributes"]
        .map(|name| config.as_ref().map(|dir| dir.join("git").join(name)));
    let in_etc = [
        Some("/etc/gitconfig".into()),
        Some("/etc/gitattributes".into()),
        // A git that was built from source has them there.
        Some("/usr/local/etc/gitconfig".into()),
        Some("/usr/local/etc/gitattributes".into()),
    ];
    let others = [home.map(|home| home.join(".gitconfig"))]
        .into_iter()
        .chain(in_config)
        .chain(in_etc);
    named.chain(others.flatten()).collect()
}
