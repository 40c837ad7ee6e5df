//! A directory that does not look like a database: a claim refuses it, a look warns of it, `--any-directory` insists.

use std::fs;
use std::os::unix::fs::symlink;

use beadlock_testkit::{Ended, Running, Scene};

const CLAIMS: [&[&str]; 4] = [
    &["hold", "shop", "--", "true"],
    &["hold", "beads:shop", "--no-wait", "--", "true"],
    &["cycle", "shop", "--", "true"],
    &["acquire", "shop", "--for", "1"],
];

const REFUSED: &str = "shop is not a beads database";

fn scene_with(dir: &str) -> Scene {
    let scene = crate::a_scene();
    fs::create_dir(scene.file(dir)).unwrap();
    scene
}

fn names(scene: &Scene, dir: &str) -> Vec<String> {
    let entries = fs::read_dir(scene.file(dir)).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn run_with(scene: &Scene, args: &[&str], (name, value): (&str, &str)) -> Ended {
    let mut command = scene.beadlock(args);
    command.env(name, value);
    Running::apart(command).end()
}

#[test]
fn a_claim_refuses_an_empty_directory() {
    let scene = scene_with("shop");
    for args in CLAIMS {
        let ended = scene
            .run(args)
            .expect(2, &[REFUSED, "did you mean", "--any-directory insists"]);
        assert!(ended.out.is_empty(), "{ended:?}");
        assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
    }
    let json = scene
        .run(&["hold", "shop", "--json", "--", "true"])
        .expect(2, &[])
        .json();
    assert_eq!(
        (&json["error"]["code"], &json["error"]["retryable"]),
        (&"USAGE".into(), &false.into())
    );
    assert!(names(&scene, "shop").is_empty(), "nothing was written");
}

#[test]
fn the_scheme_and_the_path_that_may_be_meant_are_named() {
    let scene = scene_with("memory");
    let means = |args: &[&str], meant: &str| {
        let words = format!("; did you mean {meant}? --any-directory insists\n");
        scene.run(args).expect(2, &[&words]);
    };
    means(
        &["hold", "memory", "--", "true"],
        "memory:memory, or .beads",
    );
    means(&["cycle", "memory", "--", "true"], ".beads");
    fs::remove_dir(scene.beads()).unwrap();
    means(
        &["hold", "memory", "--", "true"],
        "memory:memory, or memory/.beads",
    );
    fs::create_dir(scene.file("a b")).unwrap();
    means(
        &["hold", "a b", "--", "true"],
        "'memory:a b', or 'a b/.beads'",
    );
    fs::create_dir(scene.file("a:b")).unwrap();
    means(
        &["hold", "./a:b", "--", "true"],
        "memory:./a:b, or ./a:b/.beads",
    );
    means(
        &["hold", "beads:a:b", "--", "true"],
        "memory:a:b, or ./a:b/.beads",
    );
    let hostile = "x;touch${IFS}PWN";
    fs::create_dir(scene.file(hostile)).unwrap();
    means(
        &["hold", hostile, "--", "true"],
        &format!("'memory:{hostile}', or '{hostile}/.beads'"),
    );
}

#[test]
fn a_name_or_a_file_makes_it_one() {
    for file in ["beads.db", "x.sqlite", "x.sqlite3", "issues.jsonl"] {
        let scene = scene_with("shop");
        fs::write(scene.file("shop").join(file), "").unwrap();
        for args in CLAIMS {
            scene.run(args).expect(0, &[]);
        }
    }
    for other in [
        "beads.db.bak",
        "notes.txt",
        ".exclusive-lock.aside",
        "db",
        "jsonl",
        "metadata.json",
    ] {
        let scene = scene_with("shop");
        fs::write(scene.file("shop").join(other), "").unwrap();
        scene.run(CLAIMS[0]).expect(2, &[REFUSED]);
    }
    let scene = scene_with("shop");
    fs::create_dir(scene.file("shop/x.db")).unwrap();
    scene.run(CLAIMS[0]).expect(2, &[REFUSED]);
    scene
        .run(&["hold", ".beads", "--", "true"])
        .expect(0, &["claimed .beads"]);
    scene
        .run(&["hold", "./.beads/", "--", "true"])
        .expect(0, &[]);
}

#[test]
fn a_link_counts_by_either_of_its_names() {
    let scene = scene_with("shop");
    fs::create_dir(scene.file("app")).unwrap();
    symlink("../shop", scene.file("app/.beads")).unwrap();
    scene
        .run(&["hold", "app/.beads", "--", "true"])
        .expect(0, &[]);
    symlink(".beads", scene.file("link")).unwrap();
    scene.run(&["hold", "link", "--", "true"]).expect(0, &[]);
}

#[test]
fn a_redirect_is_followed_first() {
    let scene = scene_with("shop");
    fs::create_dir(scene.file("app")).unwrap();
    fs::write(scene.file("app/redirect"), "shop\n").unwrap();
    scene.run(&["hold", "app", "--", "true"]).expect(0, &[]);
    fs::write(scene.beads().join("redirect"), "shop\n").unwrap();
    scene.run(&["hold", "--", "true"]).expect(0, &[]);
}

#[test]
fn the_variable_that_names_the_database_is_believed_and_a_target_is_not() {
    let scene = scene_with("shop");
    for args in [
        &["hold", "--", "true"][..],
        &["hold", "shop", "--", "true"],
        &["cycle", "--", "true"],
    ] {
        run_with(&scene, args, ("BEADS_DIR", "shop")).expect(0, &[]);
    }
    let by_target = run_with(
        &scene,
        &["hold", "--", "true"],
        ("BEADLOCK_TARGET", "beads:shop"),
    );
    by_target.expect(2, &["$BEADLOCK_TARGET: shop is not a beads database"]);
}

#[test]
fn an_option_insists_and_no_variable_does() {
    let scene = scene_with("shop");
    for args in CLAIMS {
        run_with(&scene, args, ("BEADLOCK_ANY_DIRECTORY", "1")).expect(2, &[REFUSED]);
        let insisting = [&args[..1], &["--any-directory"], &args[1..]].concat();
        scene.run(&insisting).expect(0, &[]);
    }
}

#[test]
fn the_option_is_for_databases_alone() {
    let scene = scene_with("shop");
    for target in ["lock:x", "memory:shop", "tower:x", "file:x"] {
        let ended = scene.run(&["hold", target, "--any-directory", "--", "true"]);
        ended.expect(2, &["--any-directory is for the directory of a database"]);
    }
}

#[test]
fn a_look_warns_and_answers() {
    let scene = scene_with("shop");
    let warning = "beadlock: warning: shop is not a beads database";
    for (args, code) in [
        (&["check", "shop"][..], 0),
        (&["status", "shop"], 0),
        (&["wait", "shop"], 0),
    ] {
        let ended = scene.run(args).expect(code, &[warning]);
        assert!(
            !ended.err.contains("--any-directory"),
            "there is nothing to insist on: {ended:?}"
        );
        let json = scene
            .run(&[args, &["--json"]].concat())
            .expect(code, &[])
            .json();
        assert_eq!(json["ok"], true);
        let warned = json["warnings"][0].as_str().unwrap_or_default();
        assert!(warned.starts_with(REFUSED), "{json}");
        let plain = scene.run(&[args[0], ".beads", "--json"]).expect(code, &[]);
        assert!(plain.err.is_empty() && plain.json()["warnings"].as_array().unwrap().is_empty());
    }
}

/// A directory of 10,000 files is not read where its name answers.
#[test]
fn a_claim_of_beads_reads_no_directory() {
    if !beadlock_testkit::has_program("strace") {
        return;
    }
    let scene = scene_with("shop");
    let calls = |dir: &str| {
        let script = format!(
            "strace -f -e trace=getdents64 -o calls $BEADLOCK hold --any-directory {dir} -- true"
        );
        Running::apart(scene.shell(&script)).end().expect(0, &[]);
        scene
            .read("calls")
            .lines()
            .filter(|line| line.contains("getdents64"))
            .count()
    };
    let usual = calls(".beads");
    let insisted = calls("shop");
    assert_eq!(usual, insisted, "who insists is not asked either");
    let script = "strace -f -e trace=getdents64 -o calls $BEADLOCK hold shop -- true";
    Running::apart(scene.shell(script)).end().expect(2, &[]);
    assert!(
        scene.read("calls").contains("getdents64"),
        "the control: a look at the directory shows"
    );
}

#[test]
fn a_directory_that_is_called_like_a_target_is_printed_with_its_scheme() {
    let scene = crate::a_scene();
    for name in ["beads:x", "lock:y", "other:z", "x"] {
        let dir = scene.file(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("issues.jsonl"), "").unwrap();
        let typed = format!("beads:{name}");
        let look = |target: &str| {
            let data = scene
                .run(&["status", target, "--json"])
                .expect(0, &[])
                .json()["data"][0]
                .clone();
            let of = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
            (of("target"), of("path"))
        };
        let (target, path) = look(&typed);
        assert_eq!(
            (target.as_str(), path),
            (typed.as_str(), format!("{}/.exclusive-lock", dir.display()))
        );
        assert_eq!(
            look(&target),
            look(&typed),
            "what is printed is the same target"
        );
        let line = scene.run(&["status", &typed]).expect(0, &[]).out;
        let shown = if name == "x" { "x" } else { &typed };
        assert!(line.starts_with(&format!("{shown}: free")), "{line}");
        let said = scene
            .run(&["hold", &typed, "--", "true"])
            .expect(0, &[])
            .err;
        assert!(said.contains(&format!("released {shown} ")), "{said}");
    }
}
