//! What is left out, what is held back, and the agent's own names in `info/exclude`.

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};

use crate::play::{Played, Row, gits, play};

/// A row of a record file that is held back.
const HELD: Row = Row {
    state: "local_only",
    ..Row::SYNCED
};

/// Restores the records of the last commit.
const RESTORED: &str = "cp -p TOP/.beads/issues.jsonl TOP/.beads/issues.jsonl.mine && git -C TOP checkout HEAD -- \
                        .beads/issues.jsonl";

#[test]
fn files_that_are_no_records_stay_here_and_the_state_names_them() {
    play(&[
        Row {
            name: "live state, a key, and a database of another program",
            set_up: r#"
                append bd-13; echo 7 >.beads/dolt-server.pid; echo 7 >.beads/.sync.lock
                (umask 077; echo secret >.beads/token); echo key >.beads/x.key
                mkdir -p .beads/dolt/x/.dolt/noms; echo m >.beads/dolt/x/.dolt/noms/manifest
                printf '\0\0\0\0\0\0\0\0DUCK and more' >.beads/of-duck
                ln -s u@host.1:1 '.beads/.#issues.jsonl'; : >.beads/issues.jsonl~
            "#,
            why: &[
                "8 files are not synced: .beads/.#issues.jsonl, .beads/.sync.lock, .beads/dolt-server.pid, …",
            ],
            truth: r#"
                at_place
                [ "$(git ls-tree -r --name-only origin/main .beads)" = ".beads/.gitignore
.beads/issues.jsonl" ]
                grep -q 'Not committing: .beads/.sync.lock and 1 more (live state)' .beads/daemon.log
                grep -q 'Not committing: .beads/token and 1 more (a secret)' .beads/daemon.log
                grep -q 'Not committing: .beads/of-duck (a database)' .beads/daemon.log
                grep -q 'Not committing: .beads/dolt/ (a Dolt database; ' .beads/daemon.log
            "#,
            ..Row::SYNCED
        },
        Row {
            name: "git add -f is the way round",
            set_up: "echo key >.beads/x.key; echo 7 >.beads/x.pid; git add -f .beads/x.key",
            why: &["1 file is not synced: .beads/x.pid"],
            typed: "at_place .beads/x.key; git add -f .beads/x.pid",
            truth: "at_place .beads/x.key .beads/x.pid",
            ..Row::SYNCED
        },
        Row {
            name: "names with a space and a line break, below other directories",
            set_up: "mkdir -p '.beads/a b/c'; echo 7 >'.beads/a b/c/x
y.pid'; append bd-13 '.beads/a b/c/x
y.jsonl'",
            why: &["1 file is not synced: .beads/a b/c/x\\ny.pid"],
            truth: "at_place '.beads/a b/c/x
y.jsonl'",
            ..Row::SYNCED
        },
        Row {
            name: "a file that is too large for the usual hosts",
            set_up: "truncate -s 120M .beads/large; append bd-13",
            why: &["1 file is not synced: .beads/large"],
            truth: "at_place; ! place .beads/large; grep -q 'large (too large for the usual hosts)' .beads/daemon.log",
            ..Row::SYNCED
        },
        Row {
            name: "a record file that was written aside and renamed has no permissions for others",
            set_up: r#"new=$(mktemp .beads/XXXXXX); append bd-1 "$new"; mv "$new" .beads/new.jsonl"#,
            truth: "[ $(stat -c %a .beads/new.jsonl) = 600 ]; at_place .beads/new.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "a umask that gives others nothing hides nothing",
            set_up: "chmod 600 .beads/issues.jsonl; (umask 077; echo plain >.beads/notes)",
            truth: "at_place .beads/notes",
            ..Row::SYNCED
        },
        Row {
            name: "names that are only like those",
            set_up: r#"
                echo x >.beads/team-journal; echo x >.beads/credentials-rotation.md; echo x >.beads/.env.example
                seq 200 >.beads/Cargo.lock; append bd-1 .beads/data.base.jsonl; echo x >.beads/id_rsa_howto.md
            "#,
            truth: r#"
                at_place .beads/team-journal .beads/credentials-rotation.md .beads/.env.example .beads/Cargo.lock \
                    .beads/data.base.jsonl .beads/id_rsa_howto.md
            "#,
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn a_secret_that_is_tracked_is_told_with_a_line_that_takes_it_out() {
    const TYPED: &str = r#"
        line=$(sed -n 's/.*Tracked secret: .*; type: //p' .beads/daemon.log | tail -1); [ "$line" ]; sh -c "$line"
    "#;
    play(&[
        Row {
            name: "by its name",
            set_up: "echo key >.beads/x.key; git add -f .beads/x.key; git commit -qm key; git push -q",
            typed: TYPED,
            truth: r#"
                ! place .beads/x.key; [ -e .beads/x.key ]; at_place
                grep -q 'Tracked secret: .beads/x.key; whoever .* change the secret' .beads/daemon.log
            "#,
            ..Row::SYNCED
        },
        Row {
            name: "by its content, with a name that a pattern could take for another",
            set_up: r#"
                printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n' >'.beads/my [k] *'; append bd-13
                git add -f .beads; git commit -qm key; git push -q
            "#,
            typed: TYPED,
            truth: "! place '.beads/my [k] *'; [ -e '.beads/my [k] *' ]; at_place",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn a_line_that_is_no_record_is_held_back_until_a_person_mends_or_means_it() {
    const MARKERS: &str = r#"
        printf '<<<<<<< ours\n{"id":"bd-13"}\n=======\n{"id":"bd-13","t":1}\n>>>>>>> theirs\n' >>"$db"
        append n-1 .beads/notes.jsonl
    "#;
    const MENDED: &str = r#"
        ! place "$db" | grep -q '<<<<'; place .beads/notes.jsonl | cmp - .beads/notes.jsonl
        sed -i -e '/^[<=>]\{7\}/d' -e '/"t":1/d' "$db"
    "#;
    play(&[
        Row {
            name: "conflict markers, edited",
            set_up: MARKERS,
            why: &[".beads/issues.jsonl, line 13, is a conflict marker; edit the file"],
            typed: MENDED,
            truth: "at_place; both bd-13",
            ..HELD
        },
        Row {
            name: "conflict markers that are meant",
            set_up: MARKERS,
            why: &["or commit and push it yourself"],
            typed: "git commit -qm meant -- .beads && git push -q && append bd-14",
            truth: "at_place; place .beads/issues.jsonl | grep -q '<<<<'; both bd-14",
            ..HELD
        },
        Row {
            name: "conflict markers that are staged",
            set_up: "printf '<<<<<<< ours\n=======\n>>>>>>> theirs\n' >>.beads/issues.jsonl; git add .beads; \
                     append n-1 .beads/notes.jsonl; git add .beads",
            why: &["line 13, is a conflict marker"],
            typed: "at_place .beads/notes.jsonl; git diff --cached | grep -q '<<<<'; sed -i '/^[<=>]\\{7\\}/d' \"$db\"",
            ..HELD
        },
        Row {
            name: "conflict markers in a commit that is not pushed",
            set_up: "printf '<<<<<<< ours\n' >>.beads/issues.jsonl; git commit -qam meant; append n-1 .beads/notes.jsonl",
            why: &["line 13, is a conflict marker, in 2 commits that are not pushed; edit the file, or push"],
            typed: "! place \"$db\" | grep -q '<<<<'; git push -q",
            truth: "at_place .beads/notes.jsonl; place \"$db\" | grep -q '<<<<'",
            ..HELD
        },
        Row {
            name: "a hook that adds the file to each commit",
            set_up: "printf '#!/bin/sh\ngit add .beads/issues.jsonl\n' >.git/hooks/pre-commit; \
                     chmod +x .git/hooks/pre-commit; printf '<<<<<<< ours\n' >>.beads/issues.jsonl; \
                     append n-1 .beads/notes.jsonl",
            why: &["line 13, is a conflict marker; edit the file"],
            typed: "at_place .beads/notes.jsonl; ! place $db | grep -q '<<<<'; sed -i 13d $db; append bd-13",
            truth: "at_place; both bd-13",
            ..HELD
        },
        Row {
            name: "an archive, beside a hook",
            set_up: "printf '#!/bin/sh\ngit add .beads/issues.jsonl\n' >.git/hooks/pre-commit; \
                     chmod +x .git/hooks/pre-commit; mv .beads/issues.jsonl .beads/old.jsonl; : >.beads/issues.jsonl",
            truth: "at_place .beads/issues.jsonl .beads/old.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "a conflict in a new file, in a directory of an odd name",
            set_up: "mkdir -p '.beads/a b'; printf '<<<<<<< ours\n{\"id\":\"x\"}\n=======\n>>>>>>> theirs\n' >'.beads/a b/x
y.jsonl'; append bd-13",
            why: &[".beads/a b/x\\ny.jsonl, line 1, is a conflict marker"],
            typed: "at_place; sed -i '/^[<=>]\\{7\\}/d' .beads/a*/*.jsonl",
            truth: "at_place '.beads/a b/x
y.jsonl'",
            ..HELD
        },
        Row {
            name: "a last line that is cut off",
            set_up: "printf '{\"id\":\"bd-13\",\"title' >>.beads/issues.jsonl",
            why: &[".beads/issues.jsonl: line 13 is not JSON (cut off?)"],
            typed: "printf '\":\"x\"}\n' >>.beads/issues.jsonl",
            truth: "at_place; both bd-13",
            ..HELD
        },
        Row {
            name: "a new file whose only line is cut off",
            set_up: "printf '{\"id\":\"bd-13\"' >.beads/new.jsonl",
            why: &[".beads/new.jsonl: line 1 is not JSON (cut off?)"],
            typed: "printf '}\n' >>.beads/new.jsonl",
            truth: "at_place .beads/new.jsonl",
            ..HELD
        },
        Row {
            name: "a line that is not JSON between others",
            set_up: "sed -i '3a oops' .beads/issues.jsonl",
            why: &[".beads/issues.jsonl: line 4 is not JSON"],
            typed: "sed -i 4d .beads/issues.jsonl; append bd-13",
            ..HELD
        },
        Row {
            name: "NUL bytes after a power loss",
            set_up: "head -c 4000 /dev/zero >.beads/issues.jsonl",
            why: &[".beads/issues.jsonl: line 1 has NUL bytes; restore the file"],
            next: RESTORED,
            typed: "advised",
            truth: "at_place; both bd-12; [ -s .beads/issues.jsonl.mine ]",
            ..HELD
        },
        Row {
            name: "a fault that is at the place already holds nothing",
            set_up: "echo oops >>.beads/issues.jsonl; printf '=======\n' >>.beads/issues.jsonl; \
                     git commit -qam meant; git push -q; append bd-13; sed -i 1d .beads/issues.jsonl",
            truth: "at_place; both bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "a file of another form is not judged",
            set_up: "for n in 1 2 3; do echo \"issue $n\"; done >.beads/plain.jsonl; printf x >.beads/torn.jsonl; \
                     printf '{\n  \"id\": 1\n}\n' >.beads/pretty.jsonl",
            truth: "at_place .beads/plain.jsonl .beads/torn.jsonl .beads/pretty.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "a file in another encoding, as git converts it",
            set_up: "echo '*.jsonl working-tree-encoding=UTF-16LE' >.beads/.gitattributes; \
                     iconv -t UTF-16LE .beads/issues.jsonl >x; mv x .beads/issues.jsonl; \
                     printf '{\"id\":\"bd-13\"}\n' | iconv -t UTF-16LE >>.beads/issues.jsonl",
            truth: "place .beads/issues.jsonl | grep -q bd-13",
            ..Row::SYNCED
        },
    ]);
}

/// A writer that takes some time for its line keeps nothing else from being synced. Only a line that stays cut off is
/// told.
#[test]
fn a_line_that_its_writer_ends_is_never_held_back() {
    let played = Played::begin(&gits()[0]);
    let sh = |script: &str| played.shell(script, "").code == 0;
    // The first one to ask for the agent builds it: that may take longer than a writer is waited for.
    let agent = played.agent(&["--interval", "50ms"]);
    assert!(sh(
        "printf '{\"id\":\"bd-13\"' >>$db; append n-1 .beads/notes.jsonl"
    ));
    let daemon = Running::start(agent);
    wait_until(PATIENCE, "the other file at the place", || {
        sh("place .beads/notes.jsonl >../placed")
    });
    assert!(sh("! place $db | grep -q bd-13"));
    assert!(sh("printf '}\n' >>$db"));
    wait_until(PATIENCE, "the whole line at the place", || sh("both bd-13"));
    let is_held = || played.log().contains("State: local_only");
    assert!(!is_held(), "{}", played.log());
    assert!(sh("printf '{\"id\":\"bd-14\"' >>$db"));
    wait_until(PATIENCE, "a line that stays cut off is told", is_held);
    let said = "State: local_only since ";
    let log = played.log();
    let line = log.lines().find(|line| line.contains(said));
    assert!(
        line.is_some_and(|line| line.contains("issues.jsonl: line 14 is not JSON (cut off?)")),
        "{log}"
    );
    assert!(sh("printf '}\n' >>$db"));
    wait_until(PATIENCE, "the line at the place", || sh("both bd-14"));
    drop(daemon);
}

#[test]
fn a_file_that_has_lost_most_of_its_records_is_held_back() {
    const LOST: Row = Row {
        next: RESTORED,
        typed: "advised",
        truth: "at_place; both bd-01 bd-12; [ -e .beads/issues.jsonl.mine ]",
        ..HELD
    };
    play(&[
        Row {
            name: "emptied, and restored",
            set_up: ": >.beads/issues.jsonl",
            why: &[
                ".beads/issues.jsonl: 12 of 12 records are gone; restore the file, or commit and push it yourself",
            ],
            ..LOST
        },
        Row {
            name: "emptied on purpose",
            set_up: ": >.beads/issues.jsonl",
            why: &["12 of 12 records are gone"],
            next: RESTORED,
            typed: "git commit -qm emptied -- .beads/issues.jsonl && git push -q",
            truth: "at_place; [ ! -s .beads/issues.jsonl ]",
            ..HELD
        },
        Row {
            name: "emptied in a commit that is not pushed",
            set_up: ": >.beads/issues.jsonl; git commit -qam emptied",
            why: &[
                "12 of 12 records are gone, in 1 commit that is not pushed; push that yourself if it is meant",
            ],
            next: "git -C TOP push",
            typed: "[ $(place $db | wc -l) = 12 ]; advised",
            truth: "at_place; [ ! -s .beads/issues.jsonl ]",
            ..HELD
        },
        Row {
            name: "more than half",
            set_up: "sed -i 1,7d .beads/issues.jsonl; append n-1 .beads/notes.jsonl",
            why: &["7 of 12 records are gone"],
            truth: "at_place; both bd-01 bd-12; place .beads/notes.jsonl >../x",
            ..LOST
        },
        Row {
            name: "half of them are a person's decision",
            set_up: "sed -i 1,6d .beads/issues.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "a small file that was emptied",
            set_up: "append n-1 .beads/notes.jsonl; append n-2 .beads/notes.jsonl; git add .beads; \
                     git commit -qm notes; git push -q; : >.beads/notes.jsonl",
            why: &[".beads/notes.jsonl: 2 of 2 records are gone"],
            next: "cp -p TOP/.beads/notes.jsonl TOP/.beads/notes.jsonl.mine && git -C TOP checkout HEAD -- \
                   .beads/notes.jsonl",
            typed: "advised",
            truth: "at_place .beads/notes.jsonl; [ -s .beads/notes.jsonl ]",
            ..HELD
        },
        Row {
            name: "the file itself, with another one left",
            set_up: "append n-1 .beads/notes.jsonl; git add .beads; git commit -qm notes; git push -q; \
                     rm .beads/issues.jsonl; append n-2 .beads/notes.jsonl",
            why: &[".beads/issues.jsonl: 12 of 12 records are gone, with the file"],
            next: "git -C TOP checkout HEAD -- .beads/issues.jsonl",
            typed: "at_place .beads/notes.jsonl; advised",
            truth: "at_place; both bd-01 bd-12",
            ..HELD
        },
        Row {
            name: "git rm is not yet a commit, and stays staged",
            set_up: "append n-1 .beads/notes.jsonl; git add .beads; git commit -qm notes; git push -q; \
                     git rm -q .beads/issues.jsonl; append n-2 .beads/notes.jsonl",
            why: &["12 of 12 records are gone, with the file"],
            next: "git -C TOP checkout HEAD -- .beads/issues.jsonl",
            typed: "at_place .beads/notes.jsonl; [ \"$(git diff --cached --name-status)\" = \"D\t$db\" ]; \
                    git commit -qm gone && git push -q",
            truth: "! place .beads/issues.jsonl; at_place .beads/notes.jsonl",
            ..HELD
        },
        Row {
            name: "an emptied file beside a deletion that a person has staged",
            set_up: "append n-1 .beads/notes.jsonl; append s-1 src/o.jsonl; git add .; git commit -qm notes; git push -q; \
                     git rm -q --cached src/s; : >.beads/issues.jsonl; append n-2 .beads/notes.jsonl",
            why: &[".beads/issues.jsonl: 12 of 12 records are gone"],
            truth: "at_place; both bd-01; place src/s >../x; [ \"$(git diff --cached --name-only)\" = src/s ]; \
                    at_place .beads/notes.jsonl",
            ..LOST
        },
        Row {
            name: "a name that a pattern could take for another, and a saved copy that is there already",
            set_up: "for n in 1 2 3; do append n-$n '.beads/a [b] *.jsonl'; done; git add .beads; git commit -qm n; \
                     git push -q; : >'.beads/a [b] *.jsonl'; echo mine >'.beads/a [b] *.jsonl.mine'",
            why: &["3 of 3 records are gone"],
            next: "cp -p 'TOP/.beads/a [b] *.jsonl' 'TOP/.beads/a [b] *.jsonl.2.mine' && git -C TOP \
                   --literal-pathspecs checkout HEAD -- '.beads/a [b] *.jsonl'",
            typed: "advised",
            truth: "at_place '.beads/a [b] *.jsonl'; grep -q mine '.beads/a [b] *.jsonl.mine'; \
                    [ $(wc -l <'.beads/a [b] *.jsonl') = 3 ]",
            ..HELD
        },
    ]);
}

#[test]
fn a_database_that_is_gone_as_a_whole_is_not_deleted_at_the_place() {
    const GONE: Row = Row {
        why: &["the only file of .beads is gone; is a volume not mounted?"],
        next: "git -C TOP checkout HEAD -- .beads",
        typed: "advised",
        truth: "at_place; both bd-01 bd-12",
        ..HELD
    };
    play(&[
        Row {
            name: "rm of all but what begins with a dot",
            set_up: "rm -rf .beads/*",
            ..GONE
        },
        Row {
            name: "a small tracker",
            set_up: "sed -i 2,12d .beads/issues.jsonl; git commit -qam few; git push -q; rm -rf .beads/* .beads/.g*",
            truth: "at_place; both bd-01",
            ..GONE
        },
        Row {
            name: "several files, some of them no record files",
            set_up: "echo x >.beads/README.md; mkdir .beads/sub; append n-1 .beads/sub/n.jsonl; git add .beads; \
                     git commit -qm more; git push -q; rm -rf .beads/*; append s-1 .beads/stray.jsonl",
            why: &["all 3 files of .beads are gone; is a volume not mounted?"],
            typed: "! place .beads/stray.jsonl; advised",
            truth: "at_place .beads/issues.jsonl .beads/README.md .beads/sub/n.jsonl .beads/stray.jsonl",
            ..GONE
        },
        Row {
            name: "it is meant",
            set_up: "rm -rf .beads/*",
            typed: "git commit -qm gone -- .beads && git push -q",
            truth: "! place .beads/issues.jsonl",
            ..GONE
        },
        Row {
            name: "a tool has begun anew in the empty directory",
            set_up: "echo x >.beads/README.md; git add .beads; git commit -qm more; git push -q; \
                     rm -rf .beads/*; append bd-99",
            why: &[
                "all 2 files of .beads are gone or have lost their records; is a volume not mounted?",
            ],
            next: "",
            typed: "git checkout HEAD -- .beads",
            truth: "at_place .beads/issues.jsonl .beads/README.md; both bd-01",
            ..HELD
        },
    ]);
}

#[test]
fn records_that_were_moved_are_not_gone() {
    play(&[
        Row {
            name: "an archive",
            set_up: "head -n 9 .beads/issues.jsonl >.beads/archive.jsonl; sed -i 1,9d .beads/issues.jsonl",
            truth: "at_place .beads/issues.jsonl .beads/archive.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "an archive in two steps, with a cycle between them",
            set_up: "head -n 9 .beads/issues.jsonl >.beads/archive.jsonl",
            typed: "sed -i 1,9d .beads/issues.jsonl",
            truth: "at_place .beads/issues.jsonl .beads/archive.jsonl; [ $(wc -l <$db) = 3 ]",
            ..Row::SYNCED
        },
        Row {
            name: "another name",
            set_up: "mv .beads/issues.jsonl .beads/beads.jsonl",
            truth: "at_place .beads/beads.jsonl; ! place .beads/issues.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "an archive and another name in one go, in another directory",
            set_up: "mkdir .beads/old; head -n 9 .beads/issues.jsonl | sed 's/}$/,\"status\":\"closed\"}/' \
                     >.beads/old/closed.jsonl; tail -n 3 .beads/issues.jsonl >.beads/beads.jsonl; rm .beads/issues.jsonl",
            truth: "at_place .beads/beads.jsonl .beads/old/closed.jsonl; ! place .beads/issues.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "a file that becomes a directory",
            set_up: "mv .beads/issues.jsonl x; mkdir .beads/issues.jsonl; mv x .beads/issues.jsonl/all.jsonl",
            truth: "at_place .beads/issues.jsonl/all.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "a file that becomes a directory without its records",
            set_up: "append n-1 .beads/notes.jsonl; git add .beads; git commit -qm n; git push -q; \
                     rm .beads/issues.jsonl; mkdir .beads/issues.jsonl; append x-1 .beads/issues.jsonl/x.jsonl",
            why: &["12 of 12 records are gone, with the file"],
            next: "mv TOP/.beads/issues.jsonl TOP/.beads/issues.jsonl.mine && git -C TOP checkout HEAD -- \
                   .beads/issues.jsonl",
            typed: "advised",
            truth: "at_place; both bd-01; [ -e .beads/issues.jsonl.mine/x.jsonl ]",
            ..HELD
        },
        Row {
            name: "files without records that are moved as a whole",
            set_up: "git rm -q .beads/issues.jsonl; for n in 1 2 3; do echo \"issue $n\" >.beads/$n.jsonl; done; \
                     git add .beads; git commit -qm plain; git push -q; mkdir .beads/all; mv .beads/*.jsonl .beads/all",
            truth: "at_place .beads/all/1.jsonl .beads/all/3.jsonl; ! place .beads/1.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "a log of events has the ids, and not the records",
            set_up: "for n in 01 02 03 04 05 06 07 08 09 10 11 12; do printf '{\"id\":\"bd-%s\",\"event\":\"x\"}\\n' $n; \
                     done >.beads/events.jsonl; git add .beads; git commit -qm log; git push -q; : >.beads/issues.jsonl",
            why: &["12 of 12 records are gone"],
            next: RESTORED,
            typed: "advised",
            truth: "at_place; both bd-12",
            ..HELD
        },
        Row {
            name: "an archive that is not committed has nothing",
            set_up: "echo old.jsonl >>.beads/.gitignore; mv .beads/issues.jsonl .beads/old.jsonl; : >.beads/issues.jsonl",
            why: &["12 of 12 records are gone"],
            next: RESTORED,
            typed: "advised",
            truth: "at_place; both bd-12",
            ..HELD
        },
    ]);
}

#[test]
fn records_that_go_back_in_time_are_held_back() {
    play(&[
        Row {
            name: "a backup is restored",
            set_up: "cp .beads/issues.jsonl ../old; sed -i 's/\"updated_at\":\"2026-01/\"updated_at\":\"2026-03/' \
                     .beads/issues.jsonl; git commit -qam later; git push -q; cp ../old .beads/issues.jsonl; append bd-13",
            why: &[
                ".beads/issues.jsonl: 12 records went back to older contents (a stale export, a backup?)",
            ],
            next: RESTORED,
            typed: "advised",
            truth: "at_place; place $db | grep -q 2026-03; grep -q bd-13 .beads/issues.jsonl.mine",
            ..HELD
        },
        Row {
            name: "a few are taken back",
            set_up: "cp .beads/issues.jsonl ../old; sed -i '1,9s/\"updated_at\":\"2026-01/\"updated_at\":\"2026-03/' \
                     .beads/issues.jsonl; git commit -qam later; git push -q; cp ../old .beads/issues.jsonl",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn a_pull_brings_no_line_that_is_no_record_but_it_brings_what_somebody_has_deleted() {
    play(&[
        Row {
            name: "conflict markers at the remote",
            set_up: "there 'printf \"<<<<<<< ours\\n\" >>$db'",
            state: "behind",
            why: &[
                "origin/main has conflict markers in .beads/issues.jsonl, line 13; pull it yourself if it is meant",
            ],
            next: "git -C TOP pull",
            typed: "! grep -q '<<<<' $db; advised; append bd-13",
            truth: "at_place; both bd-13; grep -q '<<<<' $db",
            ..Row::SYNCED
        },
        Row {
            name: "conflict markers at the remote, and a commit here",
            set_up: "there 'printf \"<<<<<<< ours\\n\" >>$db'; append n-1 .beads/notes.jsonl",
            state: "local_only",
            why: &["origin/main has conflict markers in .beads/issues.jsonl, line 13"],
            next: "git -C TOP pull --rebase",
            typed: "advised",
            truth: "at_place .beads/issues.jsonl .beads/notes.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "conflict markers that somebody has taken out again",
            set_up: "there 'printf \"<<<<<<< ours\\n\" >>$db'; there 'sed -i 13d $db; append bd-13'",
            truth: "at_place; both bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "NUL bytes at the remote, in a new file",
            set_up: "there 'head -c 100 /dev/zero >.beads/new.jsonl'",
            state: "behind",
            why: &["origin/main has NUL bytes in .beads/new.jsonl, line 1"],
            next: "git -C TOP pull",
            typed: "advised",
            truth: "at_place .beads/new.jsonl",
            ..Row::SYNCED
        },
        Row {
            name: "most records deleted at the remote by a person",
            set_up: "there 'sed -i 1,11d $db'",
            truth: "at_place; [ $(wc -l <$db) = 1 ]",
            ..Row::SYNCED
        },
        Row {
            name: "records that only the remote has are not missing here",
            set_up: "there 'for n in 1 2 3 4 5 6 7 8 9; do append x-$n; append y-$n; done'; git fetch -q; \
                     echo dirt >>src/s; append n-1 .beads/notes.jsonl; append bd-13",
            state: "local_only",
            why: &["uncommitted changes outside .beads"],
            next: "git -C TOP stash push -- ':!.beads'",
            typed: "git checkout -q src/s; git pull -q --rebase 2>/dev/null || { git checkout -q --theirs $db; \
                    (git show origin/main:$db; append bd-13 /dev/stdout) >$db; git add $db; git rebase --continue; }",
            truth: "at_place .beads/notes.jsonl; both x-1 bd-13",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn the_agents_own_names_are_no_business_of_git_add() {
    play(&[
        Row {
            name: "a fresh repository",
            set_up: "git rm -q .beads/.gitignore; git commit -qm x; git push -q",
            typed: r#"
                grep -qx '/.beads/daemon.log' .git/info/exclude; : >.beads/daemon.log.1; : >.beads/daemon.log-format.md
                : >src/daemon.log; git add -A
                [ "$(git diff --cached --name-only)" = ".beads/daemon.log-format.md
src/daemon.log" ]
                git rm -q --cached .beads/daemon.log-format.md; rm .beads/daemon.log-format.md; git commit -qm x; git push -q
            "#,
            ..Row::SYNCED
        },
        Row {
            name: "lines that a person has taken out stay out, and what was there stays",
            set_up: "printf 'mine' >.git/info/exclude; chmod 640 .git/info/exclude",
            typed: r#"
                [ "$(head -1 .git/info/exclude)" = mine ]; [ $(stat -c %a .git/info/exclude) = 640 ]
                sed -i /redirect/d .git/info/exclude; cp .git/info/exclude ../exclude; append bd-13
            "#,
            truth: "at_place; cmp ../exclude .git/info/exclude; [ \"$(ls .git/info)\" = exclude ]",
            ..Row::SYNCED
        },
        Row {
            name: "a link in the place of the file",
            set_up: "mv .git/info/exclude ../exclude; ln -s ../../../exclude .git/info/exclude; cp ../exclude ../as-it-was",
            truth: r#"
                cmp ../exclude ../as-it-was; [ -L .git/info/exclude ]
                grep -q "Not writing its own names to $PWD/.git/info/exclude: it is a link" .beads/daemon.log
            "#,
            ..Row::SYNCED
        },
        Row {
            name: "no directory for it",
            set_up: "rm -r .git/info; append bd-13",
            truth: "at_place; grep -qx /.beads/.exclusive-lock .git/info/exclude; [ -z \"$(git status --porcelain)\" ]",
            ..Row::SYNCED
        },
        Row {
            name: "a database whose path is no pattern, and a second one",
            set_up: "mkdir -p '.beads/a [b]/.beads'; cp .git/info/exclude ../as-it-was",
            truth: "[ $(grep -c '^# beadlock-agent' .git/info/exclude) = 1 ]",
            ..Row::SYNCED
        },
    ]);
}
