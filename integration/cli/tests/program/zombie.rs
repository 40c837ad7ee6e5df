//! A holder that has ended and is never collected, in a container without an init.

use std::fs;

use beadlock_testkit::write_program;
use beadlock_testkit::{Running, Scene, shell_lock_text, this_host};

/// PID 1 of the container starts the holder and goes on as `parent`, a copy of cat, which collects nothing and ends
/// with the work. What the work prints, and its exit code.
fn in_a_container(scene: &Scene, parent: &str, work: &str) -> Option<String> {
    let script = r#"mkfifo end; sleep 300 & holder=$!
sed "s/77/$holder/" <template >.beads/.exclusive-lock
sh ./work $holder 3>end & exec "./$PARENT" end"#;
    let work = format!(
        r#"kill -9 $1
until read -r line </proc/$1/stat && case $line in *") Z "*) true ;; *) false ;; esac; do :; done
{work}; echo exit $?"#
    );
    fs::write(
        scene.file("template"),
        shell_lock_text("vc", 77, &this_host()),
    )
    .unwrap();
    fs::write(scene.file("work"), work).unwrap();
    write_program(&scene.file(parent), fs::File::open("/bin/cat").unwrap());
    let mut command = scene.in_namespaces(&["--pid", "--fork", "--mount-proc"], script)?;
    command.env("PARENT", parent);
    let ended = Running::apart(command).end();
    Some(format!("{}{}", ended.err, ended.out))
}

fn sentence(parent: &str) -> String {
    format!(
        "a zombie: it has ended, its parent (PID 1, {parent}) has not collected it; --reap-proven-dead may remove the lock"
    )
}

#[test]
fn status_says_who_has_not_collected_it_and_what_to_type() {
    let scene = crate::a_scene();
    let Some(said) = in_a_container(&scene, "make", r#""$BEADLOCK" status -v"#) else {
        return;
    };
    let sentence = sentence("make");
    let expected = [
        ".beads: held by a zombie, vc (PID ".to_owned(),
        " (pid_alive)\n".to_owned(),
        ", 0) succeeds: a zombie answers, too\n".to_owned(),
        format!("why: {sentence}\n"),
        format!("next: beadlock check --reap-proven-dead .beads   # {sentence}\n"),
    ];
    for words in expected {
        assert!(said.contains(&words), "no {words:?} in {said}");
    }
}

#[test]
fn a_refusal_says_it_for_a_database_and_for_a_lock_file() {
    for (target, before) in [
        (".beads", "; did not wait; "),
        ("lock:.beads/.exclusive-lock", "timed out after 0ms; "),
    ] {
        let scene = crate::a_scene();
        let work = format!(r#""$BEADLOCK" hold {target} --no-wait -- touch ran"#);
        let Some(said) = in_a_container(&scene, "make", &work) else {
            return;
        };
        assert!(
            said.contains(&format!("{before}{}", sentence("make"))),
            "{said}"
        );
        assert!(
            said.ends_with("exit 4\n") && !scene.file("ran").exists(),
            "{said}"
        );
        assert!(scene.lock().exists(), "the parent may rely on it");
    }
}

#[test]
fn the_option_removes_it() {
    let scene = crate::a_scene();
    let Some(said) = in_a_container(&scene, "make", r#""$BEADLOCK" check --reap-proven-dead"#)
    else {
        return;
    };
    assert!(
        said.contains("Removed stale lock (vc)") && said.ends_with("exit 0\n"),
        "{said}"
    );
}

/// The name comes from another process.
#[test]
fn the_parents_name_is_escaped_and_not_in_a_line_to_paste() {
    let scene = crate::a_scene();
    let Some(said) = in_a_container(&scene, "$(id)\u{1b}[2J", r#""$BEADLOCK" status"#) else {
        return;
    };
    assert!(
        said.contains(r"its parent (PID 1, $(id)\u{1b}[2J) has not collected it"),
        "{said}"
    );
    let next = said.lines().find(|line| line.contains("next: ")).unwrap();
    assert!(
        next.contains("its parent (PID 1) has not collected it") && !next.contains('$'),
        "{next}"
    );
}
