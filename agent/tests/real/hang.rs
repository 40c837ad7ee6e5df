//! A file system that does not answer: what is in it hangs, and nobody else does.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::scene::{Holder, Scene, read, wait_until};

/// A directory seen through FUSE, for as long as this is there.
struct Mirror {
    bindfs: Child,
    point: PathBuf,
}

impl Mirror {
    /// `None`, with a line, where nothing can be mounted.
    fn of(source: &Path, point: &Path) -> Option<Self> {
        std::fs::create_dir_all(point).unwrap();
        let mut bindfs = Command::new("bindfs");
        let bindfs = bindfs.arg("-f").args([source, point]).stderr(Stdio::null()).spawn();
        let Ok(mut bindfs) = bindfs else {
            eprintln!("skipped: there is no bindfs");
            return None;
        };
        let is_mounted =
            || read(Path::new("/proc/self/mounts")).contains(&format!(" {} fuse", point.display()));
        wait_until("a mount, or none", || is_mounted() || bindfs.try_wait().unwrap().is_some());
        if is_mounted() {
            return Some(Self { bindfs, point: point.to_owned() });
        }
        eprintln!("skipped: bindfs may not mount");
        None
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.bindfs.id().cast_signed()), signal).unwrap();
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.signal(Signal::SIGCONT);
        let _ = Command::new("fusermount").arg("-uz").arg(&self.point).stderr(Stdio::null()).status();
        let _ = self.bindfs.kill();
        let _ = self.bindfs.wait();
    }
}

#[test]
fn a_check_that_hangs_keeps_no_job_and_not_the_agents_end() {
    let scene = Scene::new();
    let [_work, source, other] = ["work", "source", "other"].map(|name| scene.database(name));
    let Some(mirror) = Mirror::of(&scene.file("source"), &scene.file("mirror")) else { return };
    let holder = Holder::alive();
    scene.lock("vc", holder.pid());
    let lock_of = |dir: &Path| dir.join(".exclusive-lock");
    for dir in [&source, &other] {
        std::fs::copy(scene.lock_file(), lock_of(dir)).unwrap();
    }
    let exec = "case $BEADS_DIR in */work/.beads) while ! test -e ../go; do sleep 0.01; done;; esac";
    let dbs = ["--db", "work/.beads", "--db", "mirror/.beads", "--db", "other/.beads"];
    let how = ["--jobs", "1", "--interval", "100ms", "--log-file", "log", "--listen", "unix:agent.sock"];
    let agent = scene.start(&[&dbs[..], &how, &["--exec", exec]].concat());
    let count = |line: &str| read(&scene.file("log")).matches(line).count();
    wait_until("the only job", || count("work/.beads: Starting sync cycle...") == 1);
    // One after the other they wait for it.
    for (number, dir) in [&source, &other].into_iter().enumerate() {
        #[expect(clippy::disallowed_methods, reason = "the test is the holder of the lock")]
        std::fs::remove_file(lock_of(dir)).unwrap();
        let ready = format!("beadlock_agent_databases{{state=\"ready\"}} {}\n", number + 1);
        wait_until(&ready, || crate::outside::get(&scene, "/metrics").1.contains(&ready));
    }
    mirror.signal(Signal::SIGSTOP);
    std::fs::write(scene.file("go"), "").unwrap();
    wait_until("others at work", || {
        ["work", "other"].iter().all(|name| count(&format!("{name}/.beads: Sync cycle complete")) >= 3)
    });
    assert_eq!(count("mirror/.beads: Starting sync cycle..."), 0);
    assert_eq!(agent.stop(), Some(0), "one that hangs is not waited for");
}
