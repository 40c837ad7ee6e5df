//! A file system that does not answer: what is in it hangs, and nobody else does.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use beadlock_testkit::{PATIENCE, Running, Scene, lives, read, skip, sleeper, tool, until};
use nix::sys::signal::Signal;

use crate::agent::{count_in, fresh_scene, log_of};

/// A directory seen through FUSE, for as long as this is there.
pub struct Mirror {
    bindfs: Running,
    point: PathBuf,
}

impl Mirror {
    /// `None`, with a line, where nothing can be mounted.
    pub fn of(source: &Path, point: &Path) -> Option<Self> {
        std::fs::create_dir_all(point).unwrap();
        let mut command = Command::new(tool("bindfs")?);
        command.arg("-f").args([source, point]);
        let mut bindfs = Running::start(command);
        let is_mounted =
            || read(Path::new("/proc/self/mounts")).contains(&format!(" {} fuse", point.display()));
        until("a mount, or none", || is_mounted() || bindfs.has_ended());
        if is_mounted() {
            return Some(Self {
                bindfs,
                point: point.to_owned(),
            });
        }
        skip::cannot("needs bindfs, which may not mount here");
        None
    }

    pub fn signal(&self, signal: Signal) {
        self.bindfs.signal(signal);
    }
}

/// Lets a file system answer at the end of a test, also of one that fails: before that its agent would not end.
struct Thaw<'a>(&'a Mirror);

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        self.0.signal(Signal::SIGCONT);
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
        let _ = Command::new("fusermount")
            .arg("-uz")
            .arg(&self.point)
            .stderr(Stdio::null())
            .status();
    }
}

/// Ends an agent while the mirror does not answer. Returns its exit code.
///
/// A thread that waits for a request which the mirror had read before it was stopped stays in the kernel, and until then
/// nobody can collect the process. So the mirror goes on when the program has ended.
pub fn stop_while_it_hangs(mut agent: Running, mirror: &Mirror) -> Option<i32> {
    let thaw = Thaw(mirror);
    agent.signal(Signal::SIGTERM);
    until("its end", || !lives(agent.pid()));
    drop(thaw);
    agent.wait(PATIENCE).code()
}

#[test]
fn a_check_that_hangs_keeps_no_job_and_not_the_agents_end() {
    let scene = fresh_scene();
    let [_work, source, other] = ["work", "source", "other"].map(|name| scene.database(name));
    let Some(mirror) = Mirror::of(&scene.file("source"), &scene.file("mirror")) else {
        return;
    };
    let holder = sleeper();
    scene.claim("vc", holder.pid());
    let lock_of = |dir: &Path| dir.join(".exclusive-lock");
    for dir in [&source, &other] {
        std::fs::copy(scene.lock(), lock_of(dir)).unwrap();
    }
    let exec =
        "case $BEADS_DIR in */work/.beads) while ! test -e ../go; do sleep 0.01; done;; esac";
    let dbs = [
        "--db",
        "work/.beads",
        "--db",
        "mirror/.beads",
        "--db",
        "other/.beads",
    ];
    let how = [
        "--jobs",
        "1",
        "--interval",
        "100ms",
        "--log-file",
        "log",
        "--listen",
        "unix:agent.sock",
    ];
    let agent = scene.start(&[&dbs[..], &how, &["--exec", exec]].concat());
    let count = |line: &str| scene.read("log").matches(line).count();
    until("the only job", || {
        count("work/.beads: Starting sync cycle...") == 1
    });
    // One after the other they wait for it.
    for (number, dir) in [&source, &other].into_iter().enumerate() {
        #[expect(
            clippy::disallowed_methods,
            reason = "the test is the holder of the lock"
        )]
        std::fs::remove_file(lock_of(dir)).unwrap();
        let ready = format!(
            "beadlock_agent_databases{{phase=\"ready\"}} {}\n",
            number + 1
        );
        until(&ready, || {
            crate::outside::get(&scene, "/metrics").1.contains(&ready)
        });
    }
    mirror.signal(Signal::SIGSTOP);
    std::fs::write(scene.file("go"), "").unwrap();
    until("others at work", || {
        ["work", "other"]
            .iter()
            .all(|name| count(&format!("{name}/.beads: Sync cycle complete")) >= 3)
    });
    assert_eq!(count("mirror/.beads: Starting sync cycle..."), 0);
    assert_eq!(
        stop_while_it_hangs(agent, &mirror),
        Some(0),
        "one that hangs is not waited for"
    );
}

/// The agent serves the other database and says which one it awaits, until that answers.
fn awaits(scene: &Scene, mirror: &Mirror, args: &[&str]) {
    let served = &scene.beads();
    mirror.signal(Signal::SIGSTOP);
    let how = [
        "--interval",
        "100ms",
        "--listen",
        "unix:agent.sock",
        "--action",
        "none",
    ];
    let begun = Instant::now();
    let agent = scene.start(&[args, &how].concat());
    let _thaw = Thaw(mirror);
    until("a cycle of the other", || {
        count_in(served, "Sync cycle complete") > 0
    });
    let took = begun.elapsed();
    let hung = mirror.point.join(".beads");
    let words = format!(
        "Not serving {}: the file system fuse at {} does not answer",
        hung.display(),
        mirror.point.display()
    );
    let is_said = || log_of(served).iter().any(|line| line.starts_with(&words));
    until("which one does not answer", is_said);
    // It is less than a second on a machine with nothing else to do; before, there was no first cycle at all.
    println!("the other had its first cycle after {took:?}");
    if !args.contains(&"--root") {
        let status = crate::outside::get(scene, "/status").1;
        let row = format!(
            r#"{{"dir":"{}","state":"not_serving","phase":"not_serving","#,
            hung.display()
        );
        assert!(status.contains(&row), "{status}");
    }
    mirror.signal(Signal::SIGCONT);
    until("the one that answers now", || {
        count_in(&hung, "Sync cycle complete") > 0
    });
    let status = crate::outside::get(scene, "/status").1;
    assert!(!status.contains(r#""state":"not_serving""#), "{status}");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn one_that_hangs_at_the_start_is_awaited_while_the_others_are_served() {
    let scene = fresh_scene();
    scene.database("source");
    let Some(mirror) = Mirror::of(&scene.file("source"), &scene.file("mirror")) else {
        return;
    };
    awaits(
        &scene,
        &mirror,
        &["--db", "mirror/.beads", "--db", ".beads"],
    );
}

#[test]
fn one_that_a_file_names_is_awaited_too() {
    let scene = fresh_scene();
    scene.database("source");
    let Some(mirror) = Mirror::of(&scene.file("source"), &scene.file("mirror")) else {
        return;
    };
    scene.write(
        "agent.toml",
        "[[database]]\ndir = '.beads'\n[[database]]\ndir = 'mirror/.beads'\n",
    );
    awaits(&scene, &mirror, &["--config", "agent.toml"]);
}

#[test]
fn one_that_hangs_below_a_root_keeps_no_other_from_being_found() {
    let scene = fresh_scene();
    scene.database("source");
    let beads = scene.file("mirror/.beads");
    let Some(mirror) = Mirror::of(&scene.file("source/.beads"), &beads) else {
        return;
    };
    mirror.signal(Signal::SIGSTOP);
    let agent = scene.start(&["--root", ".", "--interval", "100ms", "--action", "none"]);
    let _thaw = Thaw(&mirror);
    until("a cycle of the other", || {
        count_in(&scene.beads(), "Sync cycle complete") > 0
    });
    let words = format!("Not serving {}: the file system fuse at ", beads.display());
    until("which one does not answer", || {
        log_of(&scene.beads())
            .iter()
            .any(|line| line.starts_with(&words))
    });
    mirror.signal(Signal::SIGCONT);
    until("the one that answers now", || {
        count_in(&beads, "Sync cycle complete") > 0
    });
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn one_look_does_not_wait_for_one_that_hangs_and_ends_with_1() {
    let scene = fresh_scene();
    scene.database("source");
    let Some(mirror) = Mirror::of(&scene.file("source"), &scene.file("mirror")) else {
        return;
    };
    mirror.signal(Signal::SIGSTOP);
    let agent = scene.start(&[
        "--once",
        "--db",
        "mirror/.beads",
        "--db",
        ".beads",
        "--action",
        "none",
    ]);
    let _thaw = Thaw(&mirror);
    until("a cycle of the other", || {
        count_in(&scene.beads(), "Sync cycle complete") == 1
    });
    // Its thread is in the kernel until the file system answers, and so is the process.
    mirror.signal(Signal::SIGCONT);
    agent.end().expect(
        1,
        &["does not answer; look at its server, or type: umount -l "],
    );
}
