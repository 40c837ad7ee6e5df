//! How the log is written: its formats, its limits, and other writers of it.

use std::fs;
use std::path::Path;

use beadlock_testkit::{PATIENCE, dead_pid, read, sleeper, this_host, until};
use serde_json::Value;

use crate::agent::{OfAgent, fresh_scene};

const KEYS: [&str; 10] = [
    "time", "level", "db", "event", "message", "holder", "pid", "host", "since", "reason",
];

/// The objects of a log, each a line with exactly the keys in their order.
fn objects(log: &str) -> Vec<Value> {
    let object = |line: &str| {
        let object: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(object.as_object().unwrap().len(), KEYS.len(), "{line}");
        let places: Vec<_> = KEYS
            .iter()
            .map(|key| line.find(&format!("\"{key}\":")))
            .collect();
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{line}"
        );
        object
    };
    log.lines().map(object).collect()
}

#[test]
fn json_says_what_text_says_and_whose_lock_it_is() {
    let scene = fresh_scene();
    let run = |exec: &str| scene.once(&["--log-format", "json", "--exec", exec]).0;
    scene.claim("dead", dead_pid());
    assert_eq!(
        run("printf 'a\\033[2J\\nSync cycle complete\\n'; exit 3"),
        1
    );
    let holder = sleeper();
    scene.claim("a\u{202e}b", holder.pid());
    assert_eq!(run("true"), 4);
    let log = scene.log();
    let lines = objects(&log);
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            format!(
                "{} {}",
                line["level"].as_str().unwrap(),
                line["event"].as_str().unwrap()
            )
        })
        .collect();
    let first = [
        "info header",
        "info agent_started",
        "warn removed_stale",
        "info cycle_started",
    ];
    let rest = [
        "info output",
        "info output",
        "error cycle_failed",
        "error state",
        "info agent_stopped",
    ];
    let second = [
        "info agent_started",
        "info skipped",
        "info held",
        "info state",
        "info agent_stopped",
    ];
    assert_eq!(told, [&first[..], &rest, &second].concat(), "{log}");
    let messages: Vec<_> = lines
        .iter()
        .map(|line| line["message"].as_str().unwrap())
        .collect();
    assert!(messages[0].ends_with(", times in UTC"), "{}", messages[0]);
    assert_eq!(
        messages[2],
        "Removed stale lock (dead), proceeding with sync"
    );
    assert_eq!(messages[4..6], [r"a\u{1b}[2J", "| Sync cycle complete"]);
    assert_eq!(messages[10], r"Skipping database (locked by a\u{202e}b)");
    for (line, reason) in [
        (&lines[10], "pid_alive"),
        (&lines[11], "pid_alive"),
        (&lines[2], "pid_gone"),
    ] {
        assert_eq!(
            (&line["since"], &line["reason"]),
            (&"2025-10-25T12:00:00Z".into(), &reason.into())
        );
    }
    assert_eq!(
        (&lines[10]["holder"], &lines[10]["pid"]),
        (&"a\u{202e}b".into(), &holder.pid().into()),
        "raw"
    );
    assert!(
        log.contains(r#""holder":"a\u202eb""#),
        "and no terminal is turned around by it: {log}"
    );
    let host = this_host();
    assert_eq!(lines[10]["host"], *host);
    for (line, event) in lines.iter().zip(&told) {
        let is_of_all = event.contains("agent_") || event.contains("header");
        let db = if is_of_all {
            Value::Null
        } else {
            scene.beads().to_str().unwrap().into()
        };
        assert_eq!(line["db"], db, "{line}");
        let time = line["time"].as_str().unwrap();
        assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    }
}

#[test]
fn a_terminal_gets_text_whatever_the_file_gets() {
    let scene = fresh_scene();
    let pty = nix::pty::openpty(None, None).unwrap();
    let mut agent = scene.start_on(
        pty.slave,
        &["--once", "--log-format", "json", "--exec", "true"],
    );
    assert!(agent.wait(PATIENCE).success());
    let mut seen = Vec::new();
    until("the last line", || {
        let mut piece = [0; 4096];
        let length = nix::unistd::read(&pty.master, &mut piece).unwrap_or(0);
        seen.extend_from_slice(&piece[..length]);
        String::from_utf8_lossy(&seen).contains("] Agent stopped: ")
    });
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        seen.contains("] Sync cycle complete\r\n") && !seen.contains('{'),
        "{seen}"
    );
    assert_eq!(objects(&scene.log()).len(), 5);
}

#[test]
fn the_log_keeps_its_limits() {
    for (keep, files) in [("0", 1), ("2", 3)] {
        let scene = fresh_scene();
        let limits = [
            ("BEADLOCK_AGENT_LOG_SIZE", "8KiB"),
            ("BEADLOCK_AGENT_LOG_KEEP", keep),
        ];
        let mut agent = scene.agent(&["--once", "--exec", "seq 5000"]);
        assert!(agent.envs(limits).status().unwrap().success());
        let logs: Vec<_> = logs(&scene.beads(), "daemon.log");
        assert_eq!(logs.len(), files);
        assert!(
            logs.iter()
                .all(|log| log.len() <= 8192 && log.contains(", times in UTC\n"))
        );
        assert!(
            logs[0].contains("] 5000\n"),
            "the newest is the last: {}",
            logs[0]
        );
    }
    let scene = fresh_scene();
    for (option, value, words) in [
        ("--log-size", "1KiB", "must be at least 4KiB"),
        ("--log-size", "10MB", "examples: 10MiB"),
        ("--log-keep", "1001", "1001 is not in"),
        ("--log-format", "xml", "[possible values: text, json]"),
    ] {
        let (code, stderr) = scene.once(&[option, value]);
        assert!(code == 2 && stderr.contains(words), "{code}: {stderr}");
    }
    assert!(!scene.beads().join("daemon.log").exists());
}

#[test]
fn two_agents_share_a_log_and_lose_nothing() {
    let scene = fresh_scene();
    scene.database("other");
    let start = |db: &str, front: &str| {
        // As much as fits into a pipe: of more the runner drops what the agent has not read a second after the end.
        let exec = format!("seq -f {front}%.0f 8000");
        scene.start(&[
            "--once",
            "--db",
            db,
            "--log-file",
            "all.log",
            "--log-size",
            "16KiB",
            "--log-keep",
            "200",
            "--exec",
            &exec,
        ])
    };
    let mut agents = [start(".beads", "a"), start("other/.beads", "b")];
    assert!(
        agents
            .iter_mut()
            .all(|agent| agent.wait(PATIENCE).success())
    );
    let logs = logs(scene.path(), "all.log");
    assert!(logs.len() > 10 && logs.len() < 200, "{}", logs.len());
    // While one moves it aside the other writes on.
    assert!(logs.iter().all(|log| log.len() <= 2 * 16 * 1024 + 100));
    for front in ["a", "b"] {
        let of = |line: &str| {
            line.split_once("] ")?
                .1
                .strip_prefix(front)?
                .parse::<u32>()
                .ok()
        };
        let mut numbers: Vec<u32> = logs
            .iter()
            .flat_map(|log| log.lines().filter_map(of))
            .collect();
        numbers.sort_unstable();
        let odd = (1..)
            .zip(&numbers)
            .find(|(expected, number)| expected != *number);
        assert_eq!((odd, numbers.len()), (None, 8_000), "each once");
    }
}

/// A small file system of its own, full to the last byte: what does not fit is lost, and said. When there is room
/// again, the next line begins anew.
#[test]
fn a_full_disk_tears_one_line_and_no_other() {
    let scene = fresh_scene();
    fs::create_dir(scene.file("small")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=16k tmpfs small || exit 77
        run() { "$AGENT" --once --log-file small/all.log --exec "seq -f $1%.0f $2" 2>>said; echo "$?" >>codes; }
        run a 5
        head -c 8192 /dev/zero >small/full
        run b 300
        rm small/full
        run c 5
        cp small/all.log seen
    "#;
    let Some(output) = scene.with_mounts(script, &[]) else {
        return;
    };
    let stderr = output.err;
    assert_eq!(
        scene.read("codes"),
        "0\n0\n0\n",
        "cycles go on without it: {stderr}"
    );
    let said = scene.read("said");
    let words =
        "cannot write the log small/all.log: no space left on device; cycles go on without it";
    assert_eq!(said, format!("beadlock-agent: {words}\n"), "once");
    let text = scene.read("seen");
    let is_whole =
        |line: &&str| line.len() > 22 && line.starts_with("[20") && line.get(20..22) == Some("] ");
    let torn = text.lines().filter(|line| !is_whole(line)).count();
    let last = text
        .lines()
        .filter_map(|line| line.split_once("] b")?.1.parse::<u32>().ok())
        .next_back()
        .unwrap();
    assert!(last > 10 && last < 300, "it was full: {last}");
    assert!(torn <= 1 && !text.contains("\n\n"), "{text}");
    assert_eq!(
        text.lines()
            .filter(|line| line.split_once("] c").is_some())
            .count(),
        5,
        "{text}"
    );
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("] Agent started: "))
            .count(),
        3,
        "{text}"
    );
}

/// What a log and the older ones beside it say, the newest first.
fn logs(dir: &Path, name: &str) -> Vec<String> {
    let older = (1..)
        .map(|number| dir.join(format!("{name}.{number}")))
        .take_while(|older| older.exists());
    let newest = read(&dir.join(name));
    [newest]
        .into_iter()
        .chain(older.map(|older| read(&older)))
        .collect()
}
