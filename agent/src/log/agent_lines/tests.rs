use super::*;
use crate::cycle_end::CycleEnd;
use crate::database::Streak;
use crate::state::StateWord;
use beadlock_core::audit::{Audit, AuditEntry, Author};
use beadlock_core::database::DatabaseVariables;
use beadlock_core::decision::{NotChanged, NotChecked};
use beadlock_core::record::{Rejected, beads};
use beadlock_core::unread::Unread;
use beadlock_core::{Proceed, Removed, Skip, Watched};
use beadlock_supervise::runner::RunEnd;
use tokio::time::Instant;

/// One of each kind of line that the agent can write.
fn all() -> Vec<AgentLine> {
    let record = || Box::new(Record::from(beads::Record::new("vc", "1").unwrap()));
    let skip = |skip| Decision::Skip(skip);
    let check_failed = |why: NotChecked| skip(why.into());
    let removed = Removed {
        record: record(),
        reason: Reason::PidGone,
        why: String::new(),
        watched: Watched::ByLease,
        bytes: Vec::new(),
    };
    let took = Duration::from_secs(1);
    let ended = |how| CycleEnd::Failed { how, took };
    let mut lines = vec![
        begun(),
        fault(),
        no_database("x"),
        no_gate("x"),
        cannot_watch("x"),
    ];
    lines.extend([
        header(),
        started(),
        stopped(),
        ending("SIGTERM", 0),
        ending("SIGINT", 2),
    ]);
    lines.push(removed_stale(&Decision::Proceed(Proceed::RemovedStale(
        removed,
    ))));
    let ends = [
        CycleEnd::Complete,
        ended(RunEnd::Exit(3)),
        ended(RunEnd::Signal(9)),
        ended(RunEnd::NotStarted("x".to_owned())),
        ended(RunEnd::TimedOut),
        CycleEnd::TimedOut { after: took },
        CycleEnd::RunnerLost { ended: 2 },
    ];
    lines.extend(ends.iter().map(super::ended));
    let mut streak = Streak::default();
    let skips = [
        skip(Skip::Locked(record(), Reason::PidAlive)),
        skip(Skip::InProgress),
        check_failed(NotChecked::Rejected(Rejected::Malformed("x".to_owned()))),
        check_failed(NotChecked::Rejected(Rejected::Invalid("x".to_owned()))),
        check_failed(NotChecked::Unread(Unread::Leased)),
        check_failed(NotChecked::NotRemoved(NotChanged::NoGate)),
    ];
    lines.extend(
        skips
            .iter()
            .flat_map(|skip| streak.skipped(skip, Instant::now(), took, |_| None)),
    );
    lines.extend(streak.resumed(Instant::now()));
    lines.extend(
        skips
            .iter()
            .map(|skip| still_skipping(skip, took, Path::new("/x"))),
    );
    lines.push(listening(&Address::Unix("/x".into())));
    lines.push(served_by(&this_agent()));
    // No directory to write it in: the audit trail says so in the log.
    let root = tempfile::tempdir().unwrap();
    let (dir, path) = (root.path().join("gone"), Path::new("/l"));
    std::fs::create_dir(&dir).unwrap();
    let audit = Audit::open(&dir.join("audit"), Author::new("x", "1")).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    for event in [AuditEvent::LockBlocked, AuditEvent::LockStaleRemoved] {
        let failed = audit
            .write(&AuditEntry::new(event, "1", "beads:.beads", path))
            .unwrap_err();
        lines.push(not_audited(event, &failed));
    }
    let path = Path::new("/x");
    lines.extend([
        reloaded([3, 1, 1, 0], &["audit file"]),
        not_reloaded("x"),
        found(path),
        gone(path),
    ]);
    lines.push(others_gone(2));
    lines.extend([
        joined_fleet("etcd://h:1/p"),
        lost_fleet("the session is gone: x"),
    ]);
    let database = Database::named(root.path(), &DatabaseVariables::default()).unwrap();
    lines.push(redirected(&database, path));
    lines.extend([
        not_serving(path, "x"),
        nothing_served(&[path.into()]),
        cannot_look(path, "x"),
    ]);
    let git = [
        "Committed 3 files (1a2b3c4)",
        "Pulled 2 commits from origin/main (1a2b3c4..5d6e7f8)",
        "Merged 3 records in .beads/issues.jsonl; by updated_at: bd-7 title",
        "Notice: a program still writes to .beads/issues.jsonl as it was before the pull; restart it",
        "Not writing its own names to .git/info/exclude: it is a link, or not a file",
        "Tracked secret: .beads/token",
        "Pushed 1 commit to origin/main (1a2b3c4..5d6e7f8)",
        "Not committing: x, a git repository of its own",
        "Not writing its own names to /r/.git/info/exclude: it belongs to another user",
        "Tracked secret: .beads/x.key; change the secret",
        "Not pulling: uncommitted changes outside .beads (x)",
        "Not pushing: 2 commits that are not ours",
        "Nothing to sync: /r/.beads is in no git repository",
        "Only committing: there is no remote",
        "Cannot reach origin: x; committing only, next try in 10s",
        "Cannot push to origin: x; committing only, next try in 10s",
        "Push refused by origin: x; committing only, next try in 10s",
        "Reached it again after 3m",
        "Sync cycle incomplete: origin cannot be reached: x; 3 commits wait",
    ];
    lines.extend(git.map(|text| {
        let (event, rest) = Event::parse(text);
        of_sync(event.line(rest))
    }));
    let at = StartedAt::from_unix(0, 0);
    lines.extend(StateWord::ALL.map(|word| state(word.event(), at, " since 1970-01-01 00:00:00")));
    lines
}

#[test]
fn the_agent_writes_every_line_of_the_table_and_no_other() {
    let lines = all();
    for event in Event::all().filter(|event| *event != Event::Output) {
        assert!(lines.iter().any(|line| line.event == event), "{event:?}");
    }
    for line in lines {
        assert_eq!(Event::parse(&line.message).0, line.event, "{line:?}");
    }
}

#[test]
fn a_line_about_a_lock_says_whose_it_is() {
    let record = beads::Record {
        holder: "a\u{1b}b".to_owned(),
        ..beads::Record::new("x", "1").unwrap()
    };
    let (pid, host) = (Some(record.pid), Some(record.hostname.clone()));
    let since = Some(record.started_at.to_string());
    let record = Box::new(Record::from(record));
    let skip = Decision::Skip(Skip::Locked(record.clone(), Reason::PidAlive));
    let removed = Removed {
        record: record.clone(),
        reason: Reason::PidGone,
        why: String::new(),
        watched: Watched::ByLease,
        bytes: Vec::new(),
    };
    let removed = Decision::Proceed(Proceed::RemovedStale(removed));
    let about = [
        (skipped(&skip), "pid_alive"),
        (held(&record, Reason::PidAlive, None), "pid_alive"),
        (removed_stale(&removed), "pid_gone"),
    ];
    for (line, reason) in about {
        assert_eq!(
            line.lock.holder.as_deref(),
            Some("a\u{1b}b"),
            "as the file has it"
        );
        assert_eq!(
            (line.lock.pid, &line.lock.host, &line.lock.since),
            (pid, &host, &since),
            "{line:?}"
        );
        assert_eq!(line.lock.reason, Some(reason));
    }
    let busy = skipped(&Decision::Skip(Skip::InProgress));
    assert_eq!(
        (busy.lock.reason, busy.lock.holder, busy.lock.pid),
        (Some("gate_busy"), None, None)
    );
}

#[test]
fn what_could_be_taken_for_the_agents_is_marked() {
    for line in all().into_iter().map(|line| line.message) {
        assert_eq!(output(&line).message, format!("| {line}"));
        for name in ["/srv/other/.beads", "a: b", ""] {
            let forged = format!("{name}: {line}");
            assert_eq!(output(&forged).message, format!("| {forged}"));
        }
    }
    assert_eq!(
        output("| Sync cycle complete").message,
        "| | Sync cycle complete"
    );
    assert_eq!(output("| x").message, "| | x");
}

#[test]
fn what_could_not_stays_as_it_is() {
    for line in [
        "",
        "|",
        "|x",
        " | x",
        "one",
        "exported 3 issues: done",
        "error: no such file",
        "sync cycle complete",
        " Sync cycle complete",
        "the Sync cycle complete",
        "x:Skipping database (locked by bob)",
        "Skipping",
        "é: Skip",
    ] {
        assert_eq!(output(line).message, line);
    }
}
