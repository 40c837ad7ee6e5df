//! Servers that are not etcd, and values that nobody of us has written.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use beadlock_fleet::{ClaimState, ErrorKind, Fleet, FleetAgent, PermitRefusal, T};
use beadlock_testkit::{Etcd, until};

use super::actors::{claim, until_state};
use super::ground::{Ground, config_at, who};

/// A server that answers whatever is asked with these bytes, in pieces that are apart so long. It ends with the
/// test's process.
fn server(answer: Vec<u8>, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let node = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let _ = client.read(&mut [0; 4096]);
                for piece in answer.chunks(if pause.is_zero() { 64 * 1024 } else { 1 }) {
                    if client.write_all(piece).is_err() {
                        return;
                    }
                    std::thread::sleep(pause);
                }
            });
        }
    });
    node
}

fn answer(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn whatever_a_server_answers_is_an_error_in_words_within_seconds() {
    let ten_megabytes = answer(&[b'x'; 10 * 1024 * 1024]);
    let ten_of_json = answer(
        format!(
            "{{\"header\":{{}},\"x\":\"{}\"}}",
            "x".repeat(10 * 1024 * 1024)
        )
        .as_bytes(),
    );
    let deep = answer("[".repeat(1_000_000).as_bytes());
    let endless_head = [
        b"HTTP/1.1 200 OK\r\n".to_vec(),
        b"x: y\r\n".repeat(1_000_000),
    ]
    .concat();
    let elsewhere =
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n"
            .to_vec();
    for (what, bytes, pause) in [
        ("10 MB", ten_megabytes, Duration::ZERO),
        ("10 MB of JSON", ten_of_json, Duration::ZERO),
        ("deep JSON", deep, Duration::ZERO),
        ("an endless head", endless_head, Duration::ZERO),
        ("a way elsewhere", elsewhere, Duration::ZERO),
        (
            "nothing of HTTP",
            b"220 smtp.example.com\r\n".to_vec(),
            Duration::ZERO,
        ),
        ("nothing", Vec::new(), Duration::ZERO),
        (
            "JSON of another kind",
            answer(b"{\"header\":7}"),
            Duration::ZERO,
        ),
        ("a page", answer(b"<html>404</html>"), Duration::ZERO),
        ("drops", answer(&[b' '; 1000]), Duration::from_millis(50)),
        (
            "a refusal with a hostile text",
            answer("{\"code\":7,\"error\":\"\u{1b}[2J\\n\u{202e}\"}".as_bytes()),
            Duration::ZERO,
        ),
    ] {
        let begun = Instant::now();
        let error = Fleet::open(&config_at(&format!(
            "etcd://{}/beads",
            server(bytes, pause)
        )))
        .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Refused),
            "{what}: {error}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{what} took {:?}",
            begun.elapsed()
        );
        let words = error.to_string();
        assert!(
            words.len() < 2000 && !words.contains(['\u{1b}', '\n', '\u{202e}']),
            "{what}: {words:?}"
        );
    }
}

#[test]
fn hostile_values_stop_work_and_never_let_it_in() {
    let Some(etcd) = Etcd::one() else { return };
    let ground = Ground::on(etcd);
    let agent = FleetAgent::start(ground.config(), who("m1")).unwrap();
    until("a permit", || agent.permit(&ground.mark).is_ok());
    ground
        .etcd
        .ctl(&["put", "/beads/v1/claims/acme:tracker", "\u{1b}[2J{"]);
    until("it is held", || {
        matches!(agent.permit(&ground.mark), Err(PermitRefusal::Held(_)))
    });
    let refusal = agent.permit(&ground.mark).unwrap_err().to_string();
    assert!(
        refusal.contains("cannot be read") && !refusal.contains('\u{1b}'),
        "{refusal:?}"
    );
    let waiting = claim("m2", ground.config(), &ground.mark);
    until_state(&waiting, "it waits", T, |state| {
        matches!(state, ClaimState::Waiting(_))
    });
    let overview = ground.fleet().overview().unwrap();
    assert_eq!(overview.claims.len(), 1);
    ground.etcd.ctl(&["del", "/beads/v1/claims/acme:tracker"]);
    for key in [
        "sessions/x",
        "sessions/ffffffffffffffff",
        "agents/x",
        "members/a/b/c",
        "members/acme:tracker/x",
        "claims/A",
        "names/",
    ] {
        ground
            .etcd
            .ctl(&["put", &format!("/beads/v1/{key}"), "\u{202e}{"]);
    }
    until_state(&waiting, "it is held", T, |state| {
        matches!(state, ClaimState::Held(_))
    });
    ground.fleet().overview().unwrap();
    waiting.end().unwrap();
    until("a permit again", || agent.permit(&ground.mark).is_ok());
    agent.end().unwrap();
}
