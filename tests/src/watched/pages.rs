//! An agent that is asked for its pages.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use beadlock_testkit::{Running, Scene, lock_text, this_host, wait_until};
use serde_json::Value;

/// Longer than anything here takes.
const BOUND: Duration = Duration::from_secs(30);

const ARGS: [&str; 8] = [
    "--interval",
    "10m",
    "--action",
    "none",
    "--db",
    ".beads",
    "--listen",
    "unix:agent.sock",
];

/// An agent of two databases, one of them in a directory of an odd name, and claimed; both have had their cycle.
#[track_caller]
pub fn agent(scene: &Scene) -> (Running, String) {
    let odd = scene.path().join("a \"b\\c\nd").join(".beads");
    fs::create_dir_all(&odd).expect("create a database");
    let text = lock_text("vc\u{1b}[2J", i64::from(std::process::id()), &this_host());
    fs::write(odd.join(".exclusive-lock"), text).expect("write a lock");
    let odd = odd.to_str().expect("UTF-8").to_owned();
    let agent = scene.start_agent(&[&ARGS[..], &["--no-watch", "--db", &odd]].concat());
    wait_until(BOUND, "two cycles", || {
        let status =
            ask(scene, "/status").and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let rows = status.map(|status| status["databases"].as_array().cloned().unwrap_or_default());
        rows.is_some_and(|rows| rows.len() == 2 && rows.iter().all(|row| row["last"].is_object()))
    });
    (agent, odd)
}

/// The form of the metrics for a client that does not say what it accepts.
pub const CLASSIC: &str = "text/plain; version=0.0.4";
/// OpenMetrics.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0";

/// The body of a page; nothing while nobody listens.
pub fn ask(scene: &Scene, page: &str) -> Option<String> {
    let body = exchange(scene, page, "")?.1;
    beadlock_testkit::schema::see(&body);
    Some(body)
}

/// The metrics in this form, for a client that accepts it.
#[track_caller]
pub fn metrics(scene: &Scene, form: &str) -> String {
    let accept = match form {
        CLASSIC => String::new(),
        named => format!("Accept: {named}\r\n"),
    };
    let (head, body) = exchange(scene, "/metrics", &accept).expect("metrics");
    assert!(
        head.to_lowercase()
            .contains(&format!("content-type: {form}")),
        "{head}"
    );
    body
}

/// The head and the body of an answer.
fn exchange(scene: &Scene, page: &str, headers: &str) -> Option<(String, String)> {
    let mut stream = UnixStream::connect(scene.path().join("agent.sock")).ok()?;
    stream
        .write_all(format!("GET {page} HTTP/1.0\r\n{headers}\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}
