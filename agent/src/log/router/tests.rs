use super::*;
use beadlock_base::escape::escaped_path;
use serde_json::Value;
use std::fs;
use std::sync::mpsc;

/// So many databases, served, and a router for them without a terminal.
fn scene(count: usize, settings: LogSettings) -> (tempfile::TempDir, Vec<PathBuf>, Router) {
    let root = tempfile::tempdir().unwrap();
    let served = Arc::new(Served::new(settings, None));
    let dir = |number: usize| {
        let dir = root.path().join(format!("{number}/.beads"));
        fs::create_dir_all(&dir).unwrap();
        served.serve(number, &dir);
        dir
    };
    let dirs = (0..count).map(dir).collect();
    let mut router = Router::new(served, mpsc::channel().0);
    router.terminal = None;
    (root, dirs, router)
}

fn shared(path: &Path) -> LogSettings {
    LogSettings {
        shared: Some(path.to_owned()),
        ..LogSettings::default()
    }
}

impl Router {
    fn say(&mut self, database: usize, text: &str) {
        self.take(LogMessage::Lines {
            to: Recipients::One(database),
            seconds: 0,
            lines: vec![agent_lines::output(text)],
        });
    }

    fn say_to_all(&mut self, text: &str) {
        let to = Recipients::All(self.served.now());
        self.take(LogMessage::Lines {
            to,
            seconds: 0,
            lines: vec![agent_lines::output(text)],
        });
    }

    fn turn(&mut self, database: usize) {
        self.take(LogMessage::Turned(database));
    }
}

/// The messages of a log without its header.
fn log(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("daemon.log")).unwrap_or_default();
    let messages = text
        .lines()
        .skip(1)
        .map(|line| line.strip_prefix("[1970-01-01 00:00:00] ").unwrap());
    messages.map(str::to_owned).collect()
}

#[test]
fn each_database_has_its_own_log_and_few_are_open() {
    let (_root, dirs, mut router) = scene(OPEN + 5, LogSettings::default());
    router.say_to_all("for all");
    router.say(1, "for one");
    for (number, dir) in dirs.iter().enumerate() {
        let expected: &[&str] = if number == 1 {
            &["for all", "for one"]
        } else {
            &["for all"]
        };
        assert_eq!(log(dir), expected, "{number}");
    }
    assert_eq!(
        router.files.values().filter(|file| file.is_open()).count(),
        OPEN
    );
}

#[test]
fn a_shared_log_names_the_database_once_there_are_two() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("all.log");
    let (_root, dirs, mut router) = scene(1, shared(&path));
    router.say(0, "alone");
    router.served.serve(1, Path::new("/r/.beads"));
    router.say_to_all("for all");
    router.say(1, "for one");
    router.served.unserve(0);
    router.say(1, "alone again");
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<_> = text
        .lines()
        .skip(1)
        .map(|line| line.split_once("] ").unwrap().1)
        .collect();
    assert_eq!(
        lines,
        [
            "alone",
            "for all",
            "/r/.beads: for one",
            "/r/.beads: alone again"
        ]
    );
    assert!(!dirs[0].join("daemon.log").exists());
}

#[test]
fn one_that_has_gone_gets_its_own_lines_and_nobody_elses() {
    let (_root, dirs, mut router) = scene(2, LogSettings::default());
    let everyone = Recipients::All(router.served.now());
    router.say(0, "first");
    router.served.unserve(0);
    router.take(LogMessage::Lines {
        to: everyone,
        seconds: 0,
        lines: vec![agent_lines::output("said before")],
    });
    router.say(0, "in flight");
    router.turn(0);
    router.say_to_all("said after");
    assert!(!router.files.contains_key(&Some(0)), "closed");
    router.say(0, "late");
    assert!(
        !router.files.contains_key(&Some(0)),
        "and nothing is kept for it"
    );
    assert_eq!(log(&dirs[0]), ["first", "said before", "in flight", "late"]);
    assert_eq!(log(&dirs[1]), ["said before", "said after"]);
    router.served.serve(0, &dirs[0]);
    router.turn(0);
    router.say_to_all("again");
    assert_eq!(log(&dirs[0]).last().unwrap(), "again");
    assert!(router.files[&Some(0)].is_open());
}

#[test]
fn thousands_that_come_and_go_leave_no_open_file() {
    let (_root, dirs, mut router) = scene(1, LogSettings::default());
    for number in 1..3_000 {
        router.served.serve(number, &dirs[0]);
        router.turn(number);
        router.say(number, "x");
        router.served.unserve(number);
        router.turn(number);
    }
    assert_eq!((router.files.len(), router.open.len()), (0, 0));
    // Each has a line, and all but the first a head before it.
    assert_eq!(log(&dirs[0]).len(), 2 * 2_999 - 1);
}

#[test]
fn settings_hold_for_the_lines_after_them() {
    let (root, dirs, mut router) = scene(2, LogSettings::default());
    router.say(0, "text");
    router.served.configure(LogSettings {
        format: LogFormat::Json,
        ..LogSettings::default()
    });
    router.say(0, "still text");
    router.take(LogMessage::Configured);
    router.say(0, "json");
    let path = root.path().join("all.log");
    router.served.configure(LogSettings {
        format: LogFormat::Json,
        ..shared(&path)
    });
    router.take(LogMessage::Configured);
    router.say(0, "shared");
    router.say_to_all("for all");
    let own = fs::read_to_string(dirs[0].join("daemon.log")).unwrap();
    let own: Vec<_> = own.lines().collect();
    assert_eq!(
        own[1..3],
        [
            "[1970-01-01 00:00:00] text",
            "[1970-01-01 00:00:00] still text"
        ]
    );
    let objects = |lines: &[&str]| -> Vec<(String, Value, Value)> {
        let object = |line: &&str| {
            let object: Value = serde_json::from_str(line).unwrap();
            (
                object["message"].as_str().unwrap().to_owned(),
                object["event"].clone(),
                object["db"].clone(),
            )
        };
        lines.iter().map(object).collect()
    };
    let db: Value = dirs[0].to_str().unwrap().into();
    assert_eq!(
        objects(&own[3..]),
        [("json".to_owned(), "output".into(), db.clone())]
    );
    let all = fs::read_to_string(path).unwrap();
    let all = objects(&all.lines().collect::<Vec<_>>());
    let header = (agent_lines::header().message, "header".into(), Value::Null);
    let expected = [
        header,
        ("shared".to_owned(), "output".into(), db),
        ("for all".to_owned(), "output".into(), Value::Null),
    ];
    assert_eq!(
        all, expected,
        "in JSON the database is no part of the message"
    );
}

#[test]
fn a_shared_log_goes_on_with_new_limits() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("all.log");
    let (_root, _dirs, mut router) = scene(1, shared(&path));
    let line = "x".repeat(1000);
    for _ in 0..20 {
        router.say(0, &line);
    }
    assert!(fs::metadata(&path).unwrap().len() > 20_000);
    router.served.configure(LogSettings {
        size: 4096,
        keep: 1,
        ..shared(&path)
    });
    router.take(LogMessage::Configured);
    for _ in 0..20 {
        router.say(0, &line);
        assert!(fs::metadata(&path).unwrap().len() <= 4096);
    }
    assert!(root.path().join("all.log.1").exists() && !root.path().join("all.log.2").exists());
}

#[test]
fn the_end_comes_after_everything() {
    let (_root, dirs, mut router) = scene(1, LogSettings::default());
    let (ended, has_ended) = mpsc::channel();
    router.ended = ended;
    router.say(0, "last");
    assert!(has_ended.try_recv().is_err());
    let (out, messages) = mpsc::sync_channel(4);
    let lines = |text| LogMessage::Lines {
        to: Recipients::One(0),
        seconds: 0,
        lines: vec![agent_lines::output(text)],
    };
    for message in [
        lines("in the queue"),
        LogMessage::End,
        lines("after the end"),
    ] {
        out.send(message).unwrap();
    }
    router.run(&messages);
    has_ended.try_recv().unwrap();
    assert_eq!(log(&dirs[0]), ["last", "in the queue"]);
}

#[test]
fn a_terminal_that_does_not_read_stops_nothing() {
    let (_root, dirs, mut router) = scene(1, LogSettings::default());
    let pty = nix::pty::openpty(None, None).unwrap();
    // As `terminal::on_stderr` opens it: with room for a part of a line only, a write would wait.
    let flags = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
    nix::fcntl::fcntl(&pty.slave, flags).unwrap();
    router.terminal = Some(File::from(pty.slave));
    for number in 0..20_000 {
        router.say(0, &number.to_string());
    }
    assert_eq!(log(&dirs[0]).len(), 20_000);
}

#[test]
fn a_terminal_gets_text() {
    let (_root, dirs, mut router) = scene(
        2,
        LogSettings {
            format: LogFormat::Json,
            ..LogSettings::default()
        },
    );
    let pty = nix::pty::openpty(None, None).unwrap();
    router.terminal = Some(File::from(pty.slave));
    router.say(1, "x");
    let mut seen = [0; 1000];
    let length = nix::unistd::read(&pty.master, &mut seen).unwrap();
    let expected = format!("[1970-01-01 00:00:00] {}: x", escaped_path(&dirs[1]));
    assert_eq!(
        String::from_utf8_lossy(&seen[..length]).trim_end(),
        expected
    );
}

#[test]
fn a_directory_speaks_no_message() {
    assert_eq!(
        named(Path::new("/a: Sync cycle complete/.beads")),
        r"/a:\u{20}Sync cycle complete/.beads"
    );
    assert_eq!(named(Path::new("/a:b c/.beads")), "/a:b c/.beads");
}
