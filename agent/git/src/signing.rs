//! Signatures: each commit that a sync makes is signed where `git commit` would sign it (`commit.gpgSign`), by git,
//! with the person's key and program. Nobody is asked for a passphrase: the key is in an agent, or the sync says so.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Uid, access};

use crate::rebase::Commit;
use crate::{Part, escaped, to_type};
use beadlock_repository::program::GitCall;
use beadlock_repository::{
    Git, GitOutput, GitReason, GitSettings, Repository, SyncStop, repository_facts, repository_lock,
};

/// Whether commits are signed here.
pub(crate) fn is_wanted(repository: &Repository) -> Result<bool, SyncStop> {
    Ok(repository.settings()?.is_true("commit.gpgsign"))
}

/// How pushes are signed without a question; `None` where they are not signed.
pub(crate) fn of_pushes(repository: &Repository) -> Result<Option<Quiet>, SyncStop> {
    let settings = repository.settings()?;
    let is_wanted = settings
        .get("push.gpgsign")
        .is_some_and(|value| value.eq_ignore_ascii_case("if-asked"));
    match is_wanted || settings.is_true("push.gpgsign") {
        true => Quiet::of(repository).map(Some),
        false => Ok(None),
    }
}

/// A commit that is ready but for its signature.
pub(crate) struct Unsigned<'a> {
    pub(crate) tree: &'a str,
    pub(crate) parents: &'a [String],
    pub(crate) message: &'a [u8],
    /// The author's line and the committer's time of another commit; `None` for those of now.
    pub(crate) like: Option<&'a Commit>,
}

impl Unsigned<'_> {
    /// Makes the commit, with a signature where one is wanted.
    pub(crate) fn make(&self, repository: &Repository) -> Result<String, SyncStop> {
        if !is_wanted(repository)? {
            return self.call(&repository.git, None).text();
        }
        let quiet = Quiet::of(repository)?;
        let call = self
            .call(&repository.git, Some(&quiet))
            .within(repository.request.for_the_network());
        let signed = call.run()?;
        if let Some(commit) = signed.ok_text() {
            return Ok(commit);
        }
        // Whatever else is the matter stops it without a signature, too. It is the same object at each try.
        let dates = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];
        let dates = dates.map(|name| (OsString::from(name), OsString::from("@0 +0000")));
        let unsigned = self.call(&repository.git, None).variables(&dates);
        unsigned.text()?;
        signed.show();
        let top = Part::Path(&repository.git.dir);
        let by_hand = match self.like {
            Some(_) => to_type("git -C {} pull --rebase", &[top]),
            None => {
                let database = Part::Words(vec![repository.typed()]);
                to_type(
                    "git -C {} commit -S -m 'sync .beads' -- {}",
                    &[top, database],
                )
            }
        };
        Err(refused(repository, &signed, by_hand))
    }

    fn call(&self, git: &Git, quiet: Option<&Quiet>) -> GitCall {
        let mut args: Vec<OsString> = Vec::new();
        if let Some(encoding) = self.like.and_then(Commit::encoding) {
            args.push("-c".into());
            args.push(format!("i18n.commitEncoding={encoding}").into());
        }
        if let Some(quiet) = quiet {
            args.extend(quiet.settings());
        }
        args.extend(["commit-tree", self.tree].map(OsString::from));
        for parent in self.parents {
            args.extend(["-p", parent].map(OsString::from));
        }
        args.extend(quiet.map(|_| "-S".into()));
        args.extend(["-F", "-"].map(OsString::from));
        let mut call = git.call(args).stdin(self.message);
        if quiet.is_some() {
            call = Quiet::in_environment(call);
        }
        match self.like {
            Some(commit) => call.variables(&commit.variables()),
            None => call,
        }
    }
}

/// Makes those commits of `to` anew and signed that none of `known` has. Returns the last. Where nothing is signed
/// here, that is `to`.
pub(crate) fn sign(
    repository: &Repository,
    to: &str,
    known: impl IntoIterator<Item = String>,
) -> Result<String, SyncStop> {
    if !is_wanted(repository)? {
        return Ok(to.to_owned());
    }
    let git = &repository.git;
    let range = ["rev-list", "--reverse", "--topo-order", to, "--not"];
    let new = git.call(range).paths(known).text()?;
    let mut signed: BTreeMap<&str, String> = BTreeMap::new();
    for id in new.lines() {
        let commit = Commit::parse(&git.call(["cat-file", "commit", id]).done()?.stdout);
        let parents = commit.parents.iter();
        let parents: Vec<_> = parents
            .map(|parent| signed.get(parent.as_str()).unwrap_or(parent).clone())
            .collect();
        let unsigned = Unsigned {
            tree: &commit.tree,
            parents: &parents,
            message: commit.text(),
            like: Some(&commit),
        };
        signed.insert(id, unsigned.make(repository)?);
    }
    Ok(signed.remove(to).unwrap_or_else(|| to.to_owned()))
}

/// Arguments and variables for git with which the programs that sign ask nobody.
pub(crate) struct Quiet {
    /// The script that stands for gpg, and never opens a dialog. `None` for a program of the person's, of which nothing
    /// is known.
    program: Option<PathBuf>,
}

impl Quiet {
    pub(crate) fn of(repository: &Repository) -> Result<Self, SyncStop> {
        let settings = repository.settings()?;
        let program = gpg(settings);
        let is_gpg = program
            .as_deref()
            .and_then(|it| Path::new(it).file_name())
            .is_some_and(|name| name == "gpg" || name == "gpg2");
        let program = program.filter(|_| is_gpg);
        let program = program.and_then(|program| stand_in(repository, &program));
        Ok(Self { program })
    }

    /// The arguments before git's subcommand that name the script; empty without one.
    pub(crate) fn settings(&self) -> Vec<OsString> {
        let Some(program) = &self.program else {
            return Vec::new();
        };
        let mut setting = OsString::from("gpg.openpgp.program=");
        setting.push(program);
        vec!["-c".into(), setting]
    }

    /// Gives ssh-keygen a dialog that knows nothing. Without a dialog it asks at the terminal that it finds.
    pub(crate) fn in_environment(call: GitCall) -> GitCall {
        let [dialog, is_forced] = ["SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"].map(OsString::from);
        call.variables(&[(dialog, "false".into()), (is_forced, "force".into())])
    }
}

/// The program for openpgp, as git finds it; `None` where another format signs.
fn gpg(settings: &GitSettings) -> Option<String> {
    if settings.get("gpg.format").unwrap_or("openpgp") != "openpgp" {
        return None;
    }
    let named = settings.entries();
    let named = named
        .filter(|(key, _)| matches!(*key, "gpg.program" | "gpg.openpgp.program"))
        .last();
    Some(named.map_or("gpg", |(_, program)| program).to_owned())
}

/// A script that starts gpg so that it uses keys which are open already, and never asks. `None` where it cannot be
/// made, or not be started from the git directory.
fn stand_in(repository: &Repository, program: &str) -> Option<PathBuf> {
    let program = match program.strip_prefix("~/") {
        Some(_) => repository_facts::expanded(program, &repository.git.dir)?.into_os_string(),
        None => program.into(),
    };
    if program.as_encoded_bytes().iter().any(u8::is_ascii_control) {
        return None; // Not every shell reads how that is written.
    }
    let word = to_type("{}", &[Part::Word(&program)]);
    let text = format!("#!/bin/sh\nexec {word} --batch --no-tty --pinentry-mode=error \"$@\"\n");
    let path = repository_lock::signer(repository);
    let is_ours = fs::symlink_metadata(&path)
        .is_ok_and(|meta| meta.is_file() && meta.uid() == Uid::effective().as_raw());
    let is_there = is_ours && fs::read(&path).is_ok_and(|there| there == text.as_bytes());
    if !is_there {
        repository_lock::write_whole(&path, text.as_bytes()).ok()?;
    }
    if access(&path, AccessFlags::X_OK).is_err() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).ok()?;
    }
    access(&path, AccessFlags::X_OK).is_ok().then_some(path)
}

/// A push that git has not signed.
pub(crate) fn refused_push(repository: &Repository, answer: &GitOutput) -> SyncStop {
    let by_hand = to_type("git -C {} push", &[Part::Path(&repository.git.dir)]);
    refused(repository, answer, by_hand)
}

/// The refusal where git has not signed: why, and what to type. `by_hand` is the command of the sync; typed by hand, a
/// program may ask.
fn refused(repository: &Repository, answer: &GitOutput, by_hand: String) -> SyncStop {
    let words = match answer.timed_out {
        true => "it took too long".to_owned(),
        false => words(&answer.said()),
    };
    let why = format!("signing failed: {}", escaped(&words));
    let command = advice(repository).unwrap_or(by_hand);
    SyncStop::failed(GitReason::Signing, why).next(command)
}

/// Whether this is what git says when it could not sign a push.
pub(crate) fn is_of_push(said: &str) -> bool {
    [
        "failed to sign the push certificate",
        "failed to get the ssh fingerprint",
        "gpg failed to sign the data",
        "gpg.ssh.defaultKeyCommand",
        "for ssh signing",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// The last line that says what is the matter.
fn words(said: &str) -> String {
    let lines = said.lines().map(str::trim);
    let mut lines: Vec<_> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("[GNUPG:]"))
        .map(|line| {
            let begins = ["fatal: ", "error: ", "gpg: ", "signing failed: "];
            let begins = begins.iter();
            begins.fold(line, |line, begin| line.strip_prefix(begin).unwrap_or(line))
        })
        .collect();
    // Where there is more to say than that.
    let is_vague = |line: &str| {
        line.starts_with("gpg failed to sign the data")
            || line == "(no gpg output)"
            || line.starts_with("failed to sign the push certificate")
            || line.ends_with("the remote end hung up unexpectedly")
    };
    if !lines.iter().all(|line| is_vague(line)) {
        lines.retain(|line| !is_vague(line));
    }
    let line = lines.last().copied().unwrap_or("git says nothing");
    // ssh-keygen's lines end in a carriage return, which git shows so.
    let line = line.trim_end_matches('?').trim_end_matches(':');
    line.rsplit_once("passphrase: ")
        .map_or(line, |(_, line)| line)
        .chars()
        .take(200)
        .collect()
}

/// The command that makes a key usable; `None` where that cannot be told.
fn advice(repository: &Repository) -> Option<String> {
    let settings = repository.settings().ok()?;
    let key = settings.get("user.signingkey");
    let key = key.filter(|key| !key.is_empty());
    let set = |key: &OsStr| {
        let parts = [Part::Path(&repository.git.dir), Part::Word(key)];
        to_type("git -C {} config user.signingkey {}", &parts)
    };
    match settings.get("gpg.format") {
        Some("ssh") => {
            if key.is_some_and(is_literal) || settings.has("gpg.ssh.defaultkeycommand") {
                return None;
            }
            if let Some(key) = key {
                let file = repository_facts::expanded(key, &repository.git.dir)?;
                let text = file.to_string_lossy().into_owned();
                let private = PathBuf::from(text.strip_suffix(".pub").unwrap_or(&text));
                if private.is_file() && file.is_file() {
                    return Some(to_type("ssh-add {}", &[Part::Path(&private)]));
                }
            }
            a_key_of_ssh().map(|key| set(key.as_os_str()))
        }
        Some("x509") => None,
        _ => {
            let keys = secret_keys(repository, &gpg(settings)?)?;
            let is_there = key.is_none_or(|key| keys.has(key));
            let first = keys.all.first().filter(|_| !is_there)?;
            Some(set(OsStr::new(first)))
        }
    }
}

/// Whether the setting is the key itself, and not a file of it.
fn is_literal(key: &str) -> bool {
    key.starts_with("key::") || key.starts_with("ssh-") || key.starts_with("ecdsa-")
}

/// The first of this user's keys for ssh.
fn a_key_of_ssh() -> Option<PathBuf> {
    let names = ["id_ed25519", "id_ecdsa", "id_rsa"];
    let keys = names.iter().filter_map(|name| {
        repository_facts::expanded(&format!("~/.ssh/{name}.pub"), Path::new("/"))
    });
    keys.into_iter()
        .find(|key| key.is_file() && key.with_extension("").is_file())
}

/// The secret keys of this user, as gpg lists them.
struct SecretKeys {
    /// Their fingerprints.
    all: Vec<String>,
    /// All that gpg says of them.
    listed: String,
}

impl SecretKeys {
    /// Whether one of the keys has this name: a part of its fingerprint, or of its owner.
    fn has(&self, key: &str) -> bool {
        let key = key.trim_end_matches('!');
        let key = key.strip_prefix("0x").unwrap_or(key).to_lowercase();
        self.listed.to_lowercase().contains(&key)
    }
}

fn secret_keys(repository: &Repository, program: &str) -> Option<SecretKeys> {
    let word = to_type("{}", &[Part::Word(OsStr::new(program))]);
    let alias =
        format!("alias.list-keys=!exec {word} --batch --no-tty --with-colons --list-secret-keys");
    let asked = repository.git.call(["-c", &alias, "list-keys"]);
    let bound = repository.request.for_the_network();
    let answer = asked.within(bound).run().ok()?;
    let listed = String::from_utf8_lossy(&answer.stdout).into_owned();
    let mut all = Vec::new();
    let mut is_key = false;
    for line in listed.lines() {
        let fields: Vec<_> = line.split(':').collect();
        match fields.first() {
            Some(&"sec") => is_key = true,
            Some(&"fpr") if is_key => {
                all.extend(fields.get(9).map(|print| (*print).to_owned()));
                is_key = false;
            }
            _ => {}
        }
    }
    Some(SecretKeys { all, listed })
}

impl Commit {
    /// The variables by which git gives a commit this author, and this time of the committer.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        let line = self.author.split(|byte| *byte == b'\n').next();
        let line = line.unwrap_or_default();
        let line = line.strip_prefix(b"author ").unwrap_or(line);
        let at = |byte: u8| line.iter().rposition(|it| *it == byte);
        let (Some(open), Some(close)) = (at(b'<'), at(b'>')) else {
            return Vec::new();
        };
        let text = |bytes: &[u8]| OsStr::from_bytes(bytes.trim_ascii()).to_owned();
        let date = |bytes: &[u8]| {
            let mut date = OsString::from("@");
            date.push(text(bytes));
            date
        };
        let mail = line.get(open + 1..close).unwrap_or_default();
        [
            ("GIT_AUTHOR_NAME", text(&line[..open])),
            ("GIT_AUTHOR_EMAIL", text(mail)),
            ("GIT_AUTHOR_DATE", date(&line[close + 1..])),
            ("GIT_COMMITTER_DATE", date(&self.committed)),
        ]
        .map(|(name, value)| (OsString::from(name), value))
        .into()
    }

    fn encoding(&self) -> Option<String> {
        let mut lines = self.author.split(|byte| *byte == b'\n');
        let encoding = lines.find_map(|line| line.strip_prefix(b"encoding "))?;
        Some(String::from_utf8_lossy(encoding).into_owned())
    }

    /// The message.
    fn text(&self) -> &[u8] {
        self.message.strip_prefix(b"\n").unwrap_or(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_program() {
        for (said, expected) in [
            (
                "error: gpg failed to sign the data:\n[GNUPG:] INV_SGNR 9 X\ngpg: skipped \"X\": No secret key\n\
                 gpg: signing failed: No secret key\n\n",
                "No secret key",
            ),
            (
                "error: gpg failed to sign the data\n",
                "gpg failed to sign the data",
            ),
            (
                "error: gpg failed to sign the data:\n(no gpg output)\n",
                "(no gpg output)",
            ),
            (
                "fatal: cannot exec '/nope': No such file or directory\nerror: gpg failed to sign the data:\n(no gpg output)\n",
                "cannot exec '/nope': No such file or directory",
            ),
            (
                "error: Couldn't load public key /no/key.pub: No such file or directory?\n\n",
                "Couldn't load public key /no/key.pub: No such file or directory",
            ),
            (
                "error: Enter passphrase: Load key \"/k\": incorrect passphrase supplied to decrypt private key?\n",
                "Load key \"/k\": incorrect passphrase supplied to decrypt private key",
            ),
            ("", "git says nothing"),
        ] {
            assert_eq!(words(said), expected, "{said}");
        }
    }

    #[test]
    fn a_commit_is_made_anew_with_its_author_and_its_times() {
        let object = b"tree 1\nparent 2\nauthor A \xe9 > B <a@b> 1 +0200\ncommitter C <c@d> 2 +0000\nencoding latin1\n\
            \nsubject\n\nbody\n";
        let commit = Commit::parse(object);
        let variables = commit.variables();
        let values: Vec<_> = variables
            .iter()
            .map(|(_, value)| value.as_bytes())
            .collect();
        let expected: [&[u8]; 4] = [b"A \xe9 > B", b"a@b", b"@1 +0200", b"@2 +0000"];
        assert_eq!(values, expected);
        assert_eq!(commit.encoding().as_deref(), Some("latin1"));
        assert_eq!(commit.text(), b"subject\n\nbody\n");
    }

    #[test]
    fn the_program_is_the_last_that_is_named() {
        let of = |printed: &[u8]| gpg(&GitSettings::parse(printed));
        assert_eq!(of(b"").as_deref(), Some("gpg"));
        assert_eq!(
            of(b"gpg.program\na\0gpg.openpgp.program\nb\0").as_deref(),
            Some("b")
        );
        assert_eq!(
            of(b"gpg.openpgp.program\nb\0gpg.program\na\0").as_deref(),
            Some("a")
        );
        assert_eq!(of(b"gpg.format\nssh\0"), None);
    }

    #[test]
    fn a_key_is_known_by_its_print_or_its_owner() {
        let keys = SecretKeys {
            all: Vec::new(),
            listed: "fpr:::::::::7D72F949:\nuid:u::::1::X::Ann <ann@x.y>:".to_owned(),
        };
        assert!(keys.has("0x7d72f949!") && keys.has("ann@x.y") && !keys.has("bob"));
    }
}
