//! The whole view, drawn into a buffer.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::super::row::{LocalLook, LogHistory};
use super::super::source::TopUpdate;
use super::*;
use crate::agent::report::AgentAnswer;

const LOOK: TopLook = TopLook {
    has_colours: false,
    has_blocks: true,
};

/// The agent runs since three minutes.
fn wall() -> LogTime {
    LogTime::parse("2026-11-25T07:03:13Z").unwrap()
}

fn status() -> AgentAnswer {
    let row = |dir: &str, state: &str, why: Option<&str>| {
        json!({"dir": dir, "state": state, "age_ms": 2_700_000, "why": why,
            "next": why.map(|_| "git -C /srv/teams/one rebase --continue"), "streak": null,
            "unpushed": (state == "local_only").then(|| json!({"commits": 3})),
            "lock": (state == "skipped").then(|| json!({"holder": "nightly\u{202e}import", "pid": 4711, "host": "vm"}))})
    };
    serde_json::from_value(json!({
        "version": "0.1.0", "pid": 7, "host": "vm", "since": "2026-11-25T07:00:00Z", "served": 5, "states": {},
        "databases": [
            row("/srv/teams/one/.beads", "failed", Some("a rebase is in progress in /srv/teams/one; finish or abort it")),
            row("/srv/teams/two/.beads", "local_only", Some("origin cannot be reached; 3 commits wait")),
            row("/srv/teams/three-with-a-name-that-is-much-too-long-for-a-column/.beads", "synced", None),
            row("/srv/teams/four/.beads", "skipped", Some("locked by nightly-import")),
            row("/srv/teams/f\u{1b}ive/.beads", "synced", None),
        ],
    }))
    .unwrap()
}

fn app() -> TopApp {
    let mut app = TopApp::new(
        ["127.0.0.1:19187".to_owned()].into_iter(),
        0,
        Some("vm".to_owned()),
    );
    app.take_in(TopUpdate::Agent(0, Ok(status())), 0, wall());
    let seen = json!({"verdict": "held", "holder": "nightly", "age_ms": 60_000, "next": "kill 4711   # ends it",
        "witnesses": {"gate_waiters": [{}]}});
    let cells = [
        HistoryCell::Complete,
        HistoryCell::Held,
        HistoryCell::Failed,
    ];
    let look = LocalLook {
        name: "/srv/teams/four/.beads".to_owned(),
        seen,
        history: Some(LogHistory {
            cells: cells.to_vec(),
            length: (300, "5m"),
        }),
    };
    app.take_in(TopUpdate::Looks(vec![look]), 0, wall());
    app
}

/// The screen, line by line.
fn drawn(app: &mut TopApp, (width, height): (u16, u16), look: TopLook) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(frame, app, look, 0, wall()))
        .unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y: u16| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol().to_owned())
            .collect::<String>()
    };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

#[test]
fn the_whole_view_on_80_columns() {
    let lines = drawn(&mut app(), (80, 24), LOOK);
    assert_eq!(
        lines[0],
        "beadlock top  5 databases: 1 failed, 1 skipped, 1 local_only, 2 synced"
    );
    assert_eq!(
        lines[1],
        "127.0.0.1:19187: agent 0.1.0, up 3m 13s, PID 7, host vm"
    );
    assert_eq!(
        lines[2],
        "STATE           FOR DATABASE       HELD BY        QUEUE UNPUSHED last 5m"
    );
    assert_eq!(
        lines[3],
        "failed          45m one            -                  -        -"
    );
    assert_eq!(
        lines[4],
        "skipped         45m four           nightly            1        - ▁▃█"
    );
    assert_eq!(
        lines[5],
        "local_only      45m two            -                  -        3"
    );
    assert_eq!(
        lines[6],
        "synced          45m f\\u{1b}ive     -                  -        -"
    );
    assert_eq!(
        lines[7],
        "synced          45m …-for-a-column -                  -        -"
    );
    assert_eq!(
        lines[15],
        "─ /srv/teams/one/.beads ────────────────────────────────────────────────────────"
    );
    assert_eq!(
        lines[16],
        "failed for 45m: a rebase is in progress in /srv/teams/one; finish or abort it"
    );
    assert_eq!(lines[17], "type: git -C /srv/teams/one rebase --continue");
    assert_eq!(
        lines[23],
        "q quit  / filter  s sort  jk choose  d details  c copy  t history  ? help"
    );
}

#[test]
fn every_size_is_drawn_and_nothing_is_wider_than_the_terminal() {
    for width in [1, 2, 10, 40, 60, 72, 80, 100, 120, 250] {
        for height in [1, 2, 3, 5, 15, 16, 24, 60] {
            let mut app = app();
            for (help, filter) in [(false, ""), (true, ""), (false, "nothing has this")] {
                (app.has_help, app.filter) = (help, filter.to_owned());
                let lines = drawn(&mut app, (width, height), LOOK);
                assert!(
                    lines
                        .iter()
                        .all(|line| !line.contains(['\u{1b}', '\u{202e}'])),
                    "{lines:#?}"
                );
            }
        }
    }
    let lines = drawn(&mut app(), (120, 24), LOOK);
    assert!(
        lines[2].contains("DATABASE below /srv/teams/") && lines[2].contains("HELD FOR"),
        "{lines:#?}"
    );
    assert!(lines[4].contains(" 1m "), "{lines:#?}");
    assert!(!lines[2].contains(" WHY "), "{lines:#?}");
    let lines = drawn(&mut app(), (160, 24), LOOK);
    assert!(lines[2].contains(" WHY "), "{lines:#?}");
    assert!(
        lines[5].contains(" origin cannot be reached; 3 commits wait"),
        "{lines:#?}"
    );
}

#[test]
fn the_chosen_row_is_on_the_screen_and_its_details_below() {
    let mut app = app();
    app.chosen = Some("/srv/teams/four/.beads".to_owned());
    let lines = drawn(&mut app, (80, 24), LOOK);
    let details = lines[15..23].join("\n");
    for words in [
        "skipped for 45m: locked by nightly-import",
        "held by nightly (PID 4711 on vm), held for 1m",
        "1 process waits",
        "type: kill 4711   # ends it",
    ] {
        assert!(details.contains(words), "{words}: {details}");
    }
    app.has_details = false;
    let many: Vec<_> = (0..100)
        .map(|number| json!({"dir": format!("/r/{number:03}/.beads"), "state": "synced", "age_ms": 1}))
        .collect();
    let status = json!({"version": "0", "pid": 1, "since": "", "served": 100, "states": {}, "databases": many});
    app.take_in(
        TopUpdate::Agent(0, Ok(serde_json::from_value(status).unwrap())),
        0,
        wall(),
    );
    for place in [0, 50, 99, 20] {
        app.chosen = Some(format!("/r/{place:03}/.beads"));
        let lines = drawn(&mut app, (80, 24), LOOK);
        assert!(
            lines
                .iter()
                .any(|line| line.contains(&format!("/{place:03} "))),
            "{place}: {lines:#?}"
        );
    }
}

#[test]
fn an_agent_that_has_gone_is_named_and_its_rows_are_in_brackets() {
    let mut app = app();
    app.take_in(
        TopUpdate::Agent(
            0,
            Err("no agent answers at 127.0.0.1:19187: refused".to_owned()),
        ),
        0,
        wall(),
    );
    let lines = drawn(&mut app, (80, 24), LOOK);
    assert!(
        lines[1].starts_with("127.0.0.1:19187: gone for 0s; what it said last is below: no agent"),
        "{lines:#?}"
    );
    assert!(lines[3].starts_with("(failed) "), "{lines:#?}");
}

#[test]
fn a_terminal_with_ascii_alone_gets_letters() {
    let mut app = app();
    app.has_help = true;
    let lines = drawn(
        &mut app,
        (80, 24),
        TopLook {
            has_blocks: false,
            ..LOOK
        },
    );
    assert!(lines.iter().all(|line| line.is_ascii()), "{lines:#?}");
    assert!(lines[4].ends_with(" .cF"), "{lines:#?}");
}
