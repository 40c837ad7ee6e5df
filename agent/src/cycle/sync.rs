//! The work of `--action git`: what is left to do, a turn among those that fetch, the sync's process, and its result.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use beadlock_core::Cycle;
use beadlock_core::facts;
use beadlock_git::{
    Asking, FetchPace, FetchTurn, HindranceKind, Network, Snapshot, Subjects, SyncHistory,
    SyncMessage, SyncPlan, SyncReport, SyncRequest, SyncResult, SyncTimes, guess_host,
    is_of_network, next_try,
};
use beadlock_trust::Owners;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::{CycleServices, CycleWork, Subject, execute, timeout_of};
use crate::command::CycleCommand;
use crate::cycle_end::CycleEnd;
use crate::database::LoggedState;
use crate::fleet::Right;
use crate::log::{self, agent_lines};

/// How soon a database comes again while another one fetches from its host.
const IN_TURN: Duration = Duration::from_secs(2);

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
    git.awake(facts::boottime(), now);
    git.heed(services.fetch_requests.load(Ordering::Relaxed), now);
    if is_skipped {
        git.hurry(now);
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
    (cycle, right): (&Cycle, Option<&dyn Right>),
) -> CycleWork {
    if let Some(error) = cycle.no_gate() {
        let why = format!("without a gate two syncs could meet in one repository: {error}");
        return CycleWork::without_runner(CycleEnd::Refused(why));
    }
    let Subject {
        number,
        database,
        policy,
        common,
    } = subject;
    let begun = Instant::now();
    let plan = told.plan_again(begun);
    let host = host(subject, told);
    let (network, turn) = network(services, subject, told, (host.as_deref(), &plan)).await;
    // Others fetch from there.
    if let SyncPlan::Fetch(_) = plan
        && turn.is_none()
        && let Some(result) = told.without_fetch(begun)
    {
        return CycleWork::of(&result, None);
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
        upkeep: None,
        known: match plan {
            SyncPlan::Fetch(known) => Some(*known),
            _ => told.same_setup().cloned(),
        },
        is_timed: tracing::enabled!(tracing::Level::DEBUG),
        entered: Vec::new(),
        begun: None,
    };
    let wall = wall();
    let of_network = host.as_deref().filter(|host| is_of_network(host));
    let mut messages = Vec::new();
    let on_line = |line: &str| match SyncMessage::parse(line) {
        SyncMessage::Asks(asking) => {
            if let Some(host) = of_network {
                services.hosts.asked(host, asking, Instant::now());
            }
        }
        SyncMessage::HostRefuses(refusal) => {
            if let Some(host) = of_network {
                services.hosts.refuses(host, refusal, Instant::now());
            }
            messages.push(SyncMessage::HostRefuses(refusal));
        }
        SyncMessage::Reached => {
            if let Some(host) = of_network {
                services.hosts.answers(host);
            }
            messages.push(SyncMessage::Reached);
        }
        SyncMessage::Output(text) => log::output(*number, &text),
        SyncMessage::Committed(line) | SyncMessage::Pulled(line) | SyncMessage::Pushed(line) => {
            log::line(*number, agent_lines::of_sync(line));
        }
        SyncMessage::Step { name, millis } => {
            tracing::debug!(step = name, took = ?Duration::from_millis(millis), "git")
        }
        message => messages.push(message),
    };
    let command = match command_of(&request) {
        Ok(command) => command,
        Err(error) => return CycleWork::without_runner(CycleEnd::Refused(error.to_string())),
    };
    let CycleWork { end, runner, .. } =
        execute(services, subject, command, (cycle, right), on_line).await;
    drop(turn);
    let now = Instant::now();
    for line in told.hear(network, &messages, now) {
        log::line(*number, agent_lines::of_sync(line));
    }
    if end == CycleEnd::Complete && messages.contains(&SyncMessage::Done) {
        let times = SyncTimes {
            wall: (wall, self::wall()),
            ended: now,
        };
        let pace = pace(services, subject, of_network);
        let result = told.ended(network, messages, times, pace);
        if let Some(notice) = told.take_notice() {
            log::line(*number, agent_lines::of_sync(notice));
        }
        return CycleWork::of(&result, runner);
    }
    told.lost();
    let end = match end {
        CycleEnd::Complete => {
            CycleEnd::Refused("it ended without a last word; what it said is above".to_owned())
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
fn command_of(request: &SyncRequest) -> io::Result<CycleCommand> {
    let (reader, mut writer) = io::pipe()?;
    let text = request.text();
    // More than the pipe holds waits for the reader. It fails once nobody can read any more.
    spawn_blocking(move || writer.write_all(&text));
    Ok(CycleCommand {
        words: request.command(reader.as_fd()),
        input: Some(reader.into()),
    })
}

/// The time since 1970, as files have it.
fn wall() -> Duration {
    Duration::try_from(facts::now().0).unwrap_or_default()
}

/// How often the remote of a database is asked; `host` is one of the network.
fn pace(services: &CycleServices, subject: &Subject, host: Option<&str>) -> FetchPace {
    let Subject { number, policy, .. } = subject;
    let now = Instant::now();
    FetchPace {
        interval: policy.interval,
        fetch_interval: policy.fetch_interval,
        number: *number,
        seed: services.seed,
        doublings: host.map_or(0, |host| services.hosts.doublings(host, now)),
    }
}

/// The host of the remote, or the path where it lies.
fn host(subject: &Subject, told: &SyncHistory) -> Option<String> {
    match told.known() {
        Some(known) => known.host(),
        None => guess_host(&subject.database.dir),
    }
}

/// What a sync may ask of the remote, and its turn among those that fetch.
async fn network(
    services: &CycleServices,
    subject: &Subject,
    told: &mut SyncHistory,
    (host, plan): (Option<&str>, &SyncPlan),
) -> (Network, Option<FetchTurn>) {
    let Subject {
        number,
        policy,
        common,
        ..
    } = subject;
    let now = Instant::now();
    let mut network = told.network(now);
    let mut turn = None;
    let limited = host.filter(|host| !common.is_once && is_of_network(host));
    if matches!(network, Network::Use | Network::UseQuietly) {
        let most = common.fetch_jobs;
        turn = match told.is_new() {
            // The first fetch waits for its turn: until then nothing is known of the remote.
            true => Some(services.fetches.enter(host, most).await),
            false => services.fetches.try_enter(host, most),
        };
        // A configured interval is kept.
        let limited = limited.filter(|_| policy.fetch_interval.is_none());
        let asked = limited.map(|host| match turn {
            Some(_) => services.hosts.may_ask(host, Asking::Fetch, *number, now),
            None => Err(now + IN_TURN),
        });
        if let Some(Err(at)) = asked {
            turn = None;
            told.wait_for_fetch(at, now);
            network = told.network(now);
        } else if turn.is_none() {
            told.is_in_turn(now);
        }
    }
    if turn.is_none() && network == Network::Use {
        network = Network::Push;
    }
    if network != Network::Leave
        && !matches!(plan, SyncPlan::Fetch(_))
        && let Some(host) = limited
        && let Err(at) = services.hosts.may_ask(host, Asking::Push, *number, now)
    {
        told.wait_for_push(at);
        (network, turn) = (Network::Leave, None);
    }
    (network, turn)
}

/// How a sync with this result has ended.
pub(super) fn end_of(
    SyncResult {
        report,
        refused,
        next_try: wait,
    }: &SyncResult,
) -> CycleEnd {
    let Some(hindrance) = &report.hindrance else {
        return CycleEnd::Complete;
    };
    if hindrance.kind == HindranceKind::Failed {
        let next = || {
            hindrance
                .next
                .as_ref()
                .map(|next| format!("; type: {next}"))
                .unwrap_or_default()
        };
        return CycleEnd::Refused(
            refused
                .clone()
                .unwrap_or_else(|| format!("{}{}", hindrance.why, next())),
        );
    }
    // A command to type ends the sync's own line.
    let line = refused
        .clone()
        .unwrap_or_else(|| waiting(report, &hindrance.why));
    CycleEnd::Incomplete(match wait {
        Some(wait) => format!("{line}; {}", next_try(*wait)),
        None => line,
    })
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
            let next_try = None;
            end_of(&SyncResult {
                report,
                refused,
                next_try,
            })
            .to_string()
        };
        assert_eq!(end_of(&SyncResult::default()), CycleEnd::Complete);
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
