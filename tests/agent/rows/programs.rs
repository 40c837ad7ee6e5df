//! Nothing that came with a pull is run: a pull that changes a program of the working tree which git runs here is left
//! to a person, and `git pull` is the look and the release.

use crate::play::{Played, Row, gits, play};

/// What the scripts of these rows may call.
const WORDS: &str = r#"
# evil FILE: a program that leaves a mark and passes on what it is given.
evil() { mkdir -p "$(dirname "$1")"; printf '#!/bin/sh\n: >>%s/ran\ncat\n' "$HOME" >"$1"; chmod +x "$1"; }
"#;

/// A row in which the other clone has pushed `there`, and a pull would change `path`.
fn left(name: &'static str, set_up: &str, there: &str, path: &str, source: &str) -> Row {
    Row {
        name,
        set_up: format!("{WORDS}{set_up}; there '{there}'").leak(),
        state: "behind",
        why: vec![
            &*format!("a pull would change {path}, which ").leak(),
            &*format!("({source})").leak(),
            &*format!(
                "; git -C TOP log -p ..origin/main -- {} shows it",
                path.replace(',', "")
            )
            .leak(),
        ]
        .leak(),
        next: "git -C TOP pull",
        typed: "[ ! -e ~/ran ]; sh -c \"$NEXT\" -q",
        truth: "at_place",
        ..Row::TYPED
    }
}

const HOOK: &str = "evil .beads/hooks/pre-commit";

/// A program that comes in where the place is a fork.
const OF_A_FORK: Row = Row {
    state: "behind",
    why: &["a pull would change .githooks/pre-commit, which git runs here (core.hooksPath)"],
    next: "git -C TOP pull --no-rebase --no-edit origin refs/heads/main && git -C TOP pull --no-rebase --no-edit fork refs/heads/main && git -C TOP push",
    typed: "[ ! -e ~/ran ]; advised",
    truth: "has ../fork.git main",
    ..Row::TYPED
};

#[test]
fn a_hook_that_comes_with_a_pull_is_left_to_a_person() {
    play(&[
        Row {
            typed: "[ ! -e ~/ran ]; advised; append bd-14",
            truth: "[ -e ~/ran ]; at_place; both bd-14",
            ..left(
                "a directory of hooks in the database, which is not there yet",
                "git config core.hooksPath .beads/hooks",
                HOOK,
                ".beads/hooks/pre-commit",
                "core.hooksPath",
            )
        },
        left(
            "what a hook there may start",
            "git config core.hooksPath .githooks; mkdir .githooks; echo x >.githooks/x; git add -A; git commit -qm x; git push -q",
            "evil .githooks/lib/common",
            ".githooks/lib/common",
            "core.hooksPath",
        ),
        left(
            "a hook goes",
            "evil .githooks/pre-push; git add -A; git commit -qm x; git push -q; git config core.hooksPath .githooks; rm -f ~/ran",
            "git rm -q .githooks/pre-push",
            ".githooks/pre-push",
            "core.hooksPath",
        ),
        left(
            "a hook becomes executable",
            "evil .githooks/pre-commit; chmod -x .githooks/pre-commit; git add -A; git commit -qm x; git push -q; git config core.hooksPath .githooks",
            "chmod +x .githooks/pre-commit",
            ".githooks/pre-commit",
            "core.hooksPath",
        ),
        left(
            "a hook is renamed into its place",
            "evil x; git add -A; git commit -qm x; git push -q; git config core.hooksPath .githooks",
            "mkdir .githooks; git mv x .githooks/post-merge",
            ".githooks/post-merge",
            "core.hooksPath",
        ),
        left(
            "a hook that is a link to a script",
            "mkdir scripts; printf \"#!/bin/sh\\n\" >scripts/pre-commit; chmod +x scripts/pre-commit; git add -A; git commit -qm x; git push -q; \
             ln -s ../../scripts/pre-commit .git/hooks/pre-commit",
            "evil scripts/pre-commit",
            "scripts/pre-commit",
            "the hook pre-commit",
        ),
        left(
            "a hook that is a link to nothing",
            "ln -s ../../scripts/x .git/hooks/pre-commit",
            "evil scripts/x",
            "scripts/x",
            "the hook pre-commit",
        ),
        left(
            "a link in the place of a directory",
            "mkdir -p scripts; printf \"#!/bin/sh\\n\" >scripts/pre-commit; chmod +x scripts/pre-commit; git add -A; git commit -qm x; git push -q; \
             ln -s ../../scripts/pre-commit .git/hooks/pre-commit",
            "evil lib/pre-commit; git rm -q -r scripts; ln -s lib scripts",
            "scripts, scripts/pre-commit",
            "the hook pre-commit",
        ),
        left(
            "a link in the place of a directory before two dots",
            "mkdir .githooks; echo x >.githooks/x; git add -A; git commit -qm x; git push -q; git config core.hooksPath src/../.githooks",
            "evil evil/.githooks/pre-push; mkdir evil/sub; echo x >evil/sub/x; git rm -q -r src; ln -s evil/sub src",
            "src",
            "core.hooksPath",
        ),
        left(
            "the directory of hooks is a link",
            "mkdir -p lib/hooks; echo x >lib/hooks/x; ln -s lib/hooks .githooks; git add -A; git commit -qm x; git push -q; git config core.hooksPath .githooks",
            "evil lib/hooks/pre-commit",
            "lib/hooks/pre-commit",
            "core.hooksPath",
        ),
        left(
            "a directory of hooks by its path from home",
            "git config core.hooksPath \"~/a/.githooks\"",
            "evil .githooks/pre-commit",
            ".githooks/pre-commit",
            "core.hooksPath",
        ),
        left(
            "a name that differs in case",
            "git config core.hooksPath .githooks",
            "evil .GitHooks/pre-commit",
            ".GitHooks/pre-commit",
            "core.hooksPath",
        ),
        left(
            "the scripts of husky are above its hooks",
            "mkdir -p .husky/_; echo _ >.husky/.gitignore; git config core.hooksPath .husky/_",
            "evil .husky/pre-commit",
            ".husky/pre-commit",
            "core.hooksPath",
        ),
    ]);
}

#[test]
fn a_command_that_comes_with_a_pull_is_left_to_a_person() {
    let command = |name, setting: &str, value: &str| {
        left(
            name,
            &format!("git config {setting} \"{value}\""),
            "evil tools/x",
            "tools/x",
            setting,
        )
    };
    play(&[
        command("a filter", "filter.up.clean", "./tools/x"),
        command("the second word", "filter.up.smudge", "sh ./tools/x"),
        command(
            "a word in quotes",
            "filter.up.process",
            "sh -c 'exec ./tools/x'",
        ),
        command("a driver", "merge.up.driver", "tools/x %A %O %B"),
        command("what asks for a password", "core.askpass", "./tools/x"),
        command("a helper", "credential.helper", "!f() { ./tools/x; }; f"),
        command("what signs", "gpg.program", "./tools/x"),
        command("a variable", "filter.up.clean", "sh \\$PWD/tools/x"),
        command(
            "an option with its path",
            "filter.up.clean",
            "awk -f./tools/x",
        ),
        command("a glob", "filter.up.clean", "cat ./tools/*"),
        left(
            "the settings of ssh, in a link from home",
            "mkdir ~/.ssh; ln -s ../a/ssh ~/.ssh/config",
            "evil ssh",
            "ssh",
            "a file of settings",
        ),
        left(
            "a file of settings that is not there yet",
            "git config include.path ../.gitconfig",
            "git config -f .gitconfig core.hooksPath elsewhere",
            ".gitconfig",
            "include.path",
        ),
        left(
            "a file of settings",
            "printf \"[x]\\n\\ty = z\\n\" >.gitconfig; git add -A; git commit -qm x; git push -q; git config include.path ../.gitconfig",
            "git config -f .gitconfig core.hooksPath elsewhere",
            ".gitconfig",
            "include.path",
        ),
        left(
            "a file of settings behind a condition",
            "git config includeIf.onbranch:other.path ../more",
            "evil more",
            "more",
            "include.path",
        ),
    ]);
}

#[test]
fn what_a_program_for_hooks_reads_is_left_to_a_person() {
    let calls = |name: &str| {
        format!(
            "printf \"#!/bin/sh\\n: {name} run\\n\" >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"
        )
    };
    let package = "echo \"{\\\"name\\\":\\\"a\\\",\\\"lint-staged\\\":{\\\"*\\\":\\\"x\\\"}}\" >package.json; git add -A; git commit -qm p; git push -q";
    play(&[
        left(
            "pre-commit",
            &calls("pre-commit"),
            "echo x >.pre-commit-config.yaml",
            ".pre-commit-config.yaml",
            "pre-commit, the hook pre-commit",
        ),
        left(
            "another file of pre-commit's",
            &calls("pre-commit --config=ci/hooks.yaml"),
            "mkdir ci; echo x >ci/hooks.yaml",
            "ci/hooks.yaml",
            "the hook pre-commit",
        ),
        left(
            "another file of pre-commit's, by a word of its own",
            &calls("pre-commit run -c ci/hooks.yaml"),
            "mkdir ci; echo x >ci/hooks.yaml",
            "ci/hooks.yaml",
            "the hook pre-commit",
        ),
        left(
            "a program that npx finds",
            &calls("npx eslint"),
            "evil node_modules/.bin/eslint",
            "node_modules/.bin/eslint",
            "npx, the hook pre-commit",
        ),
        left(
            "lefthook",
            &calls("lefthook"),
            "echo x >lefthook.yml",
            "lefthook.yml",
            "lefthook, the hook pre-commit",
        ),
        left(
            "lint-staged",
            &calls("npx lint-staged"),
            "mkdir web; echo x >web/.lintstagedrc.json",
            "web/.lintstagedrc.json",
            "lint-staged, the hook pre-commit",
        ),
        left(
            "lint-staged in a package",
            &format!("{package}; {}", calls("npx lint-staged")),
            "sed -i s/x/y/ package.json",
            "package.json",
            "lint-staged, the hook pre-commit",
        ),
        Row {
            name: "another member of the package",
            set_up: format!(
                "{package}; {}; there 'sed -i s/a/b/ package.json'",
                calls("npx lint-staged")
            )
            .leak(),
            truth: "at_place; at_place package.json",
            ..Row::SYNCED
        },
        Row {
            name: "nothing calls them",
            set_up: "hook .git pre-push '# lefthook, npx'; there 'echo x >lefthook.yml; mkdir node_modules; echo x >node_modules/x; echo x >.pre-commit-config.yaml; mkdir -p hooks tools; echo x >hooks/pre-commit; echo x >tools/x'",
            truth: "at_place; at_place lefthook.yml tools/x",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn whatever_way_the_files_come_in() {
    play(&[
        Row {
            name: "with records that both sides changed, and commits that wait",
            set_up: format!("{WORDS}git config core.hooksPath .githooks; there 'append bd-20; evil .githooks/pre-commit'; append bd-21").leak(),
            state: "local_only",
            why: &["a pull would change .githooks/pre-commit, which git runs here (core.hooksPath)"],
            next: "git -C TOP restore --source=origin/main --staged --worktree -- .githooks/pre-commit && git -C TOP commit -m 'Take programs of origin/main' -- .githooks/pre-commit",
            // The next cycle merges the records. The commit has nothing that is not there, and goes.
            typed: "[ ! -e ~/ran ]; advised; [ ! -e .git/rebase-merge ]",
            truth: "at_place; at_place .githooks/pre-commit; both bd-20 bd-21",
            ..Row::TYPED
        },
        Row {
            name: "from the upstream of a fork",
            set_up: format!(
                "{WORDS}fork; git config remote.pushDefault fork; git push -q fork main; git config core.hooksPath .githooks; \
                 there 'evil .githooks/pre-commit'; append bd-21"
            )
            .leak(),
            ..OF_A_FORK
        },
        Row {
            name: "from the fork, by another machine",
            set_up: format!(
                "{WORDS}fork; git config remote.pushDefault fork; git push -q fork main; git config core.hooksPath .githooks; \
                 git clone -q ../fork.git ../c; (cd ../c; evil .githooks/pre-commit; git add -A; git commit -qm c; git push -q)"
            )
            .leak(),
            ..OF_A_FORK
        },
        Row {
            name: "a submodule that goes on has its files as they were",
            set_up: "git init -q ../sub; (cd ../sub; echo x >pre-commit; git add -A; git commit -qm s); \
                     there 'git submodule --quiet add ../sub hooks'; git pull -q; git submodule --quiet update --init; git config core.hooksPath hooks; \
                     (cd ../sub; echo y >pre-commit; git commit -qam s2); there 'git submodule --quiet update --init --remote hooks'",
            truth: "at_place; [ $(cat hooks/pre-commit) = x ]",
            ..Row::SYNCED
        },
    ]);
}

/// A path from the top is one of the working tree in which git runs, also where that is a linked one.
#[test]
fn a_linked_working_tree_has_hooks_of_its_own() {
    for git in gits() {
        let played = Played::begin(&git);
        let set_up = format!(
            "{WORDS}git config core.hooksPath .githooks; git worktree add -q -b side ../w; git -C ../w push -q -u origin side; \
             (cd ../b; git fetch -q; git switch -q side; evil .githooks/pre-commit; git add -A; git commit -qm hook; git push -q)"
        );
        let ended = played.shell(&set_up, "");
        assert_eq!(ended.code, 0, "{ended:?}");
        let log = played.cycle_of("w/.beads");
        let said = "a pull would change .githooks/pre-commit, which git runs here (core.hooksPath)";
        assert!(log.contains(said), "{log}");
        assert!(!played.scene.path().join("ran").exists());
    }
}
