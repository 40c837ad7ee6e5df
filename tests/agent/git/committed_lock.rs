//! `git add -A` inside a hold: with the pattern that the reminder says, no other clone ever gets the lock.

use std::fs;

use beadlock_tests::{Ended, Scene, run, tool};

/// Work under a claim that commits all it sees, and a clone of what comes of it.
const WORK: &str =
    "git init -q origin.git --bare; git init -q shop; cd shop; mkdir .beads; echo '{}' >.beads/issues.jsonl
    printf '*.db\\ndaemon.log\\ndaemon.pid\\nbd.sock\\n' >.beads/.gitignore
    eval \"$REMINDED\"
    for n in 1 2 3 4 5; do
        beadlock hold -q -- sh -c \"echo $n >>work; git add -A; git commit -qm $n\" || exit 9
    done
    git push -q ../origin.git HEAD:main && git clone -q -b main ../origin.git ../clone";

fn cloned(reminded: &str) -> Option<(Scene, Ended)> {
    tool("git")?;
    let scene = Scene::new();
    let mut command = scene.shell(WORK);
    let path = format!(
        "{}:/usr/bin:/bin",
        beadlock_tests::binaries::directory().display()
    );
    command
        .env("PATH", path)
        .env("REMINDED", reminded)
        .env("HOME", scene.path());
    for who in ["GIT_AUTHOR", "GIT_COMMITTER"] {
        command
            .env(format!("{who}_NAME"), "ann")
            .env(format!("{who}_EMAIL"), "ann@example.org");
    }
    let ended = Ended::from(run(command));
    assert_eq!(ended.code, 0, "{ended:?}");
    Some((scene, ended))
}

#[test]
fn a_clone_gets_no_lock_once_the_line_was_typed() {
    // Typed as it is said: the end of the warning.
    let typed =
        "said=$(beadlock hold -- true 2>&1 | grep 'git does not ignore'); eval \"${said#*type: }\"";
    let Some((scene, _)) = cloned(typed) else {
        return;
    };
    let clone = scene.path().join("clone/.beads");
    assert!(clone.join("issues.jsonl").exists() && !clone.join(".exclusive-lock").exists());
    let ignored = fs::read_to_string(clone.join(".gitignore")).expect("it is committed");
    assert!(ignored.ends_with("\n.exclusive-lock*\n"), "{ignored}");

    // The control: without it the lock is in the clone.
    let Some((scene, _)) = cloned("true") else {
        return;
    };
    assert!(scene.path().join("clone/.beads/.exclusive-lock").exists());
}
