//! A clone of root's lies in another user's home. That user may not write in it, and may rename it: every 20 ms it
//! changes places with a directory of the user's own, which has a database and a script as well.
//!
//! Three seconds each; `SWAP_SECONDS=60` is the long form.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use beadlock_tests::Running;
use beadlock_tests::scene::Scene;
use beadlock_tests::{skip, wait_until, write_program};
use nix::sys::signal::Signal;

use super::SOMEBODY;

/// The control runs for as long as it takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// `home/clone` is root's, `home/mine` is the user's, and so is `home`. Each has a script that says whose it is.
struct Home {
    scene: Scene,
    setpriv: PathBuf,
}

impl Home {
    fn new() -> Option<Self> {
        let setpriv = skip::root().then(|| skip::tool("setpriv")).flatten()?;
        let home = Self {
            scene: Scene::new(),
            setpriv,
        };
        let top = fs::canonicalize(home.scene.path()).unwrap();
        fs::set_permissions(&top, Permissions::from_mode(0o755)).unwrap();
        write_program(
            &top.join("swapped"),
            fs::File::open(env!("CARGO_BIN_EXE_swapped")).unwrap(),
        );
        for (name, whose, owner) in [("clone", "own", 0), ("mine", "foreign", SOMEBODY)] {
            let dir = top.join("home").join(name);
            fs::create_dir_all(dir.join(".beads")).unwrap();
            let script = dir.join("sync.sh");
            write_program(
                &script,
                format!("#!/bin/sh\nid -u >> {}/{whose}\n", top.display()).as_bytes(),
            );
            for path in [&dir, &dir.join(".beads"), &script] {
                fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
                chown(path, Some(owner), Some(owner)).unwrap();
            }
        }
        chown(top.join("home"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        Some(home)
    }

    fn top(&self) -> PathBuf {
        fs::canonicalize(self.scene.path()).unwrap()
    }

    fn clone(&self) -> PathBuf {
        self.top().join("home/clone/.beads")
    }

    /// How often the script of `own` or `foreign` has run.
    fn runs(&self, whose: &str) -> usize {
        fs::read_to_string(self.top().join(whose))
            .unwrap_or_default()
            .lines()
            .count()
    }

    /// The user begins to exchange the two.
    fn swap(&self) -> Running {
        let (clone, mine) = (self.top().join("home/clone"), self.top().join("home/mine"));
        let mut command = self.scene.command(&self.setpriv);
        command.args([
            "--reuid",
            "54321",
            "--regid",
            "54321",
            "--clear-groups",
            "--",
        ]);
        command
            .arg(self.top().join("swapped"))
            .arg("swap")
            .arg(&clone)
            .arg(mine);
        let swapping = Running::start(command);
        let is_swapped = || {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(&clone).is_ok_and(|meta| meta.uid() == SOMEBODY)
        };
        wait_until(PATIENCE, "an exchange", is_swapped);
        swapping
    }

    /// How many cycles ran and how many were refused while the two were exchanged.
    fn serve(&self, how: &str, bound: Duration) -> (usize, usize) {
        let mut swapping = self.swap();
        let mut command: Command = self.scene.command(self.top().join("swapped"));
        command
            .args(["serve", how])
            .arg(self.clone())
            .arg(bound.as_secs_f64().to_string());
        command.args(["--", "./sync.sh"]);
        let served = Running::start(command).finish(bound + PATIENCE);
        assert!(served.status.success(), "{served:?}");
        assert!(swapping.is_running(), "the exchange went on to the end");
        let words = String::from_utf8(served.stdout).unwrap();
        let mut counts = words.split_whitespace().map(|count| count.parse().unwrap());
        (counts.next().unwrap(), counts.next().unwrap())
    }
}

fn long() -> Duration {
    let seconds = std::env::var("SWAP_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(3.0))
}

#[test]
fn the_descriptors_alone_keep_another_users_script_from_running() {
    let Some(home) = Home::new() else { return };
    let (ran, refused) = home.serve("descriptors", long());
    assert_eq!(
        home.runs("foreign"),
        0,
        "of {ran} cycles that ran; {refused} were refused"
    );
    assert_eq!(home.runs("own"), ran);
    assert!(
        ran > 0 && refused > 0,
        "both were there: {ran} cycles ran, {refused} were refused"
    );
    eprintln!("{ran} cycles ran, {refused} were refused, 0 ran another user's script");
}

#[test]
fn the_control_asks_the_path_and_runs_another_users_script() {
    let Some(home) = Home::new() else { return };
    let begun = Instant::now();
    let (ran, refused) = home.serve("path", PATIENCE);
    assert!(
        home.runs("foreign") > 0,
        "{ran} cycles ran, {refused} were refused, and all of it for nothing"
    );
    eprintln!(
        "another user's script ran after {:?}, in cycle {ran}",
        begun.elapsed()
    );
}

#[test]
fn an_agent_refuses_the_database_once_and_serves_the_other_in_its_rhythm() {
    let Some(home) = Home::new() else { return };
    let other = home.scene.beads();
    write_program(
        &home.top().join("sync.sh"),
        &b"#!/bin/sh\necho >> ticks\n"[..],
    );
    let ticks = || {
        fs::read_to_string(home.top().join("ticks"))
            .unwrap_or_default()
            .lines()
            .count()
    };
    let serve = |databases: &[&Path]| {
        let mut agent = home
            .scene
            .agent(&["--exec", "./sync.sh", "--interval", "20ms"]);
        agent.args(databases.iter().flat_map(|dir| [Path::new("--db"), dir]));
        let mut agent = Running::start(agent);
        let before = ticks();
        wait_until(PATIENCE, "a first cycle", || ticks() > before);
        let first = ticks();
        sleep(long());
        let count = ticks() - first;
        agent.signal(Signal::SIGTERM);
        agent.wait(PATIENCE);
        count
    };
    let alone = serve(&[&other]);
    let swapping = home.swap();
    let beside = serve(&[&home.clone(), &other]);
    drop(swapping);
    assert_eq!(
        (home.runs("foreign"), home.runs("own")),
        (0, 0),
        "neither may run there"
    );
    assert!(
        beside * 2 > alone,
        "{beside} cycles beside the exchanges, {alone} without them"
    );
    let refused = format!("Not serving {}: ", home.clone().display());
    let log = home.scene.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&refused)).collect();
    let why = format!(
        "{} belongs to uid {SOMEBODY}, and another directory",
        home.top().join("home").display()
    );
    assert!(lines.len() == 1 && lines[0].contains(&why), "{lines:#?}");
    eprintln!("{beside} cycles beside the exchanges, {alone} without them");
}

#[test]
fn the_only_database_is_refused_at_the_start() {
    let Some(home) = Home::new() else { return };
    let mut agent = home
        .scene
        .agent(&["--exec", "./sync.sh", "--interval", "20ms", "--db"]);
    agent.arg(home.clone());
    let ended = Running::start(agent).finish(PATIENCE);
    let words = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(
        words.contains("give --allow-foreign-owner") && home.runs("own") == 0,
        "{words}"
    );
}
