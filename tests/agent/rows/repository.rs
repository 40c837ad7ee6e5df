//! Repositories in the middle of something, broken, or far from the remote.

use crate::play::{Row, play};

/// A person's commit in the agent's clone, which is not at the place.
const DETACHED: &str = "HEAD is detached";

#[test]
fn a_head_that_is_on_no_branch_goes_back_to_the_one_that_it_left() {
    play(&[
        Row {
            name: "a detached HEAD",
            set_up: "git checkout -q --detach; append bd-13",
            why: &[DETACHED],
            next: "git -C TOP switch main",
            ..Row::TYPED
        },
        Row {
            name: "an older commit is checked out, and a tool goes on writing",
            set_up: "append bd-13; git commit -qam 13; git push -q; git checkout -q HEAD~1; append bd-00",
            why: &[DETACHED],
            next: "git -C TOP switch --merge main",
            typed: "advised; grep -v '^[<=>]\\{7\\}' $db >../t; cat ../t >$db; git reset -q",
            truth: "at_place; both bd-00 bd-13",
            ..Row::TYPED
        },
        Row {
            name: "a commit on no branch",
            set_up: "git checkout -q --detach; echo more >>src/s; git commit -qam mine; append bd-13",
            why: &[DETACHED, "its commits are on no branch, and mine-"],
            next: "git -C TOP branch mine-* && git -C TOP switch main",
            truth: "at_place; git show $(git branch --list --format='%(refname)' 'mine-*'):src/s | grep more",
            ..Row::TYPED
        },
        Row {
            name: "another branch than main was left, over two checkouts",
            set_up: "git switch -qc side; git push -qu origin side; git checkout -q --detach; git checkout -q origin/main",
            why: &[DETACHED],
            next: "git -C TOP switch side",
            truth: "[ $(git symbolic-ref HEAD) = refs/heads/side ]",
            ..Row::TYPED
        },
        Row {
            name: "the branch that was left is gone",
            set_up: "git checkout -q --detach; git branch -qm main other; git push -qu origin other",
            why: &[DETACHED],
            next: "git -C TOP switch other",
            truth: "[ $(git symbolic-ref HEAD) = refs/heads/other ]",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn what_is_in_progress_is_named_with_its_begin_and_the_command_that_aborts_it() {
    // A commit of another branch that conflicts with this one.
    const CONFLICT: &str = "git switch -qc side; echo side >src/s; git commit -qam side; git push -qu origin side; git switch -q main; \
                            echo main >src/s; git commit -qam main; git push -q; ";
    const IN_PROGRESS: &[&str] = &["is in progress in TOP since 20", "finish it, or abort it"];
    let row = |name, set_up, next| Row {
        name,
        set_up,
        why: IN_PROGRESS,
        next,
        ..Row::TYPED
    };
    let set_up = |script: &str| -> &'static str { format!("{CONFLICT}{script}").leak() };
    play(&[
        Row {
            truth: "[ $(git rev-parse HEAD) = $(git -C ../r.git rev-parse side) ]",
            ..row(
                "a rebase",
                set_up("git switch -q side; git rebase -q main || true"),
                "git -C TOP rebase --abort",
            )
        },
        Row {
            why: &["a merge is in progress in TOP since 20"],
            ..row(
                "a merge",
                set_up("git merge -q side || true"),
                "git -C TOP merge --abort",
            )
        },
        Row {
            why: &["a cherry-pick is in progress in TOP since 20"],
            ..row(
                "a cherry-pick",
                set_up("git cherry-pick side || true"),
                "git -C TOP cherry-pick --abort",
            )
        },
        Row {
            // git leaves the commit that was made meanwhile.
            afterwards: "local_only",
            truth: "git diff --quiet HEAD",
            why: &["a cherry-pick is in progress in TOP since 20"],
            ..row(
                "a cherry-pick of several commits, of which the first is resolved",
                set_up(
                    "git switch -q side; echo x >x; git add x; git commit -qm x; git switch -q main; git cherry-pick main..side || true; \
                        echo both >src/s; git commit -qam both",
                ),
                "git -C TOP cherry-pick --abort",
            )
        },
        Row {
            why: &["a revert is in progress in TOP since 20"],
            ..row(
                "a revert",
                set_up(
                    "echo more >src/s; git commit -qam more; git push -q; git revert --no-edit HEAD~1 || true",
                ),
                "git -C TOP revert --abort",
            )
        },
        Row {
            why: &["a bisect is in progress in TOP since 20"],
            ..row(
                "a bisect",
                set_up("git bisect start -q; append bd-13"),
                "git -C TOP bisect reset",
            )
        },
        Row {
            why: &["git am is in progress in TOP since 20"],
            ..row(
                "patches",
                set_up("git format-patch -q -1 side -o ..; git am -q ../0001-side.patch || true"),
                "git -C TOP am --abort",
            )
        },
        Row {
            name: "a tool goes on writing during a rebase",
            set_up: set_up("git switch -q side; git rebase -q main || true; append bd-13"),
            why: &[
                "a rebase is in progress in TOP since 20",
                "what was written to the database meanwhile is in TOP/.git/beads.mine then",
            ],
            next: "cp -pR TOP/.beads TOP/.git/beads.mine && git -C TOP checkout -q HEAD -- .beads && git -C TOP rebase --abort",
            typed: "advised; cp .git/beads.mine/issues.jsonl $db",
            truth: "grep -q bd-13 $db",
            ..Row::TYPED
        },
        Row {
            name: "a tool goes on writing during a merge that has changed the records",
            set_up: "git switch -qc side; append bd-14; echo side >src/s; git commit -qam side; git switch -q main; echo main >src/s; \
                     git commit -qam main; git push -q; git merge -q side || true; append bd-13",
            why: &[
                "a merge is in progress in TOP since 20",
                "is in TOP/.git/beads.mine then",
            ],
            next: "cp -pR TOP/.beads TOP/.git/beads.mine && git -C TOP checkout -q HEAD -- .beads && git -C TOP merge --abort",
            typed: "advised; grep bd-13 .git/beads.mine/issues.jsonl >>$db",
            truth: "at_place; both bd-13",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn what_a_power_loss_has_emptied_is_put_back_from_the_logs() {
    play(&[
        Row {
            name: "an empty branch",
            set_up: "append bd-13; : >.git/refs/heads/main",
            why: &["refs/heads/main in TOP/.git is empty; its log ends at "],
            next: "rm TOP/.git/refs/heads/main && git -C TOP update-ref refs/heads/main *",
            ..Row::TYPED
        },
        Row {
            name: "a branch of zeros, whose name has a slash",
            set_up: "git switch -qc a/b; git push -qu origin a/b; append bd-13; head -c 41 /dev/zero >.git/refs/heads/a/b",
            why: &["refs/heads/a/b in TOP/.git is empty; its log ends at "],
            next: "rm TOP/.git/refs/heads/a/b && git -C TOP update-ref refs/heads/a/b *",
            truth: "[ $(git rev-parse HEAD) = $(git -C ../r.git rev-parse a/b) ]",
            ..Row::TYPED
        },
        Row {
            name: "a torn branch",
            set_up: "append bd-13; printf 0123456789 >.git/refs/heads/main",
            why: &["refs/heads/main in TOP/.git is damaged; its log ends at "],
            next: "rm TOP/.git/refs/heads/main && git -C TOP update-ref refs/heads/main *",
            ..Row::TYPED
        },
        Row {
            name: "a branch that is gone",
            set_up: "append bd-13; rm .git/refs/heads/main",
            why: &["refs/heads/main in TOP/.git is gone; its log ends at "],
            next: "git -C TOP update-ref refs/heads/main *",
            ..Row::TYPED
        },
        Row {
            name: "an empty branch and an empty log",
            set_up: "append bd-13; : >.git/refs/heads/main; : >.git/logs/refs/heads/main; : >.git/logs/HEAD",
            why: &[
                "refs/heads/main in TOP/.git is empty; the last commit that is known and whole is ",
            ],
            next: "rm TOP/.git/refs/heads/main && git -C TOP update-ref refs/heads/main *",
            ..Row::TYPED
        },
        Row {
            name: "an empty branch, and the last commit is empty, too",
            set_up: "append bd-13; git commit -qam 13; o=$(git rev-parse HEAD | sed 's,^..,&/,'); chmod u+w .git/objects/$o; : >.git/objects/$o; \
                     : >.git/refs/heads/main",
            why: &[
                "refs/heads/main in TOP/.git is empty; the last commit that is known and whole is ",
            ],
            next: "rm TOP/.git/refs/heads/main && git -C TOP update-ref refs/heads/main *",
            truth: "at_place; both bd-13",
            ..Row::TYPED
        },
        Row {
            name: "an empty HEAD",
            set_up: "append bd-13; : >.git/HEAD",
            why: &["TOP/.git/HEAD is empty"],
            next: "echo 'ref: refs/heads/main' >TOP/.git/HEAD",
            ..Row::TYPED
        },
        Row {
            name: "a HEAD of zeros, on another branch",
            set_up: "git switch -qc side; git push -qu origin side; append bd-13; head -c 21 /dev/zero >.git/HEAD",
            why: &["TOP/.git/HEAD is empty"],
            next: "echo 'ref: refs/heads/side' >TOP/.git/HEAD",
            truth: "[ $(git rev-parse HEAD) = $(git -C ../r.git rev-parse side) ]",
            ..Row::TYPED
        },
        Row {
            name: "a HEAD of garbage",
            set_up: "append bd-13; echo garbage >.git/HEAD",
            why: &["TOP/.git/HEAD is damaged"],
            next: "echo 'ref: refs/heads/main' >TOP/.git/HEAD",
            ..Row::TYPED
        },
        Row {
            name: "a HEAD that is gone",
            set_up: "append bd-13; rm .git/HEAD",
            why: &["TOP/.git/HEAD is gone"],
            next: "echo 'ref: refs/heads/main' >TOP/.git/HEAD",
            ..Row::TYPED
        },
        Row {
            name: "an empty HEAD in a fresh clone with two branches",
            set_up: "git switch -qc side; append bd-13; git commit -qam 13; git push -qu origin side; rm -r .git; git clone -q ../r.git c; mv c/.git .; \
                     rm -rf c; git branch -q side origin/side; git reset -q --hard; append bd-14; : >.git/HEAD",
            why: &["TOP/.git/HEAD is empty"],
            next: "echo 'ref: refs/heads/main' >TOP/.git/HEAD",
            ..Row::TYPED
        },
        Row {
            name: "an empty HEAD below another repository",
            set_up: "git init -q ..; append bd-13; : >.git/HEAD",
            why: &["TOP/.git/HEAD is empty"],
            next: "echo 'ref: refs/heads/main' >TOP/.git/HEAD",
            ..Row::TYPED
        },
        Row {
            name: "an empty HEAD that was on no branch",
            set_up: "git checkout -q --detach; : >.git/HEAD",
            why: &["TOP/.git/HEAD is empty"],
            next: "echo * >TOP/.git/HEAD",
            afterwards: "failed",
            truth: "git symbolic-ref -q HEAD && exit 1; git switch -q main",
            ..Row::TYPED
        },
        Row {
            name: "an empty HEAD of a linked worktree",
            set_up: "git worktree add -q ../w -b side; git -C ../w push -qu origin side; append bd-13 ../w/$db; : >.git/worktrees/w/HEAD",
            db: "../w/.beads",
            options: &["--allow-worktree"],
            why: &["TOP/.git/worktrees/w/HEAD is empty"],
            next: "echo 'ref: refs/heads/side' >TOP/.git/worktrees/w/HEAD",
            truth: "[ $(git rev-parse side) = $(git -C ../r.git rev-parse side) ]; git show side:$db | grep bd-13",
            ..Row::TYPED
        },
        Row {
            name: "an empty branch that is packed, too",
            set_up: "git pack-refs --all; append bd-13; git commit -qam 13; git push -q; : >.git/refs/heads/main; append bd-14",
            why: &["refs/heads/main in TOP/.git is empty; its log ends at "],
            next: "rm TOP/.git/refs/heads/main && git -C TOP update-ref refs/heads/main *",
            truth: "at_place; both bd-13 bd-14",
            ..Row::TYPED
        },
        Row {
            name: "an empty tracking branch",
            set_up: "append bd-13; : >.git/refs/remotes/origin/main",
            why: &["refs/remotes/origin/main in TOP/.git is empty"],
            next: "rm TOP/.git/refs/remotes/origin/main && git -C TOP fetch origin",
            ..Row::TYPED
        },
        Row {
            name: "settings that git cannot read",
            set_up: "cp .git/config ../config; echo '[remote' >>.git/config; append bd-13",
            why: &[
                "git does not work in TOP/.beads: bad config line",
                ".git/config",
            ],
            typed: "cp ../config .git/config",
            ..Row::TYPED
        },
        Row {
            name: "an empty index",
            set_up: "append bd-13; : >.git/index",
            why: &[
                "TOP/.git/index is damaged (",
                "index file smaller than expected",
            ],
            next: "mv TOP/.git/index TOP/.git/index.damaged && git -C TOP reset -q",
            ..Row::TYPED
        },
        Row {
            name: "an index of zeros",
            set_up: "append bd-13; n=$(stat -c %s .git/index); head -c $n /dev/zero >.git/index",
            why: &["TOP/.git/index is damaged ("],
            next: "mv TOP/.git/index TOP/.git/index.damaged && git -C TOP reset -q",
            ..Row::TYPED
        },
        Row {
            name: "an index that was cut off",
            set_up: "append bd-13; truncate -s 150 .git/index",
            why: &["TOP/.git/index is damaged ("],
            next: "mv TOP/.git/index TOP/.git/index.damaged && git -C TOP reset -q",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn objects_that_are_empty_or_missing_are_fetched_anew_or_made_anew() {
    play(&[
        Row {
            name: "objects that the remote has are empty",
            set_up: "for o in HEAD HEAD: HEAD:.beads HEAD:.beads/issues.jsonl; do p=.git/objects/$(git rev-parse $o | sed 's,^..,&/,'); \
                     chmod u+w $p; done; for p in $(find .git/objects -type f -perm /200); do : >$p; done; append bd-13",
            why: &[
                "TOP/.git/objects/",
                "fetched anew, what origin has is whole",
            ],
            next: "mkdir -p TOP/.git/damaged && mv TOP/.git/objects/* TOP/.git/objects/* TOP/.git/objects/* TOP/.git/objects/* TOP/.git/damaged && git -C TOP fetch --refetch origin",
            ..Row::TYPED
        },
        Row {
            name: "an object that the remote has is torn",
            set_up: "p=.git/objects/$(git rev-parse HEAD: | sed 's,^..,&/,'); chmod u+w $p; truncate -s 10 $p; append bd-13",
            why: &["TOP/.git/objects/", "is damaged"],
            next: "mkdir -p TOP/.git/damaged && mv TOP/.git/objects/* TOP/.git/damaged && git -C TOP fetch --refetch origin",
            ..Row::TYPED
        },
        Row {
            name: "an object that the remote has is missing",
            set_up: "rm -f .git/objects/$(git rev-parse HEAD: | sed 's,^..,&/,'); append bd-13",
            why: &["an object is missing or damaged: "],
            next: "git -C TOP fetch --refetch origin",
            ..Row::TYPED
        },
        Row {
            name: "a file's object, which no remote has, is missing",
            set_up: "append bd-13; git commit -qam 13; rm -f .git/objects/$(git rev-parse HEAD:$db | sed 's,^..,&/,')",
            why: &["the object of .beads/issues.jsonl is missing or damaged ("],
            next: "git -C TOP hash-object -w -- .beads/issues.jsonl",
            truth: "at_place; both bd-13",
            ..Row::TYPED
        },
        Row {
            name: "a pack is damaged, in which there is a commit of this clone",
            set_up: "git config pack.writeReverseIndex true; for n in 1 2 3; do echo $n >>src/s; git commit -qam $n; done; git push -q; append bd-13; git commit -qam 13; git gc -q; \
                     p=$(ls .git/objects/pack/*.pack); o=$(git verify-pack -v $p | grep $(git rev-parse HEAD~1) | awk '{print $5}'); chmod u+w $p; \
                     printf 'xxxxxxxxxxxxxxxx' | dd of=$p bs=1 seek=$((o + 20)) conv=notrunc 2>/dev/null; rm -f .git/objects/info/commit-graph; append bd-14",
            why: &[
                "TOP/.git/objects/pack/pack-",
                "what can be read of it is unpacked, and origin has the rest",
            ],
            next: "mkdir -p TOP/.git/damaged && mv TOP/.git/objects/pack/*.pack TOP/.git/objects/pack/*.idx TOP/.git/objects/pack/*.rev TOP/.git/damaged && \
                   { git -C TOP unpack-objects -q -r <TOP/.git/damaged/*.pack; git -C TOP fetch --refetch origin; }",
            // What was in this clone alone is made anew from the files.
            typed: "advised || true; c=$(git merge-base origin/main origin/main); git rev-list --objects --quiet HEAD || git update-ref refs/heads/main $c",
            truth: "at_place; both bd-13 bd-14",
            ..Row::TYPED
        },
        Row {
            name: "the last commit, which no remote has, is missing",
            set_up: "append bd-13; git commit -qam 13; rm -f .git/objects/$(git rev-parse HEAD | sed 's,^..,&/,')",
            why: &[
                "what refs/heads/main has is damaged",
                "your files stay as they are",
            ],
            next: "git -C TOP update-ref refs/heads/main *",
            truth: "at_place; both bd-13",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn a_lock_that_was_left_is_named_with_its_age_and_how_to_remove_it() {
    let row = |name, lock: &'static str| Row {
        name,
        set_up: format!("append bd-13; : >.git/{lock}; touch -d '2 hours ago' .git/{lock}").leak(),
        why: vec![
            &*format!("TOP/.git/{lock} has been there since 20").leak(),
            "if no git is at work",
        ]
        .leak(),
        next: format!("rm TOP/.git/{lock}").leak(),
        ..Row::TYPED
    };
    play(&[
        row("HEAD.lock", "HEAD.lock"),
        row("main.lock", "refs/heads/main.lock"),
        row("index.lock", "index.lock"),
        Row {
            name: "packed-refs.lock, which is in nobody's way",
            set_up: "append bd-13; : >.git/packed-refs.lock; touch -d '2 hours ago' .git/packed-refs.lock",
            ..Row::SYNCED
        },
        Row {
            set_up: "there 'echo x >x'; append bd-13; f=.git/refs/remotes/origin/main.lock; : >$f; touch -d '2 hours ago' $f",
            truth: "at_place",
            ..row(
                "the tracking branch's lock",
                "refs/remotes/origin/main.lock",
            )
        },
        Row {
            name: "a lock of a git that is at work",
            set_up: "append bd-13; : >.git/HEAD.lock",
            state: "failed",
            why: &[
                "TOP/.git/HEAD.lock has been there since 20",
                ": another git is at work",
            ],
            typed: "rm .git/HEAD.lock",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn a_database_that_is_in_no_working_tree_says_where_it_belongs() {
    const BARE: &str = "git add -A; mv .git .bare; git --git-dir=.bare config core.bare true; echo 'gitdir: ./.bare' >.git; rm .bare/index; ";
    play(&[
        Row {
            name: "core.bare is set",
            set_up: "append bd-13; git config core.bare true",
            why: &["TOP/.git/config says core.bare"],
            next: "git -C TOP config core.bare false",
            ..Row::TYPED
        },
        Row {
            name: "core.worktree leads elsewhere",
            set_up: "append bd-13; mkdir ../elsewhere; git config core.worktree $(cd ../elsewhere; pwd)",
            why: &["TOP/.beads is not in the working tree of TOP/.git: core.worktree leads elsewhere"],
            next: "git -C TOP config --unset core.worktree",
            ..Row::TYPED
        },
        Row {
            name: "inside .git",
            set_up: "append bd-13; mv .beads .git/.beads",
            db: ".git/.beads",
            why: &["TOP/.git/.beads is inside TOP/.git, of which git commits nothing"],
            next: "mv TOP/.git/.beads TOP/.beads",
            moved: ".beads",
            ..Row::TYPED
        },
        Row {
            name: "beside worktrees, one of which has a database",
            set_up: format!("{BARE} git worktree add -q main main; append bd-13 ../new; mv ../new $db").leak(),
            why: &[".beads lies beside the worktrees of TOP/.bare", "--allow-worktree"],
            next: "cat TOP/.beads/issues.jsonl >>TOP/main/.beads/issues.jsonl && mv TOP/.beads TOP/.beads.moved",
            moved: "main/.beads",
            options: &["--allow-worktree"],
            truth: "place $db | cmp - main/$db; grep bd-13 main/$db; [ $(git config core.bare) = true ]",
            ..Row::TYPED
        },
        Row {
            name: "beside worktrees without a database",
            set_up: format!("git rm -rq --cached .beads; git commit -qm none; {BARE} git worktree add -q main main").leak(),
            why: &[".beads lies beside the worktrees of TOP/.bare"],
            next: "mv TOP/.beads TOP/main/.beads",
            moved: "main/.beads",
            options: &["--allow-worktree"],
            truth: "place $db | cmp - main/$db; [ $(git config core.bare) = true ]",
            ..Row::TYPED
        },
        Row {
            name: "beside a bare repository and its worktrees, and nothing leads to it",
            set_up: format!("{BARE} git worktree add -q main main; rm .git; append bd-13 ../new; mv ../new $db").leak(),
            why: &[".beads lies beside the worktrees of TOP/.bare", "--allow-worktree"],
            next: "cat TOP/.beads/issues.jsonl >>TOP/main/.beads/issues.jsonl && mv TOP/.beads TOP/.beads.moved",
            moved: "main/.beads",
            options: &["--allow-worktree"],
            truth: "place $db | cmp - main/$db; grep bd-13 main/$db",
            ..Row::TYPED
        },
        Row {
            name: "beside a bare repository",
            set_up: BARE,
            why: &["lies beside TOP/.bare, a bare repository, and is in no working tree of it"],
            state: "failed",
            afterwards: "failed",
            truth: "",
            ..Row::SYNCED
        },
        Row {
            name: ".git leads nowhere",
            set_up: "mv .git ../g; echo 'gitdir: /no/such' >.git",
            why: &["TOP/.git leads to /no/such, which is no repository"],
            state: "failed",
            typed: "rm .git; mv ../g .git",
            ..Row::TYPED
        },
        Row {
            name: "a repository without objects",
            set_up: "mv .git/objects ../o",
            why: &["TOP/.git has lost its objects"],
            typed: "mv ../o .git/objects",
            ..Row::TYPED
        },
        Row {
            name: "no repository at all, then no commit",
            set_up: "rm -rf .git",
            why: &["TOP/.beads is in no git repository"],
            next: "git -C TOP init",
            afterwards: "failed",
            truth: "",
            ..Row::TYPED
        },
        Row {
            name: "no commit yet",
            set_up: "rm -rf .git; git init -q; git remote add origin ../r2.git; git init -q --bare ../r2.git",
            why: &["the branch main in TOP has no commit yet"],
            next: "git -C TOP commit --allow-empty -m 'first commit'",
            afterwards: "local_only",
            truth: "git show HEAD:$db | cmp - $db",
            ..Row::TYPED
        },
        Row {
            name: "a submodule on no branch",
            set_up: "git init -q ../super; git -C ../super submodule --quiet add ../r.git sub; git -C ../super commit -qm sub; mv ../super/sub ../super/gone; \
                     rm -rf ../super/gone; git -C ../super submodule --quiet update --init; git -C ../super/sub checkout -q --detach",
            db: "../super/sub/.beads",
            why: &[DETACHED],
            next: "git -C *super/sub switch main",
            truth: "[ $(git -C ../super/sub symbolic-ref HEAD) = refs/heads/main ]",
            ..Row::TYPED
        },
    ]);
}
