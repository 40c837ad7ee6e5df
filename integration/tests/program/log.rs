//! `beadlock log`: what a daemon's log says, for people and in JSON; whatever the log is.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Ended, Running, Scene, as_nobody, has_program};

/// Seconds after 2026-02-01 00:00:00 UTC, as the agent writes them.
fn stamp(seconds: u64) -> String {
    let (day, rest) = (1 + seconds / 86_400, seconds % 86_400);
    format!("2026-02-{day:02} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

const ME: &str = "beadlock-agent 0.1.0, PID 77, host ci-3";

/// A week of an agent with an interval of 5 s, and what is to be found in it.
#[derive(Default)]
struct Week {
    lines: Vec<String>,
    now: u64,
    /// Lengths in seconds of the holds of each name.
    holds: Vec<(&'static str, u64)>,
    skips: Vec<(&'static str, u64)>,
    complete: u64,
}

impl Week {
    fn say(&mut self, message: &str) {
        self.lines.push(format!("[{}] {message}", stamp(self.now)));
    }

    fn cycles(&mut self, count: u64) {
        for _ in 0..count {
            self.say("Starting sync cycle...");
            self.say("exported 3 issues to issues.jsonl");
            self.now += 1;
            self.say("Sync cycle complete");
            self.now += 4;
            self.complete += 1;
        }
    }

    fn skips(&mut self, name: &'static str, pid: u32, skips: u64) {
        let since = stamp(self.now - 2).replace(' ', "T");
        for number in 0..skips {
            self.say(&format!("Skipping database (locked by {name})"));
            if number == 0 {
                self.say(&format!("Held since {since}Z by PID {pid} on ci-3 (pid_alive)"));
            }
            self.now += 5;
        }
        self.skips.push((name, skips));
        self.holds.push((name, skips * 5));
    }

    fn held(&mut self, name: &'static str, pid: u32, skips: u64) {
        self.skips(name, pid, skips);
        self.say(&format!("Resumed after {skips} skips in {}s", skips * 5));
    }

    /// Six days as they come, and a seventh on which things go wrong.
    fn recorded() -> Self {
        let mut week = Self::default();
        week.say(&format!("Agent started: {ME}"));
        for day in 0..6 {
            week.cycles(400 + day * 10);
            for number in 0..8 {
                week.held(
                    ["make", "vc-executor"][number % 2],
                    1000 + u32::try_from(number).unwrap(),
                    10 + 7 * number as u64 + day,
                );
                week.cycles(500);
            }
            week.now = (day + 1) * 86_400;
        }
        week.say("Skipping database (lock check failed: malformed lock file: unexpected EOF)");
        week.now += 300;
        week.say("Skipping database (lock check failed: malformed lock file: unexpected EOF)");
        week.now += 5;
        week.say("Resumed after 2 skips in 5m 5s");
        week.cycles(10);
        week.say("Starting sync cycle...");
        week.say("git: cannot push");
        week.now += 5;
        week.say("Sync cycle failed: exit code 1 after 5s");
        week.say("Starting sync cycle...");
        week.now += 120;
        week.say("Sync cycle timed out after 2m; command ended");
        week.cycles(10);
        week.skips("nightly", 2000, 12);
        week.holds.pop();
        week.holds.push(("nightly", 12 * 5));
        week.say("Removed stale lock (nightly), proceeding with sync");
        week.say("Resumed after 12 skips in 1m");
        week.cycles(10);
        // Killed, and started again by hand.
        week.now += 600;
        week.say("Agent started: beadlock-agent 0.1.0, PID 78, host ci-3");
        week.cycles(10);
        week.skips("make", 3000, 1597);
        week
    }

    /// In three files as the agent rotates them.
    fn write(&self, dir: &Path) {
        let third = self.lines.len() / 3;
        let parts = [&self.lines[..third], &self.lines[third..2 * third], &self.lines[2 * third..]];
        for (lines, name) in parts.iter().zip(["daemon.log.2", "daemon.log.1", "daemon.log"]) {
            let header = format!("{}{ME}, times in UTC\n", &lines[0][..22]);
            fs::write(dir.join(name), header + &lines.join("\n") + "\n").unwrap();
        }
    }

    fn end(&self) -> String {
        stamp(self.now)
    }

    fn median_ms(&self, name: &str) -> u64 {
        let mut holds: Vec<u64> =
            self.holds.iter().filter(|(of, _)| *of == name).map(|(_, length)| length * 1000).collect();
        holds.sort_unstable();
        (holds[(holds.len() - 1) / 2] + holds[holds.len() / 2]) / 2
    }
}

/// The one database of the one log.
#[track_caller]
fn database(ended: &Ended) -> Value {
    let json = ended.json();
    assert_eq!((&json["ok"], &json["error"]), (&json!(true), &Value::Null), "{json}");
    assert_eq!(json["data"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(json["data"][0]["databases"].as_array().map(Vec::len), Some(1), "{json}");
    json["data"][0]["databases"][0].clone()
}

#[test]
fn a_recorded_week_is_summed_up() {
    let scene = Scene::new();
    let week = Week::recorded();
    week.write(&scene.beads());
    let ended = scene.run(&["log", "--until", &week.end(), "--json"]).expect(0, &[]);
    let log = &ended.json()["data"][0];
    assert_eq!(log["files"].as_array().unwrap().len(), 3, "{log}");
    assert_eq!(log["lines"]["all"], week.lines.len() + 3);
    assert_eq!(
        (&log["writer"], &log["agents"]["starts"], &log["agents"]["lost"]),
        (&json!("agent"), &json!(2), &json!(1))
    );
    let database = database(&ended);
    let holders = database["holders"].as_array().unwrap();
    for name in ["make", "vc-executor", "nightly"] {
        let row = holders.iter().find(|row| row["holder"] == name).unwrap();
        let sum = |of: &[(&str, u64)]| {
            of.iter().filter(|(holder, _)| *holder == name).map(|(_, count)| count).sum::<u64>()
        };
        let holds = week.holds.iter().filter(|(holder, _)| *holder == name);
        assert_eq!(row["claims"], holds.clone().count(), "{row}");
        assert_eq!(row["skips"], sum(&week.skips), "{row}");
        assert_eq!(row["median_ms"], week.median_ms(name), "{row}");
        assert_eq!(row["longest_ms"], holds.map(|(_, length)| length * 1000).max().unwrap(), "{row}");
        assert_eq!(row["total_ms"], sum(&week.holds) * 1000, "{row}");
    }
    let ended_how = |name: &str| holders.iter().find(|row| row["holder"] == name).unwrap()["ended"].clone();
    assert_eq!(
        ended_how("make"),
        json!({"released": 24, "removed_stale": 0, "taken_over": 0, "agent_stopped": 0, "open": 1})
    );
    assert_eq!(ended_how("nightly")["removed_stale"], 1);
    let cycles = &database["cycles"];
    assert_eq!(
        (&cycles["complete"], &cycles["failed"], &cycles["timed_out"]),
        (&json!(week.complete), &json!(1), &json!(1))
    );
    assert_eq!(cycles["usual_interval_ms"], 5000);
    let spell = &database["unreadable"][0];
    assert_eq!(
        (&spell["since"], &spell["for_ms"], &spell["end"]),
        (&json!("2026-02-07T00:00:00Z"), &json!(305_000), &json!("released"))
    );
    let gaps = database["gaps"]["list"].as_array().unwrap();
    let kinds: Vec<&str> = gaps.iter().map(|gap| gap["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "silent").count(),
        7,
        "six nights, and the wait for the bad lock: {kinds:?}"
    );
    assert_eq!(kinds[kinds.len() - 2..], ["in_cycle", "gone"]);
    let answer = &database["answer"];
    assert_eq!(
        (&answer["state"], &answer["holder"], &answer["pid"]),
        (&json!("held"), &json!("make"), &json!(3000))
    );
    assert_eq!((&answer["syncing"], &answer["for_ms"]), (&json!(false), &json!(1597 * 5 * 1000)));
}

#[test]
fn the_answer_comes_first_and_fits_a_terminal() {
    let scene = Scene::new();
    let week = Week::recorded();
    week.write(&scene.beads());
    let text = scene.run(&["log", "--until", &week.end()]).expect(0, &[]).out;
    let lines: Vec<&str> = text.lines().collect();
    let since = stamp(week.now - 1597 * 5);
    assert_eq!(
        lines[0],
        format!(
            ".beads/daemon.log: Not syncing since {since} UTC (2h 13m): held by make (PID 3000 on ci-3), 1597 cycles skipped"
        )
    );
    assert_eq!(
        lines[1],
        "  type: beadlock status .beads   (whether the lock is still there, and its holder alive)"
    );
    assert!(lines[1..].iter().all(|line| line.chars().count() <= 110), "{text}");
    assert_eq!(text.matches("UTC").count(), 1, "{text}");
    for words in [
        "beadlock break .beads --holder make --even-if-live",
        "pid_alive: its process lives",
        ".beads/daemon.log and 2 older files: ",
        "cycles: ",
        "1 failed, 1 timed out",
        "held by      claims  skips  median  longest  how they ended",
        "24 released, 1 still held",
        "1 removed stale",
        "malformed lock file: unexpected EOF",
        "timed out after 2m",
        "gone: killed or crashed, then started again",
        "agents: 2 starts, 0 stops, 1 without a stop: killed or crashed",
        "lost after 2026-02-07 ",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    let red = scene.run(&["log", "--color", "always"]).expect(0, &[]).out;
    assert!(red.contains("\u{1b}[31mNot syncing\u{1b}[0m since"), "{red}");
}

#[test]
fn only_what_was_in_the_time_that_is_asked_for() {
    let scene = Scene::new();
    let week = Week::recorded();
    week.write(&scene.beads());
    let day = scene
        .run(&["log", "--since", "2026-02-02", "--until", "2026-02-02 23:59:59", "--json"])
        .expect(0, &[]);
    let json = day.json();
    assert_eq!(
        (&json["data"][0]["since"], &json["data"][0]["agents"]["starts"]),
        (&json!("2026-02-02T00:00:00Z"), &json!(0))
    );
    let database = database(&day);
    assert_eq!(database["cycles"]["complete"], 410 + 8 * 500);
    assert_eq!(database["holders"].as_array().unwrap().len(), 2);
    assert!(database["first"].as_str().unwrap().starts_with("2026-02-02T00:00:00"), "{database}");
    // Nothing is that new, and the answer is what the log said last.
    let late = scene.run(&["log", "--since", "1h", "--json"]).expect(0, &[]);
    assert_eq!(self::database(&late)["answer"]["state"], "held");
    assert_eq!(late.json()["data"][0]["lines"]["all"], 0);
}

#[test]
fn a_wrong_command_line_is_exit_2() {
    let scene = Scene::new();
    fs::write(scene.beads().join("daemon.log"), "").unwrap();
    scene
        .run(&["log", "--since", "yesterday"])
        .expect(2, &["yesterday", "neither a time nor a duration", "2h, 3d"]);
    scene.run(&["log", "--until", ""]).expect(2, &["neither a time nor a duration"]);
    scene.run(&["log", "--since", "2026-02-02", "--until", "2026-02-01"]).expect(2, &["is after --until"]);
    let ended = scene.run(&["log", "--json", "--since", "1h", "--until", "2h"]).expect(2, &[]);
    assert_eq!(ended.json()["error"]["code"], "USAGE");
}

#[test]
fn a_log_that_cannot_be_read_is_named_and_stops_no_other() {
    let scene = Scene::new();
    scene
        .run(&["log"])
        .expect(1, &["there is no ", ".beads/daemon.log: no daemon has logged there", "beadlock log FILE"]);
    fs::write(scene.file("good.log"), "[2026-02-01 10:00:00] Skipping database (locked by make)\n").unwrap();
    let ended = scene.run(&["log", "gone.log", "good.log", ".beads", "/dev/null", "--json"]);
    let ended = ended.expect(
        1,
        &[
            "there is no gone.log",
            ".beads is a directory; name the log in it: beadlock log .beads/daemon.log",
            "/dev/null is a device",
        ],
    );
    let json = ended.json();
    assert_eq!((&json["ok"], &json["error"]["code"]), (&json!(false), &json!("NO_TARGET")));
    assert_eq!(json["data"][0]["databases"][0]["answer"]["holder"], "make");
    fs::write(scene.file("mine.log"), "x").unwrap();
    let mut command = scene.command(&["log", "mine.log", "--json"]);
    if as_nobody(&mut command) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(scene.file("mine.log"), fs::Permissions::from_mode(0o600)).unwrap();
        let ended =
            Running::start(command).finish().expect(1, &["failed to open mine.log: permission denied"]);
        assert_eq!(ended.json()["error"]["code"], "NOT_PERMITTED");
    }
}

#[test]
fn what_is_compressed_is_said_and_read_through_a_pipe() {
    if !has_program("gzip") {
        return;
    }
    let scene = Scene::new();
    let log = "[2026-02-01 10:00:00] Skipping database (locked by make)\n";
    fs::write(scene.file("daemon.log"), log).unwrap();
    let packed = scene.shell("gzip -c daemon.log > daemon.log.1.gz; \"$BEADLOCK\" log daemon.log.1.gz");
    let said = "daemon.log.1.gz: it is compressed; type: zcat daemon.log.1.gz | beadlock log -";
    Running::start(packed).finish().expect(1, &[said]);
    let text = scene.run(&["log", "daemon.log"]).expect(0, &[]).out;
    assert!(text.contains("not read, because compressed: 1 older file, such as daemon.log.1.gz"), "{text}");
    let piped = Running::start(scene.shell("gzip -dc daemon.log.1.gz | \"$BEADLOCK\" log - --json")).finish();
    let json = piped.expect(0, &[]).json();
    assert_eq!(
        (&json["data"][0]["log"], &json["data"][0]["databases"][0]["skips"]),
        (&Value::Null, &json!(1))
    );
}

#[test]
fn a_pipe_is_read_and_one_that_nobody_writes_is_empty() {
    let scene = Scene::new();
    fs::write(scene.file("x.log"), "[2026-02-01 10:00:00] Skipping database (locked by make)\n").unwrap();
    let script = "mkfifo pipe; cat x.log > pipe & exec 9< pipe; \"$BEADLOCK\" log /dev/fd/9 --json; wait";
    let json = Running::start(scene.shell(script)).finish().expect(0, &[]).json();
    assert_eq!(json["data"][0]["databases"][0]["answer"]["holder"], "make");
    let text = scene.run(&["log", "pipe"]).expect(0, &[]).out;
    assert!(text.starts_with("pipe: No line of a daemon in this log"), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scene = Scene::new();
    let mut log = String::new();
    for number in 0..3000 {
        writeln!(log, "[2026-02-01 10:00:00] Skipping database (locked by name-{number})").unwrap();
    }
    fs::write(scene.file("x.log"), log).unwrap();
    let script = "{ \"$BEADLOCK\" log --json x.log; echo $? > code; } | head -c 10 > start";
    let ended = Running::start(scene.shell(script)).finish().expect(0, &[]);
    assert_eq!(
        (ended.err.as_str(), scene.read("start").as_str(), scene.read("code").trim()),
        ("", "{\"ok\":true", "0")
    );
}

#[test]
fn no_line_is_too_long_too_wild_or_too_torn() {
    let scene = Scene::new();
    let log = [
        &b"\0\0\0\0[2026-02-01 10:00:00] Skipping database (locked by a\x1b[2J\xe2\x80\xaeb)\n"[..],
        b"[2026-02-01 10:00:05] \xff\xfe\0 Starting\r\n\n\n",
        b"[2026-02-01 10:00:05] Skipping database (locked by a\x1b[2J\xe2\x80\xaeb)\r\n",
        b"[2026-02-01 10:00:07] /x: Sync cyc",
    ];
    fs::write(scene.file("x.log"), log.concat()).unwrap();
    let ended = scene.run(&["log", "x.log", "--until", "2026-02-01 10:00:10"]).expect(0, &[]);
    assert!(ended.out.chars().all(|c| c == '\n' || beadlock_checker::escape::is_harmless(c)), "{ended:?}");
    let first = ended.out.lines().next().unwrap();
    assert!(first.ends_with(r"held by a\u{1b}[2J\u{202e}b, 2 cycles skipped"), "{first}");
    let raw = scene.run(&["log", "x.log", "--json"]).expect(0, &[]);
    assert_eq!(database(&raw)["holders"][0]["holder"], "a\u{1b}[2J\u{202e}b", "the raw name in JSON");
}

#[test]
fn a_line_without_an_end_needs_no_memory() {
    let scene = Scene::new();
    let script = "ulimit -v 200000; { printf '[2026-02-01 10:00:00] '; head -c 300000000 /dev/zero | tr '\\0' x; echo; \
                  echo '[2026-02-01 10:00:01] Skipping database (locked by make)'; } | \"$BEADLOCK\" log - --json";
    let json = Running::start(scene.shell(script)).finish().expect(0, &[]).json();
    let log = &json["data"][0];
    assert_eq!(log["lines"], json!({"all": 2, "other": 1, "cut": 1, "outside": 0}));
    assert_eq!(log["databases"][0]["answer"]["holder"], "make");
}

/// The lines of one agent, all of the first of February.
fn agents(lines: &[&str]) -> String {
    let header = format!("{ME}, times in UTC");
    let start = format!("Agent started: {ME}");
    let all = [header.as_str(), &start].into_iter().chain(lines.iter().copied());
    all.map(|line| format!("[2026-02-01 10:00:00] {line}\n")).collect()
}

#[test]
fn what_a_cycles_command_prints_is_no_word_of_the_daemon() {
    let scene = Scene::new();
    let log = agents(&[
        "Starting sync cycle...",
        "Sync cycle failed: exit code 3 after 1s",
        "Starting sync cycle...",
        "| Sync cycle complete",
        "| Skipping database (locked by alice)",
        "| Held since 2026-01-01T00:00:00Z by PID 1 on evil.example (other_host)",
        "| /srv/other/.beads: Skipping database (locked by bob)",
        "| Agent stopped: beadlock-agent 0.1.0, PID 77, host ci-3",
        "/srv/other/.beads: Skipping database (locked by carol)",
        "Export complete",
        "Daemon stopped",
        "Sync cycle failed: exit code 3 after 1s",
    ]);
    fs::write(scene.beads().join("daemon.log"), &log).unwrap();
    let ended = scene.run(&["log", "--until", "2026-02-01 10:00:03", "--json"]).expect(0, &[]);
    let database = database(&ended);
    assert_eq!((&database["answer"]["state"], &database["cycles"]["failed"]), (&json!("failing"), &json!(2)));
    assert_eq!((&database["cycles"]["complete"], &database["holders"]), (&json!(0), &json!([])));
    assert_eq!(ended.json()["data"][0]["lines"]["other"], 8);
    // In the log of several databases the mark comes after the name.
    let shared = log.replace("] ", "] /a/.beads: ").replace("/a/.beads: beadlock-agent", "beadlock-agent");
    fs::write(
        scene.file("all.log"),
        shared.replace("/srv/other/.beads: Skipping database (locked by c", "x"),
    )
    .unwrap();
    let until = ["log", "all.log", "--until", "2026-02-01 10:00:03", "--json"];
    let database = self::database(&scene.run(&until).expect(0, &[]));
    assert_eq!((&database["database"], &database["holders"]), (&json!("/a/.beads"), &json!([])));
    let marked = "[2026-02-01 10:00:00] beadlock-agent 0.1.0, PID 7, host h, times in UTC\n\
                  [2026-02-01 10:00:00] /a/.beads: | /b/.beads: Skipping database (locked by bob)\n";
    fs::write(scene.file("all.log"), marked).unwrap();
    let database = self::database(&scene.run(&until).expect(0, &[]));
    assert_eq!((&database["database"], &database["skips"]), (&Value::Null, &json!(0)));
}

#[test]
fn a_line_without_a_time_is_no_word_of_the_agent() {
    let scene = Scene::new();
    let log = agents(&["Starting sync cycle...", "Sync cycle complete"]);
    let torn = "Skipping database (locked by x)\n{\"msg\":\"Daemon stopped\"}\nAgent stopped: make\n";
    fs::write(scene.file("x.log"), log + torn).unwrap();
    let ended = scene.run(&["log", "x.log", "--until", "2026-02-01 10:00:03", "--json"]).expect(0, &[]);
    assert_eq!(database(&ended)["answer"]["state"], "syncing", "{ended:?}");
    assert_eq!(ended.json()["data"][0]["lines"]["other"], 3);
}

#[test]
fn a_log_that_ends_where_cycles_go_on_does_not_say_that_nothing_syncs() {
    let scene = Scene::new();
    let log = agents(&["Skipping database (locked by make)", "Resumed after 1 skips in 2s"]);
    fs::write(scene.file("x.log"), log).unwrap();
    let text = scene.run(&["log", "x.log", "--until", "2026-02-01 10:00:03"]).expect(0, &[]).out;
    let first = "x.log: Syncing: the cycles run again since 2026-02-01 10:00:00 UTC (3s ago), and none is complete yet\n";
    assert!(text.starts_with(first), "{text}");
}

#[test]
fn a_name_that_is_cut_off_is_not_to_be_typed() {
    let scene = Scene::new();
    fs::write(scene.beads().join("daemon.log"), agents(&["Skipping database (locked by a), proceeding"]))
        .unwrap();
    let text = scene.run(&["log", "--until", "2026-02-01 10:00:03"]).expect(0, &[]).out;
    assert!(text.contains("beadlock break .beads --id ID --even-if-live"), "{text}");
    assert!(!text.contains("--holder"), "{text}");
}

#[test]
fn a_last_line_of_the_future_is_no_answer() {
    let scene = Scene::new();
    fs::write(scene.file("x.log"), "[2999-01-01 00:00:00] Sync cycle complete\n").unwrap();
    let text = scene.run(&["log", "x.log"]).expect(0, &[]).out;
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("x.log: The last line is of 2999-01-01 00:00:00 UTC, "), "{text}");
    assert!(first.contains(" in the future: a clock or $TZ is wrong, "), "{text}");
    let json = scene.run(&["log", "x.log", "--json"]).expect(0, &[]);
    let answer = database(&json)["answer"].clone();
    assert_eq!((&answer["state"], &answer["syncing"]), (&json!("unknown"), &Value::Null));
    // Who says up to when knows what he asks for.
    let json = scene.run(&["log", "x.log", "--json", "--until", "2999-01-01 00:00:05"]).expect(0, &[]);
    assert_eq!(database(&json)["answer"]["state"], "syncing");
}

#[test]
fn a_day_is_meant_to_its_end_and_a_time_without_a_line_is_called_so() {
    let scene = Scene::new();
    let log = "[2026-02-01 23:59:59] Starting sync cycle...\n[2026-02-01 23:59:59] Sync cycle complete\n";
    fs::write(scene.file("x.log"), log).unwrap();
    for since in [&[][..], &["--since", "2026-02-01"]] {
        let ended = scene.run(&[&["log", "x.log", "--json", "--until", "2026-02-01"], since].concat());
        assert_eq!(database(&ended.expect(0, &[]))["cycles"]["complete"], 1);
    }
    for window in [["--until", "2026-01-31"], ["--until", "2026-02-01 00:00"]] {
        let text = scene.run(&[&["log", "x.log"][..], &window].concat()).expect(0, &[]).out;
        assert!(text.starts_with("x.log: No line in that time: "), "{text}");
    }
    fs::write(scene.file("y.log"), "[2026-02-01 00:00:00] hello\n").unwrap();
    let text = scene.run(&["log", "y.log", "--since", "2026-02-02"]).expect(0, &[]).out;
    assert!(text.starts_with("y.log: No line in that time: "), "{text}");
    let text = scene.run(&["log", "y.log"]).expect(0, &[]).out;
    assert!(text.starts_with("y.log: No cycle in this log: "), "{text}");
}

/// What the daemon of bd wrote over its versions: local time in brackets, then slog's text, and after a rotation of its
/// own kind.
#[test]
fn the_log_of_the_original_daemon() {
    let scene = Scene::new();
    let old = "\
[2026-02-01 12:00:00] Daemon started (interval: 5s, auto-commit: true, auto-push: true)
[2026-02-01 12:00:00] Using database: /r/.beads/beads.db
[2026-02-01 12:00:00] Starting sync cycle...
[2026-02-01 12:00:00] Exported to JSONL
[2026-02-01 12:00:01] Pulled from remote
[2026-02-01 12:00:01] Sync cycle complete
[2026-02-01 12:00:05] Starting sync cycle...
[2026-02-01 12:00:05] Skipping database (locked by vc-executor)
[2026-02-01 12:00:10] Starting sync cycle...
[2026-02-01 12:00:10] Skipping database (locked by vc-executor)
[2026-02-01 12:00:15] Starting sync cycle...
[2026-02-01 12:00:15] Removed stale lock (vc-executor), proceeding with sync
[2026-02-01 12:00:16] Sync cycle complete
[2026-02-01 12:00:17] Received signal terminated, shutting down gracefully...
";
    let new = "\
time=2026-02-01T12:10:00.044+03:00 level=INFO msg=\"Daemon started (interval: %v, auto-commit: %v, auto-push: %v)\" !BADKEY=5s !BADKEY=false !BADKEY=false
time=2026-02-01T12:10:00.063+03:00 level=WARN msg=\"failed to upgrade .gitignore\" error=\"open .beads/.gitignore: no such file or directory\"
time=2026-02-01T12:10:00.073+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=\"sync cycle\"
time=2026-02-01T12:10:02.373+03:00 level=INFO msg=\"Pull failed: %v\" !BADKEY=\"git pull failed: exit status 128\\nfatal: no\"
time=2026-02-01T12:10:05.835+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=auto-import
time=2026-02-01T12:10:05.836+03:00 level=INFO msg=\"Skipping %s (lock check failed: %v)\" auto-import=\"malformed lock file: unexpected EOF\"
";
    fs::write(scene.beads().join("daemon-2026-02-01T09-05-00.000.log"), old).unwrap();
    fs::write(scene.beads().join("daemon.log"), new).unwrap();
    let mut command = scene.command(&["log", "--json", "--until", "2026-02-01 09:10:07"]);
    command.env("TZ", "XXX-3");
    let ended = Running::start(command).finish().expect(0, &[]);
    let log = &ended.json()["data"][0];
    assert_eq!(
        (&log["writer"], &log["agents"]["starts"], &log["agents"]["stops"]),
        (&json!("original"), &json!(2), &json!(1))
    );
    let database = database(&ended);
    assert_eq!(database["first"], "2026-02-01T09:00:00Z", "local time, three hours ahead");
    let row = &database["holders"][0];
    assert_eq!(
        (&row["holder"], &row["claims"], &row["skips"], &row["median_ms"]),
        (&json!("vc-executor"), &json!(1), &json!(2), &json!(10_000))
    );
    assert_eq!(row["ended"]["removed_stale"], 1);
    let cycles = &database["cycles"];
    assert_eq!(
        (&cycles["complete"], &cycles["failed"], &cycles["unfinished"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert_eq!(
        database["failures"][0]["message"],
        "Pull failed: git pull failed: exit status 128\nfatal: no"
    );
    let answer = &database["answer"];
    assert_eq!((&answer["state"], &answer["since"]), (&json!("unreadable"), &json!("2026-02-01T09:00:17Z")));
    assert_eq!(answer["detail"], "malformed lock file: unexpected EOF");
    let mut command = scene.command(&["log", "--until", "2026-02-01 09:10:07"]);
    command.env("TZ", "XXX-3");
    let text = Running::start(command).finish().expect(0, &[]).out;
    assert!(text.contains("times without a zone, as bd's daemon writes them, were taken as "), "{text}");
    assert!(text.contains(r"exit status 128\nfatal: no"), "{text}");
}

#[test]
fn several_logs_and_several_databases_are_told_apart() {
    let scene = Scene::new();
    let shared = "\
[2026-02-01 10:00:00] beadlock-agent 0.1.0, PID 77, host ci-3, times in UTC
[2026-02-01 10:00:00] Agent started: beadlock-agent 0.1.0, PID 77, host ci-3
[2026-02-01 10:00:00] /a/.beads: Starting sync cycle...
[2026-02-01 10:00:00] /b/.beads: Skipping database (locked by make)
[2026-02-01 10:00:01] /a/.beads: Sync cycle complete
";
    fs::write(scene.file("all.log"), shared).unwrap();
    fs::write(scene.file("one.log"), "[2026-02-01 10:00:00] Skipping database (locked by vc)\n").unwrap();
    let until = ["--until", "2026-02-01 10:00:03"];
    let text = scene.run(&[&["log", "all.log", "one.log"][..], &until].concat()).expect(0, &[]).out;
    for words in [
        "/a/.beads: Syncing: the last cycle was complete at 2026-02-01 10:00:01 UTC (2s ago)\n",
        "/b/.beads: Not syncing since 2026-02-01 10:00:00 UTC",
        "beadlock status /b/.beads ",
        "one.log: Not syncing since 2026-02-01 10:00:00 UTC or earlier (3s): held by vc, 1 cycle skipped\n",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let json =
        scene.run(&[&["log", "--json", "all.log", "one.log"][..], &until].concat()).expect(0, &[]).json();
    let names: Vec<&Value> =
        json["data"][0]["databases"].as_array().unwrap().iter().map(|one| &one["database"]).collect();
    assert_eq!(names, [&json!("/a/.beads"), &json!("/b/.beads")]);
    assert_eq!(json["data"][1]["databases"][0]["database"], Value::Null);
}

#[test]
fn lines_without_any_time_are_summed_up_too() {
    let scene = Scene::new();
    let lines = "Skipping database (locked by vc-executor)\nSkipping database (locked by vc-executor)\n\
                 Removed stale lock (vc-executor), proceeding with sync\n";
    fs::write(scene.file("seed.log"), lines).unwrap();
    let ended = scene.run(&["log", "seed.log"]).expect(0, &[]);
    assert!(ended.out.contains("vc-executor"), "{ended:?}");
    let malformed = "Skipping database (lock check failed: malformed lock file: unexpected EOF)\n";
    fs::write(scene.file("seed.log"), format!("{lines}{malformed}")).unwrap();
    let ended = scene.run(&["log", "seed.log"]).expect(0, &[]);
    assert!(ended.out.contains("Not syncing: the lock cannot be checked, 1 cycle skipped"), "{ended:?}");
    assert!(ended.out.contains("malformed lock file: unexpected EOF"), "{ended:?}");
    assert!(ended.out.contains("no line says when"), "{ended:?}");
}
