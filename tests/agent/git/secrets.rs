//! A token in a remote's URL reaches neither the log nor stderr, whatever git says.

use std::io::{Read, Write};
use std::net::TcpListener;

use beadlock_tests::Running;
use beadlock_tests::wait::PATIENCE;

use crate::bench::{Bench, stops_when_naive};

/// Refuses every request, so that git says which URL it was.
fn refusing() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream
                .write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    port
}

#[test]
fn the_query_and_the_userinfo_of_a_remote_are_masked() {
    if stops_when_naive() {
        return;
    }
    let port = refusing();
    let host = format!("127.0.0.1:{port}");
    let urls = [
        (
            format!("http://{host}/team/x.git?token=S3CRET"),
            format!("http://{host}/team/x.git?***"),
        ),
        (
            format!("http://ann:S3CRET@{host}/x.git?token=S3CRET"),
            format!("http://{host}/x.git?***"),
        ),
        (
            format!("http://S3CRET@{host}/x.git"),
            format!("http://{host}/x.git"),
        ),
        (
            "nonsense://ann:S3CRET@nowhere.invalid/x".to_owned(),
            String::new(),
        ),
    ];
    for (url, shown) in urls {
        // The remote may be a URL itself: its name is in each message.
        for is_named in [true, false] {
            let bench = Bench::new();
            let remote = if is_named {
                "remote.origin.url"
            } else {
                "branch.main.remote"
            };
            bench.git(bench.here(), &["config", remote, &url]);
            bench.write(".beads/mine.jsonl", "{}\n");
            let ended = Running::start(bench.agent(&["--once"])).finish(PATIENCE);
            let said = [bench.log().into_bytes(), ended.stdout, ended.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(!said.contains("S3CRET"), "{url}\n{said}");
            assert!(
                !is_named || said.contains("Cannot reach origin"),
                "{url}\n{said}"
            );
            assert!(
                !is_named || said.contains(&shown),
                "{shown} is not shown\n{said}"
            );
        }
    }
}
