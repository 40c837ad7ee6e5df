//! The power fails: a lock is whole or not there. What shows it is the order of the calls: the record is written, then
//! synced, and only then linked.

use std::fs;

use beadlock_tests::{Ended, Scene, run, tool};

const CALLS: &str = "trace=openat,write,pwrite64,fsync,fdatasync,sync,syncfs,linkat";

/// The calls that have succeeded, each with its process: `PID CALL(…) = RESULT`.
pub fn calls(trace: &str) -> Vec<(&str, String)> {
    let mut calls: Vec<(&str, String)> = Vec::new();
    for line in trace.lines() {
        let Some((pid, call)) = line.trim_start().split_once(char::is_whitespace) else {
            continue;
        };
        let call = call.trim_start();
        match call.split_once(" resumed>") {
            // Somebody else's came in between: the rest of the one that this process had begun.
            Some((_, rest)) if call.starts_with("<...") => {
                let mut begun = calls.iter_mut().rev();
                if let Some((_, begun)) =
                    begun.find(|(who, call)| *who == pid && !call.contains(" = "))
                {
                    begun.push_str(rest);
                }
            }
            _ => calls.push((
                pid,
                call.trim_end_matches("<unfinished ...>")
                    .trim_end()
                    .to_owned(),
            )),
        }
    }
    calls.retain(|(_, call)| call.contains(" = ") && !call.contains(" = -1 "));
    calls
}

/// Nothing when each link is of a record that was written and synced before, and nothing else is synced; else why not.
fn broken_order(trace: &str) -> Option<String> {
    let calls = calls(trace);
    let links: Vec<usize> = (0..calls.len())
        .filter(|at| calls[*at].1.starts_with("linkat("))
        .collect();
    let syncs = calls
        .iter()
        .filter(|(_, call)| call.contains("sync(") || call.starts_with("syncfs("));
    let why = match syncs.count() {
        _ if links.is_empty() => Some("no lock is linked".to_owned()),
        // A lock that vanishes with the power is right: its holder died too. So the directory is not synced.
        syncs if syncs > links.len() => Some(format!("{syncs} syncs for {} locks", links.len())),
        _ => None,
    };
    why.or_else(|| links.into_iter().find_map(|link| broken_link(&calls, link)))
}

fn broken_link(calls: &[(&str, String)], link: usize) -> Option<String> {
    let (pid, linked) = &calls[link];
    let words = linked
        .trim_start_matches("linkat(")
        .split(", ")
        .collect::<Vec<_>>();
    let file = match words[0] {
        "AT_FDCWD" => words[1]
            .trim_matches('"')
            .trim_start_matches("/proc/self/fd/"),
        file => file,
    };
    // From the link backwards: the same number may have been another file's before.
    let before = calls[..link]
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, (who, _))| who == pid);
    let last = |starts: &[String]| {
        let is_one = |call: &str| starts.iter().any(|start| call.starts_with(start));
        before
            .clone()
            .find(|(_, (_, call))| is_one(call))
            .map(|(at, _)| at)
    };
    let made = before
        .clone()
        .find(|(_, (_, call))| call.starts_with("openat(") && call.ends_with(&format!("= {file}")));
    let written = last(&[format!("write({file}, "), format!("pwrite64({file}, ")]);
    let synced = last(&[format!("fdatasync({file})"), format!("fsync({file})")]);
    match (made, written, synced) {
        (Some((made, _)), Some(written), Some(synced)) if made < written && written < synced => {
            None
        }
        (None, ..) => Some(format!("where is {file} from: {linked}")),
        (_, None, _) => Some(format!("nothing is written to {file}: {linked}")),
        (.., None) => Some(format!("{file} is not synced: {linked}")),
        _ => Some(format!(
            "{file} is written after its sync, or before it is made: {linked}"
        )),
    }
}

/// The trace of this command, which claims.
#[track_caller]
fn trace_of(words: &[&str]) -> Option<String> {
    let strace = tool("strace")?;
    let scene = Scene::new();
    scene.write_stale_lock("long gone");
    let mut command = scene.command(strace);
    command
        .args(["-f", "-o", "trace", "-e", CALLS])
        .arg(beadlock_tests::binaries::beadlock())
        .args(words);
    let ended = Ended::from(run(command));
    assert_eq!(ended.code, 0, "{ended:?}");
    Some(fs::read_to_string(scene.path().join("trace")).expect("a trace"))
}

#[test]
fn what_is_linked_was_written_and_synced_before() {
    let me = std::process::id().to_string();
    for words in [
        &["hold", "-q", "--", "true"][..],
        &["hold", "-q", "lock:here.lock", "--", "true"],
        &["acquire", "-q", "--for", &me],
        &["acquire", "-q", "--for", &me, "lock:here.lock"],
    ] {
        let Some(trace) = trace_of(words) else { return };
        assert_eq!(broken_order(&trace), None, "{words:?}: {trace}");
    }
}

/// The control: an order that loses a lock, or syncs what needs no sync, is seen as such.
#[test]
fn a_wrong_order_is_seen() {
    let made = "7 openat(5, \".\", O_WRONLY|O_CLOEXEC|O_TMPFILE, 0644) = 6";
    let (write, sync) = ("7 write(6, \"{\\n\", 200) = 200", "7 fdatasync(6) = 0");
    let link = "7 linkat(6, \"\", 5, \".exclusive-lock\", AT_EMPTY_PATH) = 0";
    let right = [made, write, sync, link];
    assert_eq!(broken_order(&right.join("\n")), None);
    let halves = [
        "7 fdatasync(6 <unfinished ...>",
        "8 write(1, \"\", 1) = 1",
        "7 <... fdatasync resumed>) = 0",
    ];
    assert_eq!(
        broken_order(&[&[made, write], &halves[..], &[link]].concat().join("\n")),
        None
    );
    let other_sync = "8 fdatasync(6) = 0";
    let failed = "7 fdatasync(6) = -1 EIO (Input/output error)";
    for (wrong, why) in [
        (vec![made, sync, write, link], "written after its sync"),
        (vec![made, write, link, sync], "is not synced"),
        (vec![made, write, link], "is not synced"),
        (vec![made, write, failed, link], "is not synced"),
        (vec![made, write, other_sync, link], "is not synced"),
        (vec![made, sync, link], "nothing is written"),
        (vec![write, sync, link], "where is 6 from"),
        (
            vec![made, write, sync, link, "7 fsync(5) = 0"],
            "2 syncs for 1 lock",
        ),
        (vec![made, write, sync], "no lock is linked"),
    ] {
        let found = broken_order(&wrong.join("\n"));
        assert!(
            found.as_ref().is_some_and(|found| found.contains(why)),
            "{wrong:?}: {found:?}, not {why}"
        );
    }
}
