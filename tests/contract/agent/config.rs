//! `--print-config`: what holds, and what is wrong with a file or a variable.

use std::fs;
use std::thread::available_parallelism;

use beadlock_tests::skip::checkout;

use super::{at_once, pin_all, shown};
use crate::answer::whole;
use crate::setting::{Line, Setting};

const FILE: &str = r#"interval = 600
debounce = "1m 30s"
jobs = 77
root = ["projects"]
exec = "./sync.sh"
log-file = "logs/agent.log"
log-format = "json"
audit = "logs/audit.jsonl"
listen = "127.0.0.1:19187"

[[database]]
dir = ".beads"

[[database]]
dir = "other/.beads"
interval = "1m"
action = "none"
allow-worktree = true
"#;

fn setting() -> Setting {
    let setting = Setting::free().with("agent.toml", FILE).given(FILE);
    setting.scene.database("other");
    setting.scene.database("projects/shop");
    fs::create_dir(setting.scene.file("logs")).expect("a directory");
    setting
}

/// Plays the lines, and pins the answers without the number of processors.
#[track_caller]
fn play(room: &str, setting: impl Fn() -> Setting + Sync, lines: &[Line]) {
    let processors = format!(
        "\njobs = {}\n",
        available_parallelism().map_or(1, usize::from)
    );
    let one = |(_, line): &Line| {
        let setting = setting().given(*line);
        let text = shown(&whole(line, &setting.run(line)), &setting.known);
        text.replace(&processors, "\njobs = [PROCESSORS]\n")
    };
    pin_all(
        room,
        lines.iter().map(|(name, _)| *name),
        &at_once(lines, one),
    );
}

#[test]
fn what_holds() {
    play(
        "agent/config/holds",
        setting,
        &[
            ("contract-defaults", "beadlock-agent --print-config"),
            (
                "contract-file",
                "beadlock-agent --config agent.toml --print-config",
            ),
            (
                "contract-file-and-options",
                "beadlock-agent --config agent.toml --print-config --interval 3s --action none --db .beads --root other",
            ),
            ("contract-root", "beadlock-agent --print-config --root ."),
            (
                "contract-options",
                "beadlock-agent --print-config --interval 1h30m --debounce 0s --fetch-interval 2m --exec 'echo \"a b\"' --cycle-timeout 1s --skip-warn 24h --reap-proven-dead --allow-worktree --jobs 77 --fetch-jobs 5 --log-file all.log --log-format json --log-size 5KiB --log-keep 0 --log-level off --audit audit.jsonl --listen unix:agent.sock --stale-after 100m --listen-anywhere --allow-foreign-owner --any-directory",
            ),
            (
                "contract-variables",
                "BEADLOCK_AGENT_INTERVAL=7s BEADLOCK_AGENT_DEBOUNCE=1s BEADLOCK_AGENT_FETCH_INTERVAL=2m BEADLOCK_AGENT_ACTION=none BEADLOCK_AGENT_CYCLE_TIMEOUT=1s BEADLOCK_AGENT_SKIP_WARN=24h BEADLOCK_AGENT_ALLOW_WORKTREE=yes BEADLOCK_AGENT_JOBS=77 BEADLOCK_AGENT_FETCH_JOBS=5 BEADLOCK_AGENT_LOG_FILE=all.log BEADLOCK_AGENT_LOG_FORMAT=json BEADLOCK_AGENT_LOG_SIZE=5KiB BEADLOCK_AGENT_LOG_KEEP=0 BEADLOCK_AGENT_LOG_LEVEL=off BEADLOCK_AGENT_AUDIT=audit.jsonl BEADLOCK_AGENT_LISTEN=unix:agent.sock BEADLOCK_AGENT_STALE_AFTER=100m BEADLOCK_AGENT_ROOT=projects BEADLOCK_AGENT_DB=other/.beads beadlock-agent --print-config",
            ),
            (
                "variable-file",
                "BEADLOCK_AGENT_CONFIG=agent.toml BEADLOCK_AGENT_INTERVAL=7s beadlock-agent --print-config",
            ),
            (
                "variable-exec",
                "BEADLOCK_AGENT_EXEC='./sync.sh' beadlock-agent --print-config --jobs 77",
            ),
            (
                "variable-audit-of-all",
                "BEADLOCK_AUDIT=audit.jsonl beadlock-agent --print-config",
            ),
            (
                "variable-beads-dir",
                "BEADS_DIR=other/.beads beadlock-agent --print-config",
            ),
            (
                "what-is-printed-holds",
                "beadlock-agent --config agent.toml --print-config >printed.toml; beadlock-agent --config printed.toml --print-config | diff printed.toml - && echo the same",
            ),
        ],
    );
}

#[test]
fn what_is_wrong() {
    play(
        "agent/config/wrong",
        setting,
        &[
            (
                "key",
                "printf 'jobs = 77\\n\\nintervall = 3\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "key-far-from-all",
                "echo 'nonsense = 3' >x; beadlock-agent --config x --print-config",
            ),
            (
                "key-for-the-whole-agent",
                "printf '[[database]]\\ndir = \".beads\"\\njobs = 3\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "key-twice",
                "printf 'jobs = 1\\njobs = 2\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "table",
                "printf '[databases]\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "database-without-directory",
                "printf '[[database]]\\ninterval = 1\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "database-twice",
                "printf '[[database]]\\ndir = \".beads\"\\n[[database]]\\ndir = \"./.beads\"\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "database-missing",
                "printf '[[database]]\\ndir = \"nowhere/.beads\"\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "database-is-above",
                "printf '[[database]]\\ndir = \"other\"\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "no-toml",
                "echo 'interval 3' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-duration",
                "echo 'interval = \"soon\"' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-zero",
                "echo 'interval = 0' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-negative",
                "echo 'debounce = -1' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-of-another-kind",
                "echo 'interval = true' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-no-list",
                "echo 'root = \"projects\"' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-choice",
                "echo 'action = \"gti\"' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-number",
                "echo 'jobs = 0' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-size",
                "echo 'log-size = \"10MB\"' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-size-small",
                "echo 'log-size = 1024' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-address",
                "echo 'listen = \"localhost\"' >x; beadlock-agent --config x --print-config",
            ),
            (
                "value-address-of-others",
                "echo 'listen = \"0.0.0.0:19187\"' >x; beadlock-agent --config x --print-config",
            ),
            (
                "action-and-exec",
                "printf 'action = \"none\"\\nexec = \"true\"\\n' >x; beadlock-agent --config x --print-config",
            ),
            (
                "exec-empty",
                "echo 'exec = \"\"' >x; beadlock-agent --config x --print-config",
            ),
            (
                "root-missing",
                "echo 'root = [\"nowhere\"]' >x; beadlock-agent --config x --print-config",
            ),
            (
                "log-file-is-the-lock",
                "echo 'log-file = \".beads/.exclusive-lock\"' >x; beadlock-agent --config x --print-config --db .beads",
            ),
            (
                "file-missing",
                "beadlock-agent --config nowhere.toml --print-config",
            ),
            (
                "file-is-a-directory",
                "beadlock-agent --config . --print-config",
            ),
            (
                "file-is-a-fifo",
                "mkfifo x; beadlock-agent --config x --print-config",
            ),
            (
                "file-is-large",
                "head -c 1100000 /dev/zero | tr '\\0' '#' >x; beadlock-agent --config x --print-config",
            ),
            (
                "file-is-no-text",
                "printf '\\377' >x; beadlock-agent --config x --print-config",
            ),
            (
                "option-interval",
                "beadlock-agent --print-config --interval soon",
            ),
            (
                "option-choice",
                "beadlock-agent --print-config --log-format xml",
            ),
            (
                "option-near",
                "beadlock-agent --print-config --intervall 3s",
            ),
            (
                "option-log-size",
                "beadlock-agent --print-config --log-size 1KiB",
            ),
            (
                "option-log-keep",
                "beadlock-agent --print-config --log-keep 1001",
            ),
            (
                "variable-interval",
                "BEADLOCK_AGENT_INTERVAL=soon beadlock-agent --print-config",
            ),
            (
                "variable-allow-worktree",
                "BEADLOCK_AGENT_ALLOW_WORKTREE=maybe beadlock-agent --print-config",
            ),
            (
                "variable-action",
                "BEADLOCK_AGENT_ACTION=gti beadlock-agent --print-config",
            ),
            (
                "variable-unknown",
                "BEADLOCK_AGENT_INTERVALL=7s beadlock-agent --print-config --jobs 77",
            ),
            (
                "variable-empty",
                "BEADLOCK_AGENT_INTERVAL= beadlock-agent --print-config --jobs 77",
            ),
        ],
    );
}

/// The file beside the units, as it is and with every line in force.
#[test]
fn the_example() {
    let example =
        fs::read_to_string(checkout().join("integration/systemd/agent.toml")).expect("the example");
    let is_setting =
        |line: &str| line.starts_with("# ") && line.contains(" = ") && line.contains("  # ");
    // These two are one setting.
    let in_force = |line: &str| {
        if is_setting(line) && !line.starts_with("# action") {
            line[2..].to_owned()
        } else {
            line.to_owned()
        }
    };
    let all = example.lines().map(in_force).collect::<Vec<_>>().join("\n");
    let setting = || {
        let setting = Setting::free();
        setting.scene.database("shop");
        setting.scene.database("work/x");
        fs::create_dir(setting.scene.file("log")).expect("a directory");
        let here = setting.scene.path().display().to_string();
        let of_here = |text: &str| {
            text.replace("/home/ann", &here)
                .replace("/var/log/…", &format!("{here}/log/x"))
        };
        let setting = setting
            .with("example.toml", of_here(&example))
            .with("all.toml", of_here(&all));
        setting.given(example.clone())
    };
    play(
        "agent/config/example",
        setting,
        &[
            (
                "contract-example",
                "beadlock-agent --config example.toml --print-config",
            ),
            (
                "contract-every-line",
                "beadlock-agent --config all.toml --print-config",
            ),
        ],
    );
}
