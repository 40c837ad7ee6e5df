//! A page as text, and what may be wrong with it.

use std::collections::BTreeSet;

use super::Named;

const HEAD: [&str; 5] = ["id", "section", "says", "requirement", "tests"];

/// The words of RFC 2119, and one for what a document states without any of them.
const SAYS: [&str; 11] = [
    "MUST",
    "MUST NOT",
    "REQUIRED",
    "SHALL",
    "SHALL NOT",
    "SHOULD",
    "SHOULD NOT",
    "RECOMMENDED",
    "MAY",
    "OPTIONAL",
    "states",
];

/// One protocol.
#[derive(Debug)]
pub struct Page {
    /// The file's name without `.md`.
    pub name: String,
    /// How many rows it has to have.
    pub at_least: usize,
    /// Never fewer than `at_least`, and no id twice.
    pub rows: Vec<Row>,
}

/// One requirement.
#[derive(Debug)]
pub struct Row {
    pub id: String,
    /// The section of the protocol's document.
    pub section: String,
    /// Never empty.
    pub tests: Vec<Named>,
}

impl Page {
    /// The page, or everything that is wrong with it, a line each.
    pub fn parse(name: &str, text: &str) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        let mut rows: Vec<Row> = Vec::new();
        let mut ids = BTreeSet::new();
        for line in rows_of(text) {
            match Row::parse(&cells(line)) {
                Ok(row) if !ids.insert(row.id.clone()) => {
                    wrong.push(format!("{name}: {} is there twice", row.id))
                }
                Ok(row) => rows.push(row),
                Err(why) => wrong.push(format!("{name}: {why}: {line}")),
            }
        }
        let at_least = at_least(text);
        match at_least {
            None => wrong.push(format!(
                "{name}: no line `<!-- protocol-check: at least N rows -->`"
            )),
            Some(least) if rows.len() < least => {
                wrong.push(format!(
                    "{name}: {} rows, and at least {least} are meant to be there",
                    rows.len()
                ));
            }
            Some(_) => {}
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        Ok(Self {
            name: name.to_owned(),
            at_least: at_least.unwrap_or_default(),
            rows,
        })
    }
}

impl Row {
    fn parse(cells: &[String]) -> Result<Self, String> {
        let [id, section, says, requirement, tests] = cells else {
            return Err(format!("{} cells, not {}", cells.len(), HEAD.len()));
        };
        if id.is_empty() || section.is_empty() || requirement.is_empty() {
            return Err("an empty cell".to_owned());
        }
        if !SAYS.contains(&says.as_str()) {
            return Err(format!("{says:?} is none of {}", SAYS.join(", ")));
        }
        // What stands between backticks.
        let tests: Vec<Named> = tests
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        if tests.is_empty() {
            return Err("names no test".to_owned());
        }
        Ok(Self {
            id: id.clone(),
            section: section.clone(),
            tests,
        })
    }
}

/// N of `<!-- protocol-check: at least N rows -->`; none is as good as no such line.
fn at_least(text: &str) -> Option<usize> {
    let (_, rest) = text.split_once("<!-- protocol-check: at least ")?;
    let (number, _) = rest.split_once(" rows -->")?;
    number.parse().ok().filter(|least| *least > 0)
}

/// The lines of the tables that count, without head and rule.
fn rows_of(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    let mut rule = false;
    text.lines().map(str::trim).filter(move |line| {
        if !line.starts_with('|') {
            inside = false;
            return false;
        }
        if !inside && cells(line) == HEAD {
            (inside, rule) = (true, true);
            return false;
        }
        inside && !std::mem::take(&mut rule)
    })
}

/// What stands between the bars; `\|` is not a bar.
fn cells(line: &str) -> Vec<String> {
    const BAR: &str = "\u{0}";
    let line = line.replace("\\|", BAR);
    let line = line.strip_prefix('|').unwrap_or(&line);
    let line = line.strip_suffix('|').unwrap_or(line);
    line.split('|')
        .map(|cell| cell.trim().replace(BAR, "|"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Locks\n\n<!-- protocol-check: at least 2 rows -->\n\n\
        | id | section | says | requirement | tests |\n|---|---|---|---|---|\n\
        | A1 | 2.2 | MUST NOT | no `x`, no \\| | `beadlock-cli tests/tower names::none` |\n\
        | A2 | 3 | states | the rest | `beadlock-checker lib a::tests::b`, `integration/shell/tests/a.bats: a b` |\n\n\
        | field | type |\n|---|---|\n| A1 | another table |\n";

    fn wrong(text: &str) -> String {
        Page::parse("locks", text)
            .expect_err("nothing wrong is found")
            .join("\n")
    }

    #[test]
    fn a_page_is_read() {
        let page = Page::parse("locks", GOOD).expect("a good page");
        let read: Vec<_> = page
            .rows
            .iter()
            .map(|row| (row.id.as_str(), row.tests.len()))
            .collect();
        assert_eq!((page.at_least, read), (2, vec![("A1", 1), ("A2", 2)]));
        assert_eq!(
            page.rows[1].tests[1].to_string(),
            "integration/shell/tests/a.bats: a b"
        );
    }

    /// Each one thing changed, and what is said about it.
    #[test]
    fn every_mutant_is_found() {
        let mutants = [
            (
                "`beadlock-cli tests/tower names::none`",
                "",
                "names no test: | A1",
            ),
            (
                "`beadlock-cli tests/tower names::none`",
                "beadlock-cli tests/tower names::none",
                "names no test",
            ),
            (
                "`beadlock-cli tests/tower names::none`",
                "``",
                "\"\" is no test",
            ),
            (
                "`beadlock-cli tests/tower names::none`",
                "`names::none`",
                "\"names::none\" is no test",
            ),
            ("| A2 |", "| A1 |", "A1 is there twice"),
            ("| A2 |", "|  |", "an empty cell"),
            ("| 3 |", "| |", "an empty cell"),
            ("| the rest |", "| |", "an empty cell"),
            ("| the rest |", "| the | rest |", "6 cells, not 5"),
            ("MUST NOT", "must", "\"must\" is none of"),
            (
                "at least 2 rows",
                "at least 3 rows",
                "2 rows, and at least 3",
            ),
            ("at least 2 rows", "at least 0 rows", "no line"),
            ("<!-- protocol-check", "<!-- ", "no line"),
            (
                "| id | section |",
                "| section | id |",
                "0 rows, and at least 2",
            ),
            ("| A2 | 3", "\n| A2 | 3", "1 rows, and at least 2"),
        ];
        for (from, to, said) in mutants {
            assert!(GOOD.contains(from), "{from}");
            let found = wrong(&GOOD.replacen(from, to, 1));
            assert!(
                found.contains(said),
                "{from} as {to}: {found:?} does not say {said:?}"
            );
        }
    }
}
