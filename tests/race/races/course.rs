//! The course that an operation takes, alone or with somebody in between.

use beadlock_tests::stepwise::Operation;
use beadlock_tests::{Kind, Scene};

use crate::actor::{Actor, Said};
use crate::intruder::{Intruder, Visit, claim_by_rename, ran};
use crate::operation::prepare;
use crate::standing::{Checker, standing};

/// What an operation has come to.
#[derive(Debug, Default)]
pub struct Course {
    /// The steps that it went through.
    pub steps: Vec<String>,
    /// The one at which somebody came.
    pub came_at: String,
    /// What it said in the end; nothing when it was killed.
    pub answer: String,
    /// Whose claims stood in the end.
    pub standing: Vec<String>,
    /// The processes that had run, beside it.
    pub ran: Vec<String>,
    /// After a crash: how the next claim ended.
    pub next_claim: Option<i32>,
    /// What was left behind when all claims had been ended.
    pub left: Vec<String>,
}

impl Course {
    /// The answer without its reasons.
    pub fn answer(&self) -> &str {
        self.answer.split(':').next().unwrap_or_default()
    }

    /// The operation went the same way.
    pub fn is_like(&self, other: &Self) -> bool {
        self.steps == other.steps && self.answer == other.answer && self.standing == other.standing
    }
}

/// The operation takes its course, and an intruder comes at one of its steps.
pub fn play(
    operation: Operation,
    means: &str,
    kind: Kind,
    intrusion: Option<(usize, Intruder)>,
) -> (Course, Option<Visit>) {
    let scene = Scene::new();
    prepare(operation, kind, &scene);
    let mut actor = Actor::start(&scene, operation, means, kind);
    let (mut course, mut visit) = (Course::default(), None);
    course.answer = loop {
        let step = match actor.next() {
            Said::At(step) => step,
            Said::Done(answer) => break answer,
        };
        let is_met = operation == Operation::RemovalThatGivesWay && step == "JudgedAgain";
        if is_met && !course.steps.contains(&step) {
            claim_by_rename(&scene, kind, "first");
        }
        course.steps.push(step.clone());
        if let Some((at, intruder)) = intrusion
            && course.steps.len() == at + 1
        {
            course.came_at = step;
            visit = Some(Visit::of(intruder, kind, &scene));
            if intruder == Intruder::Crash {
                actor.kill();
                break String::new();
            }
        }
        actor.go_on();
    };
    if let Some(visit) = &mut visit {
        visit.ends(&scene);
    }
    let has_crashed = course.answer.is_empty();
    course.standing = standing(
        &scene,
        kind,
        if has_crashed {
            Checker::Program
        } else {
            Checker::Library
        },
    );
    course.ran = ran(scene.path());
    course.next_claim = has_crashed.then(|| {
        kind.run(&scene, &["hold", "-q", "--no-wait", "--", "true"])
            .code
    });
    let broken = format!("{}.broken-", kind.name());
    let is_kept = |name: &String| name == "issues.jsonl" || name.starts_with(&broken);
    course.left = scene.names();
    course.left.retain(|name| !is_kept(name));
    (course, visit)
}
