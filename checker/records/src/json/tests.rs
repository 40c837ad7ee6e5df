use super::*;

fn outer(text: &[u8]) -> Outer {
    members(text, false, |_, _| {})
}

#[test]
fn json_is_what_its_document_says_and_nothing_else() {
    let json: [&[u8]; 16] = [
        b"{}",
        b" [ ] ",
        b"null",
        b"-0",
        b"0.0e-00",
        b"1E+2",
        b"\"\"",
        br#""\"\\\/\b\f\n\r\t\u00fF""#,
        br#""\ud800""#,
        "\"é\u{7f}\u{2028}\"".as_bytes(),
        br#"{"":[],"a":{"b":[1,2,{"c":null}]}}"#,
        b"\t{ \"a\" : 1 , \"b\" : [ 1 , 2 ] }\r",
        b"[true,false,null]",
        b"[[],[[]],{}]",
        br#"{"a":1,"a":2}"#,
        b"12345678901234567890123456789.0",
    ];
    for text in json {
        assert_ne!(outer(text), Outer::Bad, "{}", text.escape_ascii());
    }
    let bad: [&[u8]; 40] = [
        b"",
        b" ",
        b"{",
        b"}",
        b"{}}",
        b"{} {}",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1]]",
        b"[1}",
        b"{1:2}",
        b"{a:1}",
        b"{\"a\"}",
        b"{\"a\":}",
        b"{\"a\":1,}",
        b"{,}",
        b"{\"a\":1 \"b\":2}",
        b"{'a':1}",
        b"01",
        b"-",
        b"+1",
        b".5",
        b"1.",
        b"1e",
        b"1e+",
        b"0x1",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"True",
        b"nul",
        b"\"",
        b"\"\\x\"",
        b"\"\\u12g4\"",
        b"\"\t\"",
        b"\"\0\"",
        b"\"\xff\"",
        b"\"\xed\xa0\x80\"",
        b"\xef\xbb\xbf{}",
    ];
    for text in bad {
        assert_eq!(outer(text), Outer::Bad, "{}", text.escape_ascii());
    }
}

#[test]
fn the_outermost_members_are_shown_as_they_are_written() {
    let mut seen = Vec::new();
    let text = br#" {"a": {"b" : 1} ,"\u0062":[1, 2]} "#;
    assert_eq!(
        members(text, true, |name, value| seen.push((name, value))),
        Outer::Object
    );
    let expected: [(&[u8], &[u8]); 2] = [(b"a", br#"{"b" : 1}"#), (br"\u0062", b"[1, 2]")];
    assert_eq!(seen, expected);
}

#[test]
fn escapes_are_the_characters_that_they_stand_for() {
    let cases: [(&str, &[u8]); 6] = [
        (r"a\u0062\t\/", b"ab\t/"),
        (r"\u00e9", "é".as_bytes()),
        (r"\u20ac", "€".as_bytes()),
        (r"\ud83d\ude80", "🚀".as_bytes()),
        (r"\ud83dx", b"\xed\xa0\xbdx"),
        (r"\ud83d\u0041\ude80", b"\xed\xa0\xbdA\xed\xba\x80"),
    ];
    for (written, text) in cases {
        assert_eq!(*decoded(written.as_bytes()), *text, "{written}");
    }
}

#[test]
fn values_are_equal_by_content() {
    let equal = [
        (
            r#"{"a":1,"b":[{"c":2,"d":"é"}]}"#,
            r#" { "b":[ {"d":"\u00e9", "c":2} ], "\u0061" : 1 } "#,
        ),
        (r#"{"a":{"x":1,"x":1}}"#, r#"{"a": {"x":1,"x":1}}"#),
    ];
    let different = [
        ("1", "1.0"),
        ("1e2", "1E2"),
        ("-0", "0"),
        ("[1,2]", "[2,1]"),
        ("[]", "{}"),
        ("\"1\"", "1"),
        ("\"null\"", "null"),
        (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
        (r#"{"a":1}"#, r#"{"b":1}"#),
        (r#"{"x":1,"x":1}"#, r#"{"x":1, "x":1}"#),
        ("[[1],[2]]", "[[1,2]]"),
    ];
    let are_equal = |(one, two): (&str, &str)| {
        let [one, two] = [one, two].map(|text| Value::read(text.as_bytes()).unwrap());
        assert_eq!(one.compare(&two), two.compare(&one).reverse());
        one.equals(&two)
    };
    assert_eq!(equal.map(are_equal), [true; 2]);
    assert_eq!(different.map(are_equal), [false; 11]);
}

#[test]
fn what_is_too_deep_is_one_value() {
    let deep = |levels: usize, space: &str| {
        let text = format!("{}{space}{}", "[".repeat(levels), "]".repeat(levels));
        text.into_bytes()
    };
    let are_equal = |levels| {
        let [one, two] = [deep(levels, ""), deep(levels, " ")];
        let [one, two] = [&one, &two].map(|text| Value::read(text).unwrap());
        one.equals(&two)
    };
    assert!(are_equal(LEVELS));
    assert!(!are_equal(LEVELS + 1));
}
