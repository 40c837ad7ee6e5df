//! Hostile input, at random: documents that are nearly right, and any bytes, against [`beadlock_tests::hostile`]. A
//! failure prints the smallest input that shows it. `PROPTEST_CASES=1000000` tries as many, `make fuzz` does too.

use beadlock_tests::hostile;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};

/// A document that means something, with up to six places of it replaced by pieces that mean something there, by
/// characters or by bytes.
fn documents(
    whole: &'static [&'static str],
    pieces: &'static [&'static str],
) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        1 => vec(any::<u8>(), 1..6),
        1 => select(whole).prop_map(|other| other.as_bytes().to_vec()),
    ];
    let cut = prop_oneof![4 => Just(0), 4 => 0..12_usize, 1 => Just(usize::MAX)];
    (select(whole), vec((any::<Index>(), cut, piece), 0..6)).prop_map(|(whole, changes)| {
        let mut bytes = whole.as_bytes().to_vec();
        for (at, cut, piece) in changes {
            let at = at.index(bytes.len() + 1);
            let end = at.saturating_add(cut).min(bytes.len());
            bytes.splice(at..end, piece);
        }
        bytes
    })
}

/// Tries so many, or as many as the environment says.
fn holds(cases: u32, documents: impl Strategy<Value = Vec<u8>>, of: fn(&[u8])) {
    let wanted = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let config = Config {
        cases: wanted.unwrap_or(cases),
        failure_persistence: None,
        ..Config::default()
    };
    let begun = std::time::Instant::now();
    let cases = config.cases;
    let shown = |bytes: &Vec<u8>| bytes.escape_ascii().to_string();
    let tried = TestRunner::new(config).run(&documents, |bytes| {
        of(&bytes);
        Ok(())
    });
    if let Err(error) = tried {
        if let proptest::test_runner::TestError::Fail(_, bytes) = &error {
            eprintln!("b\"{}\"", shown(bytes));
        }
        panic!("{error}");
    }
    println!("{cases} cases in {:.1} s", begun.elapsed().as_secs_f64());
}

#[test]
fn a_lock_file() {
    const WHOLE: [&str; 4] = [
        r#"{"holder":"vc","pid":4242,"hostname":"box","started_at":"2025-10-25T12:00:00Z","version":"1"}"#,
        r#"{"holder":"vc","pid":1,"hostname":"BOX","started_at":"2025-10-25T12:00:00.5+02:00","beadlock":{"id":"x"}}"#,
        r#"{"beadlock":{"id":"i","machine_id":"m","boot_id":"b","pid_ns":"pid:[1]","time_ns":"t","start_ticks":7},
            "Holder":"\ud83d\ude80\n","PID":2147483647,"hostname":"other","started_at":"9999-12-31T23:59:59Z"}"#,
        "{}",
    ];
    const PIECES: [&str; 43] = [
        "\"",
        "\\",
        "\\u",
        "\\ud83d",
        "\\ude80",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "-",
        "+",
        ".",
        "e",
        "0",
        "9",
        "Z",
        "T",
        "\n",
        "\0",
        "\u{1b}[2J",
        "\u{202e}",
        "null",
        "true",
        "+24:60",
        "0001-01-01T00:00:00Z",
        "2147483648",
        "4294967296",
        "4294967297",
        "9223372036854775807",
        "9223372036854775808",
        "\u{17f}",
        "\u{212a}",
        "\"pid\":1,",
        "\"pid\":0,",
        "\"pid\":-1,",
        "\"holder\":null,",
        "\"holder\":\"\",",
        "\"hostname\":\"box\",",
        "\"hostname\":\"box.\",",
        "\"version\":[],",
        "\"beadlock\":{\"id\":\"\"},",
    ];
    holds(5_000, documents(&WHOLE, &PIECES), hostile::record);
}

#[test]
fn a_named_lock_file() {
    const WHOLE: [&str; 3] = [
        r#"{"lock_version":"v1","lock_name":"app-prod","request_id":"req_1","actor":"ci","intent":"deploy","intent_version":"1",
            "host_id":"box","pid":7,"created_at":"2025-12-18T10:30:10Z","last_heartbeat_at":"2025-12-18T10:30:40Z",
            "ttl_seconds":900,"metadata":{}}"#,
        r#"{"note":[1,{"last_heartbeat_at":"2025-12-18T10:30:40Z"}],"ttl_seconds":1,"lock_version":"v1","lock_name":"app-prod",
            "request_id":"a.b-C","actor":"\ud83d\ude80\n","intent":"","intent_version":"","host_id":"","pid":2147483648,
            "created_at":"9999-12-31T23:59:59Z","last_heartbeat_at":"2025-12-18T10:30:40.25+00:00"}"#,
        "{}",
    ];
    const PIECES: [&str; 30] = [
        "\"",
        "\\",
        "\\u",
        "\\ud83d",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "-",
        ".",
        "e",
        "0",
        "9",
        "Z",
        "\n",
        "\0",
        "\u{1b}[2J",
        "\u{202e}",
        "null",
        "true",
        "+24:60",
        "9223372036854775807",
        "1e999999",
        "\"ttl_seconds\":0,",
        "\"metadata\":{\"a\":1},",
        "\"last_heartbeat_at\":\"9999-12-31T23:59:59Z\",",
        "\"last_heartbeat\\u005fat\":\"2025-12-18T10:30:40Z\",",
        "\"lock_version\":\"v1\",",
    ];
    holds(5_000, documents(&WHOLE, &PIECES), hostile::named);
}

#[test]
fn the_lock_of_a_directory() {
    const WHOLE: [&str; 4] = [
        r#"{"pid":12345,"session_id":"main","acquired_at":"2026-11-21T05:13:00.000Z","hostname":"box","operation":"write:tasks.json"}"#,
        r#"{"pid":7,"session_id":"unknown","acquired_at":"2026-11-21T05:13:20.123456+00:00","hostname":"other","operation":"cli-test",
            "beadlock":{"id":"x"}}"#,
        "\u{feff}{\"hostname\":\"WIN\",\"pid\":4,\"acquired_at\":\"2026-11-21T05:13:20.1234567Z\"}",
        "{}",
    ];
    const PIECES: [&str; 22] = [
        "\"",
        "\\",
        "\\ud83d",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "-",
        ".",
        "e",
        "0",
        "9",
        "Z",
        "\u{1b}[2J",
        "\u{202e}",
        "null",
        "1e999999",
        "\"acquired_at\":\"9999-12-31T23:59:59Z\",",
        "\"acquired\\u005fat\":\"2026-11-21T05:13:00Z\",",
        "\"pid\":-1,",
    ];
    holds(5_000, documents(&WHOLE, &PIECES), hostile::memory);
}

#[test]
fn a_target() {
    const WHOLE: [&str; 6] = [
        "path/.beads",
        "beads:a/.beads",
        "lock:run/build.lock",
        "lock:/tmp/x",
        "./a:b",
        "tower:app-prod",
    ];
    const PIECES: [&str; 22] = [
        ":",
        "/",
        "//",
        ".",
        "..",
        "../",
        "beads:",
        "lock:",
        "ftp://",
        "LOCK:",
        "~",
        "\0",
        "\n",
        "\u{1b}[2J",
        "\u{202e}",
        "\u{2028}",
        " ",
        ".aside",
        ".tmp-5-0123abcd",
        ".aside.aside",
        "-",
        concat_of_223(),
    ];
    holds(5_000, documents(&WHOLE, &PIECES), hostile::target);
}

/// As long as a lock's name may be.
const fn concat_of_223() -> &'static str {
    const LONGEST: [u8; 223] = [b'x'; 223];
    match str::from_utf8(&LONGEST) {
        Ok(text) => text,
        Err(_) => "",
    }
}

#[test]
fn what_goes_into_the_log() {
    const WHOLE: [&str; 5] = [
        "vc\u{1f}box\u{1f}srv/.beads",
        "x)\n[2026-01-01 00:00:00] Sync cycle complete\u{1f}box\u{1f}srv",
        "Sync cycle complete\nSync cycle failed: x\nSkipping database (locked by forged)\r\nHeld since x\n",
        "[2026-01-01 00:00:00] Starting sync cycle...\n{\"event\":\"cycle_complete\"}\ntime=2026-01-01T00:00:00Z msg=x",
        "/srv: Sync cycle complete\n| Sync cycle complete\nDaemon started (interval: 5s\nbeadlock-agent 0.1.0, PID 7",
    ];
    const PIECES: [&str; 35] = [
        "State: synced since 2026-01-01 00:00:00",
        "\n",
        "\r",
        "\r\n",
        "\t",
        "\u{1f}",
        "\0",
        "\u{1b}[1A",
        "\u{1b}[2J",
        "\u{9b}",
        "\u{85}",
        "\u{7f}",
        "\u{8}",
        "\u{2028}",
        "\u{2029}",
        "\u{202e}",
        "\u{2066}",
        "\u{feff}",
        "\u{e0041}",
        "\"",
        "\\",
        "(",
        ")",
        ": ",
        "| ",
        "/",
        "[2026-01-01 00:00:00] ",
        "Sync cycle complete",
        "Skipping database (locked by ",
        "Starting sync cycle...",
        "Removed stale lock (",
        "Agent started: beadlock-agent 0.1.0, PID 7, host x",
        "Resumed after 3 skips in 10s",
        "Sync cycle timed out after 2m",
        "Held since 2026-02-01T10:00:02Z by PID 99 on ci-3 (pid_alive)",
    ];
    holds(300, documents(&WHOLE, &PIECES), hostile::line);
}

#[test]
fn three_versions_of_a_record_file() {
    const WHOLE: [&str; 4] = [
        "{\"id\":\"a\",\"t\":1}\n\u{1f}{\"id\":\"a\",\"t\":2}\n{\"id\":\"b\"}\n\u{1f}{\"id\":\"a\",\"t\":3}\n{\"id\":\"c\"}\n",
        "{\"id\":\"a\",\"l\":[\"x\"],\"updated_at\":\"2026-03-01T00:00:00Z\"}\n\u{1f}{\"id\":\"a\",\"l\":[\"x\",\"y\"],\
         \"updated_at\":\"2026-03-02T00:00:00Z\"}\n\u{1f}{\"id\":\"a\",\"l\":[\"z\"],\"updated_at\":\"2026-03-03T00:00:00Z\"}\n",
        "{\"e\":1}\n{\"e\":2}\n\u{1f}{\"e\":1}\n{\"e\":2}\n{\"e\":3}\n\u{1f}{\"e\":2}\noops\n{\"e\":4}",
        "{\"id\":7,\"m\":{\"k\":1}}\r\n\u{1f}{\"id\":7,\"m\":{\"k\":2}}\n\u{1f}{\"id\":7,\"m\":{\"k\":1,\"l\":2}}\r\n",
    ];
    const PIECES: [&str; 40] = [
        "\u{1f}",
        "\n",
        "\r\n",
        "\r",
        " ",
        "\"",
        "\\",
        "\\u",
        "\\ud800",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "{\"id\":\"a\"}\n",
        "{\"id\":\"b\"}\n",
        "{\"id\":\"a\",\"t\":4}\n",
        "\"id\":\"a\",",
        "\"id\":1,",
        "\"t\":5,",
        "\"t\":5,\"t\":6,",
        "\"updated_at\":8,",
        "\"updated_at\":9,",
        "\"created_at\":1,",
        "\"created_at\":2,",
        "\"status\":\"open\",",
        "\"status\":\"tombstone\",",
        "\"closed_at\":3,",
        "\"l\":[\"x\",\"y\"],",
        "\"l\":[],",
        "\"m\":{\"k\":3},",
        "1.0",
        "1e999",
        "NaN",
        "null",
        "\u{feff}",
        "<<<<<<< ours\n",
        "=======\n",
        "\u{1b}[2J",
    ];
    holds(3_000, documents(&WHOLE, &PIECES), hostile::records);
}

#[test]
fn a_configuration() {
    const WHOLE: [&str; 4] = [
        "interval = 3\ndebounce = \"1.5\"\nexec = \"make sync\"\ncycle-timeout = \"1h30m\"\n",
        "jobs = 0x10\nlog-file = \"logs/all.log\"\nlog-format = \"json\"\nlog-size = \"1MiB\"\nlog-keep = 7\n",
        "root = [\"a\", \"b\"]\n[[database]]\ndir = \"a/.beads\"\naction = \"none\"\ninterval = \"250ms\"\n",
        "audit = 'x'\n[[database]]\ndir = 'a/.beads'\n[[database]]\ndir = 'b/.beads'\nreap-proven-dead = true\n",
    ];
    const PIECES: [&str; 40] = [
        "=",
        " = ",
        "[",
        "]",
        "[[",
        "]]",
        "[[database]]\n",
        "\"",
        "'",
        "'''",
        "\"\"\"",
        "\\",
        "\\u001b",
        "\\u0000",
        "\u{1b}[2J",
        "\u{202e}",
        "\n",
        "\r\n",
        "\r",
        "\t",
        "#",
        ".",
        ",",
        "{",
        "}",
        "-",
        "0",
        "1e300",
        "nan",
        "inf",
        "9223372036854775808",
        "true",
        "interval = 0\n",
        "exec = ''\n",
        "action = 'git'\n",
        "dir = '.beads'\n",
        "allow-foreign-owner = false\n",
        "allow-worktree = true\n",
        "h",
        "\u{feff}",
    ];
    holds(1_000, documents(&WHOLE, &PIECES), hostile::config);
}

#[test]
fn a_log() {
    const WHOLE: [&str; 5] = [
        "[2026-02-01 10:00:00] beadlock-agent 0.1.0, PID 7, host ci-3, times in UTC\n\
         [2026-02-01 10:00:00] Agent started: beadlock-agent 0.1.0, PID 7, host ci-3\n\
         [2026-02-01 10:00:00] Starting sync cycle...\n[2026-02-01 10:00:01] Sync cycle complete\n\
         [2026-02-01 10:00:05] Skipping database (locked by make)\n\
         [2026-02-01 10:00:05] Held since 2026-02-01T10:00:02Z by PID 99 on ci-3 (pid_alive)\n\
         [2026-02-01 10:00:15] Resumed after 3 skips in 10s\n[2026-02-01 10:00:16] Ending on SIGTERM\n",
        "[2026-02-01 10:00:00] /a/.beads: Starting sync cycle...\n[2026-02-01 10:00:00] /a/.beads: Sync cycle failed: \
         exit code 3 after 1.2s\n[2026-02-01 10:00:00] /b: Skipping database (lock check failed: malformed lock file: x)\n",
        "time=2026-02-01T10:00:00.044+03:00 level=INFO msg=\"Daemon started (interval: %v)\" !BADKEY=5s\n\
         time=2026-02-01T10:00:00.073+03:00 level=INFO msg=\"Starting %s...\" !BADKEY=\"sync cycle\"\n\
         time=2026-02-01T10:00:02Z level=INFO msg=\"Pull failed: %v\" !BADKEY=\"exit status 128\\nfatal: no\"\n",
        "{\"time\":\"2026-02-01T10:00:00Z\",\"level\":\"info\",\"db\":\"/a\",\"event\":\"skipped\",\"message\":\"Skipping \
         database (locked by x)\",\"holder\":\"x\",\"pid\":5,\"host\":\"h\",\"since\":\"2026-02-01T09:00:00Z\"}\n",
        "2026/02/01 10:00:00 Skipping database (locked by x)\nSync cycle complete\n",
    ];
    const PIECES: [&str; 45] = [
        "State: failed since 2026-02-01 10:00:00: ",
        "State: synced since 9999-12-31 23:59:59",
        "State: local_only",
        "; type: ",
        "; 3 commits wait, the oldest since 2026-02-01 09:00:00",
        "Sync cycle incomplete: ",
        "Using event-driven mode",
        "Using database: /a",
        "\n",
        "\r\n",
        "\0",
        "\t",
        "\u{1b}[2J",
        "\u{202e}",
        "[",
        "]",
        "(",
        ")",
        ": ",
        "| ",
        "\"",
        "\\",
        "{",
        "}",
        "=",
        "/",
        "[2026-02-01 10:00:00] ",
        "[9999-12-31 23:59:59] ",
        "[0000-01-01 00:00:00] ",
        "[2026-02-29 25:61:61] ",
        "time=2026-02-01T10:00:00Z ",
        "Starting sync cycle...",
        "Sync cycle complete",
        "Sync cycle timed out after 2m",
        "Skipping database (locked by ",
        "Skipping database (a sync cycle or a claim is in progress)",
        "Removed stale lock (x), proceeding with sync",
        "Resumed after 18446744073709551615 skips in 10s",
        "Resumed after 3 skips in 99999999999999h",
        "Agent stopped: ",
        "Database gone: /a",
        "Database redirected: /a leads to /b now, and led to /a before",
        "\u{1f}",
        "BZh",
        "-",
    ];
    holds(1_500, documents(&WHOLE, &PIECES), hostile::log);
}
