//! One day of an agent, as its log has it: cycles, claims, a failure, a new configuration, a database that comes and
//! goes, the end.

use std::fs;

use beadlock_tests::{dead_pid, this_host};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::running::{Agent, COMPLETE, LOG};
use super::shown;
use crate::book::Book;
use crate::setting::{Setting, old_lock};

const SKIPPING: &str = "Skipping database (";

#[test]
fn one_day() {
    let mut book = Book::open("agent/day");
    for (name, line) in [
        ("contract-text", "beadlock-agent --config agent.toml"),
        (
            "contract-json",
            "beadlock-agent --config agent.toml --log-format json",
        ),
    ] {
        book.pin(name, &day(line));
    }
    book.close();
}

/// A cycle comes by a change, by the end of a claim, or by a new database; never by the clock.
fn day(line: &str) -> String {
    let mut setting = Setting::free();
    let work = setting.scene.file("work").display().to_string();
    let configuration = |more: &str| {
        format!(
            "interval = '1h'\ndebounce = '1ms'\nroot = ['projects']\nexec = 'sh {work}'\n{more}[[database]]\ndir = '.beads'\n"
        )
    };
    let live = old_lock("release-job", setting.holder(), &this_host());
    let scene = &setting.scene;
    scene.write("agent.toml", configuration(""));
    scene.write("work", "echo work");
    fs::create_dir(scene.file("projects")).expect("a root");
    mkfifo(&scene.file("go"), Mode::S_IRWXU).expect("a FIFO");
    fs::create_dir_all(scene.file("later/.beads")).expect("a database that comes later");
    scene.write("later/.beads/issues.jsonl", "{}\n");

    let agent = Agent::start(setting, line, LOG, COMPLETE);
    let writes = |name: &str, text: &str| agent.setting.scene.write(name, text);
    agent.cycle(Agent::change, COMPLETE);

    agent.claim(&live);
    agent.cycle(Agent::change, "State: skipped");
    agent.cycle(Agent::change, SKIPPING);
    agent.cycle(Agent::unlock, "State: idle");

    agent.claim(&old_lock("importer", dead_pid().into(), &this_host()));
    agent.cycle(Agent::change, COMPLETE);

    writes("work", "echo no network >&2; exit 3");
    agent.cycle(Agent::change, "State: failed");
    writes("work", "echo work");
    agent.cycle(Agent::change, "State: idle");

    writes("agent.toml", &configuration("intervall = '1h'\n"));
    agent.after(Agent::reload, "Configuration not reloaded: ");
    writes(
        "agent.toml",
        &configuration("audit = 'audit.jsonl'\nskip-warn = '1ms'\n"),
    );
    agent.after(Agent::reload, "Configuration reloaded: ");
    agent.claim(&live);
    agent.cycle(Agent::change, "State: skipped");
    agent.cycle(Agent::change, "Still skipping after ");
    agent.cycle(Agent::unlock, "State: idle");

    agent.moves("later", "projects/shop");
    agent.after(Agent::reload, "Configuration reloaded: ");
    agent.says_in("projects/shop/.beads/daemon.log", COMPLETE, 1);
    agent.moves("projects/shop", "later");
    agent.after(Agent::reload, "Database gone: ");

    writes("work", "echo much work; read _ <go; echo done");
    agent.after(Agent::change, "much work");
    agent.after(|agent| agent.signal(Signal::SIGTERM), "Ending on ");
    writes("go", "\n");
    let (text, setting) = agent.ended(&[LOG, "later/.beads/daemon.log"]);
    shown(&text, &setting.known)
}
