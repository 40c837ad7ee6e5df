//! One answer of a program as text: exit code, stdout, stderr.

use std::fmt::Write as _;

use beadlock_tests::Ended;

/// What was typed, and all that came of it.
pub fn whole(typed: &str, ended: &Ended) -> String {
    let mut text = head(typed, ended);
    stream(&mut text, "stdout", &ended.out);
    stream(&mut text, "stderr", &ended.err);
    text
}

/// What was typed, and what came of it on stdout: an envelope, which is one line, or what a command has printed.
pub fn envelope(typed: &str, ended: &Ended) -> String {
    let mut text = head(typed, ended);
    if ended.out.starts_with("{\"ok\":") {
        assert_eq!(
            ended.out.find('\n'),
            Some(ended.out.len() - 1),
            "an envelope is one line: {ended:?}"
        );
        stream(&mut text, "stdout", &indented(&ended.out));
    } else {
        stream(&mut text, "stdout", &ended.out);
    }
    text
}

fn head(typed: &str, ended: &Ended) -> String {
    let mut text = String::new();
    for (at, line) in typed.lines().enumerate() {
        let _ = writeln!(text, "{} {line}", if at == 0 { "$" } else { ">" });
    }
    let _ = writeln!(text, "exit {}", ended.code);
    text
}

/// What a stream had, with a heading; nothing where it was empty.
fn stream(text: &mut String, name: &str, said: &str) {
    if said.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n[{name}]");
    text.push_str(&visible(said));
    if !said.ends_with('\n') {
        text.push_str("[no newline at the end]\n");
    }
}

/// Control characters as they are written in Rust.
pub fn visible(text: &str) -> String {
    let escape = |c: char| match c {
        '\n' => "\n".to_owned(),
        c if c.is_control() => c.escape_default().to_string(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// JSON with a line for each field. Only blanks are added: keys keep their order, numbers and strings their form.
pub fn indented(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut escaped) = (String::new(), 0_usize, false, false);
    let mut chars = json.chars().peekable();
    while let Some(c) = chars.next() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            text.push(c);
            continue;
        }
        match c {
            '{' | '[' => {
                text.push(c);
                if let Some(end) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    text.push(end);
                } else {
                    depth += 1;
                    new_line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                new_line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c => {
                in_string = c == '"';
                text.push(c);
            }
        }
    }
    text
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
}

#[test]
fn only_blanks_are_added_to_json() {
    let json = r#"{"b":{},"a":[1,{"x":"q\"}],:"}],"c":[],"d":null}"#;
    let lines = "{\n  \"b\": {},\n  \"a\": [\n    1,\n    {\n      \"x\": \"q\\\"}],:\"\n    }\n  ],\n  \"c\": [],\n  \"d\": null\n}";
    assert_eq!(indented(json), lines);
}
