//! `beadlock top` in a terminal that draws, beside a real agent.

use std::fs;

use beadlock_tests::watched::view::{agent, claim, scene};
use beadlock_tests::{
    Ended, Scene, Tmux, binaries, process_is_gone, run, sleeper, this_host, until,
};
use nix::sys::signal::Signal;

/// `top` with these words, its ends said in a line of the shell.
fn start(tmux: &Tmux<'_>, args: &str) {
    let program = binaries::beadlock().display().to_string();
    tmux.type_line(&format!(
        "stty -a > before; '{program}' top --interval 200ms {args}; echo it ended with $?; stty -a > after"
    ));
    until("the view is there", || tmux.value("alternate_on") == "1");
}

/// The terminal is as it was before, with the shell's lines on it.
#[track_caller]
fn is_sane(scene: &Scene, tmux: &Tmux<'_>, code: i32) {
    tmux.wait_for("the end", |screen| {
        screen.contains(&format!("it ended with {code}\n"))
    });
    until("the settings are written", || {
        scene.read("after").ends_with('\n')
    });
    assert_eq!(scene.read("after"), scene.read("before"), "stty");
    assert_eq!(
        (tmux.value("alternate_on"), tmux.value("cursor_flag")),
        ("0".to_owned(), "1".to_owned())
    );
    fs::remove_file(scene.file("after")).expect("it was written");
    tmux.call(&["send-keys", "-R"]);
    tmux.type_line("clear");
    until("the screen is empty", || tmux.screen().trim() == "$");
}

/// The line of a database.
fn row<'a>(screen: &'a str, name: &str) -> Option<&'a str> {
    screen
        .lines()
        .find(|line| line.contains(&format!(" {name} ")))
}

fn row_begins(screen: &str, name: &str, state: &str) -> bool {
    row(screen, name).is_some_and(|line| line.starts_with(state))
}

#[test]
fn the_view_on_80_and_120_columns() {
    let scene = scene();
    let Some(tmux) = Tmux::start(&scene, (80, 24), &[]) else {
        return;
    };
    let (agent, holder) = (agent(&scene), sleeper());
    claim(&scene, &holder);
    start(&tmux, "unix:agent.sock");
    let screen = tmux.wait_for("all three", |screen| {
        row_begins(screen, "claimed", "skipped")
            && row_begins(screen, "failing", "failed")
            && row_begins(screen, "free", "idle")
    });
    let lines: Vec<&str> = screen.lines().collect();
    assert!(
        lines[0].starts_with("beadlock top  3 databases: 1 failed, 1 skipped, 1 idle"),
        "{screen}"
    );
    let about = format!("agent {}, up ", env!("CARGO_PKG_VERSION"));
    // A long address leaves no room for the host.
    let process = format!(", PID {}, ", agent.pid());
    assert!(
        lines[1].contains(&about) && lines[1].contains(&process),
        "{screen}"
    );
    assert!(
        lines[2].starts_with("STATE")
            && lines[3].starts_with("failed")
            && lines[4].starts_with("skipped"),
        "{screen}"
    );
    tmux.wait_for("its holder, and its history from the log", |screen| {
        row(screen, "claimed")
            .is_some_and(|line| line.contains(" nightly-import ") && line.ends_with('▃'))
            && row(screen, "failing").is_some_and(|line| line.ends_with('█'))
    });
    assert!(tmux.painted().contains("\u{1b}["), "it has colours");
    let of_failing = tmux.wait_for("the details of the first", |screen| {
        screen.contains("type: beadlock log ")
    });
    assert!(
        of_failing.contains("failed for ") && of_failing.contains("exit code 3"),
        "{of_failing}"
    );

    tmux.resize((120, 40));
    tmux.wait_for("more columns", |screen| screen.contains("HELD FOR"));
    tmux.press("j");
    let held = format!(
        "held by nightly-import (PID {} on {}), held for ",
        holder.pid(),
        this_host()
    );
    tmux.wait_for("the details of the next", |screen| {
        screen.contains("skipped for ") && screen.contains(&held)
    });
    tmux.resize((40, 8));
    tmux.wait_for("a small view", |screen| {
        screen.contains("claimed") && !screen.contains("HELD FOR")
    });
    tmux.resize((80, 24));

    // A lock that goes away is seen, and so is one that comes.
    fs::remove_file(scene.file("claimed/.beads/.exclusive-lock")).expect("the lock");
    tmux.wait_for("it is free", |screen| row_begins(screen, "claimed", "idle"));
    tmux.press("q");
    is_sane(&scene, &tmux, 0);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn every_end_leaves_the_terminal_as_it_was() {
    let scene = scene();
    let Some(tmux) = Tmux::start(&scene, (80, 24), &[]) else {
        return;
    };
    let agent = agent(&scene);
    for how in ["q", "C-c", "SIGTERM", "SIGINT"] {
        start(&tmux, "unix:agent.sock");
        tmux.wait_for("its rows", |screen| row_begins(screen, "failing", "failed"));
        match how {
            key if !key.starts_with("SIG") => tmux.press(key),
            signal => {
                // The only child of the window's shell.
                let script = format!(
                    "kill -{} $(ps -o pid= --ppid {})",
                    &signal[3..],
                    tmux.value("pane_pid")
                );
                let ended = Ended::from(run(scene.shell(&script)));
                assert_eq!(ended.code, 0, "{ended:?}");
            }
        }
        is_sane(&scene, &tmux, 0);
    }
    // It ends as well while its agent is stopped and answers nothing.
    start(&tmux, "unix:agent.sock");
    tmux.wait_for("its rows", |screen| row_begins(screen, "failing", "failed"));
    agent.signal(Signal::SIGSTOP);
    tmux.press("r");
    tmux.press("q");
    is_sane(&scene, &tmux, 0);
    agent.signal(Signal::SIGCONT);
    // A terminal that hangs up ends it.
    start(&tmux, "unix:agent.sock");
    let script = format!("ps -o pid= --ppid {}", tmux.value("pane_pid"));
    let view: i32 = Ended::from(run(scene.shell(&script)))
        .out
        .trim()
        .parse()
        .expect("a PID");
    drop(tmux);
    process_is_gone(view);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn an_agent_that_vanishes_is_named_and_comes_back() {
    let scene = scene();
    let Some(tmux) = Tmux::start(&scene, (80, 24), &["NO_COLOR=1"]) else {
        return;
    };
    let first = agent(&scene);
    start(&tmux, "unix:agent.sock");
    tmux.wait_for("its rows", |screen| row_begins(screen, "failing", "failed"));
    let painted = tmux.painted();
    let colours = painted
        .split("\u{1b}[")
        .skip(1)
        .filter(|code| code.starts_with("3") || code.starts_with("9"));
    assert_eq!(
        colours.filter(|code| !code.starts_with("39")).count(),
        0,
        "NO_COLOR: {painted}"
    );
    drop(first);
    let gone = tmux.wait_for("it has gone", |screen| {
        screen.contains("agent.sock: gone for ")
    });
    assert!(row_begins(&gone, "failing", "(failed)"), "{gone}");
    let second = agent(&scene);
    tmux.wait_for("it is back", |screen| {
        row_begins(screen, "failing", "failed") && !screen.contains("gone for")
    });
    tmux.press("q");
    is_sane(&scene, &tmux, 0);
    assert_eq!(second.stop(), Some(0));
}

#[test]
fn keys_filter_sort_explain_and_copy() {
    let scene = scene();
    let Some(tmux) = Tmux::start(&scene, (100, 30), &[]) else {
        return;
    };
    let (agent, holder) = (agent(&scene), sleeper());
    claim(&scene, &holder);
    start(&tmux, "unix:agent.sock");
    tmux.wait_for("the holder", |screen| {
        row(screen, "claimed").is_some_and(|line| line.contains("nightly-import"))
    });
    tmux.press("s");
    let sorted = tmux.wait_for("by name", |screen| screen.contains("(sort name)"));
    let at = |name: &str| {
        sorted
            .lines()
            .position(|line| line.contains(&format!(" {name} ")))
    };
    assert!(
        at("claimed") < at("failing") && at("failing") < at("free"),
        "{sorted}"
    );
    tmux.press("/");
    tmux.call(&["send-keys", "-l", "IMPORT"]);
    tmux.press("Enter");
    let screen = tmux.wait_for("it is typed", |screen| {
        screen.contains("filter \"IMPORT\"") && !screen.contains("filter: ")
    });
    assert!(screen.contains("1 database: 1 skipped"), "{screen}");
    let screen = tmux.wait_for("what to type", |screen| {
        screen.contains(", held for ") && screen.contains("\ntype: ")
    });
    let command = screen
        .split("\ntype: ")
        .nth(1)
        .and_then(|rest| rest.split(['\n', '#']).next())
        .expect("a command");
    tmux.press("c");
    tmux.wait_for("it is said", |screen| {
        screen.contains("copied, where the terminal allows it: ")
    });
    assert_eq!(tmux.call(&["show-buffer"]).trim(), command.trim());
    tmux.press("?");
    tmux.wait_for("help", |screen| {
        screen.contains("Worst first: not_serving, failed")
    });
    tmux.press("Escape");
    tmux.wait_for("no help", |screen| !screen.contains("Worst first"));
    tmux.press("q");
    is_sane(&scene, &tmux, 0);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn without_a_name_it_is_the_found_database_and_its_agent() {
    let scene = Scene::new();
    let Some(tmux) = Tmux::start(&scene, (80, 24), &[]) else {
        return;
    };
    let holder = sleeper();
    scene.claim("make", holder.pid());
    start(&tmux, "");
    let screen = tmux.wait_for("the lock", |screen| screen.contains("held"));
    assert!(
        screen.contains("1 database: 1 held") && screen.contains(" make "),
        "{screen}"
    );
    tmux.press("q");
    is_sane(&scene, &tmux, 0);
    scene.unlock();
    let args = [
        "--interval",
        "200ms",
        "--action",
        "none",
        "--listen",
        "127.0.0.1:0",
        "--db",
        ".beads",
    ];
    let agent = scene.start_agent(&args);
    start(&tmux, "");
    tmux.wait_for("the agent's row alone", |screen| {
        screen.contains("1 database: 1 idle") && screen.contains("127.0.0.1:")
    });
    tmux.press("q");
    is_sane(&scene, &tmux, 0);
    assert_eq!(agent.stop(), Some(0));
}
