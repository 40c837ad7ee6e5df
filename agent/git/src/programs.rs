//! The programs of the working tree that git runs here, and the files that say which they are. A pull that changes one
//! is left to a person: what came from elsewhere is not run before somebody has looked at it.
//!
//! Such programs are hooks, also where a link leads to them, and what is beside them; each word of a configured command
//! that is a path of the working tree; files of settings, also those that are named and not there yet; and the files by
//! which a known program for hooks decides what it runs.
//!
//! # Limits
//! - What a hook or a program starts further on is not known here.
//! - Names are compared without case: on some file systems two such names are one file.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use beadlock_base::regular::{self, Links};
use nix::unistd::{Uid, User};

use crate::{Part, escaped, records, to_type};
use beadlock_repository::entries::Difference;
use beadlock_repository::hooks::OF_A_SYNC;
use beadlock_repository::{
    GitReason, Repository, SyncStop, Upstream, as_path, nul_separated, repository_facts, typed_all,
};

/// How many links are followed from one path, as the kernel does.
const LINKS: usize = 40;
/// How much of a hook is read, in bytes.
const READ: u64 = 64 * 1024;
/// The longest `package.json` that is looked into, in bytes.
const LONG: usize = 4 * 1024 * 1024;
/// How deep quotes are taken off a command.
const DEEP: usize = 4;

/// Refuses a pull that changes a program which git runs here. `sources` are what is pulled.
pub(crate) fn refuse(
    repository: &Repository,
    sources: &[(&Upstream, &str)],
    differences: &[Difference],
    is_ahead: bool,
) -> Result<(), SyncStop> {
    // The files of a submodule stay as they are.
    let is_changed =
        |it: &&Difference| it.old.is_some() || it.new.is_some() || it.becomes_submodule;
    let differences: Vec<_> = differences.iter().filter(is_changed).collect();
    if differences.is_empty() {
        return Ok(());
    }
    let guarded = Guarded::of(repository)?;
    let mut found: Vec<(&[u8], &Why)> = Vec::new();
    for difference in &differences {
        if let Some(why) = guarded.why(as_path(&difference.path)) {
            found.push((&difference.path, why));
        } else if let Some(why) = guarded.package(repository, difference)? {
            found.push((&difference.path, why));
        }
    }
    let Some((_, why)) = found.first() else {
        return Ok(());
    };
    let paths: Vec<_> = found.iter().map(|(path, _)| *path).collect();
    let top = || Part::Path(&repository.git.dir);
    let name = |at: &Upstream| {
        let name = at.tracking.strip_prefix("refs/remotes/");
        name.unwrap_or(&at.tracking).to_owned()
    };
    let range: Vec<_> = match sources {
        [(at, _)] => vec![format!("..{}", name(at)).into()],
        _ => {
            let names = sources.iter().map(|(at, _)| name(at).into());
            names.chain(["^HEAD".into()]).collect()
        }
    };
    let parts = [top(), Part::Words(range), typed_all(&paths)];
    let look = to_type("git -C {} log -p {} -- {}", &parts);
    let sentence = format!(
        "a pull would change {}, {} ({}); {look} shows it",
        repository.shown_all(&paths),
        why.role.words(),
        escaped(&why.source)
    );
    let stop = SyncStop::not_pulling(GitReason::RefusedContent, sentence);
    let command = match sources {
        [(at, _)] if !at.is_own() => match is_ahead {
            true => taken(&name(at), top, &paths),
            false => to_type("git -C {} pull", &[top()]),
        },
        _ => {
            let pull = |(at, _): &(&Upstream, &str)| {
                let words = vec![at.remote.clone().into(), at.branch.clone().into()];
                let parts = [top(), Part::Words(words)];
                to_type("git -C {} pull --no-rebase --no-edit {}", &parts)
            };
            // It may make a merge, which is the person's to push.
            let push = to_type("git -C {} push", &[top()]);
            let commands = sources.iter().map(pull).chain([push]);
            commands.collect::<Vec<_>>().join(" && ")
        }
    };
    Err(stop.next(command))
}

/// The command that takes these files of the upstream into a commit, beside commits of one's own. A rebase by hand
/// would have conflicts in the records, which the next sync merges.
fn taken<'a>(name: &str, top: impl Fn() -> Part<'a>, paths: &[&[u8]]) -> String {
    let source = format!("--source={name}");
    let message = format!("Take programs of {name}");
    let restore = [top(), Part::Words(vec![source.into()]), typed_all(paths)];
    let commit = [top(), Part::Words(vec![message.into()]), typed_all(paths)];
    [
        to_type("git -C {} restore {} --staged --worktree -- {}", &restore),
        to_type("git -C {} commit -m {} -- {}", &commit),
    ]
    .join(" && ")
}

/// The role of a guarded file: git runs it, or it decides what git or a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Program,
    Settings,
    OfAHook,
}

impl Role {
    fn words(self) -> &'static str {
        match self {
            Self::Program => "which git runs here",
            Self::Settings => "which decides what git runs here",
            Self::OfAHook => "which decides what a hook runs here",
        }
    }
}

/// Why a path is guarded, and by which setting or hook.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Why {
    role: Role,
    source: String,
}

/// The paths of the working tree that a pull must not change.
#[derive(Debug, Default)]
struct Guarded {
    top: PathBuf,
    /// The database, from the top.
    prefix: PathBuf,
    /// Paths from the top, in lower case: of a file, or of a directory with all below it.
    paths: BTreeMap<PathBuf, Why>,
    /// Paths of directories before a `..`, in the same form. A link in their place would lead elsewhere.
    crossed: BTreeMap<PathBuf, Why>,
    /// The programs for hooks that are called by a hook here.
    called: Vec<(&'static HookProgram, Why)>,
}

/// A program that hooks call, and the files by which it decides what it runs.
#[derive(Debug)]
struct HookProgram {
    /// Its name, as it stands in the text of a hook that calls it.
    name: &'static str,
    /// How the paths of its files begin, from the top.
    at_top: &'static [&'static str],
    /// How the names of its files begin, in any directory.
    anywhere: &'static [&'static str],
    /// Members of a `package.json`, in any directory.
    members: &'static [&'static str],
}

impl HookProgram {
    const fn of(
        name: &'static str,
        at_top: &'static [&'static str],
        anywhere: &'static [&'static str],
        members: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            at_top,
            anywhere,
            members,
        }
    }

    fn reads(&self, path: &Path) -> bool {
        let text = path.to_string_lossy();
        let name = path.file_name().map(OsStr::to_string_lossy);
        let name = name.unwrap_or_default();
        // A file or a link in the place of a directory is it too.
        let begins =
            |begin: &str| text.starts_with(begin) || begin.strip_suffix('/') == Some(&*text);
        self.at_top.iter().any(|begin| begins(begin))
            || (self.name == "lefthook" && is_of_lefthook(&text))
            || self.anywhere.iter().any(|begin| name.starts_with(begin))
    }
}

const HOOK_PROGRAMS: [HookProgram; 11] = [
    HookProgram::of("pre-commit", &[], &[".pre-commit-config."], &[]),
    HookProgram::of("prek", &[], &[".pre-commit-config.", "prek.toml"], &[]),
    // `is_of_lefthook` knows its names.
    HookProgram::of("lefthook", &[".lefthook/", ".lefthook-local/"], &[], &[]),
    HookProgram::of(
        "lint-staged",
        &[MODULES],
        &[".lintstagedrc", "lint-staged.config."],
        &["lint-staged"],
    ),
    HookProgram::of(
        "husky",
        &[MODULES, ".husky/", ".huskyrc", "husky.config."],
        &[],
        &["husky"],
    ),
    HookProgram::of(
        "commitlint",
        &[MODULES],
        &[".commitlintrc", "commitlint.config."],
        &["commitlint"],
    ),
    HookProgram::of("npx", &[MODULES], &[], &[]),
    HookProgram::of("node_modules", &[MODULES], &[], &[]),
    HookProgram::of("overcommit", &[".overcommit", ".git-hooks/"], &[], &[]),
    HookProgram::of("captainhook", &["captainhook."], &[], &[]),
    HookProgram::of("grumphp", &["grumphp."], &[], &[]),
];
/// Where `npx` and husky look for programs first.
const MODULES: &str = "node_modules/";
/// How the names of lefthook's files end.
const OF_LEFTHOOK: [&str; 5] = ["yml", "yaml", "toml", "json", "jsonc"];

/// Whether lefthook reads this path, from the top, in lower case.
fn is_of_lefthook(path: &str) -> bool {
    let Some((stem, end)) = path.rsplit_once('.') else {
        return false;
    };
    let stem = stem.strip_suffix("-local").unwrap_or(stem);
    OF_LEFTHOOK.contains(&end) && ["lefthook", ".lefthook", ".config/lefthook"].contains(&stem)
}

/// The hooks that `git am` alone starts, beside those of a sync.
const OF_MAIL: [&str; 3] = ["applypatch-msg", "post-applypatch", "pre-applypatch"];

impl Guarded {
    fn of(repository: &Repository) -> Result<Self, SyncStop> {
        let mut guarded = Self {
            top: repository.git.dir.clone(),
            prefix: repository.prefix.clone(),
            ..Self::default()
        };
        let list = ["config", "--list", "--show-origin", "-z"];
        let printed = repository.git.call(list).done()?.stdout;
        let settings = Setting::parse(&printed);
        let mut hooks = settings.iter().filter(|it| it.key == "core.hookspath");
        match hooks.next_back() {
            Some(setting) => {
                if let Some(dir) = expanded(&setting.value, &guarded.top) {
                    guarded.add_hooks(&dir, "core.hooksPath");
                }
            }
            None => guarded.add_hooks(&repository.common_dir.join("hooks"), ""),
        }
        for setting in &settings {
            guarded.add_setting(setting);
        }
        guarded.add_environment();
        let of_git = [
            repository.common_dir.join("config"),
            repository.git_dir.join("config.worktree"),
        ];
        let files = repository_facts::settings_files().into_iter().chain(of_git);
        for file in files.chain(of_programs()) {
            guarded.add(&file, Role::Settings, "a file of settings");
        }
        Ok(guarded)
    }

    /// Guards a path, and all links on the way there, as far as they are in the working tree.
    fn add(&mut self, path: &Path, role: Role, source: &str) {
        let why = || Why {
            role,
            source: source.to_owned(),
        };
        let trail = trail(&self.top.join(path));
        for dir in trail.crossed {
            if let Ok(dir) = dir.strip_prefix(&self.top) {
                self.crossed.entry(folded(dir)).or_insert_with(why);
            }
        }
        for path in trail.found {
            let Ok(path) = path.strip_prefix(&self.top) else {
                continue;
            };
            // All of the database is no program.
            let is_too_much = self.prefix.starts_with(path);
            if !is_too_much && !path.as_os_str().is_empty() {
                self.paths.entry(folded(path)).or_insert_with(why);
            }
        }
    }

    /// Guards a directory of hooks: each hook with its links, and the whole directory where it is in the working tree.
    fn add_hooks(&mut self, dir: &Path, setting: &str) {
        let mut dirs = vec![dir.to_owned()];
        // The scripts of husky are one above.
        if dir.ends_with("_")
            && let Some(above) = dir.parent()
        {
            dirs.push(above.to_owned());
        }
        for dir in dirs {
            self.add(&dir, Role::Program, setting);
            for name in OF_A_SYNC.iter().chain(&OF_MAIL) {
                self.add_hook(&dir.join(name), setting);
            }
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let name = entry.file_name();
                if !name.as_encoded_bytes().ends_with(b".sample") {
                    self.add_hook(&dir.join(name), setting);
                }
            }
        }
        if dir.components().any(|part| part.as_os_str() == ".husky") {
            self.call(b"husky", setting);
        }
    }

    fn add_hook(&mut self, path: &Path, setting: &str) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let source = match setting {
            "" => format!("the hook {name}"),
            setting => setting.to_owned(),
        };
        self.add(path, Role::Program, &source);
        if !fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
            return;
        }
        let mut text = Vec::new();
        let read =
            regular::open(path, Links::Followed).map(|file| file.take(READ).read_to_end(&mut text));
        if read.is_ok() {
            self.call(&text, &format!("the hook {name}"));
            // pre-commit's own file may be another one.
            for file in configured(&String::from_utf8_lossy(&text)) {
                self.add(Path::new(file), Role::OfAHook, &source);
            }
        }
    }

    /// Notes the programs for hooks that this text calls.
    fn call(&mut self, text: &[u8], source: &str) {
        // A comment calls nothing, but for the one that says what runs the hook.
        let lines = || {
            let lines = text.split(|byte| *byte == b'\n');
            let calls = |line: &[u8]| !line.starts_with(b"#") || line.starts_with(b"#!");
            lines.filter(move |line| calls(line.trim_ascii_start()))
        };
        for program in &HOOK_PROGRAMS {
            let name = program.name.as_bytes();
            let is_called = lines().any(|line| line.windows(name.len()).any(|word| word == name));
            if is_called && !self.called.iter().any(|(it, _)| it.name == program.name) {
                let why = Why {
                    role: Role::OfAHook,
                    source: format!("{}, {source}", program.name),
                };
                self.called.push((program, why));
            }
        }
    }

    fn add_setting(&mut self, setting: &Setting) {
        if let Some(file) = &setting.file {
            self.add(file, Role::Settings, "a file of settings");
        }
        if is_include(&setting.key) {
            let above = setting.file.as_deref().and_then(Path::parent);
            let above = self.top.join(above.unwrap_or(Path::new("")));
            if let Some(path) = expanded(&setting.value, &above) {
                self.add(&path, Role::Settings, "include.path");
            }
        } else if is_command(&setting.key, &setting.value) {
            self.add_command(&setting.value, &setting.key);
        }
    }

    fn add_command(&mut self, command: &str, source: &str) {
        let has_variables = command.contains(['$', '`']);
        let Words { all: words, first } = Words::of(command);
        for word in words.iter().chain(&first) {
            if !word.contains('/') {
                self.add_program(word, source);
                self.add_program(&format!("git-credential-{word}"), source);
            }
        }
        for word in &words {
            self.add_word(word, source);
            // What stands before it is known to the shell alone.
            if has_variables {
                let ends = word
                    .match_indices('/')
                    .map(|(at, _)| word[at..].trim_start_matches('/'));
                for end in ends.filter(|end| !end.is_empty()) {
                    self.add(Path::new(end), Role::Program, source);
                }
            }
        }
        for module in modules(command) {
            self.add(&module, Role::Program, source);
            // Each package on the way is run too.
            for part in module.ancestors().filter(|part| part.file_name().is_some()) {
                for file in [part.with_extension("py"), part.join("__init__.py")] {
                    self.add(&file, Role::Program, source);
                }
            }
        }
        // `cd .beads && ./x`: not all that is there is a program.
        let dirs: Vec<_> = words
            .iter()
            .filter_map(|word| expanded(word, &self.top))
            .filter(|dir| self.top != *dir && self.top.join(&self.prefix).starts_with(dir))
            .collect();
        for dir in &dirs {
            for word in &words {
                self.add(&dir.join(word), Role::Program, source);
            }
        }
    }

    /// Guards the paths that a word of a command may stand for.
    fn add_word(&mut self, word: &str, source: &str) {
        let value = word.split_once('=').map(|(_, value)| value);
        // `-C./tools`
        let mut characters = word.chars();
        let glued = match (characters.next(), characters.next()) {
            (Some('-'), Some(_)) => Some(characters.as_str()),
            _ => None,
        };
        for word in [Some(word), value, glued].into_iter().flatten() {
            if let Some(path) = expanded(word, &self.top) {
                self.add(&path, Role::Program, source);
            }
            // What the shell puts there is below this directory.
            let literal = word.find(['*', '?', '[', '$']).map(|at| &word[..at]);
            if let Some((dir, _)) = literal.and_then(|literal| literal.rsplit_once('/'))
                && let Some(dir) = expanded(dir, &self.top)
            {
                self.add(&dir, Role::Program, source);
            }
        }
    }

    /// Guards the program of this name, where it is looked for.
    fn add_program(&mut self, name: &str, source: &str) {
        let found = search_path()
            .map(|dir| dir.join(name))
            .find(|program| program.is_file());
        if let Some(program) = found {
            self.add(&program, Role::Program, source);
        }
    }

    /// Guards the programs that variables name, and the places where programs are looked for.
    #[expect(
        clippy::disallowed_methods,
        reason = "git finds its programs by these variables"
    )]
    fn add_environment(&mut self) {
        for name in [
            "GIT_ASKPASS",
            "GIT_SSH",
            "GIT_SSH_COMMAND",
            "GIT_PROXY_COMMAND",
        ] {
            if let Some(command) = env::var_os(name) {
                self.add_command(&command.to_string_lossy(), name);
            }
        }
        for dir in search_path().chain(env::var_os("GIT_EXEC_PATH").map(PathBuf::from)) {
            self.add(&dir, Role::Program, "PATH");
        }
        for name in ["git", "ssh", "gpg", "ssh-keygen", "git-lfs"] {
            self.add_program(name, "PATH");
        }
    }

    /// Why a pull must not change this path, from the top; `None` where it may.
    fn why(&self, path: &Path) -> Option<&Why> {
        let path = folded(path);
        let above = path.ancestors().find_map(|above| self.paths.get(above));
        // A file, or a link, in the place of a directory above.
        let below = || {
            let (below, why) = self.paths.range(path.clone()..).next()?;
            below.starts_with(&path).then_some(why)
        };
        let read = || {
            let mut called = self.called.iter();
            called.find(|(program, _)| program.reads(&path))
        };
        let crossed = || {
            let (dir, why) = self.crossed.range(path.clone()..).next()?;
            dir.starts_with(&path).then_some(why)
        };
        let named = above.or_else(below).or_else(crossed);
        named.or_else(|| read().map(|(_, why)| why))
    }

    /// Why a pull must not change a member of this `package.json`; `None` where only other members change.
    fn package(
        &self,
        repository: &Repository,
        difference: &Difference,
    ) -> Result<Option<&Why>, SyncStop> {
        let path = folded(as_path(&difference.path));
        if path.file_name() != Some(OsStr::new("package.json")) {
            return Ok(None);
        }
        let called: Vec<_> = self
            .called
            .iter()
            .filter(|(program, _)| !program.members.is_empty())
            .collect();
        if called.is_empty() {
            return Ok(None);
        }
        let ids: Vec<_> = [&difference.old, &difference.new]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let mut texts = records::blobs(&repository.git, &ids)?.into_iter();
        let old = difference.old.as_ref().and_then(|_| texts.next());
        let new = difference.new.as_ref().and_then(|_| texts.next());
        let differs = |(program, _): &&&(&'static HookProgram, Why)| {
            let mut members = program.members.iter();
            members.any(|name| member(old.as_deref(), name) != member(new.as_deref(), name))
        };
        Ok(called.iter().find(differs).map(|(_, why)| why))
    }
}

/// The files of settings of ssh and gpg, which git runs: there are commands in these, too.
#[expect(
    clippy::disallowed_methods,
    reason = "gpg finds its settings by these variables"
)]
fn of_programs() -> Vec<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let user = User::from_uid(Uid::effective()).ok().flatten();
    // ssh asks for the home of the user, whatever the variable says.
    let homes = user.map(|user| user.dir).into_iter();
    let homes: BTreeSet<_> = homes.chain(variable("HOME").map(PathBuf::from)).collect();
    let of_gpg = homes.iter().map(|home| home.join(".gnupg"));
    let of_gpg = of_gpg.chain(variable("GNUPGHOME").map(PathBuf::from));
    let of_gpg = of_gpg.flat_map(|dir| [dir.join("gpg.conf"), dir.join("gpg-agent.conf")]);
    let of_ssh = homes.iter().map(|home| home.join(".ssh/config"));
    of_ssh.chain(of_gpg).collect()
}

/// The files that a hook names for pre-commit's settings.
fn configured(text: &str) -> Vec<&str> {
    let is_called = ["pre-commit", "prek"].iter().any(|it| text.contains(it));
    let mut files = Vec::new();
    let mut words = text.split_ascii_whitespace();
    while let Some(word) = words.next() {
        let word = word.trim_matches(AROUND);
        let after = ["--config=", "PRE_COMMIT_CONFIG="]
            .into_iter()
            .find_map(|begin| word.strip_prefix(begin));
        let file = match word {
            "-c" | "--config" if is_called => words.next(),
            _ => after,
        };
        let file = file.map(|file| file.trim_matches(AROUND));
        files.extend(file.filter(|file| !file.is_empty()));
    }
    files
}

/// The characters that may stand around a word in the text of a shell.
const AROUND: [char; 5] = ['"', '\'', '(', ')', ';'];

/// The directories in which programs are looked for: those of `PATH`.
#[expect(
    clippy::disallowed_methods,
    reason = "git finds its programs by this variable"
)]
fn search_path() -> impl Iterator<Item = PathBuf> {
    let dirs = env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<_> = env::split_paths(&dirs).collect();
    dirs.into_iter()
}

/// A member of a `package.json`. What cannot be read differs from all that can.
fn member(text: Option<&[u8]>, name: &str) -> Result<Option<serde_json::Value>, Vec<u8>> {
    let Some(text) = text else {
        return Ok(None);
    };
    if text.len() > LONG {
        return Err(text.to_vec());
    }
    let package: serde_json::Value = serde_json::from_slice(text).map_err(|_| text.to_vec())?;
    Ok(package.get(name).cloned())
}

/// A setting, and the file that has it.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    file: Option<PathBuf>,
    key: String,
    value: String,
}

impl Setting {
    /// Reads `git config --list --show-origin -z`.
    fn parse(printed: &[u8]) -> Vec<Self> {
        let words = nul_separated(printed);
        let setting = |pair: &[Vec<u8>]| {
            let text = String::from_utf8_lossy(&pair[1]).into_owned();
            let (key, value) = text.split_once('\n').unwrap_or((&text, ""));
            // `KIND:PATH`; a command line has no path.
            let at = pair[0].iter().position(|byte| *byte == b':');
            let file = at.map(|at| &pair[0][at + 1..]);
            let file = file.filter(|file| !file.is_empty());
            Self {
                file: file.map(|file| as_path(file).to_owned()),
                key: key.to_owned(),
                value: value.to_owned(),
            }
        };
        words.chunks_exact(2).map(setting).collect()
    }
}

fn is_include(key: &str) -> bool {
    key == "include.path" || (key.starts_with("includeif.") && key.ends_with(".path"))
}

/// Whether the value of this setting is a command, or has one in it.
fn is_command(key: &str, value: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    let name = key.rsplit('.').next().unwrap_or_default();
    match section {
        "core" => matches!(
            name,
            "sshcommand" | "fsmonitor" | "askpass" | "gitproxy" | "alternaterefscommand"
        ),
        "filter" => matches!(name, "clean" | "smudge" | "process"),
        "merge" => name == "driver",
        "gpg" => matches!(name, "program" | "defaultkeycommand"),
        "credential" => name == "helper",
        "diff" => matches!(name, "command" | "textconv" | "external"),
        "hook" => name == "command",
        "gc" => name == "recentobjectshook",
        "uploadpack" => name == "packobjectshook",
        "remote" => {
            matches!(name, "uploadpack" | "receivepack")
                || (matches!(name, "url" | "pushurl") && value.starts_with("ext::"))
        }
        _ => false,
    }
}

/// The words of a command that may be paths or programs: with and without what stands around them, also inside of
/// quotes.
#[derive(Debug, Default)]
struct Words {
    all: BTreeSet<String>,
    /// The words that stand where a program does: without a slash they are looked for elsewhere.
    first: BTreeSet<String>,
}

impl Words {
    fn of(command: &str) -> Self {
        let mut words = Self::default();
        words.take(command, DEEP);
        words
    }

    fn take(&mut self, command: &str, deep: usize) {
        let is_mark = |c: char| c.is_whitespace() || "'\"`;|&()<>{}=,:!\\".contains(c);
        for (at, word) in unquoted(command).into_iter().enumerate() {
            let is_quoted =
                deep > 0 && word.contains(|c: char| c.is_whitespace() || "'\"".contains(c));
            if is_quoted {
                self.take(&word, deep - 1);
            }
            let pieces = word.split(is_mark).filter(|piece| !piece.is_empty());
            let pieces: Vec<_> = pieces.map(str::to_owned).collect();
            for word in pieces.into_iter().chain([word]) {
                let is_first = at == 0 && !word.contains('/');
                let words = if is_first {
                    &mut self.first
                } else {
                    &mut self.all
                };
                words.insert(word);
            }
        }
    }
}

/// The modules that a command has Python run, as paths.
fn modules(command: &str) -> Vec<PathBuf> {
    let is_between = |c: char| c.is_whitespace() || "'\"`;|&()".contains(c);
    let words = command.split(is_between).filter(|word| !word.is_empty());
    let mut words = words.skip_while(|word| !word.contains("python"));
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let module = match word.strip_prefix("-m") {
            Some("") => words.next(),
            glued => glued,
        };
        found.extend(module.map(|module| module.split('.').collect::<PathBuf>()));
    }
    found
}

/// The words of a command line, as a shell takes them apart.
fn unquoted(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => word.extend(characters.next()),
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => quote = Some(c),
            (c, None) if c.is_whitespace() => words.push(std::mem::take(&mut word)),
            (c, _) => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// A path in a setting, from this directory. `None` where only git knows what it stands for.
fn expanded(value: &str, dir: &Path) -> Option<PathBuf> {
    let home = |user: &str| User::from_name(user).ok().flatten().map(|user| user.dir);
    let value = value.strip_prefix(":(optional)").unwrap_or(value);
    match value.strip_prefix('~') {
        _ if value.is_empty() || value.starts_with("%(prefix)") => None,
        None => Some(dir.join(value)),
        Some("") => repository_facts::expanded("~/", dir),
        Some(rest) if rest.starts_with('/') => repository_facts::expanded(value, dir),
        Some(rest) => {
            let (user, rest) = rest.split_once('/').unwrap_or((rest, ""));
            Some(home(user)?.join(rest))
        }
    }
}

/// The way to an absolute path.
#[derive(Debug)]
struct Trail {
    /// The links on it, and where they lead at last, whether that is there or not.
    found: Vec<PathBuf>,
    /// Each directory before a `..`.
    crossed: Vec<PathBuf>,
}

fn trail(path: &Path) -> Trail {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut found, mut crossed) = (Vec::new(), Vec::new());
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let mut left = parts(path);
    while let Some(part) = left.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                crossed.push(at.clone());
                at.pop();
            }
            Some(Component::Normal(name)) => {
                let next = at.join(name);
                match fs::read_link(&next) {
                    Ok(target) if links < LINKS => {
                        links += 1;
                        left.extend(parts(&target));
                        found.push(next);
                    }
                    _ => at = next,
                }
            }
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::CurDir | Component::Prefix(_)) | None => {}
        }
    }
    found.push(at);
    Trail { found, crossed }
}

/// A path by which names that differ in case alone are one.
fn folded(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}

#[cfg(test)]
mod tests;
