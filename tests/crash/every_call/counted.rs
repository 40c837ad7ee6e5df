//! How many calls a command makes, by our own stops and by strace, until the program has ended: its own, those of its
//! threads, and those of what it has started.
//!
//! strace counts the calls that come back. Before a call that does not, such as `exit_group`, or the wait in which the
//! program's end finds its keeper, it can be killed as well: so there are some more calls than strace has.

use std::fs;

use beadlock_tests::process::marked_by;
use beadlock_tests::stepped::{Calls, Counted, Stepped, kill_at};
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, Running, Scene, reap_all, run, tool, wait_until};
use nix::sys::signal::{Signal, kill};

use crate::{Case, Part, script};

/// Runs in which both must have counted the same at least once: threads wait for each other now and then.
const COUNTS: usize = 20;

impl Case {
    /// Our own count, and what strace counts of the calls that come back: 0 without it, which kills need not. They
    /// must agree, but of a part: the case of the whole has shown that none is overlooked. None where nobody may be
    /// traced.
    pub(super) fn counted(&self) -> Option<(Counted, usize)> {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        loop {
            // A release looks at every process: what the counts before have left is not to be among them.
            reap_all();
            let counted = self.count()?;
            reap_all();
            let Some(strace) = self.count_of_strace() else {
                return Some((counted, 0));
            };
            ours.push(counted);
            theirs.push(strace);
            let agrees = |ours: &&Counted| {
                theirs.contains(&ours.returned) || self.part == Part::FromTheCommandOn
            };
            if let Some(both) = ours.iter().find(agrees) {
                return Some((*both, both.returned));
            }
            assert!(
                ours.len() < COUNTS,
                "we have counted {ours:?}, and strace {theirs:?}"
            );
        }
    }

    /// The calls of one run that nobody disturbs, by our own count; None where nobody may be traced.
    fn count(&self) -> Option<Counted> {
        let scene = Scene::new();
        let others = (self.before)(&scene);
        // It stands for strace, which a walk through /proc would see.
        let _strace = script(&scene);
        let command = self.command(&scene, &others, "kill -STOP $$;");
        match kill_at(command, usize::MAX, Calls::All, |_| ()) {
            Stepped::Ended(code, counted) if code == self.code => Some(counted),
            Stepped::Impossible => None,
            other => panic!("undisturbed: {other:?}"),
        }
    }

    /// The same by strace; None where it is missing.
    fn count_of_strace(&self) -> Option<usize> {
        let strace = tool("strace")?;
        let scene = Scene::new();
        let others = (self.before)(&scene);
        let mut command = scene.command(strace);
        let options = if self.keeper {
            &["-f", "-o", "counts"][..]
        } else {
            &["-f", "-c", "-U", "calls,name", "-o", "counts"]
        };
        command
            .args(options)
            .arg((self.program)())
            .args((self.words)(&scene, &others));
        // A shell looks where it is, and ours has been told.
        command.env("PWD", scene.path());
        if self.keeper {
            return Some(self.count_beside_a_keeper(&scene, &others, Running::start(command)));
        }
        let ended = Ended::from(run(command));
        assert_eq!(ended.code, self.code, "{ended:?}");
        let total = counts(&scene)
            .lines()
            .find(|line| line.ends_with("total"))
            .map(str::to_owned)
            .expect("a total");
        total
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok())
    }

    /// strace waits for a keeper, and would count what that does for hours. So it writes down each call, and those
    /// that came back before the end of the program count.
    fn count_beside_a_keeper(&self, scene: &Scene, others: &[Running], strace: Running) -> usize {
        let end = format!(" +++ exited with {} +++", self.code);
        let is_over = |text: &str| {
            text.lines()
                .any(|line| thread(line) == thread(text) && line.ends_with(&end))
        };
        wait_until(PATIENCE, "the end of the program", || {
            is_over(&counts(scene))
        });
        let spared: Vec<i32> = others
            .iter()
            .map(Running::pid)
            .chain([strace.pid()])
            .collect();
        for pid in marked_by(scene)
            .into_iter()
            .filter(|pid| !spared.contains(&pid.as_raw()))
        {
            let _ = kill(pid, Signal::SIGKILL);
        }
        strace.finish(PATIENCE);
        let text = counts(scene);
        let lines = text
            .lines()
            .take_while(|line| thread(line) != thread(&text) || !line.ends_with(&end));
        lines.filter(|line| comes_back(line)).count()
    }
}

fn counts(scene: &Scene) -> String {
    fs::read_to_string(scene.path().join("counts")).unwrap_or_default()
}

/// Whose line it is; the first one is the program's.
fn thread(line: &str) -> Option<&str> {
    line.split_whitespace().next()
}

/// A line of a whole call, or of its end: no signal, no end of a thread, no beginning, and no call that is the end.
fn comes_back(line: &str) -> bool {
    let is_of_no_call = [" +++ ", " --- "].iter().any(|mark| line.contains(mark));
    let never = [" <unfinished ...>", " = ?"]
        .iter()
        .any(|end| line.ends_with(end));
    !is_of_no_call && !never
}
