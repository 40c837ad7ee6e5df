//! An agent seen from outside: its metrics by the reference reader of OpenMetrics, its status by `beadlock status
//! --agent`.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use beadlock_tests::{Ended, Running, Scene, lock_text, run, skip, this_host, wait_until};
use serde_json::{Value, json};

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_secs(30);

const ARGS: [&str; 8] = ["--interval", "10m", "--action", "none", "--db", ".beads", "--listen", "unix:agent.sock"];

/// Reads what is to be exposed, strictly, and prints it: name, type, unit, and each sample.
const READER: &str = "
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
print(json.dumps([[f.name, f.type, f.unit, f.documentation, [[s.name, s.labels, float(s.value)] for s in f.samples]]
                  for f in families]))
";

/// An agent of two databases, one of them in a directory of an odd name, and claimed; both have had their cycle.
fn agent(scene: &Scene) -> (Running, String) {
    let odd = scene.path().join("a \"b\\c\nd").join(".beads");
    fs::create_dir_all(&odd).expect("create a database");
    let text = lock_text("vc\u{1b}[2J", i64::from(std::process::id()), &this_host());
    fs::write(odd.join(".exclusive-lock"), text).expect("write a lock");
    let odd = odd.to_str().expect("UTF-8").to_owned();
    let agent = scene.start_agent(&[&ARGS[..], &["--no-watch", "--db", &odd]].concat());
    wait_until(BOUND, "two cycles", || {
        let status = ask(scene, "/status").and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let rows = status.map(|status| status["databases"].as_array().cloned().unwrap_or_default());
        rows.is_some_and(|rows| rows.len() == 2 && rows.iter().all(|row| row["last"].is_object()))
    });
    (agent, odd)
}

fn ask(scene: &Scene, page: &str) -> Option<String> {
    let mut stream = UnixStream::connect(scene.path().join("agent.sock")).ok()?;
    stream.write_all(format!("GET {page} HTTP/1.0\r\n\r\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(page != "/metrics" || head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    Some(body.to_owned())
}

#[test]
fn the_metrics_are_read_by_the_reference_reader() {
    let Some(python) = skip::python("prometheus_client.openmetrics.parser") else { return };
    let scene = Scene::new();
    let (_agent, odd) = agent(&scene);
    let text = ask(&scene, "/metrics").expect("metrics");
    let families = read(&scene, &python, &text).expect("what a reader accepts");
    let families = families.as_array().expect("a list");
    let family = |name: &str| {
        let name = format!("beadlock_agent_{name}");
        let found = families.iter().find(|family| family[0] == name);
        found.unwrap_or_else(|| panic!("no {name}: {text}")).clone()
    };
    for (name, kind, unit) in [
        ("build", "info", ""),
        ("start_time_seconds", "gauge", "seconds"),
        ("cycles", "counter", ""),
        ("skips", "counter", ""),
        ("stale_removals", "counter", ""),
        ("skip_warnings", "counter", ""),
        ("watcher_resyncs", "counter", ""),
        ("check_duration_seconds", "histogram", "seconds"),
        ("cycle_duration_seconds", "histogram", "seconds"),
        ("databases", "gauge", ""),
        ("sync_state", "gauge", ""),
        ("database_state", "gauge", ""),
        ("unpushed_commits", "gauge", ""),
        ("skipping_databases", "gauge", ""),
        ("longest_skip_streak_seconds", "gauge", "seconds"),
        ("skip_streak", "gauge", ""),
        ("skip_streak_age_seconds", "gauge", "seconds"),
    ] {
        let family = family(name);
        assert_eq!((&family[1], &family[2]), (&json!(kind), &json!(unit)), "{name}");
        assert!(family[3].as_str().is_some_and(|help| help.ends_with('.')), "{family}");
    }
    assert_eq!(families.len(), 17, "each is named above; without a push and a failure these two have no series");
    let sample = |name: &str, label: &str, value: &str| {
        let family = family(name);
        let samples = family[4].as_array().expect("samples").clone();
        let found = samples.into_iter().find(|sample| sample[1][label] == value);
        found.unwrap_or_else(|| panic!("no {value}: {family}"))[2].clone()
    };
    assert_eq!(sample("cycles", "outcome", "complete"), json!(1.0));
    assert_eq!(sample("skips", "reason", "pid_alive"), json!(1.0));
    assert_eq!(sample("skip_streak", "db", &odd), json!(1.0), "its name survives the way");
    for broken in [text.replace("# EOF\n", ""), text.replace("le=\"+Inf\"", "le=\"9999\"")] {
        assert!(read(&scene, &python, &broken).is_none(), "the reader takes anything");
    }
}

/// What the reader makes of it; `None`: it does not take it.
fn read(scene: &Scene, python: &std::path::Path, text: &str) -> Option<Value> {
    fs::write(scene.path().join("metrics"), text).expect("write the metrics");
    let mut command = scene.command(python);
    command.args(["-c", READER]).stdin(fs::File::open(scene.path().join("metrics")).expect("open them"));
    let output = command.output().expect("start python");
    output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn status_asks_it_and_shows_a_table() {
    let scene = Scene::new();
    let (agent, odd) = agent(&scene);
    let ended = scene.run(&["status", "--agent", "./agent.sock"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    let head = format!("beadlock-agent {}, PID {}, host ", env!("CARGO_PKG_VERSION"), agent.pid());
    assert!(lines[0].starts_with(&head) && lines[0].ends_with(": 2 databases"), "{ended:?}");
    assert!(lines[1].starts_with("state ") && lines[1].contains(" held by "), "{ended:?}");
    assert!(
        lines[2].contains(r"\nd/.beads") && lines[2].contains(r"vc\u{1b}[2J (PID "),
        "who is skipped first: {ended:?}"
    );
    assert!(lines[2].starts_with("skipped ") && lines[2].contains(" pid_alive "), "{ended:?}");
    assert_eq!(lines[3..5], ["1 idle", "to type:"], "the healthy one has no line of its own");
    assert!(lines[5].starts_with("  beadlock status ") && lines.len() == 6, "{ended:?}");
    assert!(!ended.out.contains('\u{1b}'), "{ended:?}");
    let (code, envelope) = scene.json(&["status", "--agent", "unix:agent.sock"]);
    assert_eq!((code, &envelope["ok"], &envelope["data"]["pid"]), (0, &json!(true), &json!(agent.pid())));
    assert_eq!(envelope["data"]["databases"][0]["dir"], odd, "as it is");
}

/// `script` makes the terminal.
#[test]
fn its_table_fits_a_terminal_without_a_torn_word() {
    let scene = Scene::new();
    if skip::tool("script").is_none() {
        return;
    }
    let (_agent, _odd) = agent(&scene);
    let whole = scene.run(&["status", "--agent", "unix:agent.sock"]).out;
    for columns in [60, 80, 120] {
        let beadlock = scene.beadlock(&[]).get_program().to_string_lossy().into_owned();
        let line = format!("stty cols {columns} rows 24; {beadlock} status --color never --agent unix:agent.sock");
        let mut script = scene.command("script");
        let seen = Ended::from(run({
            script.args(["-q", "-e", "-c", &line, "typescript"]);
            script
        }));
        assert!(seen.code == 0 && seen.out.lines().count() >= 6, "{seen:?}");
        for line in seen.out.lines().map(|line| line.trim_end_matches('\r')) {
            let is_command = line.starts_with("  beadlock status ");
            assert!(is_command || line.chars().count() <= columns, "{columns}: {line}");
            for word in line.split_whitespace().filter(|word| !word.starts_with('…')) {
                let is_age = word.starts_with(|first: char| first.is_ascii_digit());
                assert!(
                    is_age || whole.split_whitespace().any(|known| known.ends_with(word)),
                    "{word} is torn: {line}"
                );
            }
        }
    }
}

#[test]
fn who_cannot_be_reached_is_1_and_what_is_no_address_is_2() {
    let scene = Scene::new();
    let gone = scene.run(&["status", "--agent", "unix:nobody.sock"]);
    assert_eq!(gone.code, 1, "{gone:?}");
    assert!(gone.err.contains("no agent answers at unix:nobody.sock: no such file or directory; start one with"));
    for (args, words) in [
        (&["status", "--agent", "nonsense"][..], "is no address; examples: 127.0.0.1:9187"),
        (&["status", "--agent", "unix:x", ".beads"], "cannot be used with"),
        (&["status", "--agent", "unix:x", "--raw"], "cannot be used with"),
    ] {
        let ended = scene.run(args);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(words), "{ended:?}");
    }
    // Somebody else answers; and somebody who never does.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number").to_string();
    let other = std::thread::spawn(move || {
        for answer in [Some("HTTP/1.0 200 OK\r\n\r\n{\"a\":1}"), Some("\u{1b}[2J"), None] {
            let (mut stream, _) = listener.accept().expect("a client");
            // What is closed with a question unread is a reset, and the answer lost.
            assert!(stream.read(&mut [0; 4096]).expect("a question") > 0);
            match answer {
                Some(answer) => stream.write_all(answer.as_bytes()).expect("answer"),
                None => drop(stream.read_to_end(&mut Vec::new())),
            }
        }
    });
    for words in [
        "is not a beadlock-agent of this version: missing field",
        "not as an agent: it says",
        "does not answer within 5s",
    ] {
        let ended = scene.run(&["status", "--agent", &address]);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.err.contains(words) && !ended.err.contains('\u{1b}'), "{words}: {ended:?}");
    }
    other.join().expect("it has answered");
}
