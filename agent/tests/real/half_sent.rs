//! Clients that begin a request and never end it keep nobody from an answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use beadlock_testkit::{OverAtLast, until};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::agent::{OfAgent, fresh_scene};

/// How many clients begin a request.
const CLIENTS: usize = 200;

/// How many the agent lets in at once.
const ROOM: usize = 32;

const QUIET: [&str; 6] = [
    "--interval",
    "10m",
    "--action",
    "none",
    "--no-watch",
    "--listen",
];

/// The server has closed it, or has answered.
fn is_over(stream: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    poll(&mut asked, PollTimeout::ZERO).unwrap() > 0
}

/// None for one that was sent away before its request was read: on a machine that is busy for longer than the moment
/// that each client has for it.
fn healthz(mut stream: impl Read + Write) -> Option<String> {
    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer).filter(|answer| !answer.is_empty())
}

/// Asks again and again, beside clients that hold on to half a request and come back as soon as they are sent away.
fn answers_beside_half_sent_requests<S: Read + Write + AsFd + Send>(
    connect: impl Fn() -> S + Sync,
) {
    let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
    let half_sent = || {
        let mut stream = connect();
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc");
        begun.fetch_add(1, Ordering::Relaxed);
        stream
    };
    let goes_on = || !stop.load(Ordering::Relaxed);
    let crowd = || {
        let mut all: Vec<S> = (0..CLIENTS)
            .take_while(|_| goes_on())
            .map(|_| half_sent())
            .collect();
        while goes_on() {
            // To connect may take a second each, where the kernel has no room for more.
            for stream in all
                .iter_mut()
                .take_while(|_| goes_on())
                .filter(|stream| is_over(*stream))
            {
                *stream = half_sent();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let ask = || {
        let (asked, mut answer) = (Instant::now(), None);
        until("an answer", || {
            answer = healthz(connect());
            answer.is_some()
        });
        (answer.unwrap(), asked.elapsed())
    };
    let median = |answers: &[(String, Duration)]| {
        let mut took: Vec<_> = answers.iter().map(|(_, took)| *took).collect();
        took.sort();
        took[took.len() / 2]
    };
    let control = median(&[ask(), ask(), ask(), ask(), ask()]);
    std::thread::scope(|scope| {
        let over = OverAtLast(&stop);
        scope.spawn(crowd);
        until("more are there than have room", || {
            begun.load(Ordering::Relaxed) > 2 * ROOM
        });
        let answers: Vec<(String, Duration)> = (0..20).map(|_| ask()).collect();
        drop(over);
        let longest = answers
            .iter()
            .map(|(_, took)| *took)
            .max()
            .unwrap_or_default();
        println!(
            "{} half requests, the longest answer: {longest:?}",
            begun.load(Ordering::Relaxed)
        );
        let took = median(&answers);
        for (answer, _) in answers {
            assert!(
                answer.starts_with("HTTP/1.0 200") && answer.ends_with("ok\n"),
                "{answer}"
            );
        }
        // A client that waited for its turn behind half requests would wait for seconds each time.
        assert!(
            took < Duration::from_secs(2).max(20 * control),
            "median {took:?}, without them {control:?}"
        );
    });
}

#[test]
fn healthz_answers_beside_them_on_a_unix_socket() {
    let scene = fresh_scene();
    let agent = scene.start(&[&QUIET[..], &["unix:agent.sock"]].concat());
    let connect = || {
        // Its queue may be full for a moment.
        loop {
            if let Ok(stream) = UnixStream::connect(scene.file("agent.sock")) {
                stream
                    .set_read_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                return stream;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    answers_beside_half_sent_requests(connect);
    assert_eq!(agent.stop(), Some(0));
}

#[test]
fn healthz_answers_beside_them_over_tcp() {
    let scene = fresh_scene();
    let agent = scene.start(&[&QUIET[..], &["127.0.0.1:0"]].concat());
    let address = || {
        let log = scene.lines().join("\n");
        let (_, rest) = log.split_once("Listening at ")?;
        rest.lines().next()?.trim().parse::<SocketAddr>().ok()
    };
    until("it listens", || address().is_some());
    let address = address().unwrap();
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        stream
    };
    answers_beside_half_sent_requests(connect);
    assert_eq!(agent.stop(), Some(0));
}
