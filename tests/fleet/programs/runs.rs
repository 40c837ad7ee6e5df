//! What has run when, outside of etcd, by the clock that counts sleep.

use std::fs;
use std::path::PathBuf;

use beadlock_tests::Scene;

/// A file in which cycles and claims write down when they begin and end.
pub struct Witness {
    file: PathBuf,
}

/// From when to when something ran, in hundredths of a second since boot; `None`: it has not ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub kind: String,
    pub id: String,
    pub begun: u64,
    pub ended: Option<u64>,
}

impl Witness {
    pub fn in_scene(scene: &Scene) -> Self {
        Self {
            file: scene.file("witness"),
        }
    }

    /// A script that does `work` between its two lines. `kind` is a word. One short write that appends is never torn.
    pub fn script(&self, kind: &str, work: &str) -> String {
        format!(
            "{}; {work}; {}",
            self.line(kind, "begins"),
            self.line(kind, "ends")
        )
    }

    /// The same for work of so many steps, each of which is written down: of work that is killed, too, it is known how
    /// long it has gone on.
    pub fn steps(&self, kind: &str, steps: u64) -> String {
        let works = self.line(kind, "works");
        self.script(
            kind,
            &format!("step=0; while test $step -lt {steps}; do sleep 0.02; {works}; step=$((step + 1)); done"),
        )
    }

    fn line(&self, kind: &str, what: &str) -> String {
        format!(
            "read -r up rest </proc/uptime; echo {kind} $$ {what} $up >> {}",
            self.file.display()
        )
    }

    fn lines(&self) -> Vec<[String; 4]> {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        // What is being written now may have no end yet.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let words = whole
            .lines()
            .map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        words.filter_map(|words| words.try_into().ok()).collect()
    }

    /// All that has begun.
    pub fn runs(&self) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for [kind, id, what, up] in self.lines() {
            let hundredths = up
                .replace('.', "")
                .parse()
                .expect("a number with two places");
            if what == "begins" {
                runs.push(Run {
                    kind,
                    id,
                    begun: hundredths,
                    ended: None,
                });
            } else if let Some(run) = runs
                .iter_mut()
                .rev()
                .find(|run| run.kind == kind && run.id == id)
            {
                run.ended = Some(hundredths);
            }
        }
        runs
    }

    pub fn count(&self, kind: &str) -> usize {
        self.runs().iter().filter(|run| run.kind == kind).count()
    }

    /// Each claim beside each cycle that ran at the same time, and each pair of claims. A run without an end counts
    /// for the moment of its beginning: what was killed wrote nothing more.
    pub fn overlaps(&self) -> Vec<(Run, Run)> {
        let runs = self.runs();
        let mut overlaps = Vec::new();
        for (at, claim) in runs
            .iter()
            .enumerate()
            .filter(|(_, run)| run.kind == "claim")
        {
            let others = runs
                .iter()
                .enumerate()
                .filter(|(other, run)| run.kind != "claim" || *other > at);
            let met = others.filter(|(_, other)| {
                let (end, other_end) = (
                    claim.ended.unwrap_or(claim.begun),
                    other.ended.unwrap_or(other.begun),
                );
                claim.begun < other_end && other.begun < end
            });
            overlaps.extend(met.map(|(_, other)| (claim.clone(), other.clone())));
        }
        overlaps
    }
}
