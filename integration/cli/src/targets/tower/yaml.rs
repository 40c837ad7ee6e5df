//! The scalars of a YAML document by their keys, and nothing else of it. No type is guessed (a version of `1.10` stays
//! `1.10`), no alias is followed (so none can grow), and what is nested deeper than 64 is refused.

use saphyr_parser::{Event, Parser, ScalarStyle};

const DEEPEST: usize = 64;

/// A fault of a document: its line, and the words for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub line: usize,
    pub why: String,
}

impl Wrong {
    pub fn new(line: usize, why: impl Into<String>) -> Self {
        Self {
            line,
            why: why.into(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum YamlValue {
    /// The text of a scalar, without its quotes.
    Scalar(String),
    /// `~`, `null`, or nothing at all.
    Null,
    List,
    /// Keys and values, which are entries of their own.
    Mapping,
    /// `*name`.
    Alias,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlEntry {
    /// The keys that lead to it. None: the document itself.
    pub keys: Vec<String>,
    pub value: YamlValue,
    pub line: usize,
}

#[derive(Debug)]
enum OpenCollection {
    List,
    /// Between a key and its value that key; a key that is not a scalar is `Some(None)`.
    Mapping(Option<Option<String>>),
}

/// Every value that is reached by keys alone, in the order of the document.
pub fn entries(text: &str) -> Result<Vec<YamlEntry>, Wrong> {
    let mut parser = Parser::new_from_str(text);
    let mut open: Vec<OpenCollection> = Vec::new();
    let mut entries = Vec::new();
    let mut documents = 0;
    while let Some(next) = parser.next_event() {
        let (event, span) = next.map_err(|error| {
            Wrong::new(
                error.marker().line().max(1),
                format!("no YAML: {}", error.info()),
            )
        })?;
        let line = span.start.line().max(1);
        let value = match event {
            Event::StreamEnd => break,
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(Wrong::new(
                        line,
                        "a second document begins here; a file has one",
                    ));
                }
                continue;
            }
            Event::Nothing | Event::StreamStart | Event::DocumentEnd => continue,
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                end_of_node(&mut open, None);
                continue;
            }
            Event::Alias(_) => YamlValue::Alias,
            Event::Scalar(text, style, _, _) if style == ScalarStyle::Plain && is_null(&text) => {
                YamlValue::Null
            }
            Event::Scalar(text, ..) => YamlValue::Scalar(text.into_owned()),
            Event::SequenceStart(..) => YamlValue::List,
            Event::MappingStart(..) => YamlValue::Mapping,
        };
        // A key is not an entry, nor is what belongs to none.
        if let Some(keys) = open.iter().map(key_of).collect() {
            entries.push(YamlEntry {
                keys,
                value: value.clone(),
                line,
            });
        }
        match value {
            YamlValue::List => open.push(OpenCollection::List),
            YamlValue::Mapping => open.push(OpenCollection::Mapping(None)),
            YamlValue::Scalar(text) => end_of_node(&mut open, Some(text)),
            YamlValue::Null | YamlValue::Alias => end_of_node(&mut open, None),
        }
        if open.len() > DEEPEST {
            return Err(Wrong::new(line, format!("nested deeper than {DEEPEST}")));
        }
    }
    Ok(entries)
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn key_of(open: &OpenCollection) -> Option<String> {
    match open {
        OpenCollection::Mapping(Some(Some(key))) => Some(key.clone()),
        OpenCollection::Mapping(_) | OpenCollection::List => None,
    }
}

/// A node has ended: it was the key, or the value that the key was for.
fn end_of_node(open: &mut [OpenCollection], scalar: Option<String>) {
    if let Some(OpenCollection::Mapping(key)) = open.last_mut() {
        *key = match key.take() {
            None => Some(scalar),
            Some(_) => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let entries = entries(text).unwrap();
        entries
            .iter()
            .map(|entry| format!("{} {:?} {}", entry.keys.join("."), entry.value, entry.line))
            .collect()
    }

    #[test]
    fn values_are_found_by_their_keys_and_lines() {
        let text = "# c\na: 1.10\nb:\n  c: \"x y\"\n  d: [1, {e: 2}]\n  f:\n'g': ~\nh: &h >-\n  two\n  lines\ni: *h\n";
        assert_eq!(
            shown(text),
            [
                " Mapping 2",
                "a Scalar(\"1.10\") 2",
                "b Mapping 4",
                "b.c Scalar(\"x y\") 4",
                "b.d List 5",
                "b.f Null 6",
                "g Null 7",
                "h Scalar(\"two lines\") 8",
                "i Alias 11",
            ]
        );
        assert_eq!(shown(""), [""; 0]);
        assert_eq!(shown("- a"), [" List 1"]);
        assert_eq!(
            shown("{? [a, {b: c}] : d, e: f}"),
            [" Mapping 1", "e Scalar(\"f\") 1"]
        );
    }

    #[test]
    fn hostile_documents_are_refused_at_their_line() {
        let deep = |open: &str| format!("a: 1\nb: {}", open.repeat(30_000));
        for text in [
            &deep("["),
            &deep("{a: "),
            &deep("- "),
            &deep("? "),
            &deep("[{"),
        ] {
            assert_eq!(entries(text).unwrap_err().line, 2, "{}", &text[..20]);
        }
        for (text, line) in [
            ("a: 1\n---\nb: 2\n", 2),
            ("a: 1\nb: *x\n", 2),
            ("b: 1\na: \"x\n", 2),
            ("a\n\tb: :\n", 2),
        ] {
            let wrong = entries(text).unwrap_err();
            assert_eq!(wrong.line, line, "{text:?}: {wrong:?}");
        }
    }

    #[test]
    fn aliases_do_not_grow() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..60 {
            let before = format!("*a{}, ", level - 1).repeat(9);
            bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
        }
        assert_eq!(entries(&bomb).unwrap().len(), 61);
    }

    #[test]
    fn no_input_makes_it_panic_or_hang() {
        let whole = "a: &x [1, {b: 'c'}]\n? k\n: |\n  t\n<<: *x\n--- !t\n- \"\\u00e9\"\n# c\n%YAML 1.2\n...\n";
        let mut seed = 1_u32;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        for _ in 0..20_000 {
            let mut text: Vec<char> = whole.chars().collect();
            for _ in 0..=next(6) {
                let (at, from) = (next(text.len()), next(text.len()));
                match next(3) {
                    0 => drop(text.remove(at)),
                    1 => text.insert(at, text[from]),
                    _ => text[at] = text[from],
                }
                if text.is_empty() {
                    text.push(':');
                }
            }
            let _ = entries(&text.into_iter().collect::<String>());
        }
        // What a scanner may go through again and again.
        for unit in [
            "a: ", "- ", "? ", "[", "{", "&a ", "*a ", "!a ", "\"", "'", "#", "|\n", ">\n", "%",
            ": ", ",", "\t", "\u{feff}", "a\n",
        ] {
            let begun = std::time::Instant::now();
            let _ = entries(&unit.repeat(64 * 1024 / unit.len()));
            let took = begun.elapsed();
            assert!(
                took < std::time::Duration::from_secs(20),
                "{unit:?}: {took:?}"
            );
        }
    }
}
