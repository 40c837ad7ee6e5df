//! What a service manager hears on the socket that it has named, and what the commands of cycles never learn.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::agent::{OfAgent, fresh_scene};
use beadlock_testkit::{Ended, Running, Scene, until};
use nix::sys::signal::Signal;

const QUIET: [&str; 4] = ["--interval", "10m", "--action", "none"];

/// A service manager's end.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(scene: &Scene) -> Self {
        let path = scene.file("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        Self { socket, path }
    }

    /// The next message.
    #[track_caller]
    fn hear(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self
            .socket
            .recv(&mut buffer)
            .expect("a message within the bound");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Waits for the message that the agent ends. A cycle may still run then: its line comes a moment before its end.
    #[track_caller]
    fn hear_stopping(&self) {
        let mut message = self.hear();
        while message == "WATCHDOG=1\n" {
            message = self.hear();
        }
        assert!(
            message.starts_with("STOPPING=1\nSTATUS=ending"),
            "{message}"
        );
    }

    /// Goes away, and the agent ends: beats that nobody hears would fill the queue, and then the agent waits.
    #[track_caller]
    fn leave(self, agent: Running) -> Ended {
        drop(self);
        agent.end()
    }

    /// The messages that have arrived and were not read yet. Does not wait for more.
    fn rest(&self) -> Vec<String> {
        self.socket.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4096];
        let next = || {
            let length = self.socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
        };
        std::iter::from_fn(next).collect()
    }

    /// The agent under this manager.
    fn agent(&self, scene: &Scene, args: &[&str]) -> Command {
        let mut agent = scene.agent(args);
        agent.env("NOTIFY_SOCKET", &self.path);
        agent
    }

    /// Starts the agent under this manager, with a watchdog of `usec` microseconds.
    fn start(&self, scene: &Scene, args: &[&str], usec: &str) -> Running {
        let mut agent = self.agent(scene, args);
        agent.env("WATCHDOG_USEC", usec);
        Running::start(agent)
    }
}

#[test]
fn ready_then_the_watchdog_then_stopping() {
    let scene = fresh_scene();
    let manager = Manager::new(&scene);
    let begun = Instant::now();
    let agent = manager.start(&scene, &QUIET, "200000");
    assert_eq!(manager.hear(), "READY=1\nSTATUS=serving 1 database\n");
    for _ in 0..5 {
        assert_eq!(manager.hear(), "WATCHDOG=1\n");
    }
    // The first comes at once, four more at half the time each.
    assert!(
        begun.elapsed() >= Duration::from_millis(400),
        "too often: {:?}",
        begun.elapsed()
    );
    agent.signal(Signal::SIGTERM);
    manager.hear_stopping();
    assert_eq!(manager.leave(agent).code, 0);
}

#[test]
fn the_watchdog_is_content_while_the_last_cycle_runs() {
    let scene = fresh_scene();
    let manager = Manager::new(&scene);
    let exec = "touch begun; while ! test -e go; do sleep 0.02; done";
    let agent = manager.start(&scene, &["--interval", "10m", "--exec", exec], "100000");
    until("the cycle", || scene.file("begun").exists());
    agent.signal(Signal::SIGTERM);
    let stopping = "STOPPING=1\nSTATUS=ending after 1 running cycle\n";
    assert!(
        std::iter::repeat_with(|| manager.hear())
            .take(1000)
            .any(|message| message == stopping)
    );
    for _ in 0..4 {
        assert_eq!(manager.hear(), "WATCHDOG=1\n");
    }
    fs::write(scene.file("go"), "").unwrap();
    assert_eq!(manager.leave(agent).code, 0);
}

#[test]
fn no_watchdog_but_ones_own_and_none_of_no_time() {
    for (usec, pid) in [("100000", "1"), ("0", ""), ("x", ""), ("-1", "")] {
        let scene = fresh_scene();
        let manager = Manager::new(&scene);
        let mut agent = manager.agent(&scene, &QUIET);
        agent.env("WATCHDOG_USEC", usec);
        if !pid.is_empty() {
            agent.env("WATCHDOG_PID", pid);
        }
        let agent = Running::start(agent);
        assert!(manager.hear().starts_with("READY=1\n"));
        until("the cycle", || scene.count("Sync cycle complete") == 1);
        assert_eq!(agent.stop(), Some(0));
        let rest = manager.rest();
        assert!(
            rest.len() == 1 && rest[0].starts_with("STOPPING=1\n"),
            "{usec} {pid}: {rest:?}"
        );
    }
    // Times that no clock can count, or that leave no time.
    for usec in ["1", "18446744073709551615"] {
        let scene = fresh_scene();
        let manager = Manager::new(&scene);
        let agent = manager.start(&scene, &QUIET, usec);
        assert!(manager.hear().starts_with("READY=1\n"));
        assert_eq!(manager.hear(), "WATCHDOG=1\n", "{usec}");
        agent.signal(Signal::SIGTERM);
        manager.hear_stopping();
        assert_eq!(manager.leave(agent).code, 0);
    }
}

#[test]
fn the_commands_of_cycles_know_nothing_of_the_manager() {
    let scene = fresh_scene();
    let manager = Manager::new(&scene);
    let mut agent = manager.agent(
        &scene,
        &[
            "--interval",
            "10m",
            "--exec",
            "env; tr '\\0' '\\n' < /proc/$PPID/environ",
        ],
    );
    agent
        .env("WATCHDOG_USEC", "200000000")
        .env("OTHER", "stays");
    let agent = Running::start(agent);
    until("the cycle", || scene.count("Sync cycle complete") == 1);
    assert_eq!(agent.stop(), Some(0));
    let log = scene.lines();
    assert_eq!(
        log.iter().filter(|line| *line == "OTHER=stays").count(),
        2,
        "the command and its runner: {log:?}"
    );
    let told: Vec<_> = log
        .iter()
        .filter(|line| line.contains("NOTIFY_") || line.contains("WATCHDOG_"))
        .collect();
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn a_manager_that_cannot_be_told_harms_nothing() {
    let scene = fresh_scene();
    fs::write(scene.file("file"), "").unwrap();
    for socket in [
        "nowhere/notify",
        "file",
        ".",
        "",
        "@abstract",
        &"x".repeat(300),
    ] {
        let before = scene.count("Sync cycle complete");
        let mut agent = scene.agent(&QUIET);
        agent
            .env("NOTIFY_SOCKET", socket)
            .env("WATCHDOG_USEC", "20000");
        let agent = Running::start(agent);
        until("the cycle", || {
            scene.count("Sync cycle complete") == before + 1
        });
        agent.signal(Signal::SIGTERM);
        let Ended {
            code,
            err: complaints,
            ..
        } = agent.end();
        assert_eq!(code, 0, "{socket}");
        // At the start and at the end, and not with every beat.
        assert_eq!(complaints.lines().count(), 2, "{socket}: {complaints}");
        for line in complaints.lines() {
            assert!(
                line.starts_with(
                    "beadlock-agent: cannot tell the service manager ($NOTIFY_SOCKET): "
                )
            );
        }
    }
}

#[test]
fn one_cycle_each_tells_nobody() {
    let scene = fresh_scene();
    let manager = Manager::new(&scene);
    let once = manager
        .agent(&scene, &["--once", "--action", "none"])
        .output()
        .unwrap();
    assert_eq!(once.status.code(), Some(0));
    assert_eq!(scene.count("Sync cycle complete"), 1);
    assert_eq!(manager.rest(), [""; 0]);
}
