//! Continuous integration: steps that share nothing but a file of variables, which a runner reads between them.

use std::fs;

use beadlock_testkit::{Ended, Running, Scene, lives, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::acquire::keepers;

/// A job of a tiny runner: each step is a process of its own in a session of its own, in a directory of its own
/// choosing. What it appends to `$GITHUB_ENV` is in the environment of the next, as it is written there.
struct Job<'s> {
    scene: &'s Scene,
    name: &'static str,
    variables: Vec<(String, String)>,
}

impl<'s> Job<'s> {
    fn new(scene: &'s Scene, name: &'static str) -> Self {
        Self {
            scene,
            name,
            variables: Vec::new(),
        }
    }

    #[track_caller]
    fn step(&mut self, script: &str) -> Ended {
        let file = self.scene.file(&format!("env of {}", self.name));
        fs::write(&file, "").unwrap();
        let mut command = self.scene.shell(script);
        command.current_dir(self.scene.file("work tree"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("GITHUB_ENV", &file).env("JOB", self.name);
        let ended = Running::apart(command).end();
        for line in fs::read_to_string(&file).unwrap().lines() {
            let (name, value) = line
                .split_once('=')
                .unwrap_or_else(|| panic!("no variable: {line:?}"));
            self.variables.push((name.to_owned(), value.to_owned()));
        }
        ended
    }
}

const ACQUIRE: &str = r#""$BEADLOCK" acquire --detach --max-hold 1h --wait 100ms --holder "ci $JOB" >> "$GITHUB_ENV""#;
const RELEASE: &str = r#"cd /; "$BEADLOCK" release"#;

fn scene() -> (Scene, std::path::PathBuf) {
    let scene = crate::a_scene();
    let beads = scene.file("work tree/.beads");
    fs::create_dir_all(&beads).unwrap();
    (scene, beads.join(".exclusive-lock"))
}

#[test]
fn three_steps_hold_one_claim_and_another_job_does_not_disturb_it() {
    let (scene, lock) = scene();
    let (mut a, mut b) = (Job::new(&scene, "a"), Job::new(&scene, "b"));
    a.step(ACQUIRE).expect(
        0,
        &["claimed .beads for ci a (PID ", ", kept for at most 1h"],
    );
    let held = fs::read(&lock).unwrap();

    b.step(ACQUIRE).expect(4, &["is held by ci a (PID "]);
    assert!(b.variables.is_empty(), "{:?}", b.variables);
    // `if: always()`: its last step runs though the first has failed.
    b.step(RELEASE)
        .expect(2, &["no id: nothing was acquired here"]);
    assert_eq!(fs::read(&lock).unwrap(), held);

    let work = r#"mkdir -p out && cd out && "$BEADLOCK" hold --no-wait -q -- sh -c 'echo "$BEADLOCK_HELD_ID" > held'
                  test "$(cat held)" = "$BEADLOCK_ID" && "$BEADLOCK" check; test $? = 4"#;
    a.step(work).expect(0, &[]);
    b.step("\"$BEADLOCK\" check").expect(4, &[]);
    assert_eq!(fs::read(&lock).unwrap(), held);

    a.step(RELEASE).expect(0, &["released "]);
    assert!(!lock.exists());
    a.step(RELEASE).expect(9, &["is not there any more"]);
    a.step(&format!("{RELEASE} --missing-ok"))
        .expect(0, &["is not there any more"]);
    until("the keeper has ended", || keepers(&scene).is_empty());

    // And the other way round: what job a still knows is worth nothing by now.
    b.step(ACQUIRE).expect(0, &[]);
    let held = fs::read(&lock).unwrap();
    a.step(RELEASE)
        .expect(9, &["is ci b's (PID ", "was not touched"]);
    assert_eq!(fs::read(&lock).unwrap(), held);
    b.step(RELEASE).expect(0, &["released "]);
    assert!(!lock.exists());
}

/// The runner kills whatever a cancelled job has left behind; nobody has to clean up.
#[test]
fn a_job_that_is_killed_in_the_middle_wedges_nobody() {
    let (scene, lock) = scene();
    let (mut a, mut b) = (Job::new(&scene, "a"), Job::new(&scene, "b"));
    a.step(ACQUIRE).expect(0, &[]);
    let [keeper] = keepers(&scene)[..] else {
        panic!("one keeper")
    };
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    until("it is gone", || !lives(keeper));
    beadlock_testkit::process_is_gone(keeper);
    b.step(ACQUIRE).expect(
        0,
        &[
            "removed stale lock of ci a (PID ",
            "claimed .beads for ci b",
        ],
    );
    a.step(RELEASE).expect(9, &["is ci b's"]);
    b.step(RELEASE).expect(0, &[]);
    assert!(!lock.exists());
}

/// A runner that vanishes without a word: the keeper's time ends it.
#[test]
fn a_job_that_nobody_ends_is_ended_by_its_time() {
    let (scene, lock) = scene();
    let (mut a, mut b) = (Job::new(&scene, "a"), Job::new(&scene, "b"));
    a.step(&ACQUIRE.replace("1h", "500ms"))
        .expect(0, &["kept for at most 500ms"]);
    b.step(&ACQUIRE.replace("100ms", "30s"))
        .expect(0, &["claimed .beads for ci b"]);
    a.step(RELEASE)
        .expect(9, &["its --max-hold was over at 20", "is ci b's"]);
    b.step(RELEASE).expect(0, &["released "]);
    assert!(!lock.exists());
}

/// Without `--detach` it is the step's shell that the claim is for, and the next step finds it stale.
#[test]
fn a_claim_for_a_step_ends_with_the_step() {
    let (scene, lock) = scene();
    let (mut a, mut b) = (Job::new(&scene, "a"), Job::new(&scene, "b"));
    a.step(r#""$BEADLOCK" acquire >> "$GITHUB_ENV"; "$BEADLOCK" check; test $? = 4"#)
        .expect(0, &[]);
    assert!(lock.exists());
    b.step("\"$BEADLOCK\" check").expect(0, &[]);
    a.step(RELEASE).expect(9, &["is not there any more"]);
}
