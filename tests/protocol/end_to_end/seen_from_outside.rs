//! An agent seen from outside: its status by `beadlock status --agent`. `tests/more` has its metrics read by the
//! reference reader of OpenMetrics.

use std::io::{Read, Write};

use beadlock_tests::watched::pages::agent;
use beadlock_tests::{Ended, Scene, run, skip};
use serde_json::json;

#[test]
fn status_asks_it_and_shows_a_table() {
    let scene = Scene::new();
    let (agent, odd) = agent(&scene);
    let ended = scene.run(&["status", "--agent", "./agent.sock"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    let head = format!(
        "beadlock-agent {}, PID {}, host ",
        env!("CARGO_PKG_VERSION"),
        agent.pid()
    );
    assert!(
        lines[0].starts_with(&head) && lines[0].ends_with(": 2 databases"),
        "{ended:?}"
    );
    assert!(
        lines[1].starts_with("state ") && lines[1].contains(" held by "),
        "{ended:?}"
    );
    assert!(
        lines[2].contains(r"\nd/.beads") && lines[2].contains(r"vc\u{1b}[2J (PID "),
        "who is skipped first: {ended:?}"
    );
    assert!(
        lines[2].starts_with("skipped ") && lines[2].contains(" pid_alive "),
        "{ended:?}"
    );
    assert_eq!(
        lines[3..5],
        ["1 idle", "to type:"],
        "the healthy one has no line of its own"
    );
    assert!(
        lines[5].starts_with("  beadlock status ") && lines.len() == 6,
        "{ended:?}"
    );
    assert!(!ended.out.contains('\u{1b}'), "{ended:?}");
    let (code, envelope) = scene.json(&["status", "--agent", "unix:agent.sock"]);
    assert_eq!(
        (code, &envelope["ok"], &envelope["data"]["pid"]),
        (0, &json!(true), &json!(agent.pid()))
    );
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
        let beadlock = scene
            .beadlock(&[])
            .get_program()
            .to_string_lossy()
            .into_owned();
        let line = format!(
            "stty cols {columns} rows 24; {beadlock} status --color never --agent unix:agent.sock"
        );
        let mut script = scene.command("script");
        let seen = Ended::from(run({
            script.args(["-q", "-e", "-c", &line, "typescript"]);
            script
        }));
        assert!(seen.code == 0 && seen.out.lines().count() >= 6, "{seen:?}");
        for line in seen.out.lines().map(|line| line.trim_end_matches('\r')) {
            let is_command = line.starts_with("  beadlock status ");
            assert!(
                is_command || line.chars().count() <= columns,
                "{columns}: {line}"
            );
            for word in line
                .split_whitespace()
                .filter(|word| !word.starts_with('…'))
            {
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
    assert!(gone.err.contains(
        "no agent answers at unix:nobody.sock: no such file or directory; start one with"
    ));
    for (args, words) in [
        (
            &["status", "--agent", "nonsense"][..],
            "is no address; examples: 127.0.0.1:19187",
        ),
        (
            &["status", "--agent", "unix:x", ".beads"],
            "cannot be used with",
        ),
        (
            &["status", "--agent", "unix:x", "--raw"],
            "cannot be used with",
        ),
    ] {
        let ended = scene.run(args);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(words), "{ended:?}");
    }
    // Somebody else answers; and somebody who never does.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its number").to_string();
    let other = std::thread::spawn(move || {
        for answer in [
            Some("HTTP/1.0 200 OK\r\n\r\n{\"a\":1}"),
            Some("\u{1b}[2J"),
            None,
        ] {
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
        assert!(
            ended.err.contains(words) && !ended.err.contains('\u{1b}'),
            "{words}: {ended:?}"
        );
    }
    other.join().expect("it has answered");
}

#[test]
fn a_probe_gets_how_all_fare_as_an_exit_code() {
    let scene = Scene::new();
    let probe = || {
        scene
            .run(&["status", "--agent", "./agent.sock", "--exit-code"])
            .code
    };
    assert_eq!(probe(), 5, "nobody answers");
    // A probe without an agent is never well.
    for words in [
        &["--exit-code"][..],
        &[".beads", "--exit-code"],
        &[".beads", "--watch"],
        &["--id", "x", "--exit-code"],
        &["--raw", "--exit-code"],
    ] {
        let ended = scene.run(&[&["status"], words].concat());
        assert_eq!(ended.code, 2, "{words:?}: {ended:?}");
    }
    let args = [
        "--db",
        ".beads",
        "--interval",
        "100ms",
        "--listen",
        "./agent.sock",
    ];
    let agent = scene.start_agent(&[&args[..], &["--exec", "! test -e fail"]].concat());
    let becomes = |code: i32| {
        beadlock_tests::wait_until(beadlock_tests::wait::PATIENCE, "the exit code", || {
            probe() == code
        });
    };
    becomes(0);
    scene.claim("make", std::process::id());
    becomes(4);
    scene.unlock();
    scene.write("fail", "");
    becomes(1);
    let status = scene.run(&["status"]).out;
    assert!(
        status.contains("free") && status.contains("sync: failed for "),
        "{status}"
    );
    let (_, envelope) = scene.json(&["status"]);
    let sync = &envelope["data"][0]["sync"];
    assert_eq!(
        (&sync["from"], &sync["state"]),
        (&json!("agent"), &json!("failed"))
    );
    assert_eq!(agent.stop(), Some(0));
    becomes(5);
}
