//! The upkeep of a repository ([`Upkeep`]), beside the cycles: a process that holds no gate, and is ended when its
//! database is claimed. One at a time.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use beadlock_base::{children::starting, sys};
use beadlock_git::{SyncRequest, Upkeep};
use beadlock_supervise::runner;
use beadlock_supervise::tree_ending::{Asks, Ending, Group, end_all};
use beadlock_trust::Owners;
use nix::unistd::Pid;

use super::Subject;

/// How long all of it may take.
const BOUND: Duration = Duration::from_secs(1200);
/// How long a process that was told to end may take to.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether it has ended, or is to end.
const LOOK: Duration = Duration::from_millis(200);

/// An upkeep that was started.
#[must_use = "dropped, it is ended"]
#[derive(Debug)]
pub(crate) struct RunningUpkeep {
    /// The database that it is for.
    pub(crate) number: usize,
    is_to_end: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
}

impl RunningUpkeep {
    /// Starts it; `None` where it cannot be started.
    pub(crate) fn start(subject: &Subject, upkeep: Upkeep) -> Option<Self> {
        let request = SyncRequest {
            allow_worktree: subject.policy.allow_worktree,
            any_owner: subject.common.owners == Owners::All,
            ..SyncRequest::to_tidy(subject.database.dir.clone(), upkeep, BOUND)
        };
        let (reader, mut writer) = io::pipe().ok()?;
        // It is short: a pipe holds it.
        writer.write_all(&request.text()).ok()?;
        drop(writer);
        let mut command = Command::new(runner::THIS);
        command
            // From there a sync looks for the repository.
            .current_dir(subject.database.dir.parent()?)
            .args(request.command(reader.as_fd()).into_iter().skip(1))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let flags = <[Arc<AtomicBool>; 2]>::default();
        let [is_to_end, has_ended] = flags.clone();
        thread::Builder::new()
            .name("upkeep".to_owned())
            .spawn(move || {
                // It ends with this thread, also when the agent is killed.
                sys::end_with_this_thread(&mut command);
                sys::inherit(&mut command, reader.into());
                if let Ok((child, _kept)) = starting(|| command.spawn(), Child::id) {
                    watch(child, &is_to_end);
                }
                has_ended.store(true, Ordering::Relaxed);
            })
            .ok()?;
        let [is_to_end, has_ended] = flags;
        Some(Self {
            number: subject.number,
            is_to_end,
            has_ended,
        })
    }

    /// Whether its process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

impl Drop for RunningUpkeep {
    fn drop(&mut self) {
        self.is_to_end.store(true, Ordering::Relaxed);
    }
}

/// Waits for its end, which comes soon when it is told to end.
fn watch(mut child: Child, is_to_end: &AtomicBool) {
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if is_to_end.load(Ordering::Relaxed) || begun.elapsed() > BOUND {
            let mut group = Group(Pid::from_raw(child.id().cast_signed()));
            // Where `/proc` is another namespace's, the dead leader keeps its group known until it is reaped below.
            let ending = Ending::new(Asks::Present, GRACE, Instant::now()).giving_up_after(GRACE);
            end_all(&mut group, ending);
            let _ = child.wait();
            return;
        }
        thread::sleep(LOOK);
    }
}
