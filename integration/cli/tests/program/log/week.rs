//! A recorded week: what is to be found in it is known, and is found.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{ME, database};

/// Seconds after 2026-02-01 00:00:00 UTC, as the agent writes them.
fn stamp(seconds: u64) -> String {
    let (day, rest) = (1 + seconds / 86_400, seconds % 86_400);
    format!(
        "2026-02-{day:02} {:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

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
                self.say(&format!(
                    "Held since {since}Z by PID {pid} on ci-3 (pid_alive)"
                ));
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

    /// Writes the log in three files, as the agent rotates them.
    fn write(&self, dir: &Path) {
        let third = self.lines.len() / 3;
        let parts = [
            &self.lines[..third],
            &self.lines[third..2 * third],
            &self.lines[2 * third..],
        ];
        for (lines, name) in parts
            .iter()
            .zip(["daemon.log.2", "daemon.log.1", "daemon.log"])
        {
            let header = format!("{}{ME}, times in UTC\n", &lines[0][..22]);
            fs::write(dir.join(name), header + &lines.join("\n") + "\n").unwrap();
        }
    }

    fn end(&self) -> String {
        stamp(self.now)
    }

    fn median_ms(&self, name: &str) -> u64 {
        let mut holds: Vec<u64> = self
            .holds
            .iter()
            .filter(|(of, _)| *of == name)
            .map(|(_, length)| length * 1000)
            .collect();
        holds.sort_unstable();
        (holds[(holds.len() - 1) / 2] + holds[holds.len() / 2]) / 2
    }
}

#[test]
fn a_recorded_week_is_summed_up() {
    let scene = crate::a_scene();
    let week = Week::recorded();
    week.write(&scene.beads());
    let ended = scene
        .run(&["log", "--until", &week.end(), "--json"])
        .expect(0, &[]);
    let log = &ended.json()["data"][0];
    assert_eq!(log["files"].as_array().unwrap().len(), 3, "{log}");
    assert_eq!(log["lines"]["all"], week.lines.len() + 3);
    assert_eq!(
        (
            &log["writer"],
            &log["agents"]["starts"],
            &log["agents"]["lost"]
        ),
        (&json!("agent"), &json!(2), &json!(1))
    );
    let database = database(&ended);
    let holders = database["holders"].as_array().unwrap();
    for name in ["make", "vc-executor", "nightly"] {
        let row = holders.iter().find(|row| row["holder"] == name).unwrap();
        let sum = |of: &[(&str, u64)]| {
            of.iter()
                .filter(|(holder, _)| *holder == name)
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        let holds = week.holds.iter().filter(|(holder, _)| *holder == name);
        assert_eq!(row["claims"], holds.clone().count(), "{row}");
        assert_eq!(row["skips"], sum(&week.skips), "{row}");
        assert_eq!(row["median_ms"], week.median_ms(name), "{row}");
        assert_eq!(
            row["longest_ms"],
            holds.map(|(_, length)| length * 1000).max().unwrap(),
            "{row}"
        );
        assert_eq!(row["total_ms"], sum(&week.holds) * 1000, "{row}");
    }
    let ended_how =
        |name: &str| holders.iter().find(|row| row["holder"] == name).unwrap()["ended"].clone();
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
        (
            &json!("2026-02-07T00:00:00Z"),
            &json!(305_000),
            &json!("released")
        )
    );
    let gaps = database["gaps"]["list"].as_array().unwrap();
    let kinds: Vec<&str> = gaps
        .iter()
        .map(|gap| gap["kind"].as_str().unwrap())
        .collect();
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
    assert_eq!(
        (&answer["syncing"], &answer["for_ms"]),
        (&json!(false), &json!(1597 * 5 * 1000))
    );
}

#[test]
fn the_answer_comes_first_and_fits_a_terminal() {
    let scene = crate::a_scene();
    let week = Week::recorded();
    week.write(&scene.beads());
    let text = scene
        .run(&["log", "--until", &week.end()])
        .expect(0, &[])
        .out;
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
    assert!(
        lines[1..].iter().all(|line| line.chars().count() <= 110),
        "{text}"
    );
    assert_eq!(
        text.matches("UTC").count(),
        2,
        "once in the answer, once over the tables: {text}"
    );
    for words in [
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
    assert!(
        red.contains("\u{1b}[31mNot syncing\u{1b}[0m since"),
        "{red}"
    );
}

#[test]
fn only_what_was_in_the_time_that_is_asked_for() {
    let scene = crate::a_scene();
    let week = Week::recorded();
    week.write(&scene.beads());
    let day = scene
        .run(&[
            "log",
            "--since",
            "2026-02-02",
            "--until",
            "2026-02-02 23:59:59",
            "--json",
        ])
        .expect(0, &[]);
    let json = day.json();
    assert_eq!(
        (
            &json["data"][0]["since"],
            &json["data"][0]["agents"]["starts"]
        ),
        (&json!("2026-02-02T00:00:00Z"), &json!(0))
    );
    let database = database(&day);
    assert_eq!(database["cycles"]["complete"], 410 + 8 * 500);
    assert_eq!(database["holders"].as_array().unwrap().len(), 2);
    assert!(
        database["first"]
            .as_str()
            .unwrap()
            .starts_with("2026-02-02T00:00:00"),
        "{database}"
    );
    // Nothing is that new, and the answer is what the log said last.
    let late = scene
        .run(&["log", "--since", "1h", "--json"])
        .expect(0, &[]);
    assert_eq!(self::database(&late)["answer"]["state"], "held");
    assert_eq!(late.json()["data"][0]["lines"]["all"], 0);
}
