//! The work of `--action git`: what is left to do, a turn among those that fetch, the sync's process, and its result.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use beadlock_checker::Cycle;
use beadlock_checker::internal::facts;
use beadlock_git::{
    FetchPace, FetchTurn, HindranceKind, Network, Snapshot, Subjects, SyncHistory, SyncMessage,
    SyncPlan, SyncReport, SyncRequest, SyncResult, guess_host,
};
use beadlock_trust::Owners;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::{CycleServices, CycleWork, Subject, execute, timeout_of};
use crate::command::{CommandLine, End};
use crate::database::LoggedState;
use crate::fleet::Right;
use crate::log::{self, own};

/// What a sync has to do, as far as that can be told without git.
pub(super) fn plan(
    services: &CycleServices,
    subject: &Subject,
    told: &mut LoggedState,
) -> SyncPlan {
    let Subject {
        database,
        policy,
        common,
        ..
    } = subject;
    let now = Instant::now();
    let is_skipped = told.streak.running().is_some();
    let git = told.git();
    git.heed(services.fetch_requests.load(Ordering::Relaxed), now);
    if is_skipped {
        git.hurry();
    }
    let time = Duration::try_from(facts::now().0).unwrap_or_default();
    let seen = git.known().and_then(|repository| {
        let (database, own_files) = (database.dir.as_path(), common.own_files.as_slice());
        let settings = [policy.allow_worktree, common.owners == Owners::All];
        Snapshot::take(
            &Subjects {
                database,
                own_files,
                repository,
                settings,
            },
            time,
        )
    });
    git.plan(seen, now)
}

/// One sync through git.
#[expect(clippy::too_many_lines, reason = "the steps of a sync, in their order")]
pub(super) async fn sync(
    services: &Arc<CycleServices>,
    subject: &Subject,
    told: &mut SyncHistory,
    (cycle, right): (&Cycle, Option<&Right>),
) -> CycleWork {
    if let Some(error) = cycle.no_gate() {
        let why = format!("without a gate two syncs could meet in one repository: {error}");
        return CycleWork::without_runner(End::Refused(why));
    }
    let Subject {
        number,
        database,
        policy,
        common,
    } = subject;
    let (mut network, plan) = (
        told.network(Instant::now()),
        told.plan_again(Instant::now()),
    );
    let turn = match network {
        Network::Use | Network::UseQuietly => fetch_turn(services, subject, told).await,
        Network::Push | Network::Leave => None,
    };
    if turn.is_none() && network == Network::Use {
        // Others fetch from there; the next cycle tries again.
        if let SyncPlan::Fetch(_) = plan
            && let Some(result) = told.without_fetch()
        {
            return CycleWork::of(&result, None);
        }
        network = Network::Push;
    }
    let request = SyncRequest {
        dir: database.dir.clone(),
        allow_worktree: policy.allow_worktree,
        any_owner: common.owners == Owners::All,
        network,
        timeout: timeout_of(subject, right),
        own_files: common.own_files.clone(),
        looked: told.looked.clone(),
        only_fetch: matches!(plan, SyncPlan::Fetch(_)),
        contents: told.looks_at_contents(),
        is_once: common.is_once,
        known: match plan {
            SyncPlan::Fetch(known) => Some(*known),
            _ => told.same_setup().cloned(),
        },
        is_timed: tracing::enabled!(tracing::Level::DEBUG),
        begun: None,
    };
    let mut messages = Vec::new();
    let on_line = |line: &str| match SyncMessage::parse(line) {
        SyncMessage::Output(text) => log::output(*number, &text),
        SyncMessage::Committed(text) | SyncMessage::Pulled(text) | SyncMessage::Pushed(text) => {
            log::line(*number, own::worded(text));
        }
        SyncMessage::Step { name, millis } => {
            tracing::debug!(step = name, took = ?Duration::from_millis(millis), "git")
        }
        message => messages.push(message),
    };
    let command = match command_of(&request) {
        Ok(command) => command,
        Err(error) => return CycleWork::without_runner(End::Refused(error.to_string())),
    };
    let CycleWork { end, runner, .. } =
        execute(services, subject, command, (cycle, right), on_line).await;
    drop(turn);
    let now = Instant::now();
    for line in told.hear(network, &messages, now) {
        log::line(*number, own::worded(line));
    }
    if end == End::Complete && messages.contains(&SyncMessage::Done) {
        return CycleWork::of(&told.ended(network, messages, now, pace(subject)), runner);
    }
    told.lost();
    let end = match end {
        End::Complete => {
            End::Refused("it ended without a last word; what it said is above".to_owned())
        }
        end => end,
    };
    CycleWork {
        end,
        runner,
        report: None,
    }
}

/// The process of a sync, and the pipe out of which it reads its request.
fn command_of(request: &SyncRequest) -> io::Result<CommandLine> {
    let (reader, mut writer) = io::pipe()?;
    let text = request.text();
    // More than the pipe holds waits for the reader. It fails once nobody can read any more.
    spawn_blocking(move || writer.write_all(&text));
    Ok(CommandLine {
        words: request.command(reader.as_fd()),
        input: Some(reader.into()),
    })
}

/// How often the remote of a database is asked.
fn pace(Subject { number, policy, .. }: &Subject) -> FetchPace {
    FetchPace {
        interval: policy.interval,
        fetch_interval: policy.fetch_interval,
        number: *number,
    }
}

/// A turn among those that fetch. The first fetch waits for it: until then nothing is known of the remote.
async fn fetch_turn(
    services: &CycleServices,
    subject: &Subject,
    told: &SyncHistory,
) -> Option<FetchTurn> {
    let Subject {
        database, common, ..
    } = subject;
    let host = match told.known() {
        Some(known) => known.host(),
        None => guess_host(&database.dir),
    };
    let most = common.fetch_jobs;
    match told.is_new() {
        true => Some(services.fetches.enter(host.as_deref(), most).await),
        false => services.fetches.try_enter(host.as_deref(), most),
    }
}

/// How a sync with this result has ended.
pub(super) fn end_of(
    SyncResult {
        report, refused, ..
    }: &SyncResult,
) -> End {
    let Some(hindrance) = &report.hindrance else {
        return End::Complete;
    };
    if hindrance.kind == HindranceKind::Failed {
        let next = || {
            hindrance
                .next
                .as_ref()
                .map(|next| format!("; type: {next}"))
                .unwrap_or_default()
        };
        return End::Refused(
            refused
                .clone()
                .unwrap_or_else(|| format!("{}{}", hindrance.why, next())),
        );
    }
    // A command to type ends the sync's own line.
    End::Incomplete(
        refused
            .clone()
            .unwrap_or_else(|| waiting(report, &hindrance.why)),
    )
}

/// A reason, and how many commits wait for it to end.
fn waiting(report: &SyncReport, why: &str) -> String {
    match report.unpushed.commits {
        0 => why.to_owned(),
        1 => format!("{why}; 1 commit waits"),
        commits => format!("{why}; {commits} commits wait"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_git::{GitReason, Hindrance, Unpushed};

    #[test]
    fn only_a_sync_without_a_hindrance_is_complete() {
        let report = |kind: HindranceKind, commits: u64, next: Option<&str>| {
            let (reason, why, next) = (
                GitReason::Conflict,
                "why".to_owned(),
                next.map(str::to_owned),
            );
            let hindrance = Some(Hindrance {
                kind,
                reason,
                why,
                next,
            });
            SyncReport {
                unpushed: Unpushed {
                    commits,
                    oldest: None,
                },
                hindrance,
                ..SyncReport::default()
            }
        };
        let end = |report: SyncReport, refused: Option<&str>| {
            let refused = refused.map(str::to_owned);
            end_of(&SyncResult { report, refused }).to_string()
        };
        assert_eq!(end_of(&SyncResult::default()), End::Complete);
        for kind in [
            HindranceKind::NotPushing,
            HindranceKind::NotPulling,
            HindranceKind::Unreachable,
        ] {
            assert_eq!(
                end(report(kind, 0, Some("x")), None),
                "Sync cycle incomplete: why"
            );
            assert_eq!(
                end(report(kind, 1, None), None),
                "Sync cycle incomplete: why; 1 commit waits"
            );
            assert_eq!(
                end(report(kind, 3, None), Some("line")),
                "Sync cycle incomplete: line"
            );
        }
        let failed = |next| report(HindranceKind::Failed, 3, next);
        assert_eq!(end(failed(None), None), "Sync cycle failed: why");
        assert_eq!(
            end(failed(Some("git pull")), None),
            "Sync cycle failed: why; type: git pull"
        );
        assert_eq!(
            end(failed(Some("git pull")), Some("line")),
            "Sync cycle failed: line"
        );
    }
}
