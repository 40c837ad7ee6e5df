//! A remote that cannot be reached: commits go on, it is said once, tries get rarer, and all is pushed in the end.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Running, wait_until};

use nix::sys::signal::Signal;

use crate::bench::{Bench, SHORT, each, is_naive, script};
use crate::snapshot::Allowed;

/// A git that counts how often a remote is asked, and is git otherwise.
fn count_tries(bench: &mut Bench) {
    let path = std::env::var("PATH").expect("PATH");
    let bin = bench.path().join("bin");
    let count = format!(
        "for word; do case $word in fetch|ls-remote|pull) echo \"$*\" >>'{0}/tries'; break;; esac; done\nPATH='{path}' exec git \"$@\"",
        bench.path().display()
    );
    script(&bin.join("git"), &count);
    bench
        .environment
        .push(("PATH".to_owned(), format!("{}:{path}", bin.display())));
}

fn tries(bench: &Bench) -> usize {
    fs::read_to_string(bench.path().join("tries"))
        .unwrap_or_default()
        .lines()
        .count()
}

#[test]
fn commits_go_on_and_all_is_pushed_in_the_end() {
    let mut bench = Bench::new();
    count_tries(&mut bench);
    let away = bench.path().join("away.git");
    fs::rename(bench.remote(), &away).expect("take the remote away");
    bench.write(".beads/mine.jsonl", "1\n");
    let before = bench.snapshot();
    let told = bench.once();
    bench.untouched_since(&before, Allowed::Sync, "unreachable");
    told.says("Cannot reach origin", "once");
    told.ends_with(1, "once");
    assert!(
        is_naive() || tries(&bench) >= 1,
        "the tries are not counted: the test shows nothing"
    );

    let asked = tries(&bench);
    let daemon = Running::start(bench.agent(&["--interval", "50ms"]));
    for n in 2..5 {
        bench.write(".beads/mine.jsonl", format!("{n}\n"));
        wait_until(PATIENCE, "a commit", || {
            bench
                .try_git(bench.here(), &["show", "HEAD:.beads/mine.jsonl"])
                .out
                == format!("{n}\n")
        });
    }
    let cycles = |bench: &Bench| bench.log().matches("Starting sync cycle...").count();
    let begun = cycles(&bench);
    wait_until(PATIENCE, "20 more cycles", || cycles(&bench) >= begun + 20);
    let tried = tries(&bench) - asked;
    assert!(
        is_naive() || tried <= 4,
        "asked {tried} times in {} cycles: that is hammering",
        cycles(&bench)
    );
    let said = bench.log().matches("Cannot reach origin").count();
    assert!(
        is_naive() || said <= 1 + 2,
        "said {said} times\n{}",
        bench.log()
    );
    fs::rename(&away, bench.remote()).expect("bring the remote back");
    wait_until(Duration::from_secs(40), "a push", || {
        bench.remote_has(".beads/mine.jsonl")
    });
    wait_until(PATIENCE, "the good news", || {
        is_naive() || bench.log().contains("again after")
    });
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
    bench.is_synced("reached again");
}

/// Nobody listens, or listens and never answers: no cycle hangs for longer than it may, and nothing is left behind.
#[test]
fn remotes_that_never_answer() {
    // It accepts, reads, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let kept: Vec<_> = silent.incoming().collect();
        drop(kept);
    });
    // Nobody listens here any more.
    let closed = TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port();
    let urls = [
        ("http, silent", format!("http://127.0.0.1:{port}/x.git")),
        ("git, silent", format!("git://127.0.0.1:{port}/x.git")),
        ("ssh, silent", format!("ssh://ann@127.0.0.1:{port}/x.git")),
        ("ssh, closed", format!("ssh://ann@127.0.0.1:{closed}/x.git")),
        ("http, closed", format!("http://127.0.0.1:{closed}/x.git")),
        (
            "no such host",
            "https://no-such-host.invalid/x.git".to_owned(),
        ),
        ("no such path", "/no/such/path.git".to_owned()),
        ("no such helper", "nonsense::x".to_owned()),
    ];
    let case = |(name, url): &(&str, String)| {
        let bench = Bench::new();
        bench.git(bench.here(), &["remote", "set-url", "origin", url]);
        bench.write(".beads/mine.jsonl", "{}\n");
        let before = bench.snapshot();
        let begun = Instant::now();
        let mut agent = bench.agent(&["--once", "--cycle-timeout", "5s"]);
        agent.stdin(std::process::Stdio::null());
        let ended = Running::start(agent).finish(PATIENCE);
        let took = begun.elapsed();
        bench.untouched_since(&before, Allowed::Sync, name);
        assert!(took < SHORT + Duration::from_secs(25), "{took:?}");
        assert!(
            !bench.here().join(".git/index.lock").exists(),
            "harm: index.lock left behind"
        );
        let committed = bench.git(bench.here(), &["show", "--format=", "--name-only", "HEAD"]);
        assert!(
            is_naive() || committed == ".beads/mine.jsonl",
            "not committed\n{}",
            bench.log()
        );
        let left = marked_by(bench.scene());
        assert!(left.is_empty(), "left behind: {left:?}\n{}", bench.log());
        assert!(
            is_naive() || ended.status.code() == Some(1),
            "{ended:?}\n{}",
            bench.log()
        );
    };
    // They mostly wait.
    std::thread::scope(|threads| {
        let case = &case;
        let running: Vec<_> = urls
            .chunks(4)
            .map(|rows| threads.spawn(move || each(rows, |row| row.0.to_owned(), case)))
            .collect();
        for thread in running {
            if let Err(why) = thread.join() {
                std::panic::resume_unwind(why);
            }
        }
    });
}

/// A remote that asks for a password gets none, and nobody is asked for one.
#[test]
fn nobody_is_asked_for_a_password() {
    let locked = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = locked.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in locked.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let mut bench = Bench::new();
    bench.git(
        bench.here(),
        &[
            "remote",
            "set-url",
            "origin",
            &format!("http://127.0.0.1:{port}/x.git"),
        ],
    );
    let ask = bench.trap("ask", "echo secret; sleep 60");
    // `GIT_ASKPASS` of an editor is a dialog. Any other one is a program that knows the password (rows, your_git).
    for name in ["GIT_ASKPASS", "SSH_ASKPASS", "VSCODE_GIT_IPC_HANDLE"] {
        bench.environment.push((name.to_owned(), ask.clone()));
    }
    bench
        .environment
        .push(("DISPLAY".to_owned(), ":0".to_owned()));
    bench
        .environment
        .push(("SSH_ASKPASS_REQUIRE".to_owned(), "force".to_owned()));
    bench.write(".beads/mine.jsonl", "{}\n");
    let ended = Running::start(bench.agent(&["--once", "--cycle-timeout", "15s"])).finish(PATIENCE);
    assert_eq!(
        bench.called("ask"),
        0,
        "harm: somebody was asked\n{}",
        bench.log()
    );
    assert!(
        is_naive() || ended.status.code() == Some(1),
        "{}",
        bench.log()
    );
    assert!(
        is_naive() || bench.log().contains("Cannot reach origin"),
        "{}",
        bench.log()
    );
}
