//! Output of a program as the documents show it: without what changes from run to run and from machine to machine.

use std::path::Path;

use crate::this_host;

/// The line with an N for what changes from run to run: words that begin with a digit, ids and hashes.
pub fn plain(line: &str) -> String {
    let mut plain = String::new();
    for word in
        line.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_')))
    {
        let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_')));
        let (word, rest) = word.split_at(end.unwrap_or(word.len()));
        let changes = word.starts_with(|c: char| c.is_ascii_digit())
            || (word.starts_with("req_") && word.len() == 16)
            || (word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
            || plain.ends_with("sha256:");
        plain.push_str(if changes { "N" } else { word });
        plain.push_str(rest);
    }
    plain
}

/// The text with the host and the home that the documents show.
pub fn as_in_docs(text: &str, home: &Path) -> String {
    let text = text.replace(&home.display().to_string(), "/home/ann");
    text.replace(&format!("on {})", this_host()), "on vm)")
        .replace(&format!("{}, PID", this_host()), "vm, PID")
        .replace(&format!("\"{}\"", this_host()), "\"vm\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_from_run_to_run_is_one_letter() {
        for (line, as_plain) in [
            (
                "for 1.8s (PID 20172, on vm) since 2026-11-22T12:14:42Z.",
                "for N (PID N, on vm) since N-N-N:N:N",
            ),
            ("\"req_vrrdeknuj0xw\" req_1", "\"N\" req_1"),
            ("sha256:ab01 app-2", "sha256:N app-N"),
            ("\"fa5a48a0f35ba3c1ea76c1ea76a48a0f\" fade", "\"N\" fade"),
            ("heartbeat", "heartbeat"),
        ] {
            assert_eq!(plain(line), as_plain);
        }
    }
}
