//! Databases that bd keeps in Dolt: in each layout, with and without record files in git.

use crate::play::{Row, play};

/// A Dolt database of which git has no record file.
const ALONE: Row = Row {
    state: "not_serving",
    why: &["this is a Dolt database; bd dolt push and pull sync it"],
    afterwards: "not_serving",
    truth: r#"
        ! git ls-files | grep -q -e dolt -e jsonl; grep -q 'Nothing to sync: this is a Dolt database' .beads/daemon.log
    "#,
    ..Row::SYNCED
};

#[test]
fn a_dolt_database_without_record_files_in_git_is_not_served() {
    play(&[
        Row {
            name: "embedded, as bd sets it up",
            set_up: r#"
                git rm -q $db; printf 'embeddeddolt/\n*.jsonl\n' >>.beads/.gitignore; git commit -qam dolt; git push -q
                mkdir -p .beads/embeddeddolt/bd/.dolt/noms; echo '{}' >.beads/embeddeddolt/bd/.dolt/repo_state.json
                append bd-01; append bd-13
            "#,
            truth: "! git ls-files | grep -q -e dolt -e jsonl; [ $(git rev-parse HEAD) = $(git rev-parse origin/main) ]",
            ..ALONE
        },
        Row {
            name: "of a server, and git ignores nothing",
            set_up: r#"
                git rm -q $db; git commit -qm dolt; mkdir -p .beads/dolt/beads/.dolt/noms
                echo m >.beads/dolt/beads/.dolt/noms/manifest; echo 3307 >.beads/dolt-server.port
            "#,
            ..ALONE
        },
        Row {
            name: "on a server elsewhere, named by bd's metadata",
            set_up: r#"
                git rm -q $db; echo '{"backend":"dolt","dolt_mode":"server"}' >.beads/metadata.json
                git add .beads; git commit -qm dolt; git push -q
            "#,
            ..ALONE
        },
        Row {
            name: "on a detached HEAD",
            set_up: r#"
                git rm -q $db; git commit -qm dolt; git checkout -q --detach
                mkdir -p .beads/dolt/.dolt; echo '{}' >.beads/dolt/.dolt/repo_state.json
            "#,
            ..ALONE
        },
        Row {
            name: "outside of a repository",
            set_up: "rm -rf .git; mkdir -p .beads/proxieddb/bd/.dolt/noms",
            truth: "[ -e $db ]",
            ..ALONE
        },
        Row {
            name: "a record file is added to git",
            set_up: r#"
                git rm -q --cached $db; git commit -qm dolt; git push -q; mkdir -p .beads/embeddeddolt/bd/.dolt/noms
                echo m >.beads/embeddeddolt/bd/.dolt/noms/manifest
            "#,
            typed: "git add $db",
            afterwards: "synced",
            truth: "at_place; ! git ls-tree -r --name-only origin/main | grep dolt",
            ..ALONE
        },
    ]);
}

#[test]
fn of_a_dolt_database_the_record_files_are_synced_and_nothing_else() {
    /// Each line once, also after the second cycle of the row, which is another agent's.
    const NOTICE: &str = r#"
        at_place; ! git ls-tree -r --name-only origin/main | grep dolt
        [ $(grep -c "Not committing: .beads/embeddeddolt/ (a Dolt database; bd dolt push and pull sync it, and the \
agent syncs the record files)" .beads/daemon.log) = 2 ]; [ $(grep -c 'Not committing' .beads/daemon.log) = 2 ]
    "#;
    play(&[
        Row {
            name: "embedded, and ignored",
            set_up: r#"
                echo 'embeddeddolt/' >>.beads/.gitignore; mkdir -p .beads/embeddeddolt/bd/.dolt/noms
                echo m >.beads/embeddeddolt/bd/.dolt/noms/manifest; append bd-13
            "#,
            truth: NOTICE,
            ..Row::SYNCED
        },
        Row {
            name: "embedded, and git ignores nothing",
            set_up: r#"
                mkdir -p .beads/embeddeddolt/bd/.dolt/noms; echo m >.beads/embeddeddolt/bd/.dolt/noms/manifest
                echo x >.beads/embeddeddolt/config.yaml; append bd-13
            "#,
            why: &["1 file is not synced: .beads/embeddeddolt/"],
            truth: NOTICE,
            ..Row::SYNCED
        },
        Row {
            name: "on a server",
            set_up: r#"echo '{"backend":"dolt"}' >.beads/metadata.json; append bd-13"#,
            truth: r#"
                at_place .beads/issues.jsonl .beads/metadata.json
                grep -q 'the Dolt database that .beads/metadata.json names (on a server, or not fetched' .beads/daemon.log
            "#,
            ..Row::SYNCED
        },
        Row {
            name: "a directory that only has the name",
            set_up: r#"
                mkdir -p .beads/dolt/x; echo notes >.beads/dolt/x/notes.md; echo '{"backend":"sqlite"}' \
                    >.beads/metadata.json
            "#,
            truth: "at_place .beads/dolt/x/notes.md; ! grep -i 'a dolt database' .beads/daemon.log",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn dolts_own_files_are_neither_tracked_nor_pulled() {
    const TRACKED: &str = r#"
        for one in a b; do
            mkdir -p .beads/dolt/$one/.dolt/noms; echo m >.beads/dolt/$one/.dolt/noms/manifest
            echo '{}' >.beads/dolt/$one/.dolt/repo_state.json
        done; git add -f .beads; git commit -qm mistake
    "#;
    play(&[
        Row {
            name: "tracked, and typed away",
            set_up: TRACKED,
            why: &[
                ".beads/dolt/a/.dolt, .beads/dolt/b/.dolt are tracked by git, and they are Dolt databases: a commit would \
                 tear what is open",
            ],
            next: "git -C TOP --literal-pathspecs rm -r -q --cached -f -- .beads/dolt/a/.dolt .beads/dolt/b/.dolt && \
                   printf '\\n%s\\n' .dolt/ >>TOP/.beads/.gitignore",
            truth: r#"
                at_place .beads/issues.jsonl .beads/.gitignore; ! git ls-tree -r --name-only origin/main | grep dolt
                [ -e .beads/dolt/a/.dolt/noms/manifest ]; [ -e .beads/dolt/b/.dolt/repo_state.json ]
            "#,
            ..Row::TYPED
        },
        Row {
            name: "in the commits of others",
            set_up: r#"
                mkdir -p .beads/dolt/a/.dolt/noms; echo here >.beads/dolt/a/.dolt/noms/manifest
                there 'mkdir -p .beads/dolt/a/.dolt/noms; echo there >.beads/dolt/a/.dolt/noms/manifest'
            "#,
            state: "behind",
            why: &[
                "origin/main has .beads/dolt/a/.dolt, and a pull would replace a Dolt database that may be open here",
            ],
            next: "git --literal-pathspecs rm -r -q --cached -- .beads/dolt/a/.dolt",
            typed: r#"cd ../b; sh -c "$NEXT"; git commit -qm away; git push -q"#,
            truth: "at_place; grep -qx here .beads/dolt/a/.dolt/noms/manifest",
            ..Row::SYNCED
        },
    ]);
}
