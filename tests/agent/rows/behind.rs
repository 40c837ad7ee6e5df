//! The remote has something that a sync does not pull: what is in the way, and the line that ends it.

use beadlock_tests::skip;

use crate::play::{Row, play};

#[test]
fn what_is_here_and_in_no_commit_is_kept_by_what_is_typed() {
    play(&[
        Row {
            name: "a dirty file outside",
            set_up: "there 'echo theirs >theirs'; echo mine >>src/s; append bd-13",
            state: "local_only",
            why: &[
                "uncommitted changes outside .beads (src/s)",
                "git -C TOP stash pop",
            ],
            next: "git -C TOP stash push -- ':!.beads'",
            truth: "at_place; at_place theirs; git stash pop -q; grep mine src/s; git diff --quiet HEAD -- .beads",
            ..Row::TYPED
        },
        Row {
            name: "a staged and a dirty file outside, and staged records",
            set_up: "there 'echo theirs >theirs'; echo new >new; git add new; echo mine >>src/s; append bd-13; git add .beads; append bd-14",
            state: "local_only",
            why: &["uncommitted changes outside .beads (new, src/s)"],
            next: "git -C TOP stash push -- ':!.beads'",
            truth: "at_place; both bd-13 bd-14; at_place theirs; git stash pop -q; grep mine src/s; cat new",
            ..Row::TYPED
        },
        Row {
            name: "a dirty file outside, and another database",
            set_up: "mkdir -p sub/.beads; append bd-50 sub/.beads/issues.jsonl; git add -A; git commit -qm sub; git push -q; \
                     there 'echo theirs >theirs'; echo mine >>src/s; append bd-51 sub/.beads/issues.jsonl",
            state: "behind",
            why: &["uncommitted changes outside .beads (src/s)"],
            next: "git -C TOP stash push -- ':!.beads' ':(exclude,glob)**/.beads/**'",
            truth: "at_place; at_place theirs; grep bd-51 sub/.beads/issues.jsonl; git stash pop -q; grep mine src/s",
            ..Row::TYPED
        },
        Row {
            name: "conflicts that nobody has resolved",
            set_up: "there 'echo theirs >theirs'; echo mine >src/s; git stash -q; echo two >src/s; git commit -qam two; git push -q -f 2>/dev/null || \
                     { git pull -q --rebase; git push -q; }; there 'echo x >x'; git stash pop -q || true",
            state: "failed",
            why: &["a merge has left conflicts in src/s; resolve them, then git add"],
            next: "git -C TOP add -- src/s",
            typed: "echo both >src/s; advised; git commit -qm both; git pull -q --rebase; git push -q",
            truth: "at_place; at_place src/s x",
            ..Row::TYPED
        },
        Row {
            name: "an untracked file in the way",
            set_up: "there 'echo theirs >new'; echo mine >new; append bd-13",
            state: "local_only",
            why: &["new would be overwritten, and git does not track it here"],
            next: "mv TOP/new TOP/new.mine",
            truth: "at_place; at_place new; [ $(cat new.mine) = mine ]",
            ..Row::TYPED
        },
        Row {
            name: "an ignored file in the way, and one that has the name it would get",
            set_up: "echo .env >.gitignore; git add -A; git commit -qm ignore; git push -q; there 'echo theirs >.env; git add -f .env'; \
                     echo secret >.env; echo older >.env.mine",
            state: "behind",
            why: &[".env would be overwritten, and git does not track it here"],
            next: "mv TOP/.env TOP/.env.mine.2",
            truth: "at_place; at_place .env; [ $(cat .env.mine) = older ]; [ $(cat .env.mine.2) = secret ]",
            ..Row::TYPED
        },
        Row {
            name: "an ignored file where a directory comes, and one more",
            set_up: "echo 'build\nx y' >.gitignore; git add -A; git commit -qm ignore; git push -q; \
                     there 'mkdir build; echo theirs >build/out; echo theirs >\"x y\"; git add -f build \"x y\"'; echo mine >build; echo mine >'x y'",
            state: "behind",
            why: &["would be overwritten, and git does not track it here"],
            next: "mv TOP/build TOP/build.mine && mv 'TOP/x y' 'TOP/x y.mine'",
            truth: "at_place; at_place build/out 'x y'; [ $(cat build.mine) = mine ]; [ $(cat 'x y.mine') = mine ]",
            ..Row::TYPED
        },
        Row {
            name: "a directory with an ignored file, where a file comes",
            set_up: "mkdir d; echo 1 >d/one; echo .env >.gitignore; git add -A; git commit -qm d; git push -q; \
                     there 'git rm -qr d; echo theirs >d'; echo secret >d/.env",
            state: "behind",
            why: &["d would be overwritten, and git does not track it here"],
            next: "mkdir TOP/d.mine && mv TOP/d/.env TOP/d.mine",
            truth: "at_place; at_place d; [ $(cat d.mine/.env) = secret ]",
            ..Row::TYPED
        },
        Row {
            name: "a record file that both sides have made",
            set_up: "there 'append bd-20 .beads/log.jsonl'; append bd-21 .beads/log.jsonl",
            truth: "at_place; at_place .beads/log.jsonl; grep bd-20 .beads/log.jsonl; grep bd-21 .beads/log.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "an ignored record file in the way, in the database",
            set_up: "echo /.beads/log.jsonl >>.git/info/exclude; there 'append bd-20 .beads/log.jsonl'; append bd-21 .beads/log.jsonl",
            state: "behind",
            why: &[".beads/log.jsonl would be overwritten"],
            next: "mv TOP/.beads/log.jsonl TOP/.beads/log.jsonl.mine",
            typed: "echo '*.mine' >>.git/info/exclude; advised",
            truth: "at_place .beads/log.jsonl; grep bd-21 .beads/log.jsonl.mine",
            ..Row::TYPED
        },
        Row {
            name: "an ignored file that is no record file in the way, in the database",
            set_up: "echo /.beads/notes.md >>.git/info/exclude; there 'echo theirs >.beads/notes.md'; echo mine >.beads/notes.md",
            state: "behind",
            why: &[".beads/notes.md would be overwritten"],
            next: "mv TOP/.beads/notes.md TOP/.beads/notes.md.mine",
            typed: "echo '*.mine' >>.git/info/exclude; advised",
            truth: "at_place .beads/notes.md; grep mine .beads/notes.md.mine",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn a_history_that_a_rebase_would_spoil_is_left_to_a_line_that_is_typed() {
    // Only a merge, or a person's git, resolves what both sides have.
    const REWRITE: &str = "(cd ../b; echo two >two; git add two; git commit -qm two; git push -q); git pull -q; \
                           (cd ../b; git reset -q --hard HEAD~1; echo three >three; git add three; git commit -qm three; git push -qf); ";
    play(&[
        Row {
            name: "the remote was rewritten",
            set_up: format!("{REWRITE} append bd-13").leak(),
            why: &["origin/main was rewritten; 1 commit of yours is on what it gave up"],
            next: "git -C TOP pull --rebase",
            truth: "at_place; at_place three; both bd-13; [ ! -e two ]",
            ..Row::TYPED
        },
        Row {
            name: "a merge ahead, and pull.ff is only",
            set_up: "git config pull.ff only; git switch -qc side; echo side >side; git add side; git commit -qm side; git switch -q main; \
                     echo main >main; git add main; git commit -qm main; git merge -q --no-edit side; there 'echo theirs >theirs'",
            state: "local_only",
            why: &["is a merge, ahead of origin/main: a rebase would flatten it"],
            next: "git -C TOP pull --no-rebase --ff --no-edit && git -C TOP push",
            truth: "at_place; at_place theirs side; git rev-list --merges HEAD | grep -c . | grep 2",
            ..Row::TYPED
        },
        Row {
            name: "a merge ahead, of which a push by hand is all that is missing",
            set_up: "git config pull.rebase true; git switch -qc side; echo side >side; git add side; git commit -qm side; git switch -q main; \
                     git merge -q --no-ff --no-edit side; there 'echo theirs >theirs'; append bd-13",
            state: "local_only",
            why: &["is a merge, ahead of origin/main"],
            next: "git -C TOP pull --no-rebase --ff --no-edit && git -C TOP push",
            truth: "at_place; both bd-13; at_place theirs",
            ..Row::TYPED
        },
        Row {
            name: "histories without a commit in common",
            set_up: "(cd ../b; git switch -q --orphan new; echo new >new; git add new; git commit -qm new; git push -qf origin new:main); append bd-13; \
                     git reflog expire --expire=all --all",
            why: &[
                "main and origin/main have no commit in common",
                "kept on a branch mine",
            ],
            next: "git -C TOP branch mine && git -C TOP reset --keep origin/main",
            typed: "mkdir -p .beads; advised; git show mine:.beads/issues.jsonl >../mine.jsonl; mkdir -p .beads; cp ../mine.jsonl $db",
            truth: "at_place; at_place new; both bd-13; git show mine:$db | grep bd-13",
            ..Row::TYPED
        },
        Row {
            name: "a shallow clone that does not reach back",
            set_up: "for n in 1 2 3; do echo $n >>src/s; git commit -qam $n; done; git push -q; rm -rf .git; git clone -q --depth 1 file://$(cd ..; pwd)/r.git c; \
                     mv c/.git .; rm -rf c; (cd ../b; git pull -q; git reset -q --hard HEAD~1; echo other >other; git add other; git commit -qm other; git push -qf); \
                     git reflog expire --expire=all --all; append bd-13",
            why: &["this clone is shallow"],
            next: "git -C TOP fetch --unshallow origin",
            typed: "advised; git pull -q --rebase",
            truth: "at_place; both bd-13; [ ! -e .git/shallow ]",
            ..Row::TYPED
        },
        Row {
            name: "the branch is gone at the remote",
            set_up: "append bd-13; git -C ../r.git branch -m main master",
            state: "local_only",
            why: &["origin has no branch main any more: it was deleted or renamed there"],
            next: "git -C TOP push origin HEAD:refs/heads/main",
            ..Row::TYPED
        },
        Row {
            name: "the branch is gone at the remote, and nothing waits",
            set_up: "git -C ../r.git branch -m main master",
            state: "local_only",
            why: &["origin has no branch main any more"],
            next: "git -C TOP push origin HEAD:refs/heads/main",
            ..Row::TYPED
        },
    ]);
}

/// A person's signature is kept, with a key of ssh's.
#[test]
fn a_signed_commit_ahead_is_merged_and_keeps_its_signature() {
    if !skip::has_program("ssh-keygen") {
        return;
    }
    const SIGN: &str = "ssh-keygen -q -t ed25519 -N '' -f ../key; git config gpg.format ssh; git config user.signingkey $(cd ..; pwd)/key.pub; ";
    let row = Row {
        state: "local_only",
        why: &[", ahead of origin/main, is signed: a rebase takes its signature away"],
        next: "git -C TOP pull --no-rebase --ff --no-edit && git -C TOP push",
        truth: "at_place; at_place theirs; git cat-file commit $(git rev-list -1 HEAD -- src/s) | grep gpgsig",
        ..Row::TYPED
    };
    play(&[
        Row {
            name: "a signed commit ahead",
            set_up: format!("{SIGN} echo mine >>src/s; git commit -qS -am mine; there 'echo theirs >theirs'").leak(),
            ..row
        },
        Row {
            name: "a signed commit ahead, and each pull signs",
            set_up: format!("{SIGN} git config commit.gpgSign true; echo mine >>src/s; git commit -q -am mine; there 'echo theirs >theirs'").leak(),
            typed: "git pull -q --rebase; git push -q",
            ..row
        },
    ]);
}

#[test]
fn what_a_person_has_undone_is_not_pulled_again() {
    const BACK: &[&str] = &[
        "you went back from ",
        " at 20",
        " (reset); to go forward, pull",
    ];
    let row = Row {
        state: "behind",
        why: BACK,
        next: "git -C TOP pull",
        ..Row::TYPED
    };
    play(&[
        Row {
            name: "reset --hard on a branch that is pushed",
            set_up: "echo two >>src/s; git commit -qam two; git push -q; git reset -q --hard HEAD~1",
            truth: "at_place; grep two src/s",
            ..row
        },
        Row {
            name: "reset --hard, and a tool goes on writing",
            set_up: "echo two >>src/s; git commit -qam two; git push -q; git reset -q --hard HEAD~1; append bd-13",
            state: "local_only",
            next: "git -C TOP pull --rebase",
            truth: "at_place; both bd-13; grep two src/s",
            ..row
        },
        Row {
            name: "reset --hard, while the remote goes on",
            set_up: "echo two >>src/s; git commit -qam two; git push -q; git reset -q --hard HEAD~1; there 'echo three >three'",
            truth: "at_place; at_place three; grep two src/s",
            ..row
        },
        Row {
            name: "reset --hard stays as it is, for as long as nobody pulls",
            set_up: "echo two >>src/s; git commit -qam two; git push -q; git reset -q --hard HEAD~1; append bd-13",
            state: "local_only",
            next: "git -C TOP pull --rebase",
            typed: "append bd-14",
            afterwards: "local_only",
            truth: "! grep two src/s",
            ..row
        },
        Row {
            name: "a commit that the remote never had was dropped, and the remote goes on",
            set_up: "echo two >>src/s; git commit -qam two; git reset -q --hard HEAD~1; there 'echo three >three'",
            truth: "at_place; at_place three; ! grep two src/s",
            ..Row::SYNCED
        },
        Row {
            name: "a clone that was only behind",
            set_up: "there 'echo three >three'",
            truth: "at_place; at_place three",
            ..Row::SYNCED
        },
        Row {
            name: "a branch that was set forward by a reset",
            set_up: "there 'echo three >three'; git fetch -q; git reset -q --hard origin/main; there 'echo four >four'",
            truth: "at_place; at_place four",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn what_a_pull_would_bring_and_git_or_beadlock_refuses_is_named() {
    play(&[
        Row {
            name: "a tree that git does not check out",
            set_up: "(cd ../b; b=$(git hash-object -w src/s); (git ls-tree HEAD; printf '100644 blob %s\\tgit~1\\n' $b) >../tree; \
                     git push -q origin $(git commit-tree $(git mktree <../tree) -p HEAD -m odd):refs/heads/main)",
            state: "behind",
            why: &["git refuses what a pull would bring: invalid path 'git~1'"],
            typed: "",
            afterwards: "behind",
            truth: "[ $(grep -c 'Not pulling: git refuses what' .beads/daemon.log) -gt 0 ]",
            ..Row::SYNCED
        },
        Row {
            name: "live state of another machine",
            set_up: "echo /.beads/beads.db >>.git/info/exclude; : >.beads/beads.db; there 'echo 1 >.beads/beads.db-wal; git add -f .beads/beads.db-wal'",
            state: "behind",
            why: &[
                "origin/main has .beads/beads.db-wal, and a pull would put it over what is live here",
            ],
            next: "git rm --cached -- .beads/beads.db-wal",
            typed: "(cd ../b; advised; git rm -q --cached --ignore-unmatch -- .beads/beads.db-wal; git commit -qm away; git push -q)",
            truth: "at_place; grep 'Not pulling: origin/main has .beads/beads.db-wal' .beads/daemon.log",
            ..Row::TYPED
        },
    ]);
}
