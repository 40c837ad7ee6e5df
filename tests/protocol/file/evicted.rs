//! A write that fails moves no backup. The file may be a mount point of its own, or immutable: what writes it again and
//! again would else have nothing but copies of the present content as its backups.

use std::fs;
use std::process::Command;

use beadlock_tests::{Ended, Scene, binaries, run, skip, tool};

use crate::support::Files;

/// More writes than backups are kept.
const WRITES: usize = 6;

/// The ways to write a file; each gets the new content on its standard input.
const WAYS: [(&str, &str); 4] = [
    ("write", "$BEADLOCK write file:todo.json"),
    (
        "write that keeps nine",
        "$BEADLOCK write file:todo.json --backups 9",
    ),
    ("update", "$BEADLOCK update file:todo.json -- cat new"),
    (
        "file-ops.sh",
        "bash -c 'source \"$1\"; save_json todo.json' sh \"$LIBRARY\"",
    ),
];

/// A file with five backups, and how each of them can be told from a copy of it.
struct Kept {
    scene: Scene,
    before: Vec<(String, String)>,
}

impl Kept {
    fn new() -> Self {
        let scene = Scene::new();
        scene.put("todo.json", "\"now\"\n");
        scene.put("todo.json.lock", "");
        scene.put("new", "\"new\"\n");
        for number in 1..=5 {
            scene.put(
                &format!("todo.json.{number}"),
                format!("\"backup {number}\"\n"),
            );
        }
        let before = Self::all(&scene);
        Self { scene, before }
    }

    fn all(scene: &Scene) -> Vec<(String, String)> {
        scene
            .files()
            .into_iter()
            .map(|name| (scene.text(&name), name))
            .collect()
    }

    /// What is to be typed, with the words that this needs.
    fn with_library(&self, mut command: Command) -> Ended {
        let library = skip::checkout().join("integration/shell/file-ops.sh");
        command
            .env("LIBRARY", library)
            .env("BEADLOCK", binaries::beadlock());
        let ended = Ended::from(run(command));
        assert!(self.scene.path().is_dir());
        ended
    }
}

/// The same words six times; each must fail with 1.
fn again_and_again(way: &str) -> String {
    format!(
        "n=0; while [ $n -lt {WRITES} ]; do {way} < new; [ $? = 1 ] || exit 98; n=$((n+1)); done"
    )
}

#[test]
fn six_writes_of_a_mount_point_move_no_backup() {
    for (name, way) in WAYS {
        let kept = Kept::new();
        let script = format!(
            "cp todo.json elsewhere && mount --bind elsewhere todo.json || exit 99; {}; rm elsewhere; ls",
            again_and_again(way)
        );
        let Some(command) = kept.scene.in_namespaces(&["--mount"], &script) else {
            return;
        };
        let ended = kept.with_library(command);
        assert_eq!(ended.code, 0, "{name}: {ended:?}");
        let said = "todo.json is a mount point of its own (docker -v file:file); mount its directory instead";
        assert_eq!(ended.err.matches(said).count(), WRITES, "{name}: {ended:?}");
        assert_eq!(Kept::all(&kept.scene), kept.before, "{name}: {ended:?}");
    }
}

/// Takes the attribute off again, so that the scene can be removed.
struct Attribute<'s>(&'s Scene, char);

impl<'s> Attribute<'s> {
    fn set(scene: &'s Scene, letter: char) -> Option<Self> {
        let chattr = tool("chattr")?;
        let mut command = scene.command(chattr);
        command.args([&format!("+{letter}"), "todo.json"]);
        if !run(command).status.success() {
            skip::cannot(&format!("no chattr +{letter} here"));
            return None;
        }
        Some(Self(scene, letter))
    }
}

impl Drop for Attribute<'_> {
    fn drop(&mut self) {
        let mut command = self.0.command("chattr");
        command.args([&format!("-{}", self.1), "todo.json"]);
        let _ = run(command);
    }
}

#[test]
fn six_writes_of_a_file_that_may_not_change_move_no_backup() {
    for (letter, said) in [
        ('i', "todo.json is immutable (chattr +i)"),
        ('a', "todo.json is append-only (chattr +a)"),
    ] {
        for (name, way) in WAYS {
            let kept = Kept::new();
            let Some(attribute) = Attribute::set(&kept.scene, letter) else {
                return;
            };
            let ended = kept.with_library(kept.scene.shell(&again_and_again(way)));
            drop(attribute);
            assert_eq!(ended.code, 0, "{name}: {ended:?}");
            assert_eq!(Kept::all(&kept.scene), kept.before, "{name}: {ended:?}");
            if name != "file-ops.sh" || tool("lsattr").is_some() {
                assert_eq!(ended.err.matches(said).count(), WRITES, "{name}: {ended:?}");
            }
        }
    }
}

/// Whatever the rename fails of, with hard links and without.
#[test]
fn six_renames_that_fail_move_no_backup() {
    let Some(strace) = tool("strace") else { return };
    for error in ["EBUSY", "EPERM", "EACCES", "ENOSPC", "EROFS", "EIO"] {
        for link in ["", " -e inject=linkat:error=EPERM"] {
            let kept = Kept::new();
            // Without hard links the first rename is that of the copy.
            let which = if link.is_empty() { 1 } else { 2 };
            let way = format!(
                "$STRACE -f -o /dev/null -e inject=renameat:error={error}:when={which}{link} $BEADLOCK write file:todo.json"
            );
            let mut command = kept.scene.shell(&again_and_again(&way));
            command.env("STRACE", &strace);
            let ended = kept.with_library(command);
            assert_eq!(ended.code, 0, "{error}{link}: {ended:?}");
            assert_eq!(
                Kept::all(&kept.scene),
                kept.before,
                "{error}{link}: {ended:?}"
            );
        }
    }
}

/// The control: the same file without what is in the way, whose backups move.
#[test]
fn six_writes_that_succeed_move_all_of_them() {
    for (name, way) in WAYS {
        let kept = Kept::new();
        let script = again_and_again(way).replace("= 1", "= 0");
        let ended = kept.with_library(kept.scene.shell(&script));
        assert_eq!(ended.code, 0, "{name}: {ended:?}");
        assert_eq!(
            fs::read_to_string(kept.scene.path().join("todo.json.5")).expect("five"),
            "\"new\"\n",
            "{name}"
        );
    }
}
