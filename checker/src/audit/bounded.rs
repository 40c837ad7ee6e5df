//! Values out of lock files are as long as their writer likes; what an audit line shows of them is not.

/// Characters of one string.
const LONGEST: usize = 1024;

/// The text, cut at 1024 characters with a `…` at its end, and whether it was cut.
pub(super) fn text(text: &str) -> (String, bool) {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => (format!("{}…", &text[..end]), true),
        None => (text.to_owned(), false),
    }
}

/// The text as an audit line may show it: cut at 1024 characters, with a `…` at its end then.
pub fn cut(long: &str) -> String {
    text(long).0
}

/// Compact JSON with every string in it cut at 1024 characters, an escape being one, and whether one was cut.
/// Everything else stays as it is, the order of the fields too.
pub(super) fn json(json: &str) -> (String, bool) {
    let mut short = String::with_capacity(json.len().min(4096));
    let mut cut = false;
    // Characters of the string that this is in.
    let mut inside: Option<usize> = None;
    let mut rest = json;
    while let Some(first) = rest.chars().next() {
        let length = match (inside, rest.as_bytes()) {
            (Some(_), [b'\\', b'u', ..]) => 6,
            (Some(_), [b'\\', ..]) => 2,
            _ => first.len_utf8(),
        };
        let (unit, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        inside = match inside {
            None => (unit == "\"").then_some(0),
            Some(_) if unit == "\"" => None,
            Some(LONGEST) => {
                short.push('…');
                cut = true;
                Some(LONGEST + 1)
            }
            Some(count) => Some(count + 1),
        };
        if inside.is_none_or(|count| count <= LONGEST) {
            short.push_str(unit);
        }
    }
    (short, cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_stays_as_it_is() {
        let same = r#"{"b":"x\"\\\u0000é\n","a":[1,null,"",{"c":true}]}"#;
        assert_eq!(json(same), (same.to_owned(), false));
        assert_eq!(text("é\n"), ("é\n".to_owned(), false));
        let full = "é".repeat(LONGEST);
        assert_eq!(text(&full), (full.clone(), false));
        let full = serde_json::to_string(&full).unwrap();
        assert_eq!(json(&full), (full.clone(), false));
    }

    #[test]
    fn every_long_string_is_cut_at_the_same_character_and_stays_json() {
        for unit in ["a", "é", "\u{0}", "\"", "\\", "\u{2028}", "\u{10ffff}", "\n"] {
            let value = [unit.repeat(LONGEST + 1), unit.repeat(3), unit.repeat(5 * LONGEST)];
            let (short, cut) = json(&serde_json::to_string(&value).unwrap());
            assert!(cut);
            let expected = unit.repeat(LONGEST) + "…";
            let read: [String; 3] = serde_json::from_str(&short).unwrap();
            assert_eq!(read, [expected.clone(), unit.repeat(3), expected.clone()], "{unit:?}");
            assert_eq!(text(&value[0]), (expected, true));
        }
    }
}
