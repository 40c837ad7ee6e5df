use super::*;
use beadlock_base::beside::helper_words;
use std::os::unix::ffi::OsStringExt;

fn words(request: &impl Serialize) -> Vec<OsString> {
    helper_words("beadlock: does it", request)
        .unwrap()
        .map(OsString::from)
        .to_vec()
}

fn watchdog(at_end: AtEnd) -> WatchdogRequest {
    WatchdogRequest {
        parent: 7,
        command: KnownCommand::of(std::process::id().cast_signed(), true),
        at_end,
        kept: vec![5],
    }
}

fn lease(given: &str, lease: KeptLease) -> LeaseKeeperRequest {
    let (given, request_id) = (given.to_owned(), "r\0\n".to_owned());
    let target = OsString::from_vec(b"/x y/\xff\n'\"".to_vec());
    let until = Some("2026-11-25T21:22:58Z".to_owned());
    LeaseKeeperRequest {
        lease,
        target,
        given,
        max_hold: Duration::MAX,
        until,
        subject: None,
        request_id,
        audit: None,
    }
}

#[test]
fn a_request_survives_the_command_line() {
    let bytes = || OsString::from_vec(b"/x y/\xff\n'\"".to_vec());
    let silence = Some(Duration::from_nanos(875_000_001));
    let record = KeptLease::Record {
        id: "1".to_owned(),
        holder: "a\u{1b}\"".to_owned(),
    };
    let flock = KeptLease::Kernel {
        mode: LockMode::Shared,
    };
    let of_audit = LeaseKeeperRequest {
        audit: Some(bytes()),
        ..lease("x", flock)
    };
    let end_tree = AtEnd::EndTree {
        token: "t1".to_owned(),
        grace: Duration::MAX,
        silence,
        deadlines: vec![WorkDeadline::PASSED],
    };
    for request in [
        HelperRequest::LeaseKeeper(lease("x", record)),
        HelperRequest::LeaseKeeper(of_audit),
        HelperRequest::Watchdog(watchdog(end_tree)),
        HelperRequest::Watchdog(watchdog(AtEnd::OpenGate)),
        HelperRequest::Lookup(Lookup::Path(bytes())),
        HelperRequest::Lookup(Lookup::Nearest(bytes())),
    ] {
        let words = words(&request);
        assert!(
            words
                .iter()
                .all(|word| !word.as_encoded_bytes().contains(&0)),
            "{words:?}"
        );
        assert_eq!(HelperRequest::of(&words), Some(Some(request)));
    }
}

#[test]
fn a_lookup_is_written_as_it_is_read() {
    let lookup = Lookup::Path("/a".into());
    let written = words(&lookup.as_request());
    assert_eq!(
        HelperRequest::of(&written),
        Some(Some(HelperRequest::Lookup(lookup)))
    );
}

#[test]
fn only_whole_requests_of_processes_are_decoded() {
    let gate_keeper = |pid: i32| {
        let mut request = watchdog(AtEnd::OpenGate);
        request.command.process.pid = pid;
        words(&HelperRequest::Watchdog(request))
    };
    assert!(matches!(HelperRequest::of(&gate_keeper(1)), Some(Some(_))));
    let no_token = AtEnd::EndTree {
        token: String::new(),
        grace: Duration::ZERO,
        silence: None,
        deadlines: Vec::new(),
    };
    let no_token = words(&HelperRequest::Watchdog(watchdog(no_token)));
    for words in [gate_keeper(0), gate_keeper(-1), no_token] {
        assert_eq!(HelperRequest::of(&words), Some(None), "{words:?}");
    }
    let of =
        |words: &[&str]| HelperRequest::of(&words.iter().map(OsString::from).collect::<Vec<_>>());
    for wrong in [
        &["b", HELPER][..],
        &["b", HELPER, "x"],
        &["b", HELPER, "{}"],
        &["b", HELPER, r#"{"Other":1}"#],
    ] {
        assert_eq!(of(wrong), Some(None), "{wrong:?}");
    }
    let more = [gate_keeper(1), vec!["x".into()]].concat();
    assert_eq!(HelperRequest::of(&more), Some(None));
    for other in [&[][..], &["b"], &["b", "hold"], &["b", "hold", HELPER]] {
        assert_eq!(of(other), None, "{other:?}");
    }
}

#[test]
fn a_title_says_what_is_done_and_stays_short() {
    let record = |holder: &str| KeptLease::Record {
        id: String::new(),
        holder: holder.to_owned(),
    };
    let kept = lease(".beads", record("release-991"));
    assert_eq!(
        kept.title(),
        "beadlock: keeps .beads for release-991 until 2026-11-25T21:22:58Z"
    );
    let flock = KeptLease::Kernel {
        mode: LockMode::Exclusive,
    };
    let subject = Some(KnownProcess {
        pid: 12,
        start_ticks: None,
    });
    let of_file = LeaseKeeperRequest {
        subject,
        ..lease("file:a", flock)
    };
    assert_eq!(of_file.title(), "beadlock: keeps file:a while PID 12 lives");
    let end_tree = watchdog(AtEnd::EndTree {
        token: String::new(),
        grace: Duration::ZERO,
        silence: None,
        deadlines: Vec::new(),
    });
    assert_eq!(
        end_tree.title("make", "tower:app-prod"),
        "beadlock: watches make for tower:app-prod"
    );
    let gate_keeper = watchdog(AtEnd::OpenGate);
    assert_eq!(
        gate_keeper.title("make", ".beads"),
        "beadlock: keeps the gate of .beads for make"
    );
    let hostile = "\n\0\u{202e}é".repeat(100);
    for title in [
        LeaseKeeperRequest {
            subject,
            ..lease(&hostile, record(&hostile))
        }
        .title(),
        end_tree.title(&hostile, &hostile),
        gate_keeper.title(&hostile, &hostile),
    ] {
        assert!(
            title.chars().count() < 200 && title.ends_with(|c| c != '\n'),
            "{title}"
        );
        assert!(
            !title.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{title}"
        );
    }
}
