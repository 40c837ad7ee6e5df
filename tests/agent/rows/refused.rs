//! git, a hook or a filter refuses to take something in: its own words, and the line that is typed.

use beadlock_tests::skip;

use crate::play::{Row, play};

#[test]
fn a_hook_that_refuses_is_named_with_its_last_line() {
    // The agent has an index of its own.
    const AGAINST_THE_AGENT: &str =
        "case $GIT_INDEX_FILE in *beadlock.index) echo first; echo not today >&2; exit 1;; esac";
    let hook = |name: &str, script: &str| -> &'static str {
        format!("append bd-13; printf '#!/bin/sh\\n%s\\n' '{script}' >.git/hooks/{name}; chmod +x .git/hooks/{name}").leak()
    };
    let row = Row {
        next: "git -C TOP commit -m 'sync .beads' -- .beads",
        typed: "advised; git push -q",
        ..Row::TYPED
    };
    play(&[
        Row {
            name: "pre-commit",
            set_up: hook("pre-commit", AGAINST_THE_AGENT),
            why: &["the hook pre-commit has failed (exit status: 1): not today"],
            ..row
        },
        Row {
            name: "commit-msg",
            set_up: hook(
                "commit-msg",
                "grep -q ^sync \"$1\" || { echo begin with sync; exit 3; }",
            ),
            why: &["the hook commit-msg has failed (exit status: 3): begin with sync"],
            ..row
        },
        Row {
            name: "a hook that says nothing",
            set_up: hook("pre-commit", "exit 1"),
            why: &["the hook pre-commit has failed (exit status: 1), and it says nothing"],
            typed: "rm .git/hooks/pre-commit; advised; git push -q",
            ..row
        },
        Row {
            name: "reference-transaction",
            set_up: hook(
                "reference-transaction",
                "cat >/dev/null; [ $1 != prepared ] || [ -e ../may ] || { echo ask Ann; exit 1; }",
            ),
            why: &[
                "the branch main cannot move: the hook reference-transaction has failed: ask Ann",
            ],
            next: "",
            typed: "touch ../may",
            ..row
        },
        Row {
            name: "pre-rebase",
            set_up: format!(
                "there 'echo x >x'; {}",
                hook("pre-rebase", "[ -e ../may ] || { echo ask Ann; exit 1; }")
            )
            .leak(),
            why: &["the hook pre-rebase has failed (exit status: 1): ask Ann"],
            next: "git -C TOP pull --rebase",
            typed: "touch ../may; advised",
            ..row
        },
    ]);
}

#[test]
fn git_does_not_know_who_commits() {
    const NOBODY: &str = "git config --global --unset user.name; git config --global --unset user.email; git config --global user.useConfigOnly true; append bd-13; ";
    play(&[
        Row {
            name: "whoever has committed here before is the likeliest",
            set_up: NOBODY,
            why: &["git does not know who you are (user."],
            next: "git -C TOP config user.name Ann && git -C TOP config user.email ann@example.org",
            ..Row::TYPED
        },
        Row {
            name: "nobody has committed here yet",
            set_up: format!("{NOBODY} : >.git/logs/HEAD").leak(),
            why: &["git does not know who you are (user."],
            next: "git -C TOP config user.name 'Your Name' && git -C TOP config user.email you@example.org",
            ..Row::TYPED
        },
        Row {
            name: "and there is something to pull",
            set_up: "there 'echo x >x'; append bd-13; git commit -qam mine; git config --global --unset user.name; git config --global --unset user.email; \
                     git config --global user.useConfigOnly true",
            why: &["git does not know who you are (user."],
            next: "git -C TOP config user.name Ann && git -C TOP config user.email ann@example.org",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn a_file_that_git_refuses_is_named_with_the_attribute_and_the_program() {
    play(&[
        Row {
            name: "core.safecrlf",
            set_up: "git config core.safecrlf true; echo '*.jsonl text' >.gitattributes; git add -A; git commit -qm text; git push -q; append bd-13; \
                     sed -i 's/$/\\r/' $db",
            why: &["git refuses .beads/issues.jsonl: CRLF would be replaced by LF (core.safecrlf)"],
            next: "git -C TOP config core.safecrlf warn",
            truth: "[ $(git rev-parse HEAD) = $(git -C ../r.git rev-parse main) ]; place $db | grep bd-13",
            ..Row::TYPED
        },
        Row {
            name: "a filter that has to be there, and whose program is not",
            set_up: "echo '*.jsonl filter=no' >.beads/.gitattributes; git add -A; git commit -qm no; git push -q; git config filter.no.clean /no/such; \
                     git config filter.no.required true; append bd-13",
            why: &[
                "git refuses .beads/issues.jsonl: filter no: ",
                "/no/such",
                "(.beads/.gitattributes, line 1)",
            ],
            typed: "git config filter.no.clean cat; git config filter.no.smudge cat",
            ..Row::TYPED
        },
        Row {
            name: "a filter that fails",
            set_up: "echo '*.jsonl filter=no' >.gitattributes; git add -A; git commit -qm no; git push -q; \
                     git config filter.no.clean 'echo no key for it >&2; exit 1;'; git config filter.no.required true; append bd-13",
            why: &[
                "git refuses .beads/issues.jsonl: filter no: no key for it (.gitattributes, line 1)",
            ],
            typed: "git config filter.no.clean cat; git config filter.no.smudge cat",
            ..Row::TYPED
        },
        Row {
            name: "git-lfs is not there",
            set_up: "echo '*.jsonl filter=lfs -text' >.gitattributes; git add -A; git commit -qm lfs; git push -q; \
                     git config filter.lfs.process 'no-git-lfs filter-process'; git config filter.lfs.required true; append bd-13",
            why: &[
                "git refuses .beads/issues.jsonl: filter lfs: ",
                "no-git-lfs",
            ],
            typed: "git config --unset filter.lfs.process; git config filter.lfs.clean cat; git config filter.lfs.smudge cat; mkdir -p .git/hooks; \
                    printf '#!/bin/sh\\n: git-lfs\\n' >.git/hooks/pre-push; chmod +x .git/hooks/pre-push",
            ..Row::TYPED
        },
        Row {
            name: "an encoding that nobody knows, which somebody else has pushed",
            set_up: "(cd ../b; echo '*.jsonl working-tree-encoding=UTF-99' >.gitattributes; git add .gitattributes; git commit -qm there; git push -q); git fetch -q; git show origin/main:.gitattributes >.gitattributes; git reset -q --soft origin/main; git add .gitattributes || true; append bd-13",
            why: &[
                "git refuses .beads/issues.jsonl: ",
                "UTF-99",
                "(.gitattributes, line 1)",
            ],
            typed: "git rm -q .gitattributes; git commit -qm away; git push -q",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn what_belongs_to_another_user_is_named_with_both() {
    if !skip::root() || !skip::has_program("setpriv") {
        return;
    }
    const SUDO: &str = "mkdir ../own; printf '#!/bin/sh\\nexec \"$@\"\\n' >../own/sudo; chmod +x ../own/sudo; PATH=$PWD/../own:$PATH advised";
    let row = |name, script: &str, path: &'static str| Row {
        name,
        set_up: format!("append bd-13; {script}").leak(),
        why: vec![path, " belongs to root, and nobody cannot write there"].leak(),
        next: "sudo chown -R nobody TOP/.git",
        typed: SUDO,
        truth: "git config --global safe.directory '*'; at_place; both bd-13",
        is_mortal: true,
        ..Row::TYPED
    };
    play(&[
        row(
            "all directories of objects",
            "for n in $(seq 0 255); do mkdir -p .git/objects/$(printf %02x $n); done; chown 0:0 .git/objects/??",
            "TOP/.git/objects/",
        ),
        row("objects", "chown 0:0 .git/objects", "TOP/.git/objects"),
        row(
            "the branch",
            "chown 0:0 .git/refs/heads .git/refs/heads/main",
            "TOP/.git/refs/heads",
        ),
    ]);
}
