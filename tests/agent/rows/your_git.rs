//! Whose git is it: what the person has set is honoured, refused in words, or has no effect on purpose
//! (docs/configuration.md).

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use beadlock_tests::{Ended, run, skip};

use crate::play::{Played, Row, gits, play};

/// What the scripts of these rows may call.
const WORDS: &str = r#"
# gpg_key PASSPHRASE: a key for openpgp.
gpg_key() { mkdir -p -m700 ~/.gnupg; gpg -q --batch --passphrase "$1" --quick-gen-key 'Ann <ann@example.org>' ed25519 sign never 2>/dev/null; }
# ssh_key FILE: a key for ssh, and who may sign with it.
ssh_key() { mkdir -p "$(dirname "$1")"; ssh-keygen -q -t ed25519 -N '' -f "$1"; echo "ann@example.org $(cat "$1.pub")" >>~/allowed; git config gpg.ssh.allowedSignersFile ~/allowed; }
# by_ssh: commits are signed by ssh from now on.
by_ssh() { ssh_key ~/key; git config gpg.format ssh; git config user.signingKey ~/key.pub; git config commit.gpgSign true; }
# mark FILE: a program that leaves a mark.
mark() { printf '#!/bin/sh\n: >>%s/ran\n' "$HOME" >"$1"; chmod +x "$1"; }
unmarked() { [ ! -e ~/ran ]; }
"#;

fn script(text: &str) -> &'static str {
    format!("{WORDS}{text}").leak()
}

/// The programs that sign here.
fn can_sign() -> bool {
    skip::has_program("gpg") && skip::has_program("ssh-keygen")
}

#[test]
fn each_commit_of_the_agent_is_signed_where_git_signs() {
    if !can_sign() {
        return;
    }
    play(&[
        Row {
            name: "openpgp",
            set_up: script("gpg_key ''; git config commit.gpgSign true; append bd-13"),
            truth: "at_place; git verify-commit HEAD; gpgconf --kill gpg-agent",
            ..Row::SYNCED
        },
        Row {
            name: "openpgp, with the key that is set",
            set_up: script(
                "gpg_key ''; gpg -q --batch --passphrase '' --quick-gen-key 'Bob <bob@example.org>' ed25519 sign never 2>/dev/null; \
                 git config user.signingKey bob@example.org; git config commit.gpgSign yes; append bd-13",
            ),
            truth: "at_place; git verify-commit HEAD 2>&1 | grep -q Bob; gpgconf --kill gpg-agent",
            ..Row::SYNCED
        },
        Row {
            name: "a program of the person's",
            set_up: script(
                "printf '#!/bin/sh\\ncat >/dev/null; echo \"[GNUPG:] SIG_CREATED \" >&2; printf -- \"-----BEGIN PGP SIGNATURE-----\\n\\nmine\\n-----END PGP SIGNATURE-----\\n\"\\n' >~/sign; \
                 chmod +x ~/sign; git config gpg.program ~/sign; git config commit.gpgSign true; append bd-13",
            ),
            truth: "at_place; git cat-file commit HEAD | grep -q mine",
            ..Row::SYNCED
        },
        Row {
            name: "ssh",
            set_up: script("by_ssh; append bd-13"),
            truth: "at_place; git verify-commit HEAD",
            ..Row::SYNCED
        },
        Row {
            name: "commits that go on top",
            set_up: script(
                "git commit -q --allow-empty -m first; git reset -q --soft HEAD^; append bd-13; git commit -qam mine; by_ssh; there 'append bd-14'; append bd-15",
            ),
            truth: "at_place; both bd-13 bd-14 bd-15; git verify-commit HEAD; git verify-commit HEAD^; [ $(git log --format=%s -1 HEAD^) = mine ]; \
                    [ \"$(git log --format='%an %ae' -1 HEAD^)\" = 'Ann ann@example.org' ]",
            ..Row::SYNCED
        },
        Row {
            name: "signed commits of its own that are joined",
            set_up: script(
                "by_ssh; append bd-13; git commit -qam 'chore: sync .beads (1 file)'; append bd-14; git commit -qam 'chore: sync .beads (1 file)'; there 'append bd-15'",
            ),
            truth: "at_place; both bd-13 bd-14 bd-15; git verify-commit HEAD; [ $(git rev-list --count HEAD) = 3 ]",
            ..Row::SYNCED
        },
        Row {
            name: "a merge of the agent",
            set_up: script(
                "fork; git config remote.pushDefault fork; append bd-13; git commit -qam 'chore: sync .beads (1 file)'; git push -q fork main; by_ssh; there 'append bd-14'; append bd-15",
            ),
            truth: "has ../fork.git main; git log --merges --format=%H -1 | grep .; for c in $(git rev-list HEAD --not origin/main fork/main@{1} 2>/dev/null || git rev-list -2 HEAD); do git verify-commit $c; done",
            ..Row::SYNCED
        },
        Row {
            name: "a person's signature is not made anew",
            set_up: script("by_ssh; append bd-13; git commit -qam mine; there 'append bd-14'"),
            state: "local_only",
            why: &["is signed: a rebase takes its signature away"],
            next: "git -C TOP pull --no-rebase --ff --no-edit && git -C TOP push",
            typed: "git config merge.default union; advised",
            truth: "at_place; both bd-13 bd-14; git verify-commit HEAD^1",
            ..Row::TYPED
        },
        Row {
            name: "a push",
            set_up: script(
                "by_ssh; git config commit.gpgSign false; git config push.gpgSign true; git -C ../r.git config receive.certNonceSeed x; \
                 git -C ../r.git config gpg.ssh.allowedSignersFile ~/allowed; hook ../r.git pre-receive 'echo $GIT_PUSH_CERT_STATUS >$HOME/status'; append bd-13",
            ),
            truth: "at_place; grep -q '[GU]' ~/status",
            ..Row::SYNCED
        },
        Row {
            name: "a push that is signed if the server asks",
            set_up: script("git config push.gpgSign if-asked; append bd-13"),
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn what_cannot_be_signed_is_not_committed() {
    if !can_sign() {
        return;
    }
    const UNMOVED: &str = "[ \"$(git rev-parse HEAD)\" = \"$(git rev-parse origin/main)\" ]";
    let typed = |more: &str| -> &'static str { format!("{UNMOVED}; {more}").leak() };
    play(&[
        Row {
            name: "a key for ssh that is not there, and another that is",
            set_up: script(
                "by_ssh; mkdir ~/.ssh; mv ~/key ~/.ssh/id_ed25519; mv ~/key.pub ~/.ssh/id_ed25519.pub; append bd-13",
            ),
            why: &["signing failed: Couldn't load public key "],
            next: "git -C TOP config user.signingkey */.ssh/id_ed25519.pub",
            typed: typed("advised"),
            truth: "at_place; git verify-commit HEAD",
            ..Row::TYPED
        },
        Row {
            name: "a key for ssh with a passphrase",
            set_up: script("by_ssh; ssh-keygen -q -p -P '' -N secret -f ~/key; append bd-13"),
            why: &["signing failed: "],
            next: "ssh-add */key",
            // ssh-add would ask for it.
            typed: typed("ssh-keygen -q -p -P secret -N '' -f ~/key"),
            truth: "at_place; git verify-commit HEAD",
            ..Row::TYPED
        },
        Row {
            name: "no key for ssh is named",
            set_up: script("by_ssh; git config --unset user.signingKey; append bd-13"),
            why: &["signing failed: "],
            next: "git -C TOP commit -S -m 'sync .beads' -- .beads",
            typed: typed("git config user.signingKey ~/key.pub; advised -q; git push -q"),
            truth: "at_place; git verify-commit HEAD",
            ..Row::TYPED
        },
        Row {
            name: "a key for openpgp that is not there, and another that is",
            set_up: script(
                "gpg_key ''; git config user.signingKey 12345678; git config commit.gpgSign true; append bd-13",
            ),
            why: &["signing failed: "],
            next: "git -C TOP config user.signingkey *",
            typed: typed("advised"),
            truth: "at_place; git verify-commit HEAD; gpgconf --kill gpg-agent",
            ..Row::TYPED
        },
        Row {
            name: "a key for openpgp with a passphrase",
            set_up: script(
                "gpg_key secret; gpgconf --kill gpg-agent; mark ~/pinentry; echo \"pinentry-program $HOME/pinentry\" >~/.gnupg/gpg-agent.conf; \
                 git config commit.gpgSign true; append bd-13",
            ),
            why: &["signing failed: "],
            next: "git -C TOP commit -S -m 'sync .beads' -- .beads",
            // Somebody has typed the passphrase in a terminal: the agent of gpg knows it then.
            typed: typed(
                "[ ! -e ~/ran ]; echo x | gpg -q --batch --pinentry-mode loopback --passphrase secret -s -o /dev/null; advised; git push -q; append bd-14",
            ),
            truth: "at_place; both bd-14; git verify-commit HEAD; git verify-commit HEAD^; gpgconf --kill gpg-agent",
            ..Row::TYPED
        },
        Row {
            name: "the program is not there",
            set_up: script(
                "git config gpg.program /no/such; git config commit.gpgSign true; append bd-13",
            ),
            why: &["signing failed: cannot "],
            next: "git -C TOP commit -S -m 'sync .beads' -- .beads",
            typed: typed("git config commit.gpgSign false"),
            truth: "at_place",
            ..Row::TYPED
        },
        Row {
            name: "what goes on top",
            set_up: script(
                "append bd-13; git commit -qam mine; by_ssh; git config user.signingKey /no/such.pub; there 'append bd-14'",
            ),
            why: &["signing failed: Couldn't load public key /no/such.pub"],
            next: "git -C TOP pull --rebase",
            typed: "[ $(git log -1 --format=%s) = mine ]; git config user.signingKey ~/key.pub",
            truth: "at_place; both bd-13 bd-14; git verify-commit HEAD",
            ..Row::TYPED
        },
        Row {
            name: "a push",
            set_up: script(
                "by_ssh; git config commit.gpgSign false; git config push.gpgSign true; git config user.signingKey /no/such.pub; \
                 git -C ../r.git config receive.certNonceSeed x; append bd-13",
            ),
            why: &["signing failed: failed to get the ssh fingerprint for key '/no/such.pub'"],
            next: "git -C TOP push",
            typed: "git config user.signingKey ~/key.pub; advised -q",
            ..Row::TYPED
        },
        Row {
            name: "a push to a server that takes no signature",
            set_up: script("by_ssh; git config push.gpgSign true; append bd-13"),
            state: "local_only",
            why: &["the receiving end does not support --signed push"],
            typed: "git config push.gpgSign false",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn the_person_s_hooks_and_programs_run() {
    let hook = |name: &str, text: &str| {
        format!("printf '#!/bin/sh\\n%s\\n' '{text}' >~/hooks/{name}; chmod +x ~/hooks/{name}; ")
    };
    let mut hooks = "mkdir ~/hooks; git config core.hooksPath '~/hooks'; ".to_owned();
    for name in [
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "pre-push",
        "pre-rebase",
        "post-merge",
        "post-checkout",
        "reference-transaction",
    ] {
        hooks += &hook(name, &format!("echo {name} \"$1\" >>$HOME/hooked"));
    }
    let all = |names: &str| {
        format!(
            "for name in {names}; do grep -q \"^$name\" ~/hooked || {{ echo no $name; exit 1; }}; done"
        )
    };
    play(&[
        Row {
            name: "where a commit is made, and put on top",
            set_up: format!("{hooks}append bd-13; there 'append bd-14'").leak(),
            truth: format!(
                "at_place; both bd-13 bd-14; {}",
                all("pre-commit prepare-commit-msg commit-msg post-commit pre-rebase post-checkout pre-push reference-transaction")
            )
            .leak(),
            ..Row::SYNCED
        },
        Row {
            name: "where something is only pulled",
            set_up: format!("there 'append bd-14'; {hooks}").leak(),
            truth: format!("at_place; both bd-14; {}; ! grep pre-commit ~/hooked", all("post-merge")).leak(),
            ..Row::SYNCED
        },
        Row {
            name: "a hook changes the message",
            set_up: format!("{hooks}{}append bd-13", hook("commit-msg", "echo Ticket: 7 >>\"$1\"")).leak(),
            truth: "at_place; git log -1 --format=%B | grep -q '^Ticket: 7'",
            ..Row::SYNCED
        },
        Row {
            name: "core.sshCommand",
            set_up: "printf '#!/bin/sh\\nfor last; do :; done; echo \"$*\" >>~/ssh.args; exec sh -c \"$last\"\\n' >~/ssh; chmod +x ~/ssh; \
                     git config core.sshCommand ~/ssh; git remote set-url origin \"ssh://host$(cd ../r.git; pwd)\"; append bd-13",
            truth: "at_place; grep -q BatchMode=yes ~/ssh.args",
            ..Row::SYNCED
        },
        Row {
            name: "url.insteadOf",
            set_up: "git remote set-url origin short:r.git; git config \"url.$(cd ..; pwd)/.insteadOf\" short:; append bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "push.pushOption",
            set_up: "git -C ../r.git config receive.advertisePushOptions true; git config push.pushOption ci.skip; \
                     hook ../r.git pre-receive 'echo $GIT_PUSH_OPTION_0 >$HOME/option'; append bd-13",
            truth: "at_place; grep -q ci.skip ~/option",
            ..Row::SYNCED
        },
        Row {
            name: "transfer.fsckObjects",
            set_up: "git config transfer.fsckObjects true; there 'append bd-14'; append bd-13",
            truth: "at_place; both bd-13 bd-14",
            ..Row::SYNCED
        },
        Row {
            name: "protocol.allow",
            set_up: "git config --global protocol.file.allow never; append bd-13",
            state: "local_only",
            why: &["transport 'file' not allowed"],
            typed: "git config --global protocol.file.allow always",
            ..Row::TYPED
        },
        Row {
            name: "a filter that keeps all",
            set_up: "git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'; echo '*.txt filter=up' >.gitattributes; \
                     git add -A; git commit -qm f; git push -q; echo abc >.beads/note.txt",
            truth: "at_place .gitattributes; [ $(place .beads/note.txt) = ABC ]; [ $(cat .beads/note.txt) = abc ]",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn the_person_is_who_commits() {
    let name = |expected: &str| -> &'static str {
        format!("at_place; [ \"$(git log -1 --format='%an %ae %cn')\" = '{expected}' ]").leak()
    };
    play(&[
        Row {
            name: "of this repository",
            set_up: "git config user.name Bob; git config user.email bob@x.y; append bd-13",
            truth: name("Bob bob@x.y Bob"),
            ..Row::SYNCED
        },
        Row {
            name: "author and committer",
            set_up: "git config author.name Bob; git config author.email bob@x.y; append bd-13",
            truth: name("Bob bob@x.y Ann"),
            ..Row::SYNCED
        },
        Row {
            name: "includeIf",
            set_up: "printf '[user]\\n\\tname = Bob\\n\\temail = bob@x.y\\n' >~/work; git config --global \"includeIf.gitdir:$(pwd)/.path\" ~/work; append bd-13",
            truth: name("Bob bob@x.y Bob"),
            ..Row::SYNCED
        },
        Row {
            name: "of this working tree",
            set_up: "git config extensions.worktreeConfig true; git config --worktree user.name Bob; git config --worktree user.email bob@x.y; append bd-13",
            truth: name("Bob bob@x.y Bob"),
            ..Row::SYNCED
        },
        Row {
            name: "nobody",
            set_up: "git config --global --unset user.email; git config user.useConfigOnly true; append bd-13",
            why: &["git does not know who you are (user.email): "],
            next: "git -C TOP config user.name Ann && git -C TOP config user.email ann@example.org",
            state: "failed",
            ..Row::TYPED
        },
    ]);
}

/// `GIT_AUTHOR_*` and `GIT_COMMITTER_*` are git's own.
#[test]
fn the_environment_says_who_commits() {
    for git in gits() {
        let played = Played::begin(&git);
        let append = played.shell("append bd-13", "");
        assert_eq!(append.code, 0);
        let mut agent = played.agent(&["--once"]);
        agent
            .env("GIT_AUTHOR_NAME", "Bob")
            .env("GIT_AUTHOR_EMAIL", "bob@x.y")
            .env("GIT_COMMITTER_NAME", "Robot");
        assert_eq!(Ended::from(run(agent)).code, 0, "{}", played.log());
        let who = played.shell("git log -1 --format='%an %ae %cn'; at_place", "");
        assert_eq!((who.code, who.out.trim()), (0, "Bob bob@x.y Robot"));
    }
}

#[test]
fn what_is_ignored_on_purpose_has_no_effect() {
    play(&[
        Row {
            name: "core.fsmonitor",
            set_up: script(
                "mark ~/fs; git config core.fsmonitor ~/fs; there 'append bd-14'; append bd-13",
            ),
            truth: script(
                "unmarked; git -c core.fsmonitor=false diff --quiet HEAD; both bd-13 bd-14",
            ),
            ..Row::SYNCED
        },
        Row {
            name: "editors and pagers",
            set_up: script(
                "mark ~/ed; for key in core.editor sequence.editor core.pager pager.log diff.external interactive.diffFilter; do git config $key ~/ed; done; \
                 there 'append bd-14'; append bd-13",
            ),
            truth: script("unmarked; both bd-13 bd-14"),
            ..Row::SYNCED
        },
        Row {
            name: "commit.template, commit.verbose, commit.cleanup",
            set_up: "echo TEMPLATE >~/t; git config commit.template ~/t; git config commit.verbose true; git config commit.cleanup scissors; git config format.signOff true; append bd-13",
            truth: "at_place; [ \"$(git log -1 --format=%B)\" = 'chore: sync .beads (1 file)' ]",
            ..Row::SYNCED
        },
        Row {
            name: "push.followTags, push.recurseSubmodules",
            set_up: "git config push.followTags true; git config push.recurseSubmodules on-demand; git tag -a -m v1 v1; append bd-13",
            truth: "at_place; [ -z \"$(git -C ../r.git tag)\" ]",
            ..Row::SYNCED
        },
        Row {
            name: "fetch.prune, remote.R.tagOpt",
            set_up: "git push -q origin main:old; git fetch -q; (cd ../b; git push -q origin :old; git tag v1 HEAD; git push -q origin v1); \
                     git config fetch.prune true; git config remote.origin.tagOpt --tags; there 'append bd-14'",
            truth: "at_place; git rev-parse -q --verify origin/old; [ -z \"$(git tag)\" ]",
            ..Row::SYNCED
        },
        Row {
            name: "pull.rebase, pull.ff, branch.B.rebase",
            set_up: "git config pull.rebase false; git config pull.ff only; git config branch.main.rebase interactive; git config merge.ff false; there 'append bd-14'; append bd-13",
            truth: "at_place; both bd-13 bd-14; [ -z \"$(git log --merges --format=%h)\" ]",
            ..Row::SYNCED
        },
        Row {
            name: "rebase.autoStash",
            set_up: "git config rebase.autoStash true; git config merge.autoStash true; there 'echo x >x'; echo mine >>src/s",
            state: "behind",
            why: &["uncommitted changes outside .beads (src/s)"],
            next: "git -C TOP stash push -- ':!.beads'",
            truth: "at_place; at_place x; git stash pop -q; grep -q mine src/s",
            ..Row::TYPED
        },
        Row {
            name: "rerere",
            set_up: "git config rerere.enabled true; git config rerere.autoUpdate true; echo mine >src/s; git commit -qam mine; there 'echo theirs >src/s'; git fetch -q; \
                     git switch -q -c tried; git merge -q origin/main >/dev/null || true; echo both >src/s; git commit -qam merged; git switch -q main; git branch -q -D tried; append bd-13",
            why: &["conflict with origin/main in src/s"],
            next: "git -C TOP pull --rebase",
            typed: "advised || { echo both >src/s; git add src/s; git rebase --continue; }; git push -q",
            truth: "at_place; [ $(cat src/s) = both ]; both bd-13",
            ..Row::TYPED
        },
        Row {
            name: "gc.auto, maintenance.auto",
            set_up: "git config gc.auto 1; git config gc.autoDetach false; git config maintenance.auto true; there 'append bd-14'; append bd-13",
            truth: "at_place; [ -z \"$(ls .git/objects/pack)\" ]",
            ..Row::SYNCED
        },
        Row {
            name: "submodule.recurse",
            set_up: "git init -q ../sub; git -C ../sub commit -q --allow-empty -m s; there 'git submodule --quiet add ../sub sub'; git config submodule.recurse true; \
                     git config fetch.recurseSubmodules true; append bd-13",
            truth: "at_place; both bd-13; [ -z \"$(ls sub)\" ]",
            ..Row::SYNCED
        },
    ]);
}

/// How a repository keeps its objects is git's own matter.
#[test]
fn objects_may_be_kept_in_any_way() {
    play(&[
        Row {
            name: "sha256",
            set_up: "rm -rf .git ../r.git ../b; git init -q --bare --object-format=sha256 ../r.git; git init -q --object-format=sha256; \
                     git remote add origin \"$(cd .. && pwd)/r.git\"; git add -A; git commit -qm first; git push -qu origin main; git clone -q ../r.git ../b; \
                     there 'append bd-14'; append bd-13",
            truth: "at_place; both bd-13 bd-14; [ $(git rev-parse HEAD | wc -c) = 65 ]",
            ..Row::SYNCED
        },
        Row {
            name: "a partial clone",
            set_up: "git -C ../r.git config uploadpack.allowFilter true; rm -rf .git; \
                     git clone -q --no-checkout --filter=blob:none \"file://$(cd .. && pwd)/r.git\" ../p; mv ../p/.git .; git reset -q; \
                     there 'append bd-14'; append bd-13",
            truth: "at_place; both bd-13 bd-14; git config remote.origin.promisor",
            ..Row::SYNCED
        },
        Row {
            name: "alternates",
            set_up: "rm -rf .git; git clone -q --no-checkout --shared \"$(cd .. && pwd)/r.git\" ../p; mv ../p/.git .; git reset -q; \
                     there 'append bd-14'; append bd-13",
            truth: "at_place; both bd-13 bd-14; [ -s .git/objects/info/alternates ]",
            ..Row::SYNCED
        },
    ]);
}

/// What git-lfs stores elsewhere arrives there by the hook of the person's.
#[test]
fn git_lfs_is_used_where_it_is_installed() {
    if !skip::has_program("git-lfs") {
        return;
    }
    play(&[Row {
        name: "git-lfs",
        set_up: "git lfs install --local >/dev/null; echo '*.bin filter=lfs -text' >.gitattributes; git add -A; git commit -qm lfs; git push -q; \
                 echo content >.beads/x.bin",
        truth: "[ \"$(git rev-parse HEAD)\" = \"$(git -C ../r.git rev-parse main)\" ]; place .beads/x.bin | grep -q git-lfs; [ $(cat .beads/x.bin) = content ]; \
                find ../r.git/lfs -type f | grep .",
        ..Row::SYNCED
    }]);
}

/// A server for git that wants a password: `bot` and `tok`.
fn serve(root: &Path, git: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let url = format!(
        "http://{}/r.git",
        listener.local_addr().expect("an address")
    );
    let (root, git) = (root.to_owned(), git.to_owned());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (root, git) = (root.clone(), git.clone());
            thread::spawn(move || answer(stream, &root, &git));
        }
    });
    url
}

/// One request, and its answer by `git http-backend`. `None` where the other end has gone.
fn answer(mut stream: TcpStream, root: &Path, git: &Path) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let header = |name: &str| {
        let mut headers = headers.iter();
        headers
            .find(|(it, _)| it == name)
            .map_or("", |(_, value)| value)
    };
    let length = header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    if header("authorization") != "Basic Ym90OnRvaw==" {
        let refusal = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(refusal.as_bytes()).ok();
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut backend = Command::new(git)
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_USER", "bot")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", length.to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_CONFIG_COUNT", "2")
        .env("GIT_CONFIG_KEY_0", "http.receivepack")
        .env("GIT_CONFIG_VALUE_0", "true")
        .env("GIT_CONFIG_KEY_1", "safe.directory")
        .env("GIT_CONFIG_VALUE_1", "*")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    backend.stdin.take()?.write_all(&body).ok()?;
    let said = backend.wait_with_output().ok()?.stdout;
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n")
        .ok()?;
    stream.write_all(&said).ok()
}

/// A repository that is reached over HTTP, and a program that knows the password.
fn with_a_password(git: &Path) -> (Played, PathBuf) {
    let played = Played::begin(git);
    let program = match git.is_dir() {
        true => git.join("git"),
        false => "git".into(),
    };
    let url = serve(played.scene.path(), &program);
    let ask = played.scene.path().join("ask");
    let text = "#!/bin/sh\necho \"$1\" >>~/asked\ncase \"$1\" in Username*) echo bot;; *) echo tok;; esac\n";
    let set_up = format!(
        "git remote set-url origin {url}; append bd-13; printf '%s' '{text}' >~/ask; chmod +x ~/ask"
    );
    let ended = played.shell(&set_up, "");
    assert_eq!(ended.code, 0, "{ended:?}");
    (played, ask)
}

/// The state after one cycle, with these variables.
fn state_with(played: &Played, variables: &[(&str, &Path)]) -> String {
    let mut agent = played.agent(&["--once"]);
    agent.envs(variables.iter().copied());
    run(agent);
    let log = played.log();
    let line = log
        .lines()
        .rev()
        .find_map(|line| line.split_once("] State: "));
    line.map(|(_, state)| state.to_owned()).unwrap_or(log)
}

#[test]
fn a_program_that_knows_the_password_is_asked() {
    for git in gits() {
        let is_at_place = |played: &Played| played.shell("at_place", "").code == 0;
        let (played, ask) = with_a_password(&git);
        let state = state_with(&played, &[("GIT_ASKPASS", &ask)]);
        assert!(
            state.starts_with("synced") && is_at_place(&played),
            "GIT_ASKPASS: {state}"
        );

        for (name, set_up) in [
            ("core.askPass", "git config core.askPass ~/ask"),
            (
                "credential.helper",
                "git config credential.helper '!f() { echo username=bot; echo password=tok; }; f'",
            ),
            (
                "http.extraHeader",
                "git config http.extraHeader 'Authorization: Basic Ym90OnRvaw=='",
            ),
        ] {
            let (played, _) = with_a_password(&git);
            assert_eq!(played.shell(set_up, "").code, 0);
            let state = state_with(&played, &[]);
            assert!(
                state.starts_with("synced") && is_at_place(&played),
                "{name}: {state}"
            );
        }
    }
}

#[test]
fn a_person_is_not_asked_for_a_password() {
    for git in gits() {
        for (name, variables) in [
            ("SSH_ASKPASS", vec!["SSH_ASKPASS"]),
            ("an editor's", vec!["GIT_ASKPASS", "VSCODE_GIT_IPC_HANDLE"]),
        ] {
            let (played, ask) = with_a_password(&git);
            let variables: Vec<_> = variables
                .iter()
                .map(|name| (*name, ask.as_path()))
                .collect();
            let state = state_with(&played, &variables);
            assert!(state.starts_with("local_only"), "{name}: {state}");
            assert!(
                state.contains("terminal prompts disabled"),
                "{name}: {state}"
            );
            assert!(!played.scene.path().join("asked").exists(), "{name}");
        }
        // The wrong password: the remote's words, and no second question in the same cycle without end.
        let (played, ask) = with_a_password(&git);
        fs::write(&ask, "#!/bin/sh\necho wrong\n").expect("write");
        let state = state_with(&played, &[("GIT_ASKPASS", &ask)]);
        assert!(
            state.starts_with("local_only") && state.contains("Authentication failed"),
            "{state}"
        );
    }
}
