use std::os::unix::fs::symlink;

use super::*;

fn guarded(top: &Path, settings: &[(&str, &str)]) -> Guarded {
    let mut guarded = Guarded {
        top: top.to_owned(),
        prefix: ".beads".into(),
        ..Guarded::default()
    };
    for (key, value) in settings {
        guarded.add_setting(&Setting {
            file: Some(".git/config".into()),
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        });
    }
    guarded
}

#[test]
fn each_word_of_a_command_that_is_a_path_is_guarded() {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().canonicalize().unwrap();
    let absolute = format!("sh {}/tools/x", top.display());
    for command in [
        "./tools/x",
        "tools/x %f",
        "sh ./tools/x",
        "node tools/x --flag",
        "sh -c 'exec ./tools/x'",
        "sh -c \"exec './tools/x' \\\"$@\\\"\"",
        "!f() { ./tools/x; }; f",
        "A=b;./tools/x",
        "perl -I tools -e 1",
        "cd tools && ./x",
        "env PATH=./tools:$PATH x",
        "sh \"$PWD\"/tools/x",
        "sh $(git rev-parse --show-toplevel)/tools/x",
        "sh ${TOP}/tools/x",
        "python -m a --config=./tools/x",
        "sh ./src/../tools/x",
        "sh TOOLS/X",
        "cat|tools/x",
        "a\n./tools/x",
        "awk -F./tools/x",
        "make -C./tools",
        "env -S\"./tools/x\"",
        "sh -c 'make -C./tools'",
        "x tools/?",
        "sh ./tools/*",
        "cat ./tools/[a-z]",
        "sh ./tools/$X/y",
        "python3 -m tools.x",
        "python -mtools.x",
        "sh -c 'python -I -m tools.x'",
        "x name=tools",
        &absolute,
    ] {
        let guarded = guarded(&top, &[("filter.up.clean", command)]);
        for path in ["tools/x", "tools", "Tools/X"] {
            assert!(guarded.why(Path::new(path)).is_some(), "{command}: {path}");
        }
        assert!(guarded.why(Path::new("src/main")).is_none(), "{command}");
        assert!(guarded.why(Path::new(".beads/issues.jsonl")).is_none());
    }
    let of_python = guarded(&top, &[("filter.up.clean", "python3 -m a.b c/d")]);
    for path in ["a/b/x", "a/b.py", "a/__init__.py", "a.py"] {
        assert!(of_python.why(Path::new(path)).is_some(), "{path}");
    }
    assert!(of_python.why(Path::new("a/c.py")).is_none());
    let in_the_database = guarded(&top, &[("filter.up.clean", "cd .beads && ./x")]);
    assert!(in_the_database.why(Path::new(".beads/x")).is_some());
    let quoted = guarded(&top, &[("merge.up.driver", "'./my tools/x' %A")]);
    assert!(quoted.why(Path::new("my tools/x")).is_some());
    let escaped = guarded(&top, &[("merge.up.driver", "./my\\ tools/x %A")]);
    assert!(escaped.why(Path::new("my tools/x")).is_some());
}

#[test]
fn a_program_that_is_looked_for_elsewhere_is_not_of_the_working_tree() {
    let root = tempfile::tempdir().unwrap();
    let settings = [
        ("core.sshcommand", "ssh -o BatchMode=yes"),
        ("gpg.program", "gpg"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("credential.helper", "store"),
        ("core.hookspath", "a"),
        ("user.name", "sh ./tools/x"),
        ("filter.x.clean", "cat ."),
        ("filter.y.clean", "sh .beads"),
        ("filter.z.clean", "cat * ./* .beads/* /* -C. zz=."),
    ];
    let guarded = guarded(root.path(), &settings);
    for path in [
        "ssh/config",
        "gpg",
        "git-lfs",
        "store",
        "tools/x",
        ".beads/issues.jsonl",
        "a",
    ] {
        assert!(guarded.why(Path::new(path)).is_none(), "{path}");
    }
}

#[test]
fn links_are_followed_also_where_nothing_is_there_yet() {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().canonicalize().unwrap();
    fs::create_dir_all(top.join(".git/hooks")).unwrap();
    fs::create_dir(top.join("lib")).unwrap();
    symlink(
        "../../scripts/pre-commit",
        top.join(".git/hooks/pre-commit"),
    )
    .unwrap();
    symlink("lib", top.join("scripts")).unwrap();
    symlink("../loop", top.join(".git/loop")).unwrap();
    symlink(".git/loop", top.join("loop")).unwrap();
    let mut guarded = guarded(&top, &[("core.askpass", "./loop")]);
    guarded.add_hooks(&top.join(".git/hooks"), "");
    for path in ["scripts", "lib/pre-commit", "lib"] {
        assert!(guarded.why(Path::new(path)).is_some(), "{path}");
    }
    assert!(guarded.why(Path::new("lib/other")).is_none());
}

#[test]
fn a_directory_before_two_dots_stays_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().canonicalize().unwrap();
    let mut guarded = guarded(&top, &[]);
    guarded.add_hooks(&top.join("a/src/../../.githooks"), "core.hooksPath");
    for path in ["a", "a/src", "A/Src", ".githooks/pre-push"] {
        assert!(guarded.why(Path::new(path)).is_some(), "{path}");
    }
    for path in ["a/src/main", "a/other", "b"] {
        assert!(guarded.why(Path::new(path)).is_none(), "{path}");
    }
}

#[test]
fn a_directory_of_hooks_is_guarded_with_all_that_is_in_it() {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().canonicalize().unwrap();
    let hooks = |dir: &str| {
        let mut guarded = guarded(&top, &[]);
        guarded.add_hooks(&top.join(dir), "core.hooksPath");
        guarded
    };
    let husky = hooks(".husky/_");
    for path in [
        ".husky/pre-commit",
        ".husky/_/h",
        ".HUSKY/common.sh",
        ".husky",
    ] {
        assert!(husky.why(Path::new(path)).is_some(), "{path}");
    }
    let of_database = hooks(".beads/hooks");
    assert!(of_database.why(Path::new(".beads/hooks/lib/x")).is_some());
    assert!(of_database.why(Path::new(".beads/issues.jsonl")).is_none());
    // Not all of the working tree, nor of the database.
    for dir in [".", ".beads", "_"] {
        let all = hooks(dir);
        let hook = Path::new(dir).join("pre-push");
        let hook = hook.strip_prefix(".").unwrap_or(&hook);
        assert!(all.why(hook).is_some(), "{dir}");
        assert!(all.why(Path::new(".beads/issues.jsonl")).is_none(), "{dir}");
        assert!(all.why(Path::new("src/main")).is_none(), "{dir}");
    }
}

#[test]
fn a_program_for_hooks_that_is_called_guards_its_files() {
    let root = tempfile::tempdir().unwrap();
    let mut guarded = guarded(root.path(), &[]);
    let is_guarded = |guarded: &Guarded, path: &str| guarded.why(Path::new(path)).is_some();
    assert!(!is_guarded(&guarded, ".pre-commit-config.yaml"));
    guarded.call(b"exec pre-commit hook-impl", "the hook pre-commit");
    assert!(is_guarded(&guarded, ".pre-commit-config.yaml"));
    assert!(!is_guarded(&guarded, "lefthook.yml"));
    guarded.call(b" # lefthook\n: a", "the hook pre-commit");
    assert!(!is_guarded(&guarded, "lefthook.yml"));
    guarded.call(
        b"exec lefthook run\nlint-staged\ncommitlint\novercommit",
        "the hook pre-commit",
    );
    for path in [
        "lefthook-local.toml",
        ".config/lefthook.jsonc",
        "commitlint.config.mjs",
        "web/.commitlintrc",
        ".git-hooks/pre_commit/x.rb",
        "node_modules/.bin/x",
        "node_modules",
        "lefthook.yaml",
        ".lefthook/pre-commit/x",
        ".lefthook-local.yml",
        "web/.lintstagedrc.json",
    ] {
        assert!(is_guarded(&guarded, path), "{path}");
    }
    for path in [
        "docs/lefthook.yml",
        "lefthook.md",
        "lefthook-notes.yml",
        "web/node_modules.md",
    ] {
        assert!(!is_guarded(&guarded, path), "{path}");
    }
}

#[test]
fn a_file_that_a_hook_names_for_settings_is_found() {
    for hook in [
        "prek run -c ci/x.yaml",
        "pre-commit run --config ci/x.yaml; a",
        "ARGS=(hook-impl --config=ci/x.yaml)",
        "ARGS=(hook-impl --config='ci/x.yaml' --b)",
        "PRE_COMMIT_CONFIG=\"ci/x.yaml\" pre-commit",
        "pre-commit run -c 'ci/x.yaml'",
    ] {
        assert_eq!(configured(hook), ["ci/x.yaml"], "{hook}");
    }
    assert!(configured("grep -c x src/main").is_empty());
}

#[test]
fn a_member_that_cannot_be_read_differs() {
    let of = |text: &str| member(Some(text.as_bytes()), "lint-staged");
    assert_eq!(
        of("{\"lint-staged\":1,\"a\":2}"),
        of("{\"a\":3,\"lint-staged\":1}")
    );
    assert_ne!(of("{\"lint-staged\":1}"), of("{\"lint-staged\":2}"));
    assert_eq!(of("{}"), member(None, "lint-staged"));
    assert_ne!(of("{"), of("{}"));
}

#[test]
fn settings_are_read_with_the_file_that_has_them() {
    let printed = b"file:.git/../.gitconfig\0a.b\nc\nd\0command line:\0e.f\0";
    let settings = Setting::parse(printed);
    assert_eq!(
        settings[0].file.as_deref(),
        Some(Path::new(".git/../.gitconfig"))
    );
    assert_eq!((&*settings[0].key, &*settings[0].value), ("a.b", "c\nd"));
    assert_eq!((&settings[1].file, &*settings[1].value), (&None, ""));
    let root = tempfile::tempdir().unwrap();
    let top = root.path().canonicalize().unwrap();
    let guarded = guarded(
        &top,
        &[
            ("include.path", "../.gitconfig"),
            ("includeif.x.y.path", "../more"),
        ],
    );
    for path in [".gitconfig", "more"] {
        assert!(
            guarded
                .why(Path::new(path))
                .is_some_and(|why| why.role == Role::Settings)
        );
    }
}
