//! What is seen from outside: `--listen`, and `--skip-warn`. Scraped by a real parser in `tests/protocol/end_to_end`.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_testkit::{PATIENCE, Running, Scene, dead_pid, read, skip, sleeper, this_host, until};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::agent::{OfAgent, count_in, fresh_scene, log_of};

const SOCKET: &str = "unix:agent.sock";

/// One cycle each, at the start.
const QUIET: [&str; 5] = ["--interval", "10m", "--action", "none", "--no-watch"];

fn start(scene: &Scene, args: &[&str]) -> Running {
    let agent = scene.start(&[args, &["--listen", SOCKET]].concat());
    until("it answers", || connect(scene).is_some());
    agent
}

fn connect(scene: &Scene) -> Option<UnixStream> {
    let stream = UnixStream::connect(scene.file("agent.sock")).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    Some(stream)
}

/// Status and body. The head is sent as it is.
fn exchange(mut stream: impl Read + Write, head: &str) -> (u16, String) {
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

pub fn get(scene: &Scene, page: &str) -> (u16, String) {
    let answer = exchange(
        connect(scene).expect("somebody listens"),
        &format!("GET {page} HTTP/1.0\r\n\r\n"),
    );
    beadlock_testkit::schema::see(&answer.1);
    answer
}

/// The value of a series, written as it is in the text.
fn value(scene: &Scene, series: &str) -> Option<f64> {
    let (code, text) = get(scene, "/metrics");
    assert_eq!(code, 200);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("beadlock_agent_{series} ")));
    line.map(|value| value.parse().unwrap())
}

#[test]
fn the_counters_say_what_has_happened() {
    let scene = fresh_scene();
    let (stale, failing) = (scene.database("stale"), scene.database("failing"));
    scene.database("free");
    let holder = sleeper();
    scene.claim("dead", dead_pid());
    fs::copy(scene.lock(), stale.join(".exclusive-lock")).unwrap();
    scene.claim("v\u{1b}c", holder.pid());
    let dir = |name: &str| format!("[[database]]\ndir = '{name}.beads'\n");
    let text = format!(
        "interval = '10m'\naction = 'none'\n{}{}{}{}exec = 'exit 3'\n",
        dir(""),
        dir("stale/"),
        dir("free/"),
        dir("failing/"),
    );
    scene.write("conf.toml", &text);
    let agent = start(&scene, &["--config", "conf.toml", "--no-watch"]);
    let ended = |outcome: &str| value(&scene, &format!("cycles_total{{outcome=\"{outcome}\"}}"));
    until("four cycles", || {
        ["complete", "failed", "skipped"]
            .iter()
            .filter_map(|outcome| ended(outcome))
            .sum::<f64>()
            >= 4.0
    });
    let db = scene.beads().display().to_string();
    for (series, expected) in [
        ("cycles_total{outcome=\"complete\"}", 2.0),
        ("cycles_total{outcome=\"failed\"}", 1.0),
        ("cycles_total{outcome=\"skipped\"}", 1.0),
        ("skips_total{reason=\"pid_alive\"}", 1.0),
        ("skips_total{reason=\"gate_busy\"}", 0.0),
        ("stale_removals_total{reason=\"pid_gone\"}", 1.0),
        ("check_duration_seconds_count", 4.0),
        ("cycle_duration_seconds_count", 3.0),
        ("databases{phase=\"waiting\"}", 4.0),
        ("skipping_databases", 1.0),
        ("skip_warnings_total", 0.0),
        ("watcher_resyncs_total", 0.0),
        (&format!("skip_streak{{db=\"{db}\"}}"), 1.0),
    ] {
        assert_eq!(value(&scene, series), Some(expected), "{series}");
    }
    let (_, text) = get(&scene, "/metrics");
    let failing_db = scene.file("failing/.beads").display().to_string();
    for series in [
        "sync_state{state=\"failed\"} 1".to_owned(),
        "sync_state{state=\"skipped\"} 1".to_owned(),
        "sync_state{state=\"idle\"} 2".to_owned(),
        format!("database_state{{db=\"{failing_db}\",state=\"failed\"}} 1"),
        format!("database_state{{db=\"{db}\",state=\"skipped\"}} 1"),
        format!("failures_total{{db=\"{failing_db}\",reason=\"exit_code\"}} 1"),
        format!("unpushed_commits{{db=\"{failing_db}\"}} 0"),
    ] {
        assert!(
            text.contains(&format!("beadlock_agent_{series}\n")),
            "{series} in {text}"
        );
    }
    let named = text.lines().filter(|line| line.contains("db=\""));
    let of_others = named.filter(|line| !line.contains(&db) && !line.contains(&failing_db));
    assert_eq!(
        of_others.count(),
        0,
        "a database that is fine has no name: {text}"
    );
    let (code, text) = get(&scene, "/status");
    let status: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &status["pid"], &status["served"]),
        (200, &agent.pid().into(), &4.into())
    );
    let first = &status["databases"][1];
    assert_eq!(
        (&status["databases"][0]["state"], &first["state"]),
        (&"failed".into(), &"skipped".into())
    );
    assert_eq!(
        (&first["dir"], &first["last"]["reason"]),
        (&db.into(), &"pid_alive".into()),
        "{text}"
    );
    assert_eq!(
        (&first["lock"]["holder"], &first["lock"]["pid"]),
        (&"v\u{1b}c".into(), &holder.pid().into())
    );
    assert_eq!(first["streak"]["skips"], 1);
    let of = |dir: &PathBuf| {
        let rows = status["databases"].as_array().unwrap();
        rows.iter()
            .find(|row| row["dir"] == dir.display().to_string())
            .unwrap()
            .clone()
    };
    assert_eq!(
        (&of(&failing)["last"]["outcome"], &of(&failing)["streak"]),
        (&"failed".into(), &().into())
    );
    assert!(
        (590_000..=600_000).contains(&of(&stale)["next_due_ms"].as_u64().unwrap()),
        "{text}"
    );
    assert_eq!(agent.stop(), Some(0));
    assert!(
        !scene.file("agent.sock").exists(),
        "it is removed at the end"
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is moved is no lock")]
fn who_has_gone_is_not_being_skipped() {
    let scene = fresh_scene();
    let holder = sleeper();
    scene.claim("vc", holder.pid());
    let agent = start(
        &scene,
        &["--db", ".beads", "--interval", "20ms", "--action", "none"],
    );
    until("a streak", || {
        value(&scene, "skipping_databases") == Some(1.0)
    });
    fs::rename(scene.beads(), scene.file("gone")).unwrap();
    until("a failed cycle", || {
        value(&scene, "cycles_total{outcome=\"failed\"}") >= Some(1.0)
    });
    assert_eq!(value(&scene, "skipping_databases"), Some(0.0));
    assert_eq!(value(&scene, "longest_skip_streak_seconds"), Some(0.0));
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn the_pages_are_these_and_are_read_only() {
    let scene = fresh_scene();
    let agent = scene.start(&[&QUIET[..], &["--listen", "127.0.0.1:0"]].concat());
    let address = || {
        log_of(&scene.beads())
            .iter()
            .find_map(|line| Some(line.strip_prefix("Listening at ")?.to_owned()))
    };
    until("its port", || address().is_some());
    let ask = |head: &str| exchange(TcpStream::connect(address().unwrap()).unwrap(), head);
    assert_eq!(
        ask("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        (200, "ok\n".to_owned())
    );
    assert_eq!(ask("HEAD /healthz HTTP/1.0\r\n\r\n"), (200, String::new()));
    assert_eq!(ask("GET /metrics?x=y HTTP/1.0\r\n\r\n").0, 200);
    let named = ask("GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text\r\n\r\n").1;
    assert!(named.ends_with("# EOF\n"), "OpenMetrics: {named}");
    assert_eq!(
        ask("POST /status HTTP/1.0\r\nContent-Length: 9999999999\r\n\r\nx").0,
        405
    );
    assert_eq!(ask("GET / HTTP/1.0\r\n\r\n").0, 404);
    let (code, words) = ask("GET /status HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(code, 421, "{words}");
    assert_eq!(agent.stop(), Some(0));
}

/// A service manager that does not read stops the loop, and with it the watchdog's beats.
#[test]
fn the_health_is_that_the_loop_turns() {
    let scene = fresh_scene();
    let manager = UnixDatagram::bind(scene.file("notify")).unwrap();
    let mut command = scene.agent(&[&QUIET[..], &["--listen", SOCKET]].concat());
    command
        .env("NOTIFY_SOCKET", scene.file("notify"))
        .env("WATCHDOG_USEC", "2000");
    let agent = Running::start(command);
    until("it answers", || connect(&scene).is_some());
    until("the loop stands still", || get(&scene, "/healthz").0 == 503);
    let (code, words) = get(&scene, "/status");
    assert_eq!(
        (code, words.as_str()),
        (503, "the agent's loop does not turn: no answer within 2s\n")
    );
    let (code, text) = get(&scene, "/metrics");
    assert!(
        code == 200 && text.contains("agent_cycles") && !text.contains("agent_databases{"),
        "{text}"
    );
    let reading = std::thread::spawn(move || {
        manager
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        while manager.recv(&mut [0; 4096]).is_ok() {}
    });
    until("it turns again", || get(&scene, "/healthz").0 == 200);
    assert_eq!(agent.stop(), Some(0));
    reading.join().unwrap();
}

/// More happens than the kernel keeps for an agent that stands still: what it has lost it makes up for, also in
/// databases where nothing else happened.
#[test]
fn lost_reports_are_counted_and_every_database_is_checked_again() {
    let limit: usize = read("/proc/sys/fs/inotify/max_queued_events".as_ref())
        .trim()
        .parse()
        .unwrap();
    if limit > 100_000 {
        return skip::cannot(&format!(
            "needs fewer than {limit} events in fs.inotify.max_queued_events"
        ));
    }
    let scene = fresh_scene();
    let quiet = scene.database("quiet");
    let holder = sleeper();
    scene.claim("vc", holder.pid());
    fs::copy(scene.lock(), quiet.join(".exclusive-lock")).unwrap();
    let dbs = ["--db", ".beads", "--db", "quiet/.beads"];
    let how = [
        "--action",
        "none",
        "--interval",
        "10m",
        "--debounce",
        "10ms",
    ];
    let agent = start(&scene, &[&dbs[..], &how].concat());
    let skipped = |dir: &Path| count_in(dir, "Skipping database (locked by vc)");
    until("skips", || {
        [&scene.beads(), &quiet].iter().all(|dir| skipped(dir) == 1)
    });
    assert_eq!(value(&scene, "watcher_resyncs_total"), Some(0.0));
    agent.signal(Signal::SIGSTOP);
    // It may still hear some before it stops.
    for number in 0..=limit * 2 {
        fs::write(scene.beads().join(number.to_string()), "").unwrap();
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the test is the holder of the lock"
    )]
    fs::remove_file(quiet.join(".exclusive-lock")).unwrap();
    agent.signal(Signal::SIGCONT);
    until("a cycle that no report asked for", || {
        count_in(&quiet, "Sync cycle complete") >= 1
    });
    until("a check of the other", || skipped(&scene.beads()) >= 2);
    assert!(value(&scene, "watcher_resyncs_total") >= Some(1.0));
    assert_eq!(agent.stop(), Some(0));
}

/// A large answer that nobody takes: there are 2,000 databases, and their names are long.
#[test]
fn who_does_not_read_the_answer_delays_nobody() {
    let scene = fresh_scene();
    let name = "x".repeat(200);
    (0..2_000).for_each(|number| drop(scene.database(&format!("{name}{number}"))));
    let how = [
        "--root",
        ".",
        "--action",
        "none",
        "--interval",
        "3s",
        "--log-file",
        "log",
    ];
    let agent = start(&scene, &how);
    let cycles = || scene.read("log").matches("Sync cycle complete").count();
    until("all have had a cycle", || cycles() >= 2_000);
    let asked: Vec<UnixStream> = (0..12)
        .map(|_| {
            let mut stream = connect(&scene).unwrap();
            stream.write_all(b"GET /status HTTP/1.0\r\n\r\n").unwrap();
            stream
        })
        .collect();
    let before = cycles();
    until("cycles go on", || cycles() >= before + 1_000);
    until("the loop answers", || get(&scene, "/healthz").0 == 200);
    let is_cut_off = |stream: &UnixStream| {
        let mut asked = [PollFd::new(stream.as_fd(), PollFlags::empty())];
        poll(&mut asked, PollTimeout::ZERO).unwrap();
        asked[0]
            .revents()
            .is_some_and(|come| come.contains(PollFlags::POLLHUP))
    };
    until("the end of their time", || asked.iter().all(is_cut_off));
    for mut stream in asked {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            answer.len() < 400_000,
            "all of it was kept: {}",
            answer.len()
        );
    }
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn who_asks_badly_is_cut_off_and_delays_no_cycle() {
    let scene = fresh_scene();
    let agent = start(
        &scene,
        &["--interval", "20ms", "--action", "none", "--no-watch"],
    );
    for bad in [
        "\0\u{1b}[2J\r\n\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)),
    ] {
        let mut stream = connect(&scene).unwrap();
        // It may be cut off before it has said all.
        let _ = stream.write_all(bad.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(
            !answer.starts_with(b"HTTP/1.1 2"),
            "{:?}",
            String::from_utf8_lossy(&answer)
        );
        assert_eq!(get(&scene, "/healthz").0, 200);
    }
    // More than there is room for; none of them ever ends its question.
    let mut slow: Vec<UnixStream> = (0..24).map(|_| connect(&scene).unwrap()).collect();
    slow.iter_mut()
        .for_each(|stream| stream.write_all(b"GET /metrics HT").unwrap());
    let cycles = scene.count("Sync cycle complete");
    until("cycles go on", || {
        scene.count("Sync cycle complete") >= cycles + 20
    });
    for stream in &mut slow {
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
    }
    assert_eq!(get(&scene, "/healthz").0, 200);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is moved is no lock")]
fn a_socket_is_its_users_alone_and_one_agents() {
    let scene = fresh_scene();
    let socket = scene.file("agent.sock");
    let mut agent = start(&scene, &QUIET);
    let meta = fs::metadata(&socket).unwrap();
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o7777, 0o600);
    let second = || {
        let args = ["--db", ".beads", "--action", "none", "--listen", SOCKET];
        scene.agent(&args).output().unwrap()
    };
    let refused = second();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    let who = format!(
        "cannot listen at {}: PID {} listens there",
        unix(&scene),
        agent.pid()
    );
    assert!(words.contains(&who), "{who}: {words}");
    agent.signal(Signal::SIGKILL);
    agent.wait(PATIENCE);
    assert!(socket.exists(), "nobody removes it");
    let agent = start(&scene, &QUIET);
    assert_eq!(get(&scene, "/healthz").0, 200, "a dead agent's is replaced");
    // Somebody has put something else in its place.
    fs::rename(&socket, scene.file("old")).unwrap();
    scene.write("agent.sock", "mine");
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(read(&socket), "mine");
    let refused = second();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(
        words.contains("there is a file that is no socket; move it away"),
        "{words}"
    );
    assert_eq!(
        (refused.status.code(), read(&socket).as_str()),
        (Some(1), "mine")
    );
}

/// What a dead one has left behind both find; the inode number of it may be that of what the first puts there.
#[test]
fn of_two_agents_that_start_at_once_one_listens() {
    for _ in 0..3 {
        let scene = fresh_scene();
        let mut dead = start(&scene, &QUIET);
        dead.signal(Signal::SIGKILL);
        dead.wait(PATIENCE);
        let mut agents = [0, 1].map(|_| {
            let agent = scene.start(&[&QUIET[..], &["--listen", SOCKET]].concat());
            std::thread::sleep(Duration::from_millis(50));
            agent
        });
        until("the end of one", || {
            agents.iter_mut().any(|agent| !agent.is_running())
        });
        until("an answer", || connect(&scene).is_some());
        let (code, text) = get(&scene, "/status");
        let status: Value = serde_json::from_str(&text).unwrap();
        let living = agents
            .into_iter()
            .find_map(|mut agent| agent.is_running().then_some(agent));
        let living = living.expect("one of them listens");
        assert_eq!((code, &status["pid"]), (200, &living.pid().into()));
        assert_eq!(living.stop(), Some(0));
        assert!(!scene.file("agent.sock").exists());
    }
}

fn unix(scene: &Scene) -> String {
    format!("unix:{}", scene.file("agent.sock").display())
}

#[test]
fn an_address_that_is_wrong_or_taken_or_everybodys_is_refused_at_the_start() {
    let scene = fresh_scene();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    for (address, code, words) in [
        (
            taken.as_str(),
            1,
            "address already in use; another agent's? Name another port with --listen",
        ),
        (
            "0.0.0.0:0",
            2,
            "other machines may reach 0.0.0.0:0 and learn",
        ),
        ("[::]:0", 2, "name 127.0.0.1, or add --listen-anywhere"),
        (
            "example.org:80",
            2,
            "is no address; examples: 127.0.0.1:19187",
        ),
        (
            "unix:nowhere/x",
            1,
            "no such file or directory; name another one with --listen",
        ),
    ] {
        let output = scene
            .agent(&[&QUIET[..], &["--listen", address]].concat())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{address}: {stderr}");
        assert!(stderr.contains(words), "{address}: {stderr}");
    }
    drop(listener);
    assert!(!scene.beads().join("daemon.log").exists());
    let agent =
        scene.start(&[&QUIET[..], &["--listen", "0.0.0.0:0", "--listen-anywhere"]].concat());
    until("it listens", || {
        scene
            .lines()
            .iter()
            .any(|line| line.starts_with("Listening at 0.0.0.0:"))
    });
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(
        scene.once(&["--action", "none", "--listen", SOCKET]),
        (0, String::new())
    );
    assert!(
        !scene.file("agent.sock").exists(),
        "of one look nobody asks"
    );
}

#[test]
fn a_long_streak_is_warned_about_once_and_a_reload_keeps_the_address() {
    let scene = fresh_scene();
    let holder = sleeper();
    scene.claim("vc", holder.pid());
    let text = |top: &str| {
        format!("interval = '20ms'\naction = 'none'\n{top}[[database]]\ndir = '.beads'\n")
    };
    scene.write(
        "conf.toml",
        text("skip-warn = '1h'\nlisten = 'unix:agent.sock'\n"),
    );
    let agent = scene.start(&["--config", "conf.toml"]);
    let warned = || {
        scene
            .lines()
            .iter()
            .filter(|line| line.starts_with("Still skipping after "))
            .count()
    };
    let skips = || scene.count("Skipping database (locked by vc)");
    until("skips", || skips() >= 5);
    assert_eq!(warned(), 0);
    scene.write(
        "conf.toml",
        text("skip-warn = '100ms'\nlisten = '127.0.0.1:0'\n"),
    );
    agent.signal(Signal::SIGHUP);
    let kept = "0 gone, 1 changed; another address to listen at is opened at the next start";
    until("the reload", || {
        scene.lines().iter().any(|line| line.ends_with(kept))
    });
    until("a warning", || warned() == 1);
    let before = skips();
    until("more skips", || skips() >= before + 10);
    assert_eq!(
        (warned(), value(&scene, "skip_warnings_total")),
        (1, Some(1.0))
    );
    let host = this_host();
    let words = format!(
        ": locked by vc since 2025-10-25T12:00:00Z by PID {} on {host} (pid_alive); beadlock status {} says what to do",
        holder.pid(),
        scene.beads().display(),
    );
    assert!(
        scene.lines().iter().any(|line| line.ends_with(&words)),
        "{words}: {:?}",
        scene.lines()
    );
    scene.unlock();
    until("the end of the streak", || {
        scene
            .lines()
            .iter()
            .any(|line| line.starts_with("Resumed after "))
    });
    scene.claim("vc", holder.pid());
    until("another warning", || warned() == 2);
    assert_eq!(value(&scene, "skip_warnings_total"), Some(2.0));
    assert_eq!(agent.stop(), Some(0));
}

/// A database that nobody serves is no reason to be green.
#[test]
fn what_is_refused_below_a_root_and_what_has_gone_is_a_row() {
    let scene = fresh_scene();
    let bad = scene.database("tree/bad");
    let good = scene.database("tree/good");
    fs::set_permissions(&bad, Permissions::from_mode(0o777)).unwrap();
    let args = ["--root", "tree", "--action", "none", "--interval", "100ms"];
    let others = ["--stale-after", "1s", "--listen", SOCKET];
    let agent = scene.start(&[&args[..], &others].concat());
    let metric = |line: &str| get(&scene, "/metrics").1.lines().any(|seen| seen == line);
    let row = |dir: &Path| {
        let (_, text) = get(&scene, "/status");
        let status: Value = serde_json::from_str(&text).unwrap_or_default();
        let rows = status["databases"].as_array().cloned().unwrap_or_default();
        let dir = dir.to_str().unwrap();
        rows.into_iter()
            .find(|row| row["dir"] == dir)
            .unwrap_or_default()
    };
    until("it answers", || connect(&scene).is_some());
    until("the refused one", || row(&bad)["reason"] == "refused");
    assert_eq!(row(&bad)["phase"], "not_serving");
    until("the good one", || row(&good)["state"] == "idle");
    let listens = |line: &String| line.starts_with("Listening at unix:");
    let head: Vec<String> = log_of(&good).into_iter().take(2).collect();
    assert!(head.iter().any(listens), "{head:?}");
    for (name, count) in [("sync_state{state", 1), ("databases{phase", 1)] {
        let line = format!("beadlock_agent_{name}=\"not_serving\"}} {count}");
        until("it is counted", || metric(&line));
    }
    until("it is not ready", || {
        get(&scene, "/readyz").1.contains("tree/bad")
    });
    fs::remove_dir_all(scene.file("tree/good")).unwrap();
    until("the gone one", || row(&good)["reason"] == "gone");
    until("it is counted", || {
        metric("beadlock_agent_databases_gone_total 1")
    });
    // Both come back.
    fs::set_permissions(&bad, Permissions::from_mode(0o755)).unwrap();
    scene.database("tree/good");
    until("both are served", || {
        [&bad, &good]
            .into_iter()
            .all(|dir| row(dir)["state"] == "idle")
    });
    assert!(metric("beadlock_agent_databases_gone_total 1"));
    assert_eq!(agent.stop(), Some(0));
}
