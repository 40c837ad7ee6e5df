//! `synced` means that the bytes are at the place: what git does not look at, ignores, stores otherwise or not at all
//! is told, with what to type.

use crate::play::{Played, Row, gits, play};

/// A row that is not at the place, by the fault of nobody but the set-up.
const KEPT: Row = Row {
    state: "local_only",
    ..Row::TYPED
};

#[test]
fn a_file_that_git_is_told_not_to_look_at_stops_the_cycle_before_the_commit() {
    let flagged = Row {
        next: "git -C TOP update-index --no-assume-unchanged -- .beads/issues.jsonl && \
               git -C TOP update-index --no-skip-worktree -- .beads/issues.jsonl",
        truth: "at_place; git ls-files -v | grep -qv '^H' && exit 1; both bd-13",
        ..KEPT
    };
    play(&[
        Row {
            name: "skip-worktree",
            set_up: "git update-index --skip-worktree $db; append bd-13",
            why: &["git is told not to look at .beads/issues.jsonl (skip-worktree)"],
            ..flagged
        },
        Row {
            name: "assume-unchanged",
            set_up: "git update-index --assume-unchanged $db; append bd-13",
            why: &["git is told not to look at .beads/issues.jsonl (assume-unchanged)"],
            ..flagged
        },
        Row {
            name: "both flags, and nothing has changed yet",
            set_up: "git update-index --assume-unchanged $db; git update-index --skip-worktree $db",
            why: &["(assume-unchanged, skip-worktree)"],
            truth: "at_place; git ls-files -v | grep -qv '^H' && exit 1; true",
            ..flagged
        },
        Row {
            name: "both flags, and another file has changed",
            set_up: "git update-index --assume-unchanged $db; git update-index --skip-worktree $db
                     append bd-13; append x .beads/more.jsonl",
            truth: "at_place $db .beads/more.jsonl",
            ..flagged
        },
        Row {
            name: "git sets the flag each time",
            set_up: "git config core.ignoreStat true; touch -d 2001-01-01 $db; git update-index $db; append bd-13",
            why: &["git is told not to look at .beads/issues.jsonl (core.ignoreStat)"],
            next: "git -C TOP config core.ignoreStat false && \
                   git -C TOP update-index --no-assume-unchanged -- .beads/issues.jsonl && \
                   git -C TOP update-index --no-skip-worktree -- .beads/issues.jsonl",
            ..flagged
        },
        Row {
            name: "many files with odd names",
            set_up: "n=$(printf '.beads/\"x\\ny'); append q \"$n\"
                     for f in 1 2 3 4 5 6 7 8 9; do append $f .beads/$f.jsonl; done
                     git add -A; git commit -qm many; git push -q
                     git ls-files -z .beads | git update-index -z --skip-worktree --stdin
                     git ls-files -z .beads | git update-index -z --assume-unchanged --stdin
                     append z \"$n\"; append z .beads/7.jsonl",
            why: &["and 9 more"],
            next: "git -C TOP --literal-pathspecs ls-files -z -- .beads | git -C TOP update-index --no-assume-unchanged -z --stdin && \
                   git -C TOP --literal-pathspecs ls-files -z -- .beads | git -C TOP update-index --no-skip-worktree -z --stdin",
            truth: "at_place .beads/7.jsonl \"$(printf '.beads/\"x\\ny')\"; git ls-files -v | grep -qv '^H' && exit 1; true",
            ..flagged
        },
    ]);
}

#[test]
fn flags_of_other_files_are_a_persons_own() {
    play(&[Row {
        name: "flags outside of the database",
        set_up: "git update-index --skip-worktree src/s; append bd-13",
        truth: "at_place; git ls-files -v src/s | grep -q ^S",
        ..Row::SYNCED
    }]);
}

#[test]
fn a_sparse_checkout_without_the_database_takes_nothing_back() {
    let sparse = Row {
        name: "",
        state: "failed",
        why: &[".beads is outside the sparse checkout"],
        truth: "for n in 01 06 12; do both bd-$n; done",
        ..Row::TYPED
    };
    play(&[
        Row {
            name: "by directories",
            set_up: "git sparse-checkout set --cone src; mkdir -p .beads",
            next: "git -C TOP sparse-checkout add .beads",
            ..sparse
        },
        Row {
            name: "by directories, and a tool has made the file anew",
            set_up: "git sparse-checkout set --cone src; mkdir -p .beads; append bd-13",
            next: "mv -n TOP/.beads/issues.jsonl TOP/.beads/issues.jsonl.mine && git -C TOP sparse-checkout add .beads && \
                   git merge-file --union TOP/.beads/issues.jsonl /dev/null TOP/.beads/issues.jsonl.mine",
            truth: "for n in 01 06 12 13; do both bd-$n; done",
            ..sparse
        },
        Row {
            name: "by directories, the only file made anew with an old record",
            set_up: "git rm -q .beads/.gitignore; git commit -qm one; git push -q; head -n 3 $db >../old
                     git sparse-checkout set --cone src; mkdir -p .beads; cat ../old >$db; append bd-13",
            next: "mv -n TOP/.beads/issues.jsonl TOP/.beads/issues.jsonl.mine && git -C TOP sparse-checkout add .beads && \
                   git merge-file --union TOP/.beads/issues.jsonl /dev/null TOP/.beads/issues.jsonl.mine",
            truth: "for n in 01 06 12 13; do both bd-$n; done",
            ..sparse
        },
        Row {
            name: "by lines",
            set_up: "git sparse-checkout set --no-cone /src/; mkdir -p .beads",
            next: "git -C TOP sparse-checkout add /.beads/",
            ..sparse
        },
    ]);
    // With the database in it, a sparse checkout is as good as any.
    play(&[Row {
        name: "a sparse checkout with the database in it",
        set_up: "git sparse-checkout set --cone .beads; append bd-13",
        ..Row::SYNCED
    }]);
}

#[test]
fn a_database_or_a_record_file_that_git_ignores_is_told_with_the_line_that_does_it() {
    let untracked = Row {
        name: "",
        state: "idle",
        next: "git -C TOP --literal-pathspecs add -f -- .beads/issues.jsonl",
        truth: "place $db | cmp - $db; both bd-13",
        ..Row::TYPED
    };
    let one = Row {
        name: "",
        next: "git -C TOP --literal-pathspecs add -f -- .beads/more.jsonl",
        truth: "at_place $db .beads/more.jsonl",
        ..KEPT
    };
    play(&[
        Row {
            name: "the database, in .git/info/exclude",
            set_up: "git rm -rq --cached .beads; git commit -qm untrack; git push -q; echo .beads/ >>.git/info/exclude; append bd-13",
            why: &["git ignores .beads (.git/info/exclude:"],
            ..untracked
        },
        Row {
            name: "the database, in a .gitignore above it",
            set_up: "git rm -rq --cached .beads; echo '/.beads/*' >.gitignore; git add .gitignore; git commit -qm untrack; git push -q
                     append bd-13",
            why: &["git ignores .beads (.gitignore:1)"],
            ..untracked
        },
        Row {
            name: "record files everywhere, in the user's own file",
            set_up: "git rm -rq --cached .beads; git commit -qm untrack; git push -q; mkdir ../x; echo '*.jsonl' >../x/ign
                     rm .beads/.gitignore; git config core.excludesFile ../x/ign; append bd-13",
            why: &["git ignores .beads (../x/ign:1)"],
            ..untracked
        },
        Row {
            name: "a new record file, by a global file",
            set_up: "printf '# mine\\n*.jsonl\\n' >../ign; git config --global core.excludesFile \"$(cd .. && pwd)/ign\"
                     append bd-13; append x .beads/more.jsonl",
            why: &["git ignores .beads/more.jsonl (", "/ign:2)"],
            ..one
        },
        Row {
            name: "a new record file in a directory, by .git/info/exclude",
            set_up: "echo 'd/' >>.git/info/exclude; mkdir .beads/d; append x .beads/d/more.jsonl",
            why: &["git ignores .beads/d/more.jsonl (.git/info/exclude:"],
            next: "git -C TOP --literal-pathspecs add -f -- .beads/d/more.jsonl",
            truth: "at_place $db .beads/d/more.jsonl",
            ..one
        },
        Row {
            name: "the main record file, by the database's own .gitignore",
            set_up: "git rm -q --cached $db; echo '*.jsonl' >>.beads/.gitignore; git add -A; git commit -qm untrack; git push -q
                     append bd-13",
            why: &["git ignores .beads/issues.jsonl (.beads/.gitignore:3)"],
            next: untracked.next,
            truth: untracked.truth,
            ..one
        },
    ]);
    play(&[
        Row {
            name: "what the database's own .gitignore keeps here beside its records",
            set_up: "printf 'sync_base.jsonl\\n/b*up/\\n' >>.beads/.gitignore; append x .beads/sync_base.jsonl; mkdir .beads/backup
                     append x .beads/backup/issues-1.jsonl; append x .beads/x.base.jsonl; echo '*.base.jsonl' >>.git/info/exclude
                     append bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "a tracked file that a rule ignores",
            set_up: "echo .beads/ >>.git/info/exclude; append bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "a database without a file",
            set_up: "git rm -rq .beads; git commit -qm none; git push -q; mkdir -p .beads",
            state: "idle",
            why: &[".beads has no file that is in git"],
            afterwards: "idle",
            truth: "true",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn a_record_file_that_is_a_link_is_told() {
    let next = "T=$(readlink -f TOP/.beads/issues.jsonl) && [ -e \"$T\" ] && rm TOP/.beads/issues.jsonl && \
                mv \"$T\" TOP/.beads/issues.jsonl";
    let why: &[&str] = &[".beads/issues.jsonl is a link: what it leads to is not synced"];
    play(&[
        Row {
            name: "the record file is a link",
            set_up: "mv $db ../real.jsonl; ln -s ../../real.jsonl $db; append bd-13",
            why,
            next,
            ..KEPT
        },
        Row {
            name: "it was one when it was committed",
            set_up: "mv $db ../real.jsonl; ln -s ../../real.jsonl $db; git add -A; git commit -qm link; git push -q; append bd-13",
            why,
            next,
            ..KEPT
        },
        Row {
            name: "a directory of records is a link",
            set_up: "mkdir ../recs; append x ../recs/more.jsonl; ln -s ../../recs .beads/recs",
            why: &[".beads/recs is a link: what it leads to is not synced"],
            next: "T=$(readlink -f TOP/.beads/recs) && [ -e \"$T\" ] && rm TOP/.beads/recs && mv \"$T\" TOP/.beads/recs",
            truth: "at_place $db .beads/recs/more.jsonl",
            ..KEPT
        },
        Row {
            name: "a link to a file of the database that git ignores",
            set_up: "mkdir .beads/local; echo local/ >>.beads/.gitignore; git mv $db .beads/old.jsonl; git commit -qam old; git push -q
                     cp .beads/old.jsonl .beads/local/x.jsonl; ln -s local/x.jsonl $db",
            why,
            next,
            ..KEPT
        },
        Row {
            name: "a link that leads nowhere",
            set_up: "ln -s ../../gone .beads/more.jsonl",
            why: &[".beads/more.jsonl is a link that leads nowhere"],
            next: "rm TOP/.beads/more.jsonl",
            truth: "at_place; ! place .beads/more.jsonl",
            ..KEPT
        },
    ]);
    play(&[
        Row {
            name: "a link to a record file of the database",
            set_up: "ln -s issues.jsonl .beads/beads.jsonl; append bd-13",
            truth: "at_place; git -C ../r.git ls-tree main .beads/beads.jsonl | grep -q ^120000",
            ..Row::SYNCED
        },
        Row {
            name: "a link to something else",
            set_up: "ln -s ../src/s .beads/s; ln -s /no/where .beads/t; append bd-13",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn what_a_filter_drops_is_never_called_synced() {
    let lossy = Row {
        name: "",
        state: "local_only",
        why: &["filter.no.clean drops part of .beads/issues.jsonl (.gitattributes)"],
        typed: "git config filter.no.clean cat; append bd-14",
        truth: "at_place; both bd-13 bd-14",
        ..Row::SYNCED
    };
    let set_up =
        "git config filter.no.clean \"grep -v bd-13\"; echo '*.jsonl filter=no' >.gitattributes
                  git add .gitattributes; git commit -qm filter; git push -q; append bd-13";
    play(&[
        Row {
            name: "a filter that drops a record",
            set_up,
            ..lossy
        },
        Row {
            name: "it is named by a macro in .git/info/attributes",
            set_up: "git config filter.no.clean \"grep -v bd-13\"; printf '[attr]r filter=no\\n*.jsonl r\\n' >.git/info/attributes; append bd-13",
            why: &["filter.no.clean drops part of .beads/issues.jsonl (", "/.git/info/attributes)"],
            ..lossy
        },
        Row {
            name: "it is named by the user's file of attributes",
            set_up: "git config filter.no.clean \"grep -v bd-13\"; echo '*.jsonl filter=no' >../att; git config core.attributesFile ../att; append bd-13",
            why: &["filter.no.clean drops part of .beads/issues.jsonl (", "/att)"],
            ..lossy
        },
        Row {
            name: "a filter with only a smudge that adds a line",
            set_up: "git config filter.no.smudge \"cat; echo more\"; echo '*.jsonl filter=no' >.gitattributes
                  git add .gitattributes; git commit -qm filter; git push -q; append bd-13",
            why: &["filter.no.smudge drops part of .beads/issues.jsonl (.gitattributes)"],
            typed: "git config filter.no.smudge cat; append bd-14",
            ..lossy
        },
    ]);
    play(&[Row {
        name: "a filter that never gives anything back",
        set_up: "git config filter.no.clean cat; git config filter.no.smudge false; git config filter.no.required true
                 echo '*.jsonl filter=no' >.gitattributes; git add .gitattributes; git commit -qm filter; git push -q; append bd-13",
        why: &["filter.no.clean (.gitattributes): a clone would not get .beads/issues.jsonl back: "],
        typed: "git config filter.no.smudge cat; append bd-14",
        ..lossy
    }]);
    play(&[
        Row {
            name: "a filter that stores something else each time, and gives it back",
            set_up: "git config filter.salt.clean 'date +%N; cat'; git config filter.salt.smudge 'tail -n +2'
                     echo '*.jsonl filter=salt' >.gitattributes; git add .gitattributes; git commit -qm filter; git push -q; append bd-13",
            truth: "place $db | tail -n +2 | cmp - $db; grep -q bd-13 $db",
            ..Row::SYNCED
        },
        Row {
            name: "a filter that is not configured",
            set_up: "echo '*.jsonl filter=none' >.gitattributes; git add .gitattributes; git commit -qm filter; git push -q; append bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "a filter for other files",
            set_up: "git config filter.no.clean 'echo x'; echo '*.png filter=no' >.gitattributes; git add .gitattributes
                     git commit -qm filter; git push -q; append bd-13",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn what_git_stores_in_another_form_is_there() {
    let there = Row {
        name: "",
        truth: "git clone -q ../r.git ../c; cmp ../c/$db $db; both bd-13 2>/dev/null || grep -q bd-13 ../c/$db",
        ..Row::SYNCED
    };
    let crlf = "sed -i 's/$/\\r/' $db; git add -A; git commit -qm crlf; git push -q;";
    for (name, attributes) in [
        ("CRLF of old, then text=auto", "* text=auto"),
        ("CRLF of old, then text", "*.jsonl text"),
        (
            "CRLF of old, then eol=lf for other files",
            "*.sh text eol=lf",
        ),
    ] {
        let set_up = format!(
            "{crlf} echo '{attributes}' >.gitattributes; git add .gitattributes; git commit -qm attributes; git push -q
             touch -d '1 hour ago' $db; append x .beads/more.jsonl"
        );
        play(&[Row {
            name,
            set_up: set_up.leak(),
            // git itself stores a file in the new form when it changes.
            truth: "place $db | tr -d '\\r' >../p; tr -d '\\r' <$db | cmp - ../p; place .beads/more.jsonl | cmp - .beads/more.jsonl",
            ..there
        }]);
    }
    play(&[
        Row {
            name: "core.autocrlf=input with CRLF of old",
            set_up: "sed -i 's/$/\\r/' $db; git add -A; git commit -qm crlf; git push -q; git config core.autocrlf input; append bd-13",
            truth: "place $db | cmp - $db",
            ..there
        },
        Row {
            name: "eol=crlf",
            set_up: "echo '*.jsonl text eol=crlf' >.gitattributes; git add -A; git commit -qm eol; git push -q; rm $db; git checkout -q $db
                     printf '{\"id\":\"bd-13\"}\\r\\n' >>$db",
            ..there
        },
        Row {
            name: "ident",
            set_up: "printf '$Id$\\n' >.beads/config.yaml; echo '*.yaml ident' >.gitattributes; git add -A; git commit -qm ident; git push -q
                     rm .beads/config.yaml; git checkout -q .beads/config.yaml; echo more >>.beads/config.yaml; append bd-13",
            truth: "place .beads/config.yaml | grep -qx more; at_place",
            ..there
        },
        Row {
            name: "another encoding in the working tree",
            set_up: "echo '*.txt text working-tree-encoding=UTF-16LE' >.gitattributes; git add -A; git commit -qm enc; git push -q
                     printf 'g\\0r\\0\\374\\0n\\0\\n\\0' >.beads/note.txt; append bd-13",
            truth: "[ \"$(place .beads/note.txt)\" = \"$(printf 'gr\\303\\274n')\" ]; at_place",
            ..there
        },
        Row {
            name: "odd names",
            set_up: "append x '.beads/\"x.jsonl'; append x \"$(printf '.beads/new\\nline.jsonl')\"; append x '.beads/ ü*?[.jsonl'; append x .beads/-n.jsonl
                     append x \"$(printf '.beads/\\377.jsonl')\"; append x '.beads/:(top)x'; append bd-13",
            truth: "at_place $db '.beads/\"x.jsonl' \"$(printf '.beads/new\\nline.jsonl')\" '.beads/ ü*?[.jsonl' .beads/-n.jsonl \"$(printf '.beads/\\377.jsonl')\" '.beads/:(top)x'",
            ..there
        },
        Row {
            name: "a mode that is not kept",
            set_up: "git config core.fileMode false; chmod +x $db; append bd-13",
            ..Row::SYNCED
        },
    ]);
}

#[test]
fn a_name_that_differs_in_case_alone_never_becomes_a_removal() {
    play(&[
        Row {
            name: "a record file",
            set_up: "git mv $db .beads/Issues.jsonl; git commit -qm name; git push -q; git config core.ignoreCase true
                     mv .beads/Issues.jsonl $db; append bd-13",
            why: &[".beads/issues.jsonl here, .beads/Issues.jsonl in git (core.ignorecase)"],
            next: "git -C TOP rm -q --cached -- .beads/Issues.jsonl && git -C TOP add -f -- .beads/issues.jsonl && \
                   git -C TOP commit -q -m case -- .beads/Issues.jsonl .beads/issues.jsonl && git -C TOP push",
            truth: "at_place; both bd-13; [ \"$(git -C ../r.git ls-tree --name-only main .beads/ | grep -ic issues)\" = 1 ]",
            ..KEPT
        },
        Row {
            name: "a directory",
            set_up: "mkdir .beads/Old; append x .beads/Old/x.jsonl; git add -A; git commit -qm dir; git push -q; git config core.ignoreCase true
                     mv .beads/Old .beads/old; append bd-13",
            why: &[".beads/old/x.jsonl here, .beads/Old/x.jsonl in git (core.ignorecase)"],
            next: "git -C TOP rm -q --cached -- .beads/Old/x.jsonl && git -C TOP add -f -- .beads/old/x.jsonl && \
                   git -C TOP commit -q -m case -- .beads/Old/x.jsonl .beads/old/x.jsonl && git -C TOP push",
            truth: "at_place $db .beads/old/x.jsonl; ! place .beads/Old/x.jsonl",
            ..KEPT
        },
        Row {
            name: "a second file beside it",
            set_up: "git config core.ignoreCase true; append x .beads/Issues.jsonl; append bd-13",
            truth: "at_place $db .beads/Issues.jsonl",
            why: &["git takes .beads/Issues.jsonl for .beads/issues.jsonl (core.ignorecase)"],
            next: "git -C TOP -c core.ignoreCase=false --literal-pathspecs add -f -- .beads/Issues.jsonl",
            ..KEPT
        },
    ]);
    play(&[Row {
        name: "a file is renamed, where git sees it",
        set_up: "mv $db .beads/Issues.jsonl; db=.beads/Issues.jsonl; append bd-13",
        truth: "at_place .beads/Issues.jsonl; ! place .beads/issues.jsonl",
        ..Row::SYNCED
    }]);
}

#[test]
fn a_repository_in_the_database_is_told() {
    play(&[
        Row {
            name: "a repository inside",
            set_up: "git init -q .beads/sub; append x .beads/sub/x.jsonl; append bd-13",
            why: &[".beads/sub is a repository of its own"],
            next: "mv TOP/.beads/sub/.git TOP/.git/sub.git",
            truth: "at_place $db .beads/sub/x.jsonl",
            ..KEPT
        },
        Row {
            name: "a repository inside, with a commit",
            set_up: "git init -q .beads/sub; append x .beads/sub/x.jsonl; git -C .beads/sub add -A; git -C .beads/sub commit -qm x; mkdir .git/sub.git",
            why: &[".beads/sub is a repository of its own"],
            next: "mv TOP/.beads/sub/.git TOP/.git/sub.1.git",
            truth: "at_place $db .beads/sub/x.jsonl",
            ..KEPT
        },
    ]);
    play(&[Row {
        name: "a submodule",
        set_up: "git init -q ../m; git -C ../m commit -q --allow-empty -m m; git submodule --quiet add \"$(cd ../m && pwd)\" .beads/m
                 git commit -qm module; git push -q; append bd-13; append x .beads/m/x.jsonl",
        ..Row::SYNCED
    }]);
}

/// A program that does what git-lfs does, as far as it counts here.
const LFS: &str = r#"
bin=$(cd .. && pwd)/bin; mkdir "$bin" ../store; PATH=$bin:$PATH
cat >"$bin/git-lfs" <<'EOF'
#!/bin/sh
store=$HOME/store
case $1 in
install) git config filter.lfs.clean "git-lfs clean"; git config filter.lfs.smudge "git-lfs smudge"
    printf '#!/bin/sh\nPATH=%s:$PATH; git lfs pre-push "$@"\n' "${0%/*}" >.git/hooks/pre-push; chmod +x .git/hooks/pre-push ;;
clean) t=$(mktemp); cat >"$t"; h=$(sha256sum <"$t" | cut -c1-64); mv "$t" "$store/$h"; echo "oid sha256:$h" ;;
smudge) read -r _ h; cat "$store/${h#sha256:}" ;;
pre-push | push) touch "$HOME/pushed" ;;
esac
EOF
chmod +x "$bin/git-lfs"
"#;

#[test]
fn a_file_for_git_lfs_needs_git_lfs_and_its_hook() {
    let attributes = "echo '*.jsonl filter=lfs' >.gitattributes; git add .gitattributes; git commit -qm lfs; git push -q; append bd-13";
    let not_set_up = format!("{attributes}\n{LFS}");
    // Its clean is found by the agent's git only where the settings name it in full.
    let in_full = "git config filter.lfs.clean \"$HOME/bin/git-lfs clean\"; git config filter.lfs.smudge \"$HOME/bin/git-lfs smudge\"";
    let typed = format!("PATH=$HOME/bin:$PATH; advised; {in_full}; append bd-14");
    let without_hook = format!("{LFS}\n{in_full}\n{attributes}");
    let lfs = Row {
        typed: typed.leak(),
        truth: "[ -e $HOME/pushed ]; place $db | grep -q ^oid; git cat-file --filters HEAD:$db | cmp - $db",
        ..KEPT
    };
    play(&[
        Row {
            name: "git-lfs is not set up",
            set_up: not_set_up.leak(),
            why: &[".beads/issues.jsonl is for git-lfs, which is not set up here (.gitattributes)"],
            next: "git -C TOP lfs install",
            ..lfs
        },
        Row {
            name: "git-lfs has no hook",
            set_up: without_hook.leak(),
            why: &[
                ".beads/issues.jsonl is for git-lfs (.gitattributes), and no hook pre-push calls it",
            ],
            next: "git -C TOP lfs install --local && git -C TOP lfs push --all origin",
            ..lfs
        },
    ]);
}

#[test]
fn the_proof_does_not_believe_what_it_finds() {
    play(&[
        Row {
            name: "an index of its own that is cut off",
            set_up: "echo DIRC >.git/beadlock.truth; echo '{' >.git/beadlock.truth.json; append bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "somebody else's, and a lock",
            set_up: "cp .git/index .git/beadlock.truth; : >.git/beadlock.truth.lock; append bd-13",
            ..Row::SYNCED
        },
        Row {
            name: "a change that the times do not tell",
            set_up: "git status >/dev/null; sleep 0.1; touch -d '2 hours ago' ../t $db; sleep 0.1; git update-index --refresh; sleep 1.1; git update-index -q --force-write-index 2>/dev/null || true
                     touch -r $db ../t; sed -i.bak 's/bd-12/bd-92/' $db; rm $db.bak; touch -r ../t $db; git config core.trustctime false; git config core.checkStat minimal",
            truth: "at_place; both bd-92",
            ..Row::SYNCED
        },
        Row {
            name: "a file is written while the cycle runs",
            set_up: "printf '#!/bin/sh\n[ -e ../done ] || printf x >>.beads/note.txt; touch ../done\n' >.git/hooks/pre-push; chmod +x .git/hooks/pre-push
                     echo note >.beads/note.txt; append bd-13",
            truth: "[ -e ../done ]; at_place $db .beads/note.txt",
            ..Row::SYNCED
        },
        Row {
            name: "files come and go while the cycle runs",
            set_up: "printf '#!/bin/sh\n[ -e ../done ] || { rm .beads/note.txt; echo >.beads/new.txt; }; touch ../done\n' >.git/hooks/pre-push; chmod +x .git/hooks/pre-push
                     echo note >.beads/note.txt; append bd-13",
            truth: "[ -e ../done ]; at_place $db .beads/new.txt; ! place .beads/note.txt",
            ..Row::SYNCED
        },
        Row {
            name: "a hook takes a file out of the commit",
            set_up: "printf '#!/bin/sh\\ngit rm -q --cached --ignore-unmatch .beads/more.jsonl\\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
                     append x .beads/more.jsonl; append bd-13",
            state: "local_only",
            why: &["origin/main does not have .beads/more.jsonl"],
            typed: "rm .git/hooks/pre-commit",
            truth: "at_place $db .beads/more.jsonl",
            ..Row::SYNCED
        },
    ]);
}

/// Each database has an index of its own, also in a linked worktree.
#[test]
fn databases_of_one_repository_are_proved_each_for_itself() {
    for git in gits() {
        let played = Played::begin(&git);
        let began = played.shell(
            "mkdir -p sub/.beads; append x sub/.beads/x.jsonl; cp .beads/.gitignore sub/.beads; git add sub; git commit -qm sub; git push -q
             git worktree add -q -b side ../w; git push -qu origin side",
            "",
        );
        assert_eq!(began.code, 0, "{began:?}");
        let synced = |dir: &str| {
            let log = played.cycle_of(dir);
            let state = log.lines().rev().find(|line| line.contains("State: "));
            assert!(
                state.is_some_and(|line| line.contains("State: synced since")),
                "{dir}: {log}"
            );
        };
        for _ in 0..2 {
            for dir in ["a/.beads", "a/sub/.beads", "w/.beads"] {
                let path = played.scene.path().join(dir).join("more.jsonl");
                let mut text = std::fs::read(&path).unwrap_or_default();
                text.extend_from_slice(b"{\"id\":\"y\"}\n");
                std::fs::write(&path, text).expect("write more.jsonl");
                synced(dir);
            }
        }
        let ended = played.shell(
            "at_place .beads/more.jsonl sub/.beads/more.jsonl; [ $(ls .git/beadlock | grep -c '^truth.*json$') = 2 ]
             [ -e .git/worktrees/w/beadlock/truth ]; git -C ../r.git show side:.beads/more.jsonl | cmp - ../w/.beads/more.jsonl",
            "",
        );
        assert_eq!(ended.code, 0, "{ended:?}");
    }
}
