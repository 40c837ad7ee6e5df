//! What comes and goes while an agent runs: a redirect, a root, a remote, an audit trail.

use std::os::unix::fs::symlink;

use beadlock_tests::{dead_pid, this_host, tool, until};
use nix::sys::signal::Signal;

use super::git::{Repositories, shown_with_commits};
use super::running::{Agent, COMPLETE, LOG};
use super::{at_once, pin_all, sections, shown};
use crate::setting::{Setting, old_lock};

const ALL: &str = "all.log";

/// What is played, to its end: the text to pin.
type Play = fn() -> String;

#[test]
fn moves() {
    let Some(_) = tool("git") else { return };
    let rows: [(&str, Play); 5] = [
        ("contract-redirect", redirect),
        ("contract-root", root),
        ("contract-remote", remote),
        ("contract-audit-trail", audit_trail),
        ("contract-interrupted", interrupted),
    ];
    pin_all(
        "agent/moves",
        rows.iter().map(|(name, _)| *name),
        &at_once(&rows, |(_, play)| play()),
    );
}

/// Each directory has a log of its own here: in one for all, a line has no fixed name in front while the other comes.
fn redirect() -> String {
    const LOGS: [&str; 2] = ["one/.beads/daemon.log", "two/.beads/daemon.log"];
    let setting = Setting::free();
    setting.scene.database("one");
    setting.scene.database("two");
    setting.scene.write(".beads/redirect", "one/.beads\n");
    let agent = Agent::start(
        setting,
        "beadlock-agent --interval 1h --debounce 1ms --action none",
        LOGS[0],
        COMPLETE,
    );
    agent.put(".beads/redirect", "nowhere/.beads\n");
    agent.after(
        |agent| agent.put("one/.beads/issues.jsonl", "{}\n"),
        "State: not_serving",
    );
    agent.put(".beads/redirect", "two/.beads\n");
    agent.fetch();
    agent.says_in(LOGS[1], COMPLETE, 1);
    let (text, setting) = agent.stop(&LOGS);
    shown(&text, &setting.known)
}

fn root() -> String {
    const BELOW: &str = "tree/shop/.beads/daemon.log";
    let setting = Setting::free();
    setting.scene.database("tree/shop");
    let line = "beadlock-agent --interval 1h --no-watch --action none --db .beads --root tree";
    let agent = Agent::start(setting, line, LOG, COMPLETE);
    agent.says_in(BELOW, COMPLETE, 1);
    agent.moves("tree", "away");
    agent.after(Agent::reload, "Cannot look below ");
    agent.moves("away", "tree");
    agent.after(Agent::reload, "Configuration reloaded: ");
    agent.says_in(BELOW, COMPLETE, 2);
    let (text, setting) = agent.stop(&[LOG, BELOW]);
    shown(&text, &setting.known)
}

fn remote() -> String {
    let setting = Repositories::make().after("");
    let agent = Agent::start(
        setting,
        "beadlock-agent --interval 1h --no-watch --db here/.beads --log-file all.log",
        ALL,
        "State: synced",
    );
    agent.moves("remote.git", "away.git");
    agent.put("here/.beads/issues.jsonl", "{}\n");
    agent.after(Agent::fetch, "State: local_only");
    agent.moves("away.git", "remote.git");
    agent.after(Agent::fetch, "State: synced");
    let (text, setting) = agent.stop(&[ALL]);
    shown_with_commits(&text, &setting)
}

/// A link takes the place of the trail: it is not written any more, and the work goes on. The trail is written beside
/// the cycles, so its lines have no fixed place among theirs.
fn audit_trail() -> String {
    let mut setting = Setting::free();
    let live = old_lock("release-job", setting.holder(), &this_host());
    let stale = || old_lock("importer", dead_pid().into(), &this_host());
    let line = "beadlock-agent --interval 1h --debounce 1ms --action none --audit audit.jsonl";
    let agent = Agent::start(setting, line, LOG, COMPLETE);
    symlink("elsewhere", agent.setting.scene.file("link")).expect("a link");
    agent.moves("audit.jsonl", "first.jsonl");
    agent.moves("link", "audit.jsonl");
    agent.claim(&live);
    agent.cycle(Agent::change, "State: skipped");
    agent.says_in(LOG, "lock_blocked of ", 1);
    agent.moves("audit.jsonl", "link");
    agent.claim(&stale());
    agent.cycle(Agent::change, "State: idle");
    until("a trail again", || {
        agent.setting.scene.read("audit.jsonl").ends_with('\n')
    });
    agent.moves("audit.jsonl", "second.jsonl");
    agent.moves("link", "audit.jsonl");
    agent.claim(&stale());
    agent.after(Agent::change, "lock_stale_removed of ");
    let (_, setting) = agent.stop(&[]);
    let log = setting.scene.log();
    let mut text: String = log
        .split_inclusive('\n')
        .filter(|line| line.contains(" audit file "))
        .collect();
    sections(&mut text, &setting.scene, &["first.jsonl", "second.jsonl"]);
    shown(&text, &setting.known)
}

fn interrupted() -> String {
    let agent = Agent::start(
        Setting::free(),
        "beadlock-agent --interval 1h --no-watch --action none --log-file all.log",
        ALL,
        COMPLETE,
    );
    agent.signal(Signal::SIGINT);
    let (text, setting) = agent.ended(&[ALL]);
    shown(&text, &setting.known)
}
