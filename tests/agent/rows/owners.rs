//! What git is led by here, and another user could change: nothing of it is run or read. Names without case, git's own
//! locks, and repositories that are set up in an unusual way.

use beadlock_tests::skip;

use crate::play::{Row, play};

/// A hook that leaves a trace, and refuses nothing.
const TRAP: &str =
    "append bd-13; planted() { hook \"$1\" pre-commit 'echo ran >>'\"$(cd .. && pwd)/ran\"; }; ";

/// A row in which the hook runs only after what was typed.
const TRAPPED: Row = Row {
    typed: "[ ! -e ../ran ]; advised",
    truth: "at_place; both bd-13; grep ran ../ran",
    ..Row::TYPED
};

fn trap(set_up: &str) -> &'static str {
    format!("{TRAP}{set_up}").leak()
}

#[test]
fn what_others_may_write_to_is_not_run_until_they_may_no_longer() {
    play(&[
        Row {
            name: "everybody may write to the git directory",
            set_up: trap("planted .git; chmod o+w .git"),
            why: &[
                "everybody may write to TOP/.git (mode 0",
                "7), and git would do what is set up there as ",
            ],
            next: "chmod o-w TOP/.git",
            ..TRAPPED
        },
        Row {
            name: "the hooks, one hook and the settings",
            set_up: trap("planted .git; chmod o+w .git/hooks .git/hooks/pre-commit .git/config"),
            why: &["everybody may write to TOP/.git/config", "(and 2 more)"],
            next: "chmod o-w TOP/.git/config TOP/.git/hooks TOP/.git/hooks/pre-commit",
            ..TRAPPED
        },
        Row {
            name: "a hook of which the sticky bit keeps its directory",
            set_up: trap("planted .git; chmod 1757 .git/hooks"),
            why: &[
                "everybody may write to TOP/.git/hooks (mode 1757), and git would run what lies there as ",
            ],
            next: "chmod o-w TOP/.git/hooks",
            ..TRAPPED
        },
        Row {
            name: "core.hooksPath leads to such a directory",
            set_up: trap(
                "planted ../h; chmod o+w ../h/hooks; git config core.hooksPath \"$(cd .. && pwd)/h/hooks\"",
            ),
            why: &["/h/hooks (mode 0", "and git would run what lies there as "],
            next: "chmod o-w */h/hooks",
            ..TRAPPED
        },
        Row {
            name: "a directory above the hooks, which could be exchanged",
            set_up: trap("planted ../h; chmod o+w ../h; git config core.hooksPath ../h/hooks"),
            why: &[
                "everybody may write to ",
                "/h (mode 0",
                "and something else could be put in the place of ",
            ],
            next: "chmod o-w */h",
            ..TRAPPED
        },
        Row {
            name: "a directory above the hooks in which the sticky bit keeps them",
            set_up: trap("planted ../h; chmod 1757 ../h; git config core.hooksPath ../h/hooks"),
            state: "synced",
            typed: "",
            ..TRAPPED
        },
        Row {
            name: "there are no hooks yet, and everybody could make them",
            set_up: "append bd-13; mkdir ../h; chmod 1757 ../h; git config core.hooksPath ../h/hooks",
            why: &["/h (mode 1757), and something else could be put in the place of "],
            next: "chmod o-w */h",
            ..Row::TYPED
        },
        Row {
            name: "a hook is a link to a file that everybody may write to",
            set_up: trap(
                "planted ../h; mkdir -p .git/hooks; ln -s ../../../h/hooks/pre-commit .git/hooks; chmod o+w ../h/hooks/pre-commit",
            ),
            why: &["/h/hooks/pre-commit (mode 0", "and git would run it as "],
            next: "chmod o-w */h/hooks/pre-commit",
            ..TRAPPED
        },
        Row {
            name: "the settings include others",
            set_up: trap(
                "planted .git; printf '[core]\\n\\tfileMode = true\\n' >../more; chmod o+w ../more; git config include.path ../../more",
            ),
            why: &["/more (mode 0", "and git would do what it says as "],
            next: "chmod o-w */more",
            ..TRAPPED
        },
        Row {
            name: "the settings include a file that is not there, and everybody could make it",
            set_up: trap(
                "planted .git; mkdir ../m; chmod 1757 ../m; git config include.path ../../m/more",
            ),
            why: &["/m (mode 1757), and something else could be put in the place of "],
            next: "chmod o-w */m",
            ..TRAPPED
        },
        Row {
            name: "settings of this user",
            set_up: trap("planted .git; chmod o+w ../.gitconfig"),
            why: &["/.gitconfig (mode 0", "and git would do what it says as "],
            next: "chmod o-w */.gitconfig",
            ..TRAPPED
        },
        Row {
            name: "the git directory is elsewhere, and what is above it could be exchanged",
            set_up: trap(
                "planted .git; mkdir -p ../e; git init -q --separate-git-dir ../e/g; chmod o+w ../e",
            ),
            why: &[
                "/e (mode 0",
                "and something else could be put in the place of ",
            ],
            next: "chmod o-w */e",
            ..TRAPPED
        },
        Row {
            name: "the file that leads to the git directory",
            set_up: trap("planted .git; git init -q --separate-git-dir ../g; chmod o+w .git"),
            why: &[
                "everybody may write to TOP/.git (mode 0",
                "and git would do what it says as ",
            ],
            next: "chmod o-w TOP/.git",
            ..TRAPPED
        },
        Row {
            name: "the way to the git directory, by a link in a directory of everybody's",
            set_up: trap(
                "planted .git; git init -q --separate-git-dir ../g; mkdir ../l; ln -s ../g ../l/g; echo gitdir: ../l/g >.git; chmod o+w ../l",
            ),
            why: &[
                "/l (mode 0",
                "and something else could be put in the place of ",
            ],
            next: "chmod o-w */l",
            ..TRAPPED
        },
        Row {
            name: "what leads from a worktree to what all of them share",
            set_up: "git worktree add -q ../w -b side; git -C ../w push -qu origin side; append bd-13 ../w/$db; chmod o+w .git/worktrees/w/commondir",
            db: "../w/.beads",
            options: &["--allow-worktree"],
            why: &["everybody may write to TOP/.git/worktrees/w/commondir"],
            next: "chmod o-w TOP/.git/worktrees/w/commondir",
            truth: "git -C ../r.git show side:$db | grep bd-13",
            ..Row::TYPED
        },
        Row {
            name: "it is waived",
            set_up: trap(
                "planted .git; chmod o+w .git .git/hooks .git/hooks/pre-commit .git/config",
            ),
            options: &["--allow-foreign-owner"],
            state: "synced",
            typed: "",
            ..TRAPPED
        },
        Row {
            name: "settings that are a pipe",
            set_up: "append bd-13; mv .git/config ../config; mkfifo .git/config",
            why: &["TOP/.git/config is a named pipe, and git would wait for it"],
            typed: "mv ../config .git/config",
            ..Row::TYPED
        },
    ]);
}

#[test]
fn what_belongs_to_another_user_or_to_a_group_is_not_run_either() {
    if !skip::root() {
        return;
    }
    play(&[
        Row {
            name: "a repository that a group shares",
            set_up: trap(
                "planted .git; git config core.sharedRepository group; chgrp -R 61002 .git; chmod -R g+w .git",
            ),
            why: &[
                "the group with gid 61002 may write to TOP/.git (mode 0",
                "and git would do what is set up there as root",
            ],
            next: "chmod g-w TOP/.git TOP/.git/config TOP/.git/hooks TOP/.git/hooks/pre-commit",
            ..TRAPPED
        },
        Row {
            name: "the hooks of another user",
            set_up: trap("planted .git; chown -R 61001 .git/hooks"),
            why: &[
                "TOP/.git/hooks belongs to uid 61001 (mode 0",
                "and git would run what lies there as root",
                "look at what is in it and make it yours",
            ],
            next: "chown -h root TOP/.git/hooks TOP/.git/hooks/pre-commit",
            ..TRAPPED
        },
        Row {
            name: "a hook of another user",
            set_up: trap("planted .git; chown 61001 .git/hooks/pre-commit"),
            why: &[
                "TOP/.git/hooks/pre-commit belongs to uid 61001 (mode 0",
                "and git would run it as root",
            ],
            next: "chown -h root TOP/.git/hooks/pre-commit",
            ..TRAPPED
        },
        Row {
            name: "the settings belong to another user, and a hook may be written by a group",
            set_up: trap(
                "planted .git; chown 61001 .git/config; chgrp 61002 .git/hooks/pre-commit; chmod g+w .git/hooks/pre-commit; git config --global safe.directory '*'",
            ),
            why: &["TOP/.git/config belongs to uid 61001", "(and 1 more)"],
            next: "chown -h root TOP/.git/config && chmod g-w TOP/.git/hooks/pre-commit",
            ..TRAPPED
        },
        Row {
            name: "a link of another user's in a directory of everybody's",
            set_up: trap(
                "planted .git; mkdir ../t; chmod 1757 ../t; mv .git/hooks ..; ln -s ../hooks ../t/h; chown -h 61001 ../t/h; git config core.hooksPath ../t/h",
            ),
            why: &[
                "/t/h belongs to uid 61001",
                "and something else could be put in the place of ",
                "run the agent as that user",
            ],
            typed: "[ ! -e ../ran ]; chown -h 0 ../t/h",
            ..TRAPPED
        },
        Row {
            name: "a hook is a link into the home of another user",
            set_up: trap(
                "planted ../home; chown -R 61001 ../home; mkdir -p .git/hooks; ln -s ../../../home/hooks/pre-commit .git/hooks",
            ),
            why: &[
                "/home belongs to uid 61001",
                "and something else could be put in the place of TOP/.git/hooks/pre-commit",
            ],
            typed: "[ ! -e ../ran ]; cp ../home/hooks/pre-commit ..; rm .git/hooks/pre-commit; mv ../pre-commit .git/hooks",
            ..TRAPPED
        },
        Row {
            name: "an agent of another user than root, and a hook of a third one",
            set_up: trap(
                "planted .git; chown 65534 .git/hooks .git/hooks/* .beads/*; chown 61001 .git/hooks/pre-commit",
            ),
            why: &[
                "TOP/.git/hooks/pre-commit belongs to uid 61001",
                "and git would run it as nobody (uid 65534)",
            ],
            next: "sudo chown -h nobody TOP/.git/hooks/pre-commit",
            typed: "[ ! -e ../ran ]; sudo() { \"$@\"; }; eval \"$NEXT\"",
            truth: "git config --global safe.directory '*'; at_place; both bd-13",
            is_mortal: true,
            ..TRAPPED
        },
        Row {
            name: "an agent of another user than root, and what root owns",
            set_up: trap(
                "planted .git; chown 0:0 .git/hooks .git/hooks/*; chown 65534 .beads/*; chmod 777 ..; : >../ran; chmod 666 ../ran",
            ),
            state: "synced",
            typed: "",
            truth: "git config --global safe.directory '*'; at_place; both bd-13; grep ran ../ran",
            is_mortal: true,
            ..TRAPPED
        },
    ]);
}
