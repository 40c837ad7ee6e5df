//! A file system that stops answering while the agent runs: it is named, and costs the other databases neither a cycle
//! nor a line, nor the agent its end.

use std::path::Path;
use std::time::{Duration, Instant};

use beadlock_testkit::{Running, until};
use nix::sys::signal::Signal;

use crate::agent::{count_in, fresh_scene, log_of};
use crate::hang::{Mirror, stop_while_it_hangs};

fn cycles(dir: &Path) -> usize {
    count_in(dir, "Sync cycle complete")
}

/// The agent is ended when its mirror answers again: otherwise a failed test could wait for it for ever.
struct Both {
    agent: Option<Running>,
    mirror: Mirror,
}

impl Drop for Both {
    fn drop(&mut self) {
        self.mirror.signal(Signal::SIGCONT);
        drop(self.agent.take());
    }
}

/// Its own log lies on the mount, too.
#[test]
fn one_that_hangs_later_is_named_and_costs_the_others_neither_a_cycle_nor_a_line() {
    let scene = fresh_scene();
    let [source, other] = ["source", "other"].map(|name| scene.database(name));
    let Some(mirror) = Mirror::of(&scene.file("source"), &scene.file("mirror")) else {
        return;
    };
    let hung = scene.file("mirror/.beads");
    let dbs = ["--db", "mirror/.beads", "--db", "other/.beads"];
    let how = [
        "--interval",
        "100ms",
        "--action",
        "none",
        "--listen",
        "unix:agent.sock",
    ];
    let mut both = Both {
        agent: Some(scene.start(&[&dbs[..], &how].concat())),
        mirror,
    };
    until("cycles of both", || {
        cycles(&source) > 2 && cycles(&other) > 2
    });
    both.mirror.signal(Signal::SIGSTOP);
    let words = format!("Not serving {}: the file system fuse at ", hung.display());
    let said = || {
        log_of(&other)
            .iter()
            .filter(|line| line.starts_with(&words))
            .count()
    };
    until("the word", || said() == 1);
    let status = crate::outside::get(&scene, "/status").1;
    let row = format!(
        r#"{{"dir":"{}","state":"not_serving","phase":"not_serving","#,
        hung.display()
    );
    assert!(status.contains(&row), "{status}");
    // That word, as all that is said to all, is in the queue of the log that hangs.
    let before = cycles(&other);
    until("cycles", || cycles(&other) > before + 5);
    both.mirror.signal(Signal::SIGCONT);
    let before = cycles(&source);
    until("cycles of both", || cycles(&source) > before + 2);
    assert_eq!(
        log_of(&source)
            .iter()
            .filter(|line| line.starts_with(&words))
            .count(),
        1,
        "its log has it now"
    );
    let status = crate::outside::get(&scene, "/status").1;
    assert!(!status.contains(r#""state":"not_serving""#), "{status}");
    both.mirror.signal(Signal::SIGSTOP);
    let before = cycles(&other);
    until("cycles", || cycles(&other) > before + 5);
    let begun = Instant::now();
    assert_eq!(
        stop_while_it_hangs(both.agent.take().unwrap(), &both.mirror),
        Some(0)
    );
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
    let stopped = log_of(&other)
        .iter()
        .filter(|line| line.starts_with("Agent stopped: "))
        .count();
    assert_eq!((stopped, said()), (1, 1));
}
