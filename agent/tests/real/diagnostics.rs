//! `--log-level`: the agent's own diagnostics on standard error, apart from the logs of the databases.

use std::fs::{self, File};
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use beadlock_testkit::{
    Ended, PATIENCE, Running, Scene, read, shell_lock_text, sleeper, this_host, until,
};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;

use crate::agent::{OfAgent, count_in, fresh_scene};

const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

/// The levels of these lines, each of which begins with an RFC 3339 time in UTC.
#[track_caller]
fn levels(stderr: &str) -> Vec<&str> {
    stderr
        .lines()
        .map(|line| {
            let (time, rest) = line
                .split_once(' ')
                .unwrap_or_else(|| panic!("{line:?} in {stderr}"));
            assert!(
                time.len() == 27 && time.ends_with('Z') && &time[10..11] == "T",
                "{line:?}"
            );
            rest.split_whitespace().next().unwrap()
        })
        .collect()
}

/// The agent with its standard error in the file `said`.
fn start(scene: &Scene, args: &[&str]) -> Running {
    Running::on(File::create(scene.file("said")).unwrap(), scene.agent(args))
}

fn said(scene: &Scene) -> String {
    scene.read("said")
}

#[test]
fn each_level_has_its_lines_and_those_above_it() {
    for (asked, deepest) in [
        (None, None),
        (Some("off"), None),
        (Some("error"), None),
        (Some("warn"), None),
    ]
    .into_iter()
    .chain([(Some("info"), Some("INFO")), (Some("debug"), Some("DEBUG"))])
    {
        let scene = fresh_scene();
        let args: Vec<&str> = asked
            .iter()
            .flat_map(|level| ["--log-level", level])
            .collect();
        let (code, stderr) = scene.once(&[&["--action", "none"], &args[..]].concat());
        assert_eq!(code, 0, "{stderr}");
        let levels = levels(&stderr);
        let depth = |level: &str| {
            LEVELS
                .iter()
                .position(|known| *known == level)
                .expect("a level")
        };
        assert_eq!(
            levels.iter().copied().max_by_key(|level| depth(level)),
            deepest,
            "{asked:?}: {stderr}"
        );
        assert_eq!(
            scene.lines().len(),
            5,
            "the log of the database stays as it is: {:?}",
            scene.lines()
        );
    }
    let (code, stderr) = fresh_scene().once(&["--log-level", "loud"]);
    let words = "[possible values: off, error, warn, info, debug, trace]";
    assert!(code == 2 && stderr.contains(words), "{code}: {stderr}");
}

#[test]
fn a_cycle_says_which_it_is_why_it_runs_and_who_holds_its_lock() {
    let scene = fresh_scene();
    let holder = sleeper();
    scene.claim("vc", holder.pid());
    let agent = start(
        &scene,
        &[
            "--interval",
            "10m",
            "--exec",
            "true",
            "--log-level",
            "trace",
        ],
    );
    let span = |n: u32| {
        format!(
            "DEBUG cycle{{db={:?} action=\"exec\" n={n}}}: ",
            scene.beads()
        )
    };
    let has = |n, words: &str| said(&scene).contains(&format!("{}{words}", span(n)));
    until("the end of a first cycle", || {
        has(1, "ended outcome=\"skipped\" took=")
    });
    assert!(has(1, "begins why=\"interval\"\n"), "{}", said(&scene));
    let pid = holder.pid();
    let checked =
        format!("checked decision=\"skip\" reason=\"pid_alive\" holder=\"vc\" pid={pid} host=");
    assert!(has(1, &checked), "{}", said(&scene));
    scene.unlock();
    until("the end of a second cycle", || {
        has(2, "ended outcome=\"complete\" took=")
    });
    // It may go away before the first cycle has been put away; then the agent looks again by itself.
    let is_seen = has(2, "begins why=\"lock went away\"\n");
    assert!(
        is_seen || has(2, "begins why=\"retry\"\n"),
        "{}",
        said(&scene)
    );
    assert!(
        has(2, "checked decision=\"proceed\" reason=\"no_lock\" took="),
        "{}",
        said(&scene)
    );
    assert!(
        has(2, "work ended end=\"Sync cycle complete\" took="),
        "{}",
        said(&scene)
    );
    let seen = format!(
        "TRACE the watcher has seen db={:?} changed=false lock_gone=true",
        scene.beads()
    );
    assert!(!is_seen || said(&scene).contains(&seen), "{}", said(&scene));
    fs::write(scene.beads().join("issues.jsonl"), "{}").unwrap();
    until("a third cycle", || has(3, "begins why=\"change\"\n"));
    assert_eq!(agent.stop(), Some(0));
    levels(&said(&scene));
}

#[test]
fn a_cycle_that_takes_longer_than_its_interval_is_named() {
    let scene = fresh_scene();
    let (code, stderr) = scene.once(&[
        "--interval",
        "10ms",
        "--exec",
        "sleep 0.1",
        "--log-level",
        "info",
    ]);
    assert_eq!(code, 0);
    let line = stderr
        .lines()
        .find(|line| line.contains("slow: it took longer than its interval"));
    let line = line.unwrap_or_else(|| panic!("{stderr}"));
    assert!(
        line.contains(" INFO cycle{db=") && line.ends_with(" interval=10ms"),
        "{line}"
    );
}

/// A repository whose remote asks for a password that is in its URL.
#[test]
fn the_steps_of_git_have_durations_and_no_secret() {
    let scene = fresh_scene();
    let git = |args: &[&str]| {
        let output = scene
            .command("git")
            .args(args)
            .env("HOME", scene.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["config", "user.name", "t"]);
    git(&["config", "user.email", "t@t"]);
    git(&[
        "remote",
        "add",
        "origin",
        "http://ann:hunter2@127.0.0.1:1/x.git",
    ]);
    git(&["config", "branch.main.remote", "origin"]);
    git(&["config", "branch.main.merge", "refs/heads/main"]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
    fs::write(scene.beads().join("issues.jsonl"), "{}").unwrap();
    let (_, stderr) = scene.once(&["--log-level", "trace"]);
    for step in ["rev-parse", "fetch"] {
        let words = format!(": git step=\"{step}\" took=");
        assert!(stderr.contains(&words), "{step}: {stderr}");
    }
    assert!(stderr.contains(" action=\"git\" n=1}"), "{stderr}");
    assert!(!stderr.contains("hunter2"), "{stderr}");
    let log = scene.lines();
    assert!(
        log.iter().any(|line| line.starts_with("Cannot reach ")),
        "the remote was asked: {log:?}"
    );
    assert!(
        !log.iter().any(|line| line.contains("step")),
        "steps are not for the log: {log:?}"
    );
    let quiet = scene.once(&["--log-level", "info"]).1;
    assert!(!quiet.contains("step="), "{quiet}");
}

#[test]
fn what_is_on_its_way_is_written_at_the_end() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let scene = fresh_scene();
        let agent = scene.start(&[
            "--interval",
            "5ms",
            "--action",
            "none",
            "--log-level",
            "trace",
        ]);
        until("some cycles", || scene.count("Sync cycle complete") >= 20);
        agent.signal(signal);
        let Ended {
            code, err: stderr, ..
        } = agent.end();
        assert_eq!(code, 0);
        let (cycles, ended) = (
            scene.count("Sync cycle complete"),
            stderr.matches(": ended outcome=").count(),
        );
        assert_eq!(cycles, ended, "{stderr}");
        let last = stderr.lines().last().unwrap();
        assert!(last.ends_with(" INFO agent stops code=0"), "{last}");
        // A check that was under way may end after it.
        let told = format!(" INFO told to end signal=\"{}\"", signal.as_str());
        assert!(stderr.contains(&told), "{stderr}");
    }
}

#[test]
fn a_start_that_fails_has_its_lines_before_the_reason() {
    let scene = fresh_scene();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = scene
        .agent(&["--listen", &address, "--log-level", "info"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice(), lines.len()),
        (Some(1), &[][..], 3)
    );
    assert!(
        lines[0].contains(" INFO agent starts version=")
            && lines[1].contains(" INFO agent cannot start error=")
    );
    assert!(
        lines[2].starts_with("beadlock-agent: cannot start: "),
        "{stderr}"
    );
}

/// A pipe, or a socket as journald has it, that is full and that nobody reads; and its other end.
fn stuck(is_socket: bool) -> (OwnedFd, OwnedFd) {
    let (reader, writer) = if is_socket {
        let (reader, writer) = UnixStream::pair().unwrap();
        (reader.into(), writer.into())
    } else {
        nix::unistd::pipe().unwrap()
    };
    let flags = |flags| fcntl(&writer, FcntlArg::F_SETFL(flags)).unwrap();
    flags(OFlag::O_NONBLOCK);
    while nix::unistd::write(&writer, &[b'\n'; 1024]).is_ok() {}
    flags(OFlag::empty());
    (reader, writer)
}

/// So many cycles of so many databases are some 8,000 lines: more than there is room for.
const MANY: usize = 50;
const DATABASES: usize = 40;

fn many_cycles(scene: &Scene, stderr: OwnedFd, level: &str) -> (Duration, Running) {
    let mut agent = scene.agent(&[
        "--interval",
        "5ms",
        "--action",
        "none",
        "--log-level",
        level,
        "--db",
        ".beads",
    ]);
    for number in 1..DATABASES {
        agent.arg("--db").arg(scene.database(&number.to_string()));
    }
    let begun = Instant::now();
    let agent = Running::on(stderr, agent);
    until("many cycles", || scene.count("Sync cycle complete") >= MANY);
    (begun.elapsed(), agent)
}

#[test]
fn a_standard_error_that_is_full_keeps_no_cycle_and_no_end_and_the_loss_is_counted() {
    let control = fresh_scene();
    let null = File::options().write(true).open("/dev/null").unwrap();
    let (alone, agent) = many_cycles(&control, null.into(), "off");
    assert_eq!(agent.stop(), Some(0));
    for is_socket in [false, true] {
        let scene = fresh_scene();
        let (reader, writer) = stuck(is_socket);
        let (took, agent) = many_cycles(&scene, writer, "trace");
        eprintln!("{MANY} cycles in {took:?}, without diagnostics in {alone:?}");
        // Read at last, it has the first lines, and then the number of the lost ones.
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            File::from(reader).read_to_string(&mut text).unwrap();
            text
        });
        let before = scene.count("Sync cycle complete");
        until("more cycles", || {
            scene.count("Sync cycle complete") > before + 10
        });
        assert_eq!(agent.stop(), Some(0));
        let text = reading.join().unwrap();
        let text = text.trim_start_matches('\n');
        assert!(
            text.lines().next().unwrap().contains(" INFO agent starts "),
            "{}",
            &text[..200]
        );
        let lost = text
            .lines()
            .find(|line| line.ends_with(" lines of diagnostics are lost"));
        let lost = lost.unwrap_or_else(|| panic!("{}", &text[text.len() - 1000..]));
        assert!(
            lost.contains("  WARN standard error was not read in time: "),
            "{lost}"
        );
        levels(text);

        // And one that is never read keeps no end.
        let scene = fresh_scene();
        let (reader, writer) = stuck(is_socket);
        let (_, mut agent) = many_cycles(&scene, writer, "trace");
        agent.signal(Signal::SIGTERM);
        let begun = Instant::now();
        assert!(agent.wait(PATIENCE).success());
        assert!(
            begun.elapsed() < Duration::from_secs(15),
            "{:?}",
            begun.elapsed()
        );
        assert!(scene.lines().last().unwrap().starts_with("Agent stopped: "));
        drop(reader);
    }
}

/// A reader that has gone is not one that is slow.
#[test]
fn a_closed_standard_error_keeps_nothing() {
    let scene = fresh_scene();
    let (reader, writer) = nix::unistd::pipe().unwrap();
    drop(reader);
    let (_, agent) = many_cycles(&scene, writer, "trace");
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn no_name_from_a_file_forges_a_line_or_moves_a_cursor() {
    let scene = fresh_scene();
    let forged = "2026-01-01T00:00:00.000000Z ERROR forged";
    let dir = scene.database(&format!("x\n{forged}\r\u{1b}[2J\u{202e}\u{9b}\"}}: y"));
    let holder = sleeper();
    let name = format!("h\n{forged}\u{1b}[1m\u{202e}{}", "é".repeat(1_000));
    let lock = shell_lock_text(&name, holder.pid().into(), &this_host());
    fs::write(dir.join(".exclusive-lock"), lock).unwrap();
    let args = ["--once", "--action", "none", "--log-level", "trace", "--db"];
    let output = scene.agent(&args).arg(&dir).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("holder=\"h\\n2026-"), "{stderr}");
    assert!(!levels(&stderr).contains(&"ERROR"), "{stderr}");
    let is_harmless = |c| c == '\n' || beadlock_base::escape::is_harmless(c);
    assert!(stderr.chars().all(is_harmless), "{stderr:?}");
    assert!(
        stderr.lines().all(|line| line.chars().count() < 1_000),
        "names are cut: {stderr}"
    );
}

#[test]
fn a_terminal_has_no_colours_either() {
    let scene = fresh_scene();
    let pty = nix::pty::openpty(None, None).unwrap();
    let args = ["--once", "--action", "none", "--log-level", "debug"];
    assert!(scene.start_on(pty.slave, &args).wait(PATIENCE).success());
    let mut seen = Vec::new();
    until("the last line", || {
        let mut piece = [0; 4096];
        let length = nix::unistd::read(&pty.master, &mut piece).unwrap_or(0);
        seen.extend_from_slice(&piece[..length]);
        String::from_utf8_lossy(&seen).contains(" INFO agent stops code=0")
    });
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        seen.contains(": checked decision=") && seen.contains("] Sync cycle complete"),
        "{seen}"
    );
    assert!(!seen.contains('\u{1b}'), "{seen:?}");
}

/// The command line beats the environment, and both beat the file.
#[test]
fn the_level_comes_from_three_places() {
    let scene = fresh_scene();
    scene.write("conf.toml", "log-level = 'error'\n");
    let printed = |args: &[&str], variable: &str| {
        let args = [&["--print-config"], args].concat();
        let output = scene
            .agent(&args)
            .env("BEADLOCK_AGENT_LOG_LEVEL", variable)
            .output()
            .unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        let printed = String::from_utf8(output.stdout).unwrap();
        let line = printed
            .lines()
            .find(|line| line.starts_with("log-level = "))
            .expect("a level");
        line.to_owned()
    };
    assert_eq!(printed(&[], ""), "log-level = \"warn\"");
    let file = ["--config", "conf.toml"];
    assert_eq!(printed(&file, ""), "log-level = \"error\"");
    assert_eq!(printed(&file, "debug"), "log-level = \"debug\"");
    assert_eq!(
        printed(&[&file[..], &["--log-level", "off"]].concat(), "debug"),
        "log-level = \"off\""
    );
}

#[test]
fn a_reload_changes_the_level() {
    let scene = fresh_scene();
    let level = |level: &str| {
        let text = format!("interval = '20ms'\naction = 'none'\nlog-level = '{level}'\n");
        scene.write("conf.toml", format!("{text}[[database]]\ndir = '.beads'\n"));
    };
    level("warn");
    let agent = start(&scene, &["--config", "conf.toml"]);
    let cycles = || scene.count("Sync cycle complete");
    until("cycles", || cycles() >= 3);
    assert_eq!(said(&scene), "");
    level("debug");
    agent.signal(Signal::SIGHUP);
    until("diagnostics", || said(&scene).contains(": ended outcome="));
    assert!(
        said(&scene)
            .lines()
            .next()
            .unwrap()
            .contains(" INFO reloaded databases=1 roots=0 "),
        "{}",
        said(&scene)
    );
    level("off");
    agent.signal(Signal::SIGHUP);
    let reloads = "Configuration reloaded: 1 database, 0 new, 0 gone, 0 changed";
    until("a second reload", || scene.count(reloads) == 2);
    // What was on its way then is there after some cycles; what comes later is the fault.
    let (before, begun) = (cycles(), said(&scene).len());
    until("cycles", || cycles() >= before + 5);
    let (before, after) = (cycles(), said(&scene).len());
    until("cycles", || cycles() >= before + 10);
    assert_eq!(said(&scene).len(), after, "{begun}: {}", said(&scene));
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(said(&scene).len(), after);
}

/// For how long the worker of the diagnostics has run, in nanoseconds, once it has gone to sleep.
fn ran(agent: &Running) -> Option<u64> {
    let is_worker = |task: &Path| read(&task.join("comm")).trim() == "diagnostics";
    let tasks = fs::read_dir(format!("/proc/{}/task", agent.pid())).unwrap();
    let task = tasks
        .map(|task| task.unwrap().path())
        .find(|task| is_worker(task))?;
    let is_asleep = read(&task.join("status"))
        .lines()
        .any(|line| line.starts_with("State:\tS"));
    let ran = read(&task.join("schedstat"))
        .split(' ')
        .next()?
        .parse()
        .ok();
    ran.filter(|_| is_asleep)
}

/// Nobody asked for diagnostics: cycles cost nothing for them.
#[test]
fn at_the_default_level_cycles_do_not_wake_the_worker() {
    let scene = fresh_scene();
    let cycles = || count_in(&scene.beads(), "Sync cycle complete");
    let worked = |level: &[&str]| {
        let agent = start(
            &scene,
            &[&["--interval", "5ms", "--action", "none"], level].concat(),
        );
        let begun = cycles();
        until("first cycles", || cycles() >= begun + 5);
        let asleep = || {
            let mut seen = None;
            until("the worker to sleep", || {
                seen = ran(&agent);
                seen.is_some()
            });
            seen.unwrap()
        };
        let (before, begun) = (asleep(), cycles());
        until("cycles", || cycles() >= begun + 100);
        let worked = asleep() - before;
        assert_eq!(agent.stop(), Some(0));
        worked
    };
    let (quiet, control) = (worked(&[]), worked(&["--log-level", "debug"]));
    assert!(control > 100_000, "300 lines take it time: {control} ns");
    // A slow machine may have seen the end of its start.
    assert!(
        quiet * 4 < control,
        "{quiet} ns, and {control} ns with lines"
    );
}
