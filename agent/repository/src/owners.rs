//! The users that may change what git is led by here: the working tree's top, the git directories, the hooks, the
//! configuration, and everything on the way to them. Each of them is asked before git could start a program
//! (docs/configuration.md, "Whose databases"). Nobody but root and this user can change what was trusted, so it stays
//! as it was found.
//!
//! # Limits
//! - What a hook, a filter or another program starts or reads further on is not looked at.
//! - The programs that a setting names are not asked: who may write the setting has chosen them.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use beadlock_base::regular::{self, Links};
use beadlock_trust::{GitUse, Mend, Owners, WayRefusal};
use nix::errno::Errno;
use nix::unistd::{User, geteuid};
use serde::{Deserialize, Serialize};

use crate::hooks::OF_A_SYNC;
use crate::repository_facts::expanded;
use crate::{
    Git, GitReason, GitSettings, Part, Repository, SyncRequest, SyncStop, as_path, nul_separated,
    repository_lock, to_type,
};

/// The longest file that leads to a directory, in bytes.
const LONGEST: u64 = 16 * 1024;

/// The paths that settings lead git to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LedTo {
    hooks: PathBuf,
    /// Configuration files that other ones include.
    included: Vec<PathBuf>,
}

impl LedTo {
    fn read(repository: &Repository) -> Result<Self, SyncStop> {
        let settings = repository.settings()?;
        let is_include = |key: &str| key.starts_with("include.") || key.starts_with("includeif.");
        let included = match settings.entries().any(|(key, _)| is_include(key)) {
            true => included(&repository.git)?,
            false => Vec::new(),
        };
        Ok(Self {
            hooks: hooks(repository, settings)?,
            included,
        })
    }

    /// Whether all paths can be written as text. Otherwise the next sync does not get them.
    pub(crate) fn is_text(&self) -> bool {
        let mut all = self.included.iter().chain([&self.hooks]);
        all.all(|path| path.to_str().is_some())
    }
}

/// The directory of hooks.
fn hooks(repository: &Repository, settings: &GitSettings) -> Result<PathBuf, SyncStop> {
    let top = &repository.git.dir;
    match settings.get("core.hookspath") {
        None => Ok(repository.common_dir.join("hooks")),
        Some(set) => match expanded(set, top) {
            Some(dir) => Ok(dir),
            // Only git knows what that stands for.
            None => {
                let call = repository.git.call(["rev-parse", "--git-path", "hooks"]);
                let printed = call.done()?.stdout;
                let printed = printed.strip_suffix(b"\n").unwrap_or(&printed);
                Ok(top.join(as_path(printed)))
            }
        },
    }
}

/// The configuration files that git reads because others include them, and those that it would read if they were there.
fn included(git: &Git) -> Result<Vec<PathBuf>, SyncStop> {
    let call = git.call(["config", "--list", "--show-origin", "-z"]);
    let listed = nul_separated(&call.done()?.stdout);
    let mut found = Vec::new();
    for entry in listed.chunks_exact(2) {
        // The others are `command line` and `standard input`.
        let mut origin = entry[0].splitn(2, |byte| *byte == b':');
        let (Some(b"file"), Some(file)) = (origin.next(), origin.next()) else {
            continue;
        };
        let file = git.dir.join(as_path(file));
        let text = String::from_utf8_lossy(&entry[1]);
        let (key, value) = text.split_once('\n').unwrap_or((&text, ""));
        let is_include = key == "include.path"
            || (key.starts_with("includeif.") && key.ends_with(".path") && !value.is_empty());
        let beside = file.parent().unwrap_or(&git.dir);
        found.extend(expanded(value, beside).filter(|_| is_include));
        found.push(file);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Refuses where another user could decide what git runs or reads here.
pub fn refuse(repository: &Repository) -> Result<(), SyncStop> {
    let owners = Owners::of_this_user(repository.request.any_owner);
    if owners == Owners::All {
        return Ok(());
    }
    let led_to = match repository.led_to.get() {
        Some(known) => known,
        None => {
            let read = LedTo::read(repository)?;
            repository.led_to.get_or_init(|| read)
        }
    };
    let mut refusals: Vec<WayRefusal> = Vec::new();
    let mut refused = Vec::new();
    for (path, by) in asked(repository, led_to) {
        match owners.refusals_of(&path, by) {
            Ok(found) => {
                for refusal in found {
                    if refusals.iter().all(|known| known.path != refusal.path) {
                        refused.extend([refusal.path.clone(), path.clone()]);
                        refusals.push(refusal);
                    }
                }
            }
            // git does not get there either.
            Err(error) if is_out_of_reach(&error) => {}
            Err(error) => return Err(SyncStop::io("cannot look at", &path, &error)),
        }
    }
    let _ = repository.refused.set(refused);
    match refusals.is_empty() {
        true => Ok(()),
        false => Err(stop(&refusals)),
    }
}

fn is_out_of_reach(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EACCES | Errno::ENOTDIR))
}

/// The paths to check, each with git's use of it, in the order in which git comes to them.
fn asked(repository: &Repository, led_to: &LedTo) -> Vec<(PathBuf, GitUse)> {
    let top = &repository.git.dir;
    let (git_dir, common_dir) = (&repository.git_dir, &repository.common_dir);
    let mut asked = vec![(top.clone(), GitUse::LooksInto)];
    let link = top.join(".git");
    // The way that git goes, and where it ends.
    if let Some(leads) = leading(&link, "gitdir: ") {
        asked.push((link, GitUse::Reads));
        asked.push((top.join(leads), GitUse::LooksInto));
    } else {
        asked.push((link, GitUse::LooksInto));
    }
    asked.push((git_dir.clone(), GitUse::LooksInto));
    let link = git_dir.join("commondir");
    if let Some(leads) = leading(&link, "") {
        asked.push((link, GitUse::Reads));
        asked.push((git_dir.join(leads), GitUse::LooksInto));
    }
    asked.push((common_dir.clone(), GitUse::LooksInto));
    let configs = [common_dir.join("config"), git_dir.join("config.worktree")];
    let configs = configs.into_iter();
    let configs = configs.filter(|file| fs::symlink_metadata(file).is_ok());
    // Those that are not there yet, too: what others could put there counts from the next call of git on.
    let configs = configs.chain(config_files(top));
    let configs = configs.chain(led_to.included.iter().cloned());
    asked.extend(configs.map(|file| (file, GitUse::Reads)));
    asked.push((led_to.hooks.clone(), GitUse::RunsFrom));
    let hooks = OF_A_SYNC.iter().map(|hook| led_to.hooks.join(hook));
    let hooks = hooks.filter(|hook| fs::symlink_metadata(hook).is_ok());
    asked.extend(hooks.map(|hook| (hook, GitUse::Runs)));
    // What signs for this sync lies there.
    asked.push((repository_lock::notes(repository), GitUse::RunsFrom));
    let stand_in = Some(repository_lock::signer(repository));
    let stand_in = stand_in.filter(|file| fs::symlink_metadata(file).is_ok());
    asked.extend(stand_in.map(|file| (file, GitUse::Runs)));
    asked
}

/// The path in a file that leads elsewhere: its text after `before`; `None` where it has no such text.
fn leading(file: &Path, before: &str) -> Option<PathBuf> {
    let mut text = Vec::new();
    let file = regular::open(file, Links::Refused).ok()?;
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    let path = text.strip_prefix(before.as_bytes())?;
    let end = path
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    Some(as_path(&path[..=end]).to_owned())
}

/// The configuration files of this user and of this machine that git reads.
#[expect(
    clippy::disallowed_methods,
    reason = "git finds its configuration by these variables"
)]
fn config_files(top: &Path) -> Vec<PathBuf> {
    let file = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let mut files = Vec::new();
    match env::var_os("GIT_CONFIG_GLOBAL") {
        Some(named) => files.push(PathBuf::from(named)),
        None => {
            let home = file("HOME").map(PathBuf::from);
            let of_user = file("XDG_CONFIG_HOME").map(PathBuf::from);
            let of_user = of_user.or_else(|| Some(home.as_ref()?.join(".config")));
            files.extend(of_user.map(|dir| dir.join("git/config")));
            files.extend(home.map(|home| home.join(".gitconfig")));
        }
    }
    let is_off = file("GIT_CONFIG_NOSYSTEM").is_some_and(|value| {
        let words = ["1", "true", "yes", "on"];
        words.iter().any(|word| value.eq_ignore_ascii_case(word))
    });
    match file("GIT_CONFIG_SYSTEM") {
        _ if is_off => {}
        Some(named) => files.push(named.into()),
        // A git that was built from source has the second one.
        None => files.extend(["/etc/gitconfig", "/usr/local/etc/gitconfig"].map(PathBuf::from)),
    }
    files.into_iter().map(|file| top.join(file)).collect()
}

fn stop(refusals: &[WayRefusal]) -> SyncStop {
    let is_anothers = |refusal: &&WayRefusal| refusal.mend == Mend::RunAsOwner;
    let told = refusals.iter().find(is_anothers).or(refusals.first());
    let Some(told) = told else {
        return SyncStop::failed(GitReason::WrongOwner, "another user's");
    };
    let more = match refusals.len() {
        1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let remedy = match told.mend {
        Mend::RunAsOwner => "run the agent as that user",
        Mend::Chown => "look at what is in it and make it yours",
        Mend::Chmod { .. } => "look at what is in there and take that right away",
    };
    let why = format!(
        "{}{more}; {remedy}, or give --allow-foreign-owner",
        told.why
    );
    let stop = SyncStop::failed(GitReason::WrongOwner, why);
    match told.mend {
        Mend::RunAsOwner => stop,
        _ => stop.next(command(refusals)),
    }
}

/// The command that makes this user the owner, and takes the right to write from others.
fn command(refusals: &[WayRefusal]) -> String {
    let these = |is_one: fn(&Mend) -> bool| {
        let these = refusals.iter().filter(move |refusal| is_one(&refusal.mend));
        these.map(|refusal| refusal.path.as_path()).take(8)
    };
    let me = geteuid();
    let is_mine = |path: &Path| {
        me.is_root() || fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == me.as_raw())
    };
    let mut commands = Vec::new();
    let owned: Vec<_> = these(|mend| *mend == Mend::Chown).collect();
    if !owned.is_empty() {
        let name = User::from_uid(me).ok().flatten().map(|user| user.name);
        let name = name.unwrap_or_else(|| me.to_string());
        let template = match me.is_root() {
            true => "chown -h {} {}",
            false => "sudo chown -h {} {}",
        };
        let parts = [Part::Word(OsStr::new(&name)), Part::Paths(owned)];
        commands.push(to_type(template, &parts));
    }
    let written: Vec<_> = these(|mend| matches!(mend, Mend::Chmod { .. })).collect();
    if !written.is_empty() {
        let rights = refusals.iter().map(|refusal| refusal.mend);
        let (mut group, mut everybody) = (false, false);
        for mend in rights {
            if let Mend::Chmod {
                group: by_group,
                everybody: by_all,
            } = mend
            {
                (group, everybody) = (group || by_group, everybody || by_all);
            }
        }
        let is_mine = written.iter().all(|path| is_mine(path));
        let template = match (is_mine, group, everybody) {
            (true, true, true) => "chmod go-w {}",
            (true, true, false) => "chmod g-w {}",
            (true, false, _) => "chmod o-w {}",
            (false, true, true) => "sudo chmod go-w {}",
            (false, true, false) => "sudo chmod g-w {}",
            (false, false, _) => "sudo chmod o-w {}",
        };
        commands.push(to_type(template, &[Part::Paths(written)]));
    }
    commands.join(" && ")
}

/// Refuses a repository in which git would wait for a named pipe.
pub(crate) fn refuse_pipes(request: &SyncRequest) -> Result<(), SyncStop> {
    const READ: [&str; 4] = ["", "HEAD", "config", "config.worktree"];
    let above = request.dir.ancestors().skip(1).map(|dir| dir.join(".git"));
    let Some(git_dir) = above
        .into_iter()
        .find(|dir| fs::symlink_metadata(dir).is_ok())
    else {
        return Ok(());
    };
    let of_git = READ.iter().map(|name| match *name {
        "" => git_dir.clone(),
        name => git_dir.join(name),
    });
    let top = git_dir.parent().unwrap_or(&git_dir);
    for file in of_git.chain(config_files(top)) {
        if fs::metadata(&file).is_ok_and(|meta| meta.file_type().is_fifo()) {
            let why = format!(
                "{} is a named pipe, and git would wait for it",
                crate::escaped_path(&file)
            );
            return Err(SyncStop::failed(GitReason::Damaged, why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
