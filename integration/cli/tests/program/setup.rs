//! `beadlock setup git`: what it writes, what it says, and what it does not touch.

use std::fs;
use std::process::Command;

use beadlock_testkit::{Ended, Scene, gits, has_program, run, write_program};

const GLOBAL: &str = ".gitconfig";

/// `beadlock ARGS` for a user whose home is the scene's directory.
fn command(scene: &Scene, args: &[&str]) -> Command {
    let mut command = scene.beadlock(args);
    command
        .env("HOME", scene.path())
        .env("PATH", "/usr/bin:/bin");
    command
}

fn beadlock(scene: &Scene, args: &[&str]) -> Ended {
    run(command(scene, args)).into()
}

fn shell(scene: &Scene, script: &str) -> Ended {
    let mut command = scene.shell(script);
    command.env("HOME", scene.path());
    run(command).into()
}

#[test]
fn it_is_set_up_once_and_the_lines_to_type_do_what_they_say() {
    if !has_program("git") {
        return;
    }
    let scene = crate::a_scene();
    shell(&scene, "git init -q").expect(0, &[]);
    let ended = beadlock(&scene, &["setup", "git"]).expect(0, &[]);
    let top = fs::canonicalize(scene.path()).unwrap();
    assert!(
        ended
            .out
            .starts_with(&format!("{}/.gitconfig has now (git ", top.display()))
            || ended.out.contains(".gitconfig has now (git "),
        "{ended:?}"
    );
    let config = scene.read(GLOBAL);
    for line in [
        "\tname = record files, by id (beadlock)\n",
        " merge --marker-size=%L",
        "-- %O %A %B %P || ",
    ] {
        assert!(config.contains(line), "no {line:?} in {config}");
    }
    let again = beadlock(&scene, &["setup", "git"]).expect(0, &[]);
    assert!(
        again.out.contains(".gitconfig has already (git "),
        "{again:?}"
    );
    assert_eq!(scene.read(GLOBAL), config);
    let json = beadlock(&scene, &["setup", "git", "--json"]).json();
    assert_eq!(
        (&json["data"]["changed"], &json["data"]["attribute"]),
        (&false.into(), &"/.beads/*.jsonl merge=beadlock".into())
    );
    let typed = |begin: &str| {
        let line = again
            .out
            .lines()
            .map(str::trim)
            .find(|line| line.starts_with(begin));
        line.unwrap_or_else(|| panic!("no {begin} in {again:?}"))
            .to_owned()
    };
    shell(&scene, &typed("echo ")).expect(0, &[]);
    let attribute = shell(
        &scene,
        "git check-attr merge .beads/issues.jsonl src/data.jsonl",
    )
    .out;
    assert_eq!(
        attribute,
        ".beads/issues.jsonl: merge: beadlock\nsrc/data.jsonl: merge: unspecified\n"
    );
    shell(&scene, &typed("git config --global --remove-section")).expect(0, &[]);
    assert!(
        !scene.read(GLOBAL).contains("beadlock"),
        "{}",
        scene.read(GLOBAL)
    );
}

#[test]
fn a_repository_alone_is_set_up_inside_it() {
    if !has_program("git") {
        return;
    }
    let scene = crate::a_scene();
    beadlock(&scene, &["setup", "git", "--local"])
        .expect(1, &["--local is for a repository", "leave --local out"]);
    shell(&scene, "git init -q").expect(0, &[]);
    let ended = beadlock(&scene, &["setup", "git", "--global", "--local"]).expect(0, &[]);
    assert!(
        ended.out.starts_with(".git/config has now (git "),
        "{ended:?}"
    );
    assert!(
        !scene.file(GLOBAL).exists() && scene.read(".git/config").contains("[merge \"beadlock\"]")
    );
    // What is set nearer beats what is set for the user.
    shell(&scene, "git config merge.beadlock.driver 'other %A'").expect(0, &[]);
    beadlock(&scene, &["setup", "git"]).expect(0, &["git uses another driver here", "other %A"]);
}

#[test]
fn several_old_values_become_one() {
    if !has_program("git") {
        return;
    }
    let scene = crate::a_scene();
    scene.write(
        GLOBAL,
        "[merge \"beadlock\"]\n\tdriver = a\n\tdriver = b\n\tname = x\n",
    );
    beadlock(&scene, &["setup", "git"]).expect(0, &[]);
    let config = scene.read(GLOBAL);
    assert_eq!(
        (
            config.matches("driver").count(),
            config.matches("name").count()
        ),
        (1, 1),
        "{config}"
    );
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    if !has_program("git") {
        return;
    }
    let scene = crate::a_scene();
    fs::create_dir(scene.file("empty")).unwrap();
    let ended = shell(&scene, "PATH=$PWD/empty exec \"$BEADLOCK\" setup git");
    ended.expect(1, &["there is no git in PATH; install it"]);
    scene.write(".gitconfig.lock", "");
    beadlock(&scene, &["setup", "git"]).expect(
        1,
        &[
            "git failed to write its configuration: ",
            "could not lock config file",
        ],
    );
    shell(&scene, "rm .gitconfig.lock").expect(0, &[]);
    scene.write(GLOBAL, "[merge\n");
    beadlock(&scene, &["setup", "git"]).expect(1, &["git failed to read its configuration: "]);
    beadlock(&scene, &["setup"]).expect(2, &["git"]);
    beadlock(&scene, &["setup", "svn"]).expect(2, &["unrecognized subcommand 'svn'"]);
}

/// The shell and git both read the line of the driver.
#[test]
fn a_program_in_any_directory_merges() {
    for git in gits() {
        let scene = crate::a_scene();
        let dir = scene.file("it's 100% \"mine\" $HOME");
        fs::create_dir(&dir).unwrap();
        let program = dir.join("beadlock");
        write_program(
            &program,
            fs::File::open(env!("CARGO_BIN_EXE_beadlock")).unwrap(),
        );
        scene.write("data", "{\"id\":\"1\"}\n{\"id\":\"2\"}\n");
        scene.write(GLOBAL, "[user]\n\tname = Ann\n\temail = ann@example.org\n");
        let mut command = scene.shell(
            "git init -q && \"$PROGRAM\" setup git --local >/dev/null && echo 'data merge=beadlock' >.git/info/attributes &&
             git add data && git commit -qm base && git branch side &&
             echo '{\"id\":\"3\"}' >>data && git commit -qam one && git checkout -q side &&
             echo '{\"id\":\"4\"}' >>data && git commit -qam two && git merge -q -",
        );
        command.env("HOME", scene.path()).env("PROGRAM", &program);
        command.env("PATH", format!("{}:/usr/bin:/bin", git.display()));
        Ended::from(run(command)).expect(0, &[]);
        assert_eq!(
            scene.read("data"),
            "{\"id\":\"1\"}\n{\"id\":\"2\"}\n{\"id\":\"3\"}\n{\"id\":\"4\"}\n"
        );
    }
}
