use super::*;

fn with(members: &str) -> Result<Record, Rejected> {
    let text = format!(
        r#"{{"holder":"a","pid":5,"hostname":"h","started_at":"2025-10-25T12:00:00Z","version":"1"{members}}}"#
    );
    Record::parse(text.as_bytes())
}

fn says(result: Result<Record, Rejected>) -> String {
    result.expect_err("it must be rejected").to_string()
}

#[test]
fn whatever_is_cut_off_says_so() {
    let whole =
        br#"{"holder":"\u0041\n","pid":-1.5e+7,"x":[true,null,{"y":false}],"hostname":"h"}"#;
    for length in 0..whole.len() {
        assert_eq!(
            says(Record::parse(&whole[..length])),
            "malformed lock file: unexpected EOF",
            "{length}"
        );
    }
    for whole_but_wrong in [
        "{\"pid\":-}",
        "{\"pid\":01",
        "[1] ]",
        "\"a\nb",
        "{\"a\":-\0",
        "-x",
        "tru0",
    ] {
        let words = says(Record::parse(whole_but_wrong.as_bytes()));
        assert!(
            words.starts_with("malformed lock file: not JSON: "),
            "{whole_but_wrong:?} {words}"
        );
    }
}

#[test]
fn messages_name_the_key_and_what_was_found() {
    let rows = [
        (r#","pid":"5""#, "pid must be an integer, not a string"),
        (r#","pid":5.0"#, "pid must be an integer, not 5.0"),
        (
            r#","PID":9223372036854775808"#,
            "pid must be an integer, not 9223372036854775808",
        ),
        (r#","holder":[1]"#, "holder must be a string, not an array"),
        (
            r#","version":true,"version":"2""#,
            "version must be a string, not a boolean",
        ),
        (
            r#","started_at":{}"#,
            "started_at must be a string, not an object",
        ),
        (
            r#","started_at":"yesterday""#,
            r#"started_at must be an RFC 3339 time, not "yesterday""#,
        ),
    ];
    for (members, expected) in rows {
        assert_eq!(
            says(with(members)),
            format!("malformed lock file: {expected}")
        );
    }
    assert_eq!(
        says(Record::parse(b"[1]")),
        "malformed lock file: must be an object, not an array"
    );
    let hostile = says(with(&format!(
        ",\"started_at\":\"\u{202e}\u{7f}{}\"",
        "x".repeat(9000)
    )));
    assert!(
        hostile.chars().all(beadlock_base::escape::is_harmless) && hostile.chars().count() < 150,
        "{hostile}"
    );
}

#[test]
fn nesting_is_cut_at_128() {
    let nested = |depth: usize| {
        with(&format!(
            ",\"x\":{}{}",
            "[".repeat(depth),
            "]".repeat(depth)
        ))
    };
    assert!(nested(127).is_ok());
    assert_eq!(says(nested(128)), "malformed lock file: nested too deeply");
    assert_eq!(
        says(Record::parse(&[b'['; 60_000])),
        "malformed lock file: nested too deeply"
    );
    assert!(
        with(&format!(",\"x\":\"\\\"{}\"", "[".repeat(500))).is_ok(),
        "brackets inside a string"
    );
}

#[test]
fn half_a_surrogate_pair_is_one_replacement_character() {
    let holder =
        |literal: &str| with(&format!(",\"holder\":\"{literal}\"")).map(|record| record.holder);
    assert_eq!(holder(r"\ud800").as_deref(), Ok("\u{fffd}"));
    assert_eq!(holder(r"a\udc00b").as_deref(), Ok("a\u{fffd}b"));
    assert_eq!(holder(r"\ud83d\ude00").as_deref(), Ok("😀"));
    assert_eq!(holder(r"\ud83d\ud83d\ude00").as_deref(), Ok("\u{fffd}😀"));
    assert_eq!(holder(r"\ud800\ud800").as_deref(), Ok("\u{fffd}\u{fffd}"));
    assert_eq!(
        holder(r"\ud800\n퟿\ud7ff").as_deref(),
        Ok("\u{fffd}\n\u{d7ff}\u{d7ff}")
    );
}

#[test]
fn keys_fold_as_in_go() {
    let folded =
        with(",\"HO\u{17f}TNAME\":\"other\",\"ver\u{17f}ion\":\"2\",\"H\\u006fLDER\":\"b\"");
    let folded = folded.expect("it is a lock");
    assert_eq!(
        (
            folded.hostname.as_str(),
            folded.version.as_str(),
            folded.holder.as_str()
        ),
        ("other", "2", "b")
    );
    let unknown = with(",\"hölder\":1,\" pid\":\"\",\"pid \":[],\"İ\":{},\"startedat\":0")
        .expect("it is a lock");
    assert_eq!((unknown.holder.as_str(), unknown.pid), ("a", 5));
}

#[test]
fn a_mark_of_a_wrong_shape_is_none() {
    let mark = |value: &str| {
        with(&format!(",\"beadlock\":{value}"))
            .expect("it is a lock")
            .beadlock
    };
    let whole = r#"{"id":"i","machine_id":"m","boot_id":"b","pid_ns":"pid:[1]","time_ns":null,"start_ticks":7,"x":0,
        "version":"2","started_at":"2026-01-02T03:04:05.5Z","boottime_ns":9,"about":"https://ci/1","acquired":true}"#;
    let expected = BeadlockKey {
        id: "i".to_owned(),
        version: Some("2".to_owned()),
        started_at: StartedAt::parse("2026-01-02T03:04:05.5Z"),
        boottime_ns: Some(9),
        about: Some("https://ci/1".to_owned()),
        machine_id: Some("m".to_owned()),
        boot_id: Some("b".to_owned()),
        pid_ns: Some("pid:[1]".to_owned()),
        time_ns: None,
        start_ticks: Some(7),
        acquired: true,
    };
    assert_eq!(mark(whole), Some(expected));
    assert_eq!(
        mark(r#"{"id":"i"}"#).map(|mark| mark.id).as_deref(),
        Some("i")
    );
    for wrong in [
        "null",
        "1",
        "\"i\"",
        r#"["i","m","b","p","t",7]"#,
        "{}",
        r#"{"id":""}"#,
        r#"{"id":1}"#,
        r#"{"ID":"i"}"#,
        r#"{"id":"i","start_ticks":-1}"#,
        r#"{"id":"i","boot_id":[]}"#,
        r#"{"id":"i","started_at":"soon"}"#,
        r#"{"id":"i","started_at":1}"#,
        r#"{"id":"i","about":["https://ci/1"]}"#,
        r#"{"id":"\ud800"}"#,
    ] {
        assert_eq!(mark(wrong), None, "{wrong}");
    }
    assert_eq!(
        with(&format!(",\"Beadlock\":{whole}"))
            .expect("it is a lock")
            .beadlock,
        None
    );
}

/// PowerShell and some editors write such files.
#[test]
fn another_encoding_than_utf_8_is_named() {
    let json = r#"{"holder":"ps","pid":1,"hostname":"h","started_at":"2026-01-01T00:00:00Z"}"#;
    let wide = |unit: fn(u16) -> [u8; 2]| json.encode_utf16().flat_map(unit).collect::<Vec<u8>>();
    let marked = |mark: &[u8], rest: Vec<u8>| [mark, &rest].concat();
    for (bytes, named) in [
        (marked(b"\xEF\xBB\xBF", json.as_bytes().to_vec()), "(BOM)"),
        (marked(b"\xFF\xFE", wide(u16::to_le_bytes)), "UTF-16"),
        (marked(b"\xFE\xFF", wide(u16::to_be_bytes)), "UTF-16"),
        (wide(u16::to_le_bytes), "UTF-16"),
        (wide(u16::to_be_bytes), "UTF-16"),
    ] {
        let rejected = Record::parse(&bytes).unwrap_err();
        assert!(matches!(rejected, Rejected::Malformed(_)));
        let words = rejected.to_string();
        assert!(
            words.starts_with("malformed lock file: it ") && words.contains(named),
            "{words}"
        );
    }
}
