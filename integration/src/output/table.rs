//! A table for a terminal: columns as wide as what is in them, two spaces between.

/// How a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A head and rows; what a column has no room for is cut.
#[derive(Debug)]
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
    columns: [(Side, usize); COLUMNS],
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// With the words over its columns, and for each its side and how wide it may be.
    pub fn new(head: [&str; COLUMNS], columns: [(Side, usize); COLUMNS]) -> Self {
        Self { rows: vec![head.map(str::to_owned)], columns }
    }

    pub fn row(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    /// The lines, each after `indent` spaces.
    pub fn text(&self, indent: usize) -> String {
        let cut = |row: &[String; COLUMNS]| -> Vec<String> {
            row.iter().zip(&self.columns).map(|(cell, (_, most))| shortened(cell, *most)).collect()
        };
        let rows: Vec<Vec<String>> = self.rows.iter().map(cut).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&self.columns).zip(&widths).map(|((cell, (side, _)), width)| match side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            format!("{:indent$}{}\n", "", line.trim_end())
        };
        rows.iter().map(line).collect()
    }
}

/// At most so many characters, the last one `…` when there were more.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let mut table = Table::new(["name", "n"], [(Side::Left, 6), (Side::Right, 9)]);
        table.row(["make".into(), "7".into()]);
        table.row(["very long".into(), "1234".into()]);
        table.row(["ö".into(), String::new()]);
        assert_eq!(table.text(2), "  name       n\n  make       7\n  very …  1234\n  ö\n");
    }
}
