//! An operation in a process of its own, which stands still at each step.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use beadlock_tests::stepwise::Operation;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Kind, Scene};

/// The process; killed when it is dropped.
pub struct Actor {
    child: Child,
    lines: Receiver<String>,
}

/// What it says.
pub enum Said {
    /// It stands at this step.
    At(String),
    /// It has come to this answer, and has let the gate go.
    Done(String),
}

impl Actor {
    pub fn start(scene: &Scene, operation: Operation, means: &str, kind: Kind) -> Self {
        let mut command = scene.command(env!("CARGO_BIN_EXE_stepwise"));
        command
            .arg(format!("{operation:?}"))
            .arg(means)
            .arg(format!("{kind:?}"))
            .arg(scene.beads());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("stepwise starts");
        let stdout = BufReader::new(child.stdout.take().expect("its stdout"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines }
    }

    /// What it says next.
    pub fn next(&mut self) -> Said {
        let line = self
            .lines
            .recv_timeout(PATIENCE)
            .expect("it comes to a step, or to its end");
        match line.split_once(' ').expect("a word and its object") {
            ("at", step) => Said::At(step.to_owned()),
            (_, answer) => Said::Done(answer.to_owned()),
        }
    }

    pub fn go_on(&mut self) {
        self.child
            .stdin
            .as_mut()
            .expect("its stdin")
            .write_all(b"\n")
            .expect("it waits for a line");
    }

    /// It never continues.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
    }
}
