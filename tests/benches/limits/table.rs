//! The table: printed row by row, and kept as JSON for what is made of it.

use std::fs;
use std::path::PathBuf;

use beadlock_tests::Spread;
use serde_json::{Map, Value, json};

use super::ratio::{Clock, RUNS, Ratios};

/// What a figure is counted in. A time is in seconds and a size in bytes, whatever they are printed in.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    /// How often the other's time.
    Ratio,
    Seconds,
    Bytes,
    Percent,
    Count,
}

/// The rows so far.
pub struct Table {
    /// Do as little as shows that all of it works.
    pub is_short: bool,
    /// As printed.
    text: String,
    part: &'static str,
    rows: Vec<Value>,
    /// What else is kept with the rows.
    more: Map<String, Value>,
    beyond: Vec<String>,
}

impl Table {
    pub fn new(is_short: bool) -> Self {
        let head = format!(
            "{:<66} {:<34} {:>9} {:>19} {:>9}  {:>9} {:>9}",
            "figure", "beside", "found", "spread", "at most", "ours", "other"
        );
        let mut table = Self {
            is_short,
            text: String::new(),
            part: "",
            rows: Vec::new(),
            more: Map::new(),
            beyond: Vec::new(),
        };
        table.say(&head);
        table
    }

    /// The rows that follow are of this part.
    pub fn begin(&mut self, part: &'static str) {
        self.part = part;
    }

    /// Ours, and the same work by others, measured here. `at_most` is the limit of the median; `None`: there is none,
    /// it is shown.
    pub fn ratio(
        &mut self,
        figure: &str,
        beside: &str,
        at_most: Option<f64>,
        clock: Clock,
        ours: impl FnMut(),
        theirs: impl FnMut(),
    ) {
        self.ratios(
            figure,
            beside,
            at_most,
            &Ratios::of(self.runs(), clock, ours, theirs),
        );
    }

    /// How often a ratio is measured.
    pub fn runs(&self) -> usize {
        if self.is_short { 1 } else { RUNS }
    }

    /// Ours, and the same work by others, measured elsewhere.
    pub fn ratios(&mut self, figure: &str, beside: &str, at_most: Option<f64>, found: &Ratios) {
        let Ratios {
            ratios,
            ours,
            theirs,
        } = found;
        let mut row = json!({ "beside": beside, "ours_seconds": ours, "other_seconds": theirs });
        let times = [*ours, *theirs].map(|seconds| Unit::Seconds.show(seconds));
        let words = [figure, beside, &times[0], &times[1]];
        self.add(
            words,
            Unit::Ratio,
            ratios.median(),
            Some(ratios),
            at_most,
            &mut row,
        );
    }

    /// One number, such as the median or the 99th percentile of `of`, whose ends are shown with it.
    pub fn value(
        &mut self,
        figure: &str,
        unit: Unit,
        at_most: Option<f64>,
        found: f64,
        of: Option<&Spread>,
    ) {
        self.add(
            [figure, "", "", ""],
            unit,
            found,
            of,
            at_most,
            &mut json!({}),
        );
    }

    /// What cannot be measured here, and why.
    pub fn not_here(&mut self, figure: &str, why: &str) {
        self.say(&format!("{figure:<66} not measured: {why}"));
        self.rows
            .push(json!({ "part": self.part, "figure": figure, "not_measured": why }));
    }

    fn add(
        &mut self,
        [figure, beside, ours, theirs]: [&str; 4],
        unit: Unit,
        found: f64,
        of: Option<&Spread>,
        at_most: Option<f64>,
        row: &mut Value,
    ) {
        let spread = of.map_or_else(String::new, |of| {
            format!("{}..{}", unit.show(of.least()), unit.show(of.greatest()))
        });
        let limit = at_most.map_or_else(String::new, |limit| unit.show(limit));
        self.say(&format!(
            "{figure:<66} {beside:<34} {:>9} {spread:>19} {limit:>9}  {ours:>9} {theirs:>9}",
            unit.show(found)
        ));
        if at_most.is_some_and(|limit| found > limit) {
            self.beyond.push(figure.to_owned());
        }
        row["part"] = json!(self.part);
        row["figure"] = json!(figure);
        row["unit"] = json!(unit.name());
        row["found"] = json!(found);
        row["at_most"] = json!(at_most);
        row["least"] = json!(of.map(Spread::least));
        row["greatest"] = json!(of.map(Spread::greatest));
        row["count"] = json!(of.map(Spread::count));
        self.rows.push(row.take());
    }

    /// Prints a line of the table.
    fn say(&mut self, line: &str) {
        println!("{}", line.trim_end());
        self.text += line.trim_end();
        self.text.push('\n');
    }

    /// Keeps something beside the rows.
    pub fn keep(&mut self, name: &str, what: Value) {
        self.more.insert(name.to_owned(), what);
    }

    /// Says which figures are beyond their limit, and writes the rows to `limits.json` in the target directory. That
    /// is an object with the rows in their order, sizes in bytes and times in seconds, and what was kept beside them.
    /// Returns it, with the table as printed.
    pub fn end(mut self) -> (Value, String) {
        let last = match self.beyond.as_slice() {
            [] => "all within their limits".to_owned(),
            beyond => format!("beyond their limit: {}", beyond.join("; ")),
        };
        self.say(&last);
        let mut report = Value::Object(self.more);
        report["rows"] = json!(self.rows);
        if !self.is_short {
            let path = target_dir().join("limits.json");
            let text = serde_json::to_vec_pretty(&report).expect("JSON");
            fs::write(&path, text).expect("the target directory is there");
            println!("{} rows in {}", self.rows.len(), path.display());
        }
        (report, self.text)
    }
}

/// Above the profiles, since this is `target/PROFILE/deps/limits-HASH`.
pub fn target_dir() -> PathBuf {
    let this = std::env::current_exe().expect("this program's own path");
    this.ancestors()
        .nth(3)
        .expect("target/PROFILE/deps above it")
        .to_path_buf()
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Percent => "percent",
            Self::Count => "count",
        }
    }

    fn show(self, value: f64) -> String {
        match (self, value) {
            (Self::Ratio, ratio) if ratio < 0.1 => format!("{ratio:.4} ×"),
            (Self::Ratio, ratio) => format!("{ratio:.3} ×"),
            (Self::Seconds, s) if s < 1e-6 => format!("{:.0} ns", s * 1e9),
            (Self::Seconds, s) if s < 1e-3 => format!("{:.2} µs", s * 1e6),
            (Self::Seconds, s) if s < 1.0 => format!("{:.2} ms", s * 1e3),
            (Self::Seconds, s) => format!("{s:.2} s"),
            (Self::Bytes, bytes) => format!("{:.1} MiB", bytes / f64::from(1 << 20)),
            (Self::Percent, percent) => format!("{percent:.3} %"),
            (Self::Count, count) => format!("{count}"),
        }
    }
}
