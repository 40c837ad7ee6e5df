//! How cost grows, drawn: both axes in powers of ten, where what is linear is a straight line that rises by one for
//! one.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use serde_json::Value;

/// One drawing: its file, its heading, what the upright axis counts, the unit in which that is kept, and what is drawn.
struct Drawing {
    file: &'static str,
    heading: &'static str,
    axis: &'static str,
    unit: f64,
    lines: &'static [(&'static str, &'static str)],
}

const DRAWINGS: [Drawing; 4] = [
    Drawing {
        file: "memory.svg",
        heading: "Memory of an agent",
        axis: "MiB",
        unit: 1_048_576.0,
        lines: &[("agent", "memory_bytes")],
    },
    Drawing {
        file: "sweep.svg",
        heading: "CPU of one cycle of every database",
        axis: "seconds of CPU",
        unit: 1.0,
        lines: &[
            ("agent", "sweep_cpu_seconds"),
            ("bare system calls", "bare_cpu_seconds"),
        ],
    },
    Drawing {
        file: "start.svg",
        heading: "Start to the first cycle of the last database",
        axis: "seconds",
        unit: 1.0,
        lines: &[("agent", "start_seconds")],
    },
    Drawing {
        file: "library.svg",
        heading: "One thread checks every database",
        axis: "seconds of CPU",
        unit: 1.0,
        lines: &[
            ("should_skip_database", "library_cpu_seconds"),
            ("bare system calls", "library_bare_cpu_seconds"),
        ],
    },
];

const COLOURS: [RGBColor; 2] = [RGBColor(0, 90, 181), RGBColor(220, 100, 0)];

/// Draws the points of `growth` into files in a directory.
///
/// # Errors
/// When a file cannot be written.
pub fn draw(dir: &Path, points: &[Value]) -> Result<(), Box<dyn Error>> {
    DRAWINGS
        .iter()
        .try_for_each(|drawing| drawing.draw(dir, points))
}

impl Drawing {
    fn draw(&self, dir: &Path, points: &[Value]) -> Result<(), Box<dyn Error>> {
        let line = |key: &str| -> Vec<(f64, f64)> {
            let number = |point: &Value, key: &str| point[key].as_f64().unwrap_or_default();
            points
                .iter()
                .map(|point| (number(point, "databases"), number(point, key) / self.unit))
                .collect()
        };
        let all: Vec<(f64, f64)> = self.lines.iter().flat_map(|(_, key)| line(key)).collect();
        let ends = |values: Vec<f64>| {
            let least = values.iter().copied().fold(f64::MAX, f64::min);
            (
                least,
                values.iter().copied().fold(f64::MIN_POSITIVE, f64::max),
            )
        };
        let (few, many) = ends(all.iter().map(|(databases, _)| *databases).collect());
        let (least, most) = ends(all.iter().map(|(_, cost)| *cost).collect());

        let path = dir.join(self.file);
        let area = SVGBackend::new(&path, (720, 420)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.heading, ("sans-serif", 22))
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(76)
            .build_cartesian_2d(
                (few..many * 1.2).log_scale(),
                (least / 2.0..most * 2.0).log_scale(),
            )?;
        chart
            .configure_mesh()
            .x_desc("databases")
            .y_desc(self.axis)
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(225, 225, 225))
            .label_style(("sans-serif", 15))
            .x_label_formatter(&|number| in_words(*number))
            .y_label_formatter(&|number| in_words(*number))
            .draw()?;
        for ((name, key), colour) in self.lines.iter().zip(COLOURS) {
            let points = line(key);
            let linear = points
                .last()
                .map(|(databases, cost)| [few, many].map(|at| (at, cost * at / databases)));
            let grey = RGBColor(150, 150, 150);
            let within = linear
                .into_iter()
                .flatten()
                .map(|(at, cost)| (at, cost.max(least / 2.0)));
            chart.draw_series(DashedLineSeries::new(within, 4, 5, grey.stroke_width(1)))?;
            chart
                .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
                .label(*name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
                });
            chart.draw_series(
                points
                    .into_iter()
                    .map(|point| Circle::new(point, 4, colour.filled())),
            )?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE)
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 15))
            .draw()?;
        Ok(area.present()?)
    }
}

/// A number as people write it: 100,000; 0.02.
fn in_words(number: f64) -> String {
    if number < 1.0 {
        let digits = (-number.log10()).ceil().max(0.0) as usize;
        return format!("{number:.digits$}");
    }
    let digits = format!("{number:.0}");
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}
