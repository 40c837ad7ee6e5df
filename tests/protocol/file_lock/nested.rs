//! A hold inside a hold of the same file.

use beadlock_tests::{Ended, binaries, run};

use crate::scene::{Files, TARGET};

fn inside(files: &Files, outer: &[&str], script: &str) -> Ended {
    let all = [&["hold", "-q"], outer, &[TARGET, "--", "sh", "-c", script]].concat();
    let mut command = files.scene.beadlock(&all);
    command.env("BEADLOCK", binaries::beadlock());
    run(command).into()
}

#[test]
fn a_hold_inside_a_hold_of_the_same_file_runs_under_it_and_releases_nothing() {
    let files = Files::new();
    let script = "ln -s todo.json link.json; \
                  $BEADLOCK hold -q --no-wait file:./todo.json -- echo one; \
                  $BEADLOCK hold -q --no-wait file:link.json -- sh -c '$BEADLOCK hold -q --no-wait file:todo.json -- echo two'; \
                  flock -n todo.json.lock true || echo held";
    let ended = inside(&files, &[], script);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "one\ntwo\nheld\n"),
        "{ended:?}"
    );
    assert!(files.is_free());
}

#[test]
fn another_file_inside_is_a_lock_of_its_own_and_the_outer_one_is_still_known() {
    let files = Files::new();
    let script = "$BEADLOCK hold -q file:other.json -- sh -c \
                  '$BEADLOCK hold -q --no-wait file:todo.json -- echo both; flock -n other.json.lock true || echo held'";
    let ended = inside(&files, &[], script);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "both\nheld\n"),
        "{ended:?}"
    );
}

#[test]
fn an_exclusive_lock_inside_a_shared_hold_is_refused_and_a_shared_one_is_not() {
    let files = Files::new();
    let ended = inside(
        &files,
        &["--shared"],
        "$BEADLOCK hold -q --shared file:todo.json -- echo shared",
    );
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (0, "shared\n"),
        "{ended:?}"
    );
    for (exclusive, out) in [
        ("hold file:todo.json -- echo exclusive", ""),
        ("acquire file:todo.json --for $$", "(exit 8)\n"),
        ("append file:todo.json", ""),
    ] {
        let ended = inside(
            &files,
            &["--shared"],
            &format!("echo 1 | $BEADLOCK {exclusive}"),
        );
        assert_eq!((ended.code, ended.out.as_str()), (8, out), "{ended:?}");
        assert!(
            ended
                .err
                .contains("but shared with others: an exclusive lock would wait for itself"),
            "{ended:?}"
        );
    }
}

/// The variables alone open nothing.
#[test]
fn who_is_not_below_the_hold_is_not_in_it() {
    let files = Files::new();
    let holding = files.holding(&[], "env >env.new; mv env.new env; exec sleep 60");
    beadlock_tests::wait_until(beadlock_tests::wait::PATIENCE, "its environment", || {
        files.path("env").exists()
    });
    let mut command = files
        .scene
        .beadlock(&["hold", "--no-wait", TARGET, "--", "true"]);
    for line in files
        .read("env")
        .lines()
        .filter(|line| line.starts_with("BEADLOCK_HELD"))
    {
        let (name, value) = line.split_once('=').expect("a variable");
        command.env(name, value);
    }
    let ended = Ended::from(run(command));
    assert_eq!(ended.code, 8, "{ended:?}");
    drop(holding);
}
