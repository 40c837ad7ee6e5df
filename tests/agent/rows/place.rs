//! Where a branch is pushed to: nowhere, elsewhere, to several places, or against somebody's will.

use crate::play::{Played, Row, gits, play};

/// A row in which nothing is pushed, and nothing has to be typed.
const LEFT: Row = Row {
    state: "local_only",
    afterwards: "local_only",
    truth: "! place \"$db\" | grep -q bd-13",
    ..Row::SYNCED
};

/// A row in which what is to be typed brings everything to the place.
const TYPED: Row = Row {
    state: "local_only",
    typed: "(cd / && advised)",
    ..Row::TYPED
};

#[test]
fn a_branch_without_an_upstream_says_what_to_type() {
    play(&[
        Row {
            name: "no upstream",
            set_up: "git branch -q --unset-upstream; append bd-13",
            why: &["the branch main has no upstream; 1 commit waits"],
            next: "git -C TOP push -u origin main",
            ..TYPED
        },
        Row {
            name: "no upstream, the only remote has another name",
            set_up: "git remote rename origin there; git branch -q --unset-upstream; append bd-13",
            next: "git -C TOP push -u there main",
            ..TYPED
        },
        Row {
            name: "no upstream, and origin is one of two",
            set_up: "git remote add fork ../fork.git; git branch -q --unset-upstream; append bd-13",
            next: "git -C TOP push -u origin main",
            ..TYPED
        },
        Row {
            name: "no upstream, and no way to tell which remote",
            set_up: "git remote rename origin one; git remote add two ../two.git; git branch -q --unset-upstream; append bd-13",
            next: "git -C TOP push -u REMOTE main",
            typed: "git push -q -u one main",
            ..TYPED
        },
        Row {
            name: "a new branch",
            set_up: "git switch -q -c feature; append bd-13",
            why: &["the branch feature has no upstream"],
            next: "git -C TOP push -u origin feature",
            truth: "has ../r.git feature; ! place \"$db\" | grep -q bd-13",
            ..TYPED
        },
        Row {
            name: "a branch of this repository is the upstream",
            set_up: "git switch -q -c feature; git branch -q -u main; append bd-13",
            why: &["the branch feature has no upstream at a remote"],
            next: "git -C TOP push -u origin feature",
            truth: "has ../r.git feature; ! place \"$db\" | grep -q bd-13",
            ..TYPED
        },
        Row {
            name: "several upstreams",
            set_up: "git config --add branch.main.merge refs/heads/other; append bd-13",
            why: &["git push refuses: the branch main has several upstreams"],
            next: "git -C TOP config --unset-all branch.main.merge && git -C TOP push -u origin main",
            ..TYPED
        },
        Row {
            name: "no remote",
            set_up: "git remote remove origin; append bd-13",
            why: &["there is no remote"],
            next: "git -C TOP remote add origin URL",
            typed: "git remote add origin \"$(cd .. && pwd)/r.git\"; git push -q -u origin main",
            ..TYPED
        },
        Row {
            name: "no fetch refspec, as in a bare clone",
            set_up: "git config --unset-all remote.origin.fetch; git branch -q --unset-upstream; append bd-13",
            why: &["origin has no fetch refspec"],
            next: "git -C TOP config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*' && git -C TOP fetch origin \
                && git -C TOP branch -u origin/main",
            ..TYPED
        },
        Row {
            name: "an upstream, and no fetch refspec",
            set_up: "git config --unset-all remote.origin.fetch; append bd-13",
            why: &["origin has no fetch refspec"],
            next: "git -C TOP config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*' && git -C TOP fetch origin \
                && git -C TOP branch -u origin/main",
            ..TYPED
        },
    ]);
}

#[test]
fn what_git_push_would_refuse_is_not_pushed() {
    play(&[
        Row {
            name: "simple, and the upstream has another name",
            set_up: "git switch -q -c feature; git branch -q -u origin/main; append bd-13",
            why: &["git push refuses: its upstream is main at origin"],
            next: "git -C TOP push -u origin feature",
            truth: "has ../r.git feature; ! place \"$db\" | grep -q bd-13",
            ..TYPED
        },
        Row {
            name: "simple, another name, and a new record at the upstream",
            set_up: "git switch -q -c feature; git branch -q -u origin/main; there 'append bd-20'; echo >.beads/x.md",
            why: &["git push refuses"],
            next: "git -C TOP push -u origin feature",
            typed: "grep -q bd-20 \"$db\"; (cd / && advised)",
            truth: "has ../r.git feature; has ../r.git feature .beads/x.md",
            ..TYPED
        },
        Row {
            name: "push.default is nothing",
            set_up: "git config push.default nothing; append bd-13",
            why: &["push.default is nothing", "1 commit waits"],
            next: "git -C TOP config push.default simple",
            ..TYPED
        },
        Row {
            name: "push.default is nothing, for all repositories",
            set_up: "git config --global push.default nothing; append bd-13",
            next: "git -C TOP config push.default simple",
            ..TYPED
        },
        Row {
            name: "push.default is upstream, and pushes go to a fork",
            set_up: "fork; git push -q fork main; git config push.default upstream; git config remote.pushDefault fork; append bd-13",
            why: &["git push refuses: main is pushed to fork, and its upstream is at origin"],
            next: "git -C TOP config push.default current",
            truth: "has ../fork.git main; ! place \"$db\" | grep -q bd-13",
            ..TYPED
        },
        Row {
            name: "pushRemote is no_push",
            set_up: "git config branch.main.pushRemote no_push; append bd-13",
            why: &[
                "branch.main.pushRemote is no_push: pushing is switched off here; 1 commit waits",
            ],
            ..LEFT
        },
        Row {
            name: "pushRemote is no_push, and there is nothing to push",
            set_up: "git config branch.main.pushRemote no_push; there 'append bd-20'",
            why: &["pushing is switched off here"],
            truth: "at_place; grep -q bd-20 \"$db\"",
            ..LEFT
        },
        Row {
            name: "pushDefault is no remote",
            set_up: "git config --global remote.pushDefault none; append bd-13",
            why: &["remote.pushDefault is none: pushing is switched off here"],
            ..LEFT
        },
        Row {
            name: "the push URL is no_push",
            set_up: "git remote set-url --push origin no_push; there 'append bd-20'; echo >.beads/x.md",
            why: &["remote.origin.pushurl is no_push: pushing is switched off here"],
            truth: "grep -q bd-20 \"$db\"; ! place .beads/x.md 2>/dev/null",
            ..LEFT
        },
        Row {
            name: "the push URL is /dev/null",
            set_up: "git remote set-url --push origin /dev/null; append bd-13",
            why: &["pushing is switched off here"],
            ..LEFT
        },
        Row {
            name: "the upstream's remote is gone",
            set_up: "git config branch.main.remote gone; append bd-13",
            why: &["branch.main.remote is gone, and there is no such remote"],
            ..LEFT
        },
        Row {
            name: "a mirror",
            set_up: "git config remote.origin.mirror true; append bd-13",
            why: &["origin is a mirror"],
            ..LEFT
        },
        Row {
            name: "matching, and the remote has no such branch",
            set_up: "git switch -q -c feature; git branch -q -u origin/main; git config push.default matching; append bd-13",
            why: &["origin has no branch feature, and git push makes none"],
            next: "git -C TOP push origin feature",
            truth: "has ../r.git feature; ! place \"$db\" | grep -q bd-13",
            ..TYPED
        },
        Row {
            name: "the branch was deleted at the remote",
            set_up: "git switch -q -c feature; git push -q -u origin feature; git push -q ../r.git :feature; append bd-13",
            why: &["origin has no branch feature any more: it was deleted or renamed there"],
            next: "git -C TOP push origin HEAD:refs/heads/feature",
            truth: "has ../r.git feature; ! place \"$db\" | grep -q bd-13",
            ..TYPED
        },
        Row {
            name: "the branch was deleted at the fork",
            set_up: "fork; git push -q fork main; git -C ../fork.git update-ref -d refs/heads/main; git config remote.pushDefault fork; append bd-13",
            why: &["fork has no branch main any more: it was deleted or renamed there"],
            next: "git -C TOP push fork HEAD:refs/heads/main",
            truth: "has ../fork.git main; ! place \"$db\" | grep -q bd-13",
            ..TYPED
        },
        Row {
            name: "a push for review",
            set_up: "git config remote.origin.push HEAD:refs/for/main; append bd-13",
            why: &["git push brings main to refs/for/main at origin, which is not a branch"],
            next: "git -C TOP push",
            typed: "(cd / && advised)",
            truth: "has ../r.git refs/for/main; ! place \"$db\" | grep -q bd-13",
            ..LEFT
        },
        Row {
            name: "a push to two branches",
            set_up: "git config --add remote.origin.push main:one; git config --add remote.origin.push main:two; append bd-13",
            why: &["remote.origin.push brings main to several branches"],
            next: "git -C TOP push",
            typed: "(cd / && advised)",
            truth: "has ../r.git one; has ../r.git two",
            ..LEFT
        },
        Row {
            name: "a push of other branches",
            set_up: "git config remote.origin.push refs/heads/x*:refs/heads/x*; append bd-13",
            why: &["remote.origin.push does not name main"],
            next: "git -C TOP push",
            ..LEFT
        },
    ]);
}

#[test]
fn a_branch_goes_where_git_push_would_go() {
    play(&[
        Row {
            name: "pushDefault is a fork",
            set_up: "fork; git push -q fork main; git config remote.pushDefault fork; append bd-13",
            truth: "has ../fork.git main; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "pushDefault is a fork without the branch",
            set_up: "fork; git config remote.pushDefault fork; append bd-13",
            truth: "has ../fork.git main; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "a fork without the branch, and nothing new",
            set_up: "fork; git config remote.pushDefault fork",
            truth: "has ../fork.git main",
            ..Row::SYNCED
        },
        Row {
            name: "pushRemote is a URL",
            set_up: "fork; git config branch.main.pushRemote \"$(cd .. && pwd)/fork.git\"; append bd-13",
            truth: "has ../fork.git main; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "current, from origin/main",
            set_up: "git switch -q -c feature; git branch -q -u origin/main; git config push.default current; append bd-13",
            truth: "has ../r.git feature; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "current, without an upstream",
            set_up: "git switch -q -c feature; git config push.default current; append bd-13",
            truth: "has ../r.git feature; ! place \"$db\" | grep -q bd-13; ! git config branch.feature.merge",
            ..Row::SYNCED
        },
        Row {
            name: "upstream, of another name",
            set_up: "git switch -q -c feature; git branch -q -u origin/main; git config push.default upstream; append bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "matching",
            set_up: "git config push.default matching; git branch other; append bd-13",
            truth: "at_place; ! git -C ../r.git rev-parse -q --verify other",
            ..Row::SYNCED
        },
        Row {
            name: "autoSetupRemote",
            set_up: "git switch -q -c feature; git config push.autoSetupRemote true; append bd-13",
            truth: "has ../r.git feature; [ \"$(git rev-parse --abbrev-ref @{u})\" = origin/feature ]",
            ..Row::SYNCED
        },
        Row {
            name: "autoSetupRemote, and nothing to commit",
            set_up: "git switch -q -c feature; git config push.autoSetupRemote true",
            truth: "has ../r.git feature; [ \"$(git config branch.feature.merge)\" = refs/heads/feature ]",
            ..Row::SYNCED
        },
        Row {
            name: "a push URL of another repository",
            set_up: "git init -q --bare ../p.git; git push -q ../p.git main; git remote set-url --push origin \"$(cd .. && pwd)/p.git\"; append bd-13",
            truth: "has ../p.git main; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "a push URL of another repository, by a path from the top",
            set_up: "git init -q --bare ../p.git; git remote set-url --push origin ../p.git; append bd-13",
            truth: "has ../p.git main; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "pushInsteadOf",
            set_up: "git init -q --bare ../p.git; D=$(cd .. && pwd); git config \"url.$D/p.pushInsteadOf\" \"$D/r\"; append bd-13",
            truth: "has ../p.git main; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "insteadOf",
            set_up: "D=$(cd .. && pwd); git config \"url.$D/.insteadOf\" here:; git remote set-url origin here:r.git; append bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "two push URLs",
            set_up: "two; append bd-13",
            truth: "at_place; has ../p.git main",
            ..Row::SYNCED
        },
        Row {
            name: "two push URLs, and the second has a record more",
            set_up: "two; git clone -q ../p.git ../c; (cd ../c; echo >.beads/x.md; git add -A; git commit -qm x; git push -q); append bd-13",
            truth: "at_place; at_place .beads/x.md; has ../p.git main",
            ..Row::SYNCED
        },
        Row {
            name: "two push URLs, and the second is behind",
            set_up: "two; there 'append bd-20'; append bd-13 .beads/more.jsonl",
            truth: "at_place; at_place .beads/more.jsonl; has ../p.git main",
            ..Row::SYNCED
        },
        Row {
            name: "remote.origin.push is main:inbox",
            set_up: "git config remote.origin.push main:inbox; append bd-13",
            truth: "has ../r.git inbox; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "remote.origin.push has a star",
            set_up: "git config remote.origin.push 'refs/heads/*:refs/heads/ann/*'; git branch other; append bd-13",
            truth: "has ../r.git ann/main; ! git -C ../r.git rev-parse -q --verify ann/other",
            ..Row::SYNCED
        },
        Row {
            name: "a clone of one branch",
            set_up: "git config remote.origin.fetch +refs/heads/main:refs/remotes/origin/main; git switch -q -c feature; git push -q -u origin feature; append bd-13",
            truth: "has ../r.git feature; ! place \"$db\" | grep -q bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "the upstream is a URL",
            set_up: "git config branch.main.remote \"$(cd .. && pwd)/r.git\"; there 'append bd-20'; echo >.beads/x.md",
            truth: "at_place .beads/x.md; at_place; grep -q bd-20 \"$db\"",
            ..Row::SYNCED
        },
        Row {
            name: "push options",
            set_up: "git -C ../r.git config receive.advertisePushOptions true; git config push.pushOption ci.skip
                hook ../r.git post-receive 'echo $GIT_PUSH_OPTION_0 >option'; append bd-13",
            truth: "at_place; [ \"$(cat ../r.git/option)\" = ci.skip ]",
            ..Row::SYNCED
        },
        Row {
            name: "a signed push, where the server asks for one",
            set_up: "git config push.gpgSign if-asked; append bd-13",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn a_place_that_cannot_be_reached_or_refuses_is_named() {
    play(&[
        Row {
            name: "the second push URL is away",
            set_up: "two; mv ../p.git ../q.git; append bd-13",
            why: &["/p.git cannot be pushed to: ", "; 1 commit waits"],
            state: "local_only",
            typed: "at_place; mv ../q.git ../p.git",
            truth: "at_place; has ../p.git main",
            ..Row::SYNCED
        },
        Row {
            name: "the first push URL is away",
            set_up: "two; git config --unset-all remote.origin.pushurl; git remote set-url --push origin ../p.git
                git remote set-url --add --push origin ../r.git; mv ../p.git ../q.git; append bd-13",
            why: &["p.git cannot be "],
            state: "local_only",
            typed: "mv ../q.git ../p.git",
            truth: "at_place; has ../p.git main",
            ..Row::SYNCED
        },
        Row {
            name: "the second push URL refuses",
            set_up: "two; hook ../p.git pre-receive 'echo closed on Fridays; exit 1'; append bd-13",
            why: &["/p.git refuses the push: pre-receive: closed on Fridays"],
            state: "local_only",
            typed: "rm ../p.git/hooks/pre-receive",
            truth: "at_place; has ../p.git main",
            ..Row::SYNCED
        },
        Row {
            name: "a fetch works, and the push URL is away",
            set_up: "git remote set-url --push origin /no/such/p.git; there 'append bd-20'; echo >.beads/x.md",
            why: &["/no/such/p.git cannot be pushed to: ", "1 commit waits"],
            state: "local_only",
            typed: "grep -q bd-20 \"$db\"; git remote set-url --delete --push origin .",
            truth: "at_place; at_place .beads/x.md",
            ..Row::SYNCED
        },
        Row {
            name: "the push URL is away, and has a secret",
            set_up: "git remote set-url --push origin http://ann:SECRET@127.0.0.1:9/p.git; append bd-13",
            why: &["http://***@127.0.0.1:9/p.git cannot be pushed to: "],
            state: "local_only",
            typed: "! grep -r SECRET .beads; git remote set-url --delete --push origin .",
            ..Row::SYNCED
        },
        Row {
            name: "pre-receive refuses",
            set_up: "hook ../r.git pre-receive 'echo no direct pushes to main; exit 1'; append bd-13",
            why: &["origin refuses the push: pre-receive: no direct pushes to main; 1 commit waits"],
            state: "local_only",
            typed: "rm ../r.git/hooks/pre-receive",
            ..Row::SYNCED
        },
        Row {
            name: "update refuses, in two lines",
            set_up: "hook ../r.git update 'echo error: GH006; echo error: make a pull request; exit 1'; append bd-13",
            why: &["origin refuses the push: update: GH006; make a pull request"],
            state: "local_only",
            typed: "rm ../r.git/hooks/update",
            ..Row::SYNCED
        },
        Row {
            name: "a hook of the server says nothing",
            set_up: "hook ../r.git pre-receive 'exit 1'; append bd-13",
            why: &["origin refuses the push: [remote rejected] (pre-receive hook declined)"],
            state: "local_only",
            typed: "rm ../r.git/hooks/pre-receive",
            ..Row::SYNCED
        },
        Row {
            name: "pre-push refuses",
            set_up: "hook .git pre-push 'echo one; echo git-lfs was not found >&2; exit 2'; append bd-13",
            why: &["the hook pre-push refuses the push: git-lfs was not found; 1 commit waits"],
            state: "local_only",
            typed: "rm .git/hooks/pre-push",
            ..Row::SYNCED
        },
        Row {
            name: "pre-push in core.hooksPath refuses",
            set_up: "mkdir ../hooks; git config core.hooksPath ../hooks; hook .. pre-push 'echo not today; exit 1'; append bd-13",
            why: &["the hook pre-push refuses the push: not today"],
            state: "local_only",
            typed: "rm ../hooks/pre-push",
            ..Row::SYNCED
        },
        Row {
            name: "pre-push refuses one of two URLs",
            set_up: "two; hook .git pre-push 'case $2 in */p.git) echo not there >&2; exit 1; esac'; append bd-13",
            why: &["the hook pre-push refuses the push: not there"],
            state: "local_only",
            typed: "rm .git/hooks/pre-push",
            truth: "at_place; has ../p.git main",
            ..Row::SYNCED
        },
        Row {
            name: "the remote's fsck refuses a commit",
            set_up: "git -C ../r.git config receive.fsckObjects true; append bd-13; git commit -qam x
                git cat-file commit HEAD | sed '/^author/s/+0000$/+x/' | git hash-object -t commit -w --stdin --literally >../bad
                git update-ref refs/heads/main $(cat ../bad)",
            why: &["badTimezone"],
            state: "local_only",
            typed: "git reset -q --soft HEAD~1; git commit -qm x",
            ..Row::SYNCED
        },
        Row {
            name: "a signed push, where the server knows none",
            set_up: "git config push.gpgSign true; append bd-13",
            why: &["does not support --signed push"],
            state: "local_only",
            typed: "git config --unset push.gpgSign",
            ..Row::SYNCED
        },
        Row {
            name: "push options, where the server knows none",
            set_up: "git -C ../r.git config receive.advertisePushOptions false; git config push.pushOption x; append bd-13",
            why: &["does not support push options"],
            state: "local_only",
            typed: "git config --unset push.pushOption",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn commits_of_a_person_are_named() {
    play(&[
        Row {
            name: "one commit of a person",
            set_up: "echo x >src/s; git commit -qam 'fix login'; append bd-13",
            why: &["1 commit that is not ours: ", " fix login"],
            next: "git -C TOP push",
            ..TYPED
        },
        Row {
            name: "three commits of a person, the oldest first",
            set_up: "for n in 1 2 3; do echo $n >src/s; git commit -qam \"step $n\"; done; append bd-13",
            why: &["3 commits that are not ours: ", " step 1 and 2 more"],
            next: "git -C TOP push",
            ..TYPED
        },
        Row {
            name: "a merge of a person",
            set_up: "git switch -q -c side; echo x >src/x; git add src; git commit -qm side; git switch -q main; git merge -q --no-ff -m merged side; append bd-13",
            why: &["2 commits that are not ours: "],
            next: "git -C TOP push",
            ..TYPED
        },
        Row {
            name: "a merge that is called like one of the agent's, and changes something",
            set_up: "git switch -q -c side; append bd-14; git commit -qam side; git switch -q main; git merge -q --no-commit --no-ff side
                echo sly >src/s; git add src; git commit -qm 'chore: merge origin/main'; append bd-13",
            why: &["1 commit that is not ours: ", " chore: merge origin/main"],
            next: "git -C TOP push",
            ..TYPED
        },
        Row {
            name: "a commit of a person, pushed to a fork",
            set_up: "fork; git push -q fork main; git config remote.pushDefault fork; echo x >src/s; git commit -qam 'fix login'; append bd-13",
            why: &["1 commit that is not ours: ", " fix login"],
            next: "git -C TOP push",
            truth: "has ../fork.git main; ! place \"$db\" | grep -q bd-13",
            ..TYPED
        },
    ]);
}

/// Plays a story of several cycles with each git: each step is a script, and what the log's last state is after a cycle.
#[track_caller]
fn tell(steps: &[(&str, &str)]) -> Vec<Played> {
    let mut all = Vec::new();
    for git in gits() {
        let played = Played::begin(&git);
        for (script, state) in steps {
            let ended = played.shell(script, "");
            assert_eq!(
                ended.code,
                0,
                "{script} ({}): {ended:?}\n{}",
                git.display(),
                played.log()
            );
            if !state.is_empty() {
                let said = played.cycle();
                assert_eq!(
                    said.state,
                    *state,
                    "{script} ({}): {said:#?}\n{}",
                    git.display(),
                    played.log()
                );
            }
        }
        all.push(played);
    }
    all
}

#[test]
fn an_upstream_that_moves_is_merged_into_a_fork() {
    let told = tell(&[
        ("fork; git push -q fork main; git config remote.pushDefault fork; append bd-13 .beads/own.jsonl", "synced"),
        ("has ../fork.git main .beads/own.jsonl; git rev-parse HEAD >../own; there 'echo theirs >src/s; append bd-20'", "synced"),
        (
            "has ../fork.git main; has ../fork.git main src/s; grep -q bd-20 \"$db\"
            git merge-base --is-ancestor $(cat ../own) HEAD
            [ \"$(git log -1 --format=%s)\" = 'chore: merge origin/main' ]
            [ \"$(git rev-parse HEAD^1)\" = $(cat ../own) ] && [ \"$(git rev-parse HEAD^2)\" = $(git -C ../r.git rev-parse main) ]
            append bd-14 .beads/own.jsonl; there 'append bd-21'",
            "synced",
        ),
        (
            "has ../fork.git main; has ../fork.git main .beads/own.jsonl; grep -q bd-21 \"$db\"; [ -z \"$(git status --porcelain)\" ]
            ! git -C ../r.git show main:.beads/own.jsonl",
            "synced",
        ),
    ]);
    for played in told {
        let log = played.log();
        assert!(log.contains("Pushed 1 commit to fork/main ("), "{log}");
        assert!(log.contains("; it follows origin/main"), "{log}");
        assert!(log.contains("Pulled 1 commit from origin/main"), "{log}");
    }
}

#[test]
fn a_feature_branch_takes_main_in_and_needs_no_force() {
    tell(&[
        (
            "git config push.default current; git switch -q -c feature -t origin/main; append bd-13 .beads/own.jsonl",
            "synced",
        ),
        (
            "there 'append bd-20'; append bd-14 .beads/own.jsonl",
            "synced",
        ),
        (
            "has ../r.git feature; has ../r.git feature .beads/own.jsonl; grep -q bd-20 \"$db\"; there 'append bd-21'",
            "synced",
        ),
        (
            "has ../r.git feature; grep -q bd-21 \"$db\"; ! place .beads/own.jsonl",
            "",
        ),
    ]);
}

#[test]
fn a_push_url_of_another_repository_takes_both_in() {
    tell(&[
        ("git init -q --bare ../p.git; git push -q ../p.git main; git remote set-url --push origin ../p.git; append bd-13 .beads/own.jsonl", "synced"),
        ("has ../p.git main .beads/own.jsonl; there 'append bd-20'", "synced"),
        ("has ../p.git main; has ../p.git main .beads/own.jsonl; grep -q bd-20 \"$db\"; append bd-14 .beads/own.jsonl", "synced"),
        (
            "has ../p.git main .beads/own.jsonl; git clone -q ../p.git ../c
            (cd ../c; echo >.beads/x.md; git add -A; git commit -qm x; git push -q); there 'append bd-21'",
            "synced",
        ),
        ("has ../p.git main; has ../p.git main .beads/x.md; grep -q bd-21 \"$db\"; [ -e .beads/x.md ]", "synced"),
    ]);
}

#[test]
fn a_push_url_of_the_same_repository_is_as_none() {
    tell(&[
        (
            "git remote set-url --push origin \"file://$(cd .. && pwd)/r.git\"; append bd-13 .beads/own.jsonl",
            "synced",
        ),
        (
            "place .beads/own.jsonl | cmp - .beads/own.jsonl; there 'append bd-20'; append bd-14 .beads/own.jsonl",
            "synced",
        ),
        (
            "at_place .beads/own.jsonl; at_place; grep -q bd-20 \"$db\"; [ -z \"$(git log --merges)\" ]",
            "synced",
        ),
    ]);
}

#[test]
fn two_machines_with_one_fork_take_each_other_in() {
    tell(&[
        ("fork; git push -q fork main; git config remote.pushDefault fork; append bd-13 .beads/own.jsonl", "synced"),
        (
            "git clone -q -o fork ../fork.git ../c
            (cd ../c; echo >.beads/c.md; git add -A; git commit -qm c; git push -q); append bd-14 .beads/own.jsonl",
            "synced",
        ),
        ("has ../fork.git main .beads/own.jsonl; has ../fork.git main .beads/c.md; [ -z \"$(git log --merges)\" ]
          there 'append bd-20'; (cd ../c; git pull -q; echo >.beads/d.md; git add -A; git commit -qm d; git push -q)
          append bd-15 .beads/own.jsonl", "synced"),
        ("has ../fork.git main; has ../fork.git main .beads/own.jsonl; has ../fork.git main .beads/d.md; grep -q bd-20 \"$db\"", "synced"),
        // The other machine has merged the upstream itself.
        ("there 'append bd-21'; (cd ../c; git remote add origin ../r.git; git pull -q; git pull -q --no-rebase --no-edit origin main; git push -q fork main)
          append bd-16 .beads/own.jsonl", "synced"),
        ("has ../fork.git main; has ../fork.git main .beads/own.jsonl; grep -q bd-21 \"$db\"", "synced"),
    ]);
}

#[test]
fn a_merge_that_could_not_be_pushed_is_made_anew() {
    tell(&[
        (
            "fork; git push -q fork main; git config remote.pushDefault fork; append bd-13 .beads/own.jsonl",
            "synced",
        ),
        (
            "hook ../fork.git pre-receive 'echo closed; exit 1'; there 'append bd-20'",
            "local_only",
        ),
        (
            "there 'append bd-21'; append bd-14 .beads/own.jsonl",
            "local_only",
        ),
        (
            "grep -q bd-21 \"$db\"; rm ../fork.git/hooks/pre-receive; there 'append bd-22'",
            "synced",
        ),
        (
            "has ../fork.git main; has ../fork.git main .beads/own.jsonl; grep -q bd-22 \"$db\"",
            "synced",
        ),
    ]);
}

#[test]
fn a_conflict_of_upstream_and_fork_is_left_to_a_person() {
    let told = tell(&[
        (
            "fork; git push -q fork main; git config remote.pushDefault fork; echo ours >.beads/note.md",
            "synced",
        ),
        ("there 'echo theirs >.beads/note.md'", "failed"),
        (
            "[ \"$(cat .beads/note.md)\" = ours ]; [ -z \"$(git status --porcelain)\" ]",
            "failed",
        ),
    ]);
    for played in told {
        let said = played.cycle();
        let top = played.top();
        let next = format!(
            "git -C {} pull --no-rebase --no-edit origin refs/heads/main",
            top.display()
        );
        assert_eq!(said.next, next, "{said:?}");
        let mend = "(cd / && advised) && exit 1; echo both >.beads/note.md; git add -A; git commit -qm both";
        let ended = played.shell(mend, &said.next);
        assert_eq!(ended.code, 0, "{ended:?}");
        let said = played.cycle();
        assert!(said.why.contains("1 commit that is not ours: "), "{said:?}");
        let ended = played.shell("(cd / && advised)", &said.next);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(played.cycle().state, "synced", "{}", played.log());
        let ended = played.shell("has ../fork.git main .beads/note.md", "");
        assert_eq!(ended.code, 0, "{ended:?}");
    }
}

#[test]
fn a_place_that_was_set_back_stays_so() {
    tell(&[
        (
            "git init -q --bare ../p.git; git push -q ../p.git main; git remote set-url --push origin ../p.git; append bd-13 .beads/own.jsonl",
            "synced",
        ),
        (
            "git -C ../p.git update-ref refs/heads/main main~1; append bd-14 .beads/own.jsonl",
            "failed",
        ),
        (
            "! git -C ../p.git show main:.beads/own.jsonl 2>/dev/null",
            "",
        ),
    ]);
}
