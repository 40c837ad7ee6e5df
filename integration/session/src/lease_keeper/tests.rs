use super::*;
use beadlock_base::helper::{HelperProgram, request_in, serve};
use std::os::unix::ffi::OsStringExt;

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

fn read_back(request: &LeaseKeeperRequest) -> Option<LeaseKeeperRequest> {
    let helpers = serve(&[], const { &[HelperProgram::of::<LeaseKeeperRequest>()] }).unwrap();
    let words = helper_words(helpers, "beadlock: does it", request).unwrap();
    assert!(!words.concat().contains('\0'), "{words:?}");
    request_in(words[2].as_bytes())
}

#[test]
fn a_request_survives_the_command_line() {
    let record = KeptLease::Record {
        id: "1".to_owned(),
        holder: "a\u{1b}\"".to_owned(),
    };
    let flock = KeptLease::Kernel { mode: Mode::Shared };
    let of_audit = LeaseKeeperRequest {
        audit: Some(OsString::from_vec(b"/x y/\xff\n'\"".to_vec())),
        ..lease("x", flock)
    };
    for request in [lease("x", record), of_audit] {
        assert_eq!(read_back(&request), Some(request));
    }
}

#[test]
fn only_a_claim_for_a_process_is_kept() {
    let of = |pid: i32| {
        let flock = KeptLease::Kernel {
            mode: Mode::Exclusive,
        };
        let start_ticks = None;
        read_back(&LeaseKeeperRequest {
            subject: Some(ProcessRef { pid, start_ticks }),
            ..lease("x", flock)
        })
    };
    assert!(of(1).is_some());
    assert_eq!([of(0), of(-1)], [None, None]);
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
        mode: Mode::Exclusive,
    };
    let subject = Some(ProcessRef {
        pid: 12,
        start_ticks: None,
    });
    let of_file = LeaseKeeperRequest {
        subject,
        ..lease("file:a", flock)
    };
    assert_eq!(of_file.title(), "beadlock: keeps file:a while PID 12 lives");
    let hostile = "\n\0\u{202e}é".repeat(100);
    let title = LeaseKeeperRequest {
        subject,
        ..lease(&hostile, record(&hostile))
    }
    .title();
    assert!(
        title.chars().count() < 200 && title.ends_with(|c| c != '\n'),
        "{title}"
    );
    assert!(
        !title.chars().any(|c| c.is_control() || c == '\u{202e}'),
        "{title}"
    );
}

#[test]
fn an_end_is_written_as_long_as_any_other_or_not_at_all() {
    use super::renewal::written;
    assert_eq!(written(1_764_105_778).unwrap(), "2025-11-25T21:22:58Z");
    assert_eq!(written(253_402_207_200).unwrap(), "9999-12-30T22:00:00Z");
    assert_eq!([written(253_402_300_800), written(u64::MAX)], [None, None]);
    let [now, later] = [Duration::from_millis(1), Duration::from_secs(10)].map(end_after);
    assert!(later.unwrap() - now.unwrap() >= 9);
    assert_eq!(end_after(Duration::MAX), None);
}
