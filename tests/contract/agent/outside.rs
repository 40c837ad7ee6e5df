//! An agent as it is seen from outside: its pages, and `beadlock status --agent`.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use beadlock_tests::{Scene, this_host, tool, until};
use regex::Regex;

use super::git::{Repositories, shown_with_commits};
use super::running::{Agent, COMPLETE, LOG};
use super::shown;
use crate::answer::{envelope, indented, whole};
use crate::book::Book;
use crate::setting::{Setting, old_lock};

const ALL: &str = "all.log";

/// One database in each of four states.
const FILE: &str = "\
interval = '1h'
action = 'none'
log-file = 'all.log'
listen = 'unix:agent.sock'
stale-after = '1ms'
[[database]]
dir = '.beads'
[[database]]
dir = 'free/.beads'
[[database]]
dir = 'failing/.beads'
exec = 'exit 3'
[[database]]
dir = 'here/.beads'
action = 'git'
";

#[test]
fn pages() {
    let Some(_) = tool("git") else { return };
    let mut setting =
        Repositories::make().after("git branch -q --unset-upstream; echo x >.beads/more.jsonl");
    for name in ["free", "failing"] {
        setting.scene.database(name);
    }
    let live = old_lock("release-job", setting.holder(), &this_host());
    setting.scene.write_lock(live);
    setting.scene.write("agent.toml", FILE);
    let agent = Agent::start(
        setting,
        "beadlock-agent --config agent.toml --no-watch",
        ALL,
        "State: local_only",
    );
    let scene = &agent.setting.scene;
    until("the end of all cycles", || {
        let metrics = get(scene, "/metrics");
        let ended =
            |outcome| metrics.contains(&format!("cycles_total{{outcome=\"{outcome}\"}} 1\n"));
        ["complete", "incomplete", "failed", "skipped"]
            .into_iter()
            .all(ended)
            && metrics.contains("\"waiting\"} 4\n")
    });

    let mut book = Book::open("agent/outside");
    let mut pin =
        |name: &str, text: &str| book.pin(name, &shown_with_commits(text, &agent.setting));
    pin("contract-healthz", &get(scene, "/healthz"));
    pin("contract-readyz", &get(scene, "/readyz"));
    pin("contract-status", &page_of_json(&get(scene, "/status")));
    let openmetrics = "GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n";
    pin("contract-metrics", &of_any_time(&ask(scene, openmetrics)));
    pin("contract-not-found", &get(scene, "/"));
    pin(
        "contract-method",
        &ask(scene, "POST /status HTTP/1.0\r\n\r\n"),
    );
    pin(
        "contract-head",
        &ask(scene, "HEAD /status HTTP/1.0\r\n\r\n"),
    );
    pin("not-http", &ask(scene, "nonsense\r\n\r\n"));
    for (name, line) in [
        ("beadlock-status", "beadlock status --agent unix:agent.sock"),
        (
            "beadlock-status-verbose",
            "beadlock status -v --agent unix:agent.sock",
        ),
        (
            "beadlock-status-and-target",
            "beadlock status --agent unix:agent.sock failing/.beads",
        ),
    ] {
        pin(name, &table(&whole(line, &agent.setting.run(line))));
    }
    let line = "beadlock --json status --agent unix:agent.sock";
    pin(
        "contract-beadlock-status.json",
        &envelope(line, &agent.setting.run(line)),
    );
    let (_, setting) = agent.stop(&[]);
    assert!(
        !setting.scene.file("agent.sock").exists(),
        "it is left behind"
    );

    let line = "beadlock-agent --interval 1h --no-watch --action none --listen 127.0.0.1:0";
    let agent = Agent::start(Setting::free(), line, LOG, COMPLETE);
    let port = Regex::new(r"Listening at 127\.0\.0\.1:(\d+)\n").expect("an expression");
    let log = agent.setting.scene.read(LOG);
    let port = port.captures(&log).expect("a port")[1].to_owned();
    let ask = |question: &str| {
        answer(
            TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens"),
            question,
        )
    };
    book.pin(
        "contract-readyz-ready",
        &ask("GET /readyz HTTP/1.0\r\n\r\n"),
    );
    book.pin(
        "contract-name-of-others",
        &ask("GET /status HTTP/1.0\r\nHost: evil.example\r\n\r\n"),
    );
    let (text, mut setting) = agent.stop(&[LOG]);
    setting.known.values.push((port, "PORT"));
    book.pin("contract-log", &shown(&text, &setting.known));
    book.close();
}

fn get(scene: &Scene, page: &str) -> String {
    ask(scene, &format!("GET {page} HTTP/1.0\r\n\r\n"))
}

fn ask(scene: &Scene, question: &str) -> String {
    answer(
        UnixStream::connect(scene.file("agent.sock")).expect("the agent listens"),
        question,
    )
}

/// What is asked, and the answer, without those headers that say how long it is and when it was given.
fn answer(mut stream: impl Read + Write, question: &str) -> String {
    stream.write_all(question.as_bytes()).expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    beadlock_tests::schema::see(body);
    let is_shown =
        |line: &&str| !line.starts_with("date: ") && !line.starts_with("content-length: ");
    let head: Vec<_> = head.lines().filter(is_shown).collect();
    format!(
        "> {}\n{}\n\n{body}",
        question.trim_end().replace("\r\n", "\n> "),
        head.join("\n")
    )
}

fn page_of_json(page: &str) -> String {
    let (head, json) = page.split_once("\n\n").expect("a head");
    format!("{head}\n\n{}", indented(json))
}

/// What is measured in time, and the process, is hidden; all else is counted. The series of a name have no order.
fn of_any_time(metrics: &str) -> String {
    let time =
        Regex::new(r"^(beadlock_agent_\w*seconds(?:_sum|_bucket)?(?:\{[^}]*\})?|process_\w+) \S+")
            .expect("an expression");
    let version = Regex::new(r#"(version|revision)="[^"]*""#).expect("an expression");
    let mut lines: Vec<_> = metrics
        .lines()
        .map(|line| time.replace(line, "$1 [NUMBER]"))
        .collect();
    let is_of_one_name =
        |one: &Cow<'_, str>, other: &Cow<'_, str>| one.starts_with('#') == other.starts_with('#');
    for series in lines
        .chunk_by_mut(is_of_one_name)
        .filter(|lines| !lines[0].starts_with('#') && !lines[0].contains("_sum "))
    {
        series.sort();
    }
    version
        .replace_all(&(lines.join("\n") + "\n"), "$1=\"[VERSION]\"")
        .into_owned()
}

/// A table whose columns are as wide as in any other run, with the times hidden.
fn table(text: &str) -> String {
    let blanks = Regex::new("  +").expect("an expression");
    let time = Regex::new(r"(?m)(^[a-z_]+  |  )\d+(?:\.\d+)?(?:ms|[smh])(?: \d+[sm])?  ")
        .expect("an expression");
    time.replace_all(&blanks.replace_all(text, "  "), "${1}[AGE]  ")
        .into_owned()
}
