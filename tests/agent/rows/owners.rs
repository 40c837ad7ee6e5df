//! What git is led by here, and another user could change: nothing of it is run or read. Names without case, git's own
//! locks, and repositories that are set up in an unusual way.

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, run, skip, wait_until};

use crate::play::{Played, Row, gits, play};

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
            name: "the user has no settings there yet, and everybody could make them",
            set_up: trap("planted .git; mkdir -p ~/.config; chmod 0757 ~/.config"),
            why: &["/.config (mode 0757), and something else could be put in the place of "],
            next: "chmod o-w */.config",
            ..TRAPPED
        },
        Row {
            name: "what signs commits lies where everybody may write",
            set_up: trap("planted .git; mkdir -p .git/beadlock; chmod o+w .git/beadlock"),
            why: &[
                "everybody may write to TOP/.git/beadlock (mode 0",
                "and git would run what lies there as ",
            ],
            next: "chmod o-w TOP/.git/beadlock",
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

#[test]
fn own_names_are_the_same_in_letters_of_either_case() {
    const REFUSED: Row = Row {
        state: "behind",
        truth: "at_place; git diff --quiet HEAD",
        ..Row::SYNCED
    };
    const LIVE: &str = "and a pull would put it over what is live here";
    const LEADS: &str = "and everybody who may push would decide where a database is";
    let pushed = |name, file: &str, what: &'static str| Row {
        name,
        set_up: format!(
            "there 'mkdir -p \"$(dirname {file})\"; echo x >{file}; git add -f {file}'"
        )
        .leak(),
        why: vec![&*format!("origin/main has {file}, ").leak(), what].leak(),
        typed: format!("there 'rm {file}'; [ ! -e {file} ]").leak(),
        next: format!("git rm --cached -- {file}").leak(),
        ..REFUSED
    };
    play(&[
        pushed("a lock", ".beads/.Exclusive-Lock", LIVE),
        pushed("a redirect", ".beads/Redirect", LEADS),
        pushed(
            "a log in a database of another name",
            ".Beads/daemon.LOG",
            LIVE,
        ),
        pushed(
            "a redirect of another database",
            "pkg/.BEADS/REDIRECT",
            LEADS,
        ),
        Row {
            name: "a redirect that is tracked here",
            set_up: "append bd-13; echo x >.beads/Redirect; git add -f .beads/Redirect; git commit -qm x",
            why: &[
                ".beads/Redirect is tracked by git, and everybody who may push would decide where the database is",
            ],
            next: "git -C TOP rm --cached -- .beads/Redirect",
            typed: "advised; git commit -qm untracked; git push -q",
            truth: "at_place; both bd-13; ! git cat-file -e HEAD:.beads/Redirect; [ -e .beads/Redirect ]",
            ..Row::TYPED
        },
        Row {
            name: "one that is not tracked stays here",
            set_up: "append bd-13; echo x >.beads/Daemon.Log; echo x >.beads/REDIRECT",
            truth: "at_place; both bd-13; ! git cat-file -e HEAD:.beads/REDIRECT; ! git cat-file -e HEAD:.beads/Daemon.Log",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn a_lock_in_the_way_of_one_step_is_named_too() {
    play(&[Row {
        name: "the settings, where the upstream is to be noted",
        set_up: "git switch -qc side; git config push.autoSetupRemote true; append bd-13; : >.git/config.lock
                 touch -d '2 hours ago' .git/config.lock",
        why: &[
            "TOP/.git/config.lock has been there since 20",
            "if no git is at work, a killed one has left it",
        ],
        next: "rm TOP/.git/config.lock",
        typed: "advised; append bd-14",
        truth: "has ../r.git side; [ $(git rev-parse --abbrev-ref @{u}) = origin/side ]",
        ..Row::TYPED
    }]);
}

#[test]
fn repositories_that_are_set_up_in_an_unusual_way_are_synced_or_say_why_not() {
    play(&[
        Row {
            name: "the database is the top of a repository",
            set_up: "append bd-13; mv .git .beads; git -C .beads add -A; git -C .beads commit -qm moved",
            why: &["TOP/.beads has a git repository of its own (.git), which is never used"],
            next: "mv TOP/.beads/.git TOP/beads.git",
            typed: "advised; mv beads.git .git; git reset -q HEAD~1",
            truth: "at_place; both bd-13",
            ..Row::TYPED
        },
        Row {
            name: "everything is ignored by what was pushed, and the records are tracked",
            set_up: "there 'echo \"*\" >.gitignore; git add -f .gitignore'; append bd-13",
            truth: "at_place; both bd-13; at_place .gitignore",
            ..Row::SYNCED
        },
        Row {
            name: "all but the records are ignored by what was pushed",
            set_up: "there 'printf \"*\\n!.gitignore\\n!issues.jsonl\\n\" >.beads/.gitignore'; git pull -q; append bd-13; append x .beads/new.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "everything is ignored by what was pushed, and there is a new record file",
            set_up: "there 'echo \"*\" >.beads/.gitignore'; git pull -q; append bd-13 .beads/new.jsonl",
            state: "local_only",
            why: &["git ignores .beads/new.jsonl (.beads/.gitignore:1)"],
            next: "git -C TOP --literal-pathspecs add -f -- .beads/new.jsonl",
            truth: "at_place; at_place .beads/new.jsonl",
            ..Row::TYPED
        },
    ]);
    if !skip::root() {
        return;
    }
    play(&[Row {
        name: "a top of root's, and an agent that is another user",
        set_up: "append bd-13; chown 65534 .beads/*; chown 0:0 .",
        why: &[
            "git does not work in TOP/.beads: detected dubious ownership in repository at 'TOP'",
        ],
        next: "git config --global --add safe.directory TOP",
        truth: "git config --global safe.directory '*'; at_place; both bd-13",
        is_mortal: true,
        ..Row::TYPED
    }]);
}

/// Fills a small file system around the clone before a commit, and before a pull. Ends with what has gone wrong.
const FULL: &str = r#"
    mkdir ../m; mount -t tmpfs -o size=4m tmpfs ../m || exit 77
    cp -a . ../m/a; ln -s "$(cd .. && pwd)/r.git" ../m/r.git; cd ../m/a
    fill() { head -c 8000000 /dev/zero >../fill 2>/dev/null || true; }
    state() { "$AGENT" --once --db .beads --log-file "$LOG" >/dev/null 2>&1 || true; sed -n 's/.*] State: //p' "$LOG" | tail -n 1; }
    append bd-13; cp $db "$SAVED"; fill
    state | grep -i '^failed .*no space left on device' || exit 11
    cmp $db "$SAVED" || exit 12
    rm ../fill; state | grep '^synced' || exit 13
    at_place || exit 14
    (cd "$OTHER"; git pull -q; for n in $(seq 3000); do append "there-$n"; done; git commit -qam there; git push -q)
    append bd-14; cp $db "$SAVED"; fill; truncate -s -200K ../fill
    state | grep -i -e '^failed .*no space' -e '^behind ' -e '^local_only ' || exit 21
    cmp $db "$SAVED" || exit 22
    rm ../fill; state | grep '^synced' || exit 23
    at_place && both bd-13 bd-14 there-1 there-3000 || exit 24
"#;

#[test]
fn a_full_disk_loses_nothing_and_is_named() {
    if !skip::root() || !skip::has_program("unshare") {
        return;
    }
    for git in gits() {
        let played = Played::begin(&git);
        let scene = played.scene.path();
        std::fs::write(scene.join("full.sh"), played.script(FULL)).expect("write the script");
        let mut command = played.scene.command("unshare");
        command
            .args(["--mount", "sh", "-eu"])
            .arg(scene.join("full.sh"));
        command
            .current_dir(played.top())
            .env("PATH", played.path())
            .env("AGENT", beadlock_tests::binaries::agent())
            .env("LOG", scene.join("log"))
            .env("SAVED", scene.join("saved"))
            .env("OTHER", scene.join("b"));
        let ended = Ended::from(run(command));
        if ended.code == 77 {
            return skip::cannot("needs a mount of tmpfs");
        }
        let log = std::fs::read_to_string(scene.join("log")).unwrap_or_default();
        assert_eq!(ended.code, 0, "{ended:?}\n{log}");
    }
}

/// What a cycle starts is seen by everybody: here by a hook.
#[test]
fn a_secret_in_the_settings_is_on_no_command_line() {
    let git = gits().remove(0);
    let played = Played::begin(&git);
    let sh = |script: &str| played.shell(script, "").code == 0;
    assert!(sh(r#"
        git config core.sshCommand 'ssh -o ProxyCommand=S3CRET'
        git config filter.x.clean 'cat # S3CRET'
        git config url.https://S3CRET@host.invalid/.insteadOf https://host.invalid/
        hook .git pre-commit 'for p in /proc/[0-9]*; do tr "\0" " " <$p/cmdline; echo; done >>../seen 2>/dev/null'
    "#));
    let agent = Running::start(played.agent(&["--interval", "50ms"]));
    for id in ["bd-13", "bd-14", "bd-15"] {
        assert!(sh(&format!("append {id}")));
        wait_until(PATIENCE, "the record at the place", || {
            sh(&format!("both {id}"))
        });
    }
    drop(agent);
    let seen = std::fs::read(played.scene.path().join("seen")).expect("what the hook has seen");
    let seen = String::from_utf8_lossy(&seen);
    let syncs = seen.lines().filter(|line| line.contains(" __sync-git "));
    assert!(syncs.count() >= 3, "the control: {seen}");
    assert!(!seen.contains("S3CRET"), "{seen}");
}
