//! What a terminal of so many columns would show: as much of one as the tests need.

/// The rows that are not empty, top to bottom.
pub fn rows(written: &str, columns: usize) -> Vec<String> {
    let mut screen = Screen {
        rows: vec![Vec::new()],
        row: 0,
        column: 0,
        columns,
        wraps: true,
    };
    let mut left = written.chars();
    while let Some(char) = left.next() {
        match char {
            '\r' => screen.column = 0,
            '\n' => screen.down(),
            '\x1b' => {
                assert_eq!(
                    left.next(),
                    Some('['),
                    "only CSI is known here: {written:?}"
                );
                let mut sequence = String::new();
                for char in left.by_ref() {
                    sequence.push(char);
                    if char.is_ascii_alphabetic() {
                        break;
                    }
                }
                screen.control(&sequence);
            }
            char if char.is_control() => {}
            char => screen.put(char),
        }
    }
    let rows = screen
        .rows
        .into_iter()
        .map(|row| row.into_iter().collect::<String>());
    rows.map(|row| row.trim_end().to_owned())
        .filter(|row| !row.is_empty())
        .collect()
}

struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    columns: usize,
    wraps: bool,
}

impl Screen {
    fn down(&mut self) {
        self.row += 1;
        if self.rows.len() == self.row {
            self.rows.push(Vec::new());
        }
    }

    fn control(&mut self, sequence: &str) {
        match sequence {
            "K" => self.rows[self.row].truncate(self.column),
            "?7l" => self.wraps = false,
            "?7h" => self.wraps = true,
            // Colours, and what shells say to their line editors' terminals.
            _ => {}
        }
    }

    fn put(&mut self, char: char) {
        if self.column == self.columns {
            if self.wraps {
                self.column = 0;
                self.down();
            } else {
                self.column -= 1;
            }
        }
        let row = &mut self.rows[self.row];
        row.resize(row.len().max(self.column + 1), ' ');
        row[self.column] = char;
        self.column += 1;
    }
}

#[test]
fn a_line_is_rewritten_wrapped_or_cut() {
    assert_eq!(rows("abcdef\rxy\x1b[K", 4), ["abcd", "xy"]);
    assert_eq!(rows("\x1b[?7labcdef\x1b[?7h\r\x1b[Kxy", 4), ["xy"]);
    assert_eq!(rows("\x1b[?7labcdef\x1b[?7h", 4), ["abcf"]);
    assert_eq!(rows("one\r\ntwo", 4), ["one", "two"]);
}
