//! Lines typed into a shell, and the lines that a tab makes of them: the same for each shell.

use std::fs;
use std::path::Path;
use std::time::Instant;

use beadlock_testkit::{PATIENCE, Scene, Terminal};

/// A tree with two databases, named locks, a directory and a claim whose id is known.
pub fn a_tree() -> Scene {
    let scene = crate::a_scene();
    for dir in ["project/.beads", "project/src", "state", "locks"] {
        fs::create_dir_all(scene.file(dir)).unwrap();
    }
    fs::create_dir(scene.file(HOSTILE)).unwrap();
    fs::write(scene.file("locks/app-prod.lock"), "{}").unwrap();
    fs::write(scene.file("notes.json"), "{}").unwrap();
    scene
}

/// The name of a directory that a shell would run as a command, if completion put it into the line as it is.
pub const HOSTILE: &str = "x$(touch${IFS}ran)`touch${IFS}ran`";

/// The folder with the program first in PATH, and the lock directory.
pub fn setting(scene: &Scene) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_beadlock"))
        .parent()
        .unwrap()
        .display();
    format!(
        "export PATH={folder}:/usr/bin:/bin BEADLOCK_LOCK_DIR={}",
        scene.file("locks").display()
    )
}

/// Pairs of a line that is typed, and the line after a tab.
const LINES: [(&str, &str); 9] = [
    ("beadlock sta", "beadlock status "),
    ("beadlock hold --wait-", "beadlock hold --wait-group "),
    ("beadlock hold proj", "beadlock hold project/"),
    ("beadlock hold project/.b", "beadlock hold project/.beads "),
    ("beadlock hold tower:a", "beadlock hold tower:app-prod "),
    ("beadlock hold mem", "beadlock hold memory:"),
    ("beadlock hold memory:st", "beadlock hold memory:state/"),
    ("beadlock help tow", "beadlock help tower "),
    (
        "beadlock status x",
        r"beadlock status x\$\(touch\$\{IFS\}ran\)\`touch\$\{IFS\}ran\`/",
    ),
];

/// Types each line and a tab, until the shell has made of it what it should. `show` makes the shell write its line to
/// the file `line`. A busy machine may leave an answer empty once.
#[expect(clippy::disallowed_methods, reason = "the file is the test's own")]
pub fn complete(scene: &Scene, shell: &mut Terminal, show: &str, lines: &[(&str, String)]) {
    let file = scene.file("line");
    shell.type_in(&format!("{}\n", setting(scene)));
    shell.type_in(&format!("{show}; touch ready\n"));
    shell.until("the shell is ready", || scene.file("ready").exists());
    for (typed, line) in lines {
        let begun = Instant::now();
        loop {
            let _ = fs::remove_file(&file);
            shell.type_in(&format!("\u{15}{typed}\t\u{18}"));
            shell.until("the line", || file.exists());
            let mut made = String::new();
            shell.until("all of the line", || {
                made = fs::read_to_string(&file).unwrap();
                made.ends_with('\n')
            });
            if made.trim_end_matches('\n') == line {
                break;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{typed}: {made:?}, and not {line:?}\n{}",
                shell.seen()
            );
        }
    }
    // A name that others chose stays a name.
    for typed in ["beadlock status x", "beadlock status ./x", "beadlock log x"] {
        let _ = fs::remove_file(scene.file("after"));
        shell.type_in(&format!("\u{15}{typed}\t\n"));
        shell.type_in("\u{15}touch after\n");
        shell.until("the line has run", || scene.file("after").exists());
        assert!(!scene.file("ran").exists(), "{typed}\n{}", shell.seen());
    }
    // An empty line and the end.
    shell.type_in("\u{15}exit\n");
}

/// The lines that are typed, with the id of a claim.
pub fn lines(id: &str) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&str, String)> = LINES.map(|(typed, line)| (typed, line.to_owned())).into();
    lines.push(("beadlock break --id ", format!("beadlock break --id {id} ")));
    lines.push((
        "beadlock release --id ",
        format!("beadlock release --id {id} "),
    ));
    lines
}

/// The id of the claim in the database of the scene.
pub fn id(scene: &Scene) -> String {
    scene.json(&["status"]).1["data"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}
