//! A log's timelines for people and for programs.
//!
//! [`answer`] says for each database whether it syncs and why not, and [`advice`] what to type. [`text`] and [`json`]
//! render both with the figures of the timelines, [`page`] fits the text into a terminal.

mod advice;
mod answer;
mod json;
mod page;
mod text;

use std::path::PathBuf;

use beadlock_checker::internal::escape::escaped_path;

use super::parse::time::LogTime;
use super::timeline::{LogTimeline, database::DatabaseTimeline};
use crate::words::Part;
use answer::LogAnswer;
pub use page::Page;
pub use text::text;

/// One log, ready to be rendered.
#[derive(Debug)]
pub struct LogReport {
    /// `None`: standard input.
    pub path: Option<PathBuf>,
    /// What was read, oldest first.
    pub files: Vec<PathBuf>,
    /// What was not read, because it is compressed.
    pub compressed: Vec<PathBuf>,
    pub log: LogTimeline,
    /// The wall clock, or the end of the window.
    pub end: LogTime,
    /// The database as a command names it, where the log lies in its database.
    pub target: Option<Part<'static>>,
    /// This machine's host name.
    pub host: Option<String>,
}

impl LogReport {
    fn name(&self) -> String {
        self.path.as_deref().map_or_else(|| "standard input".to_owned(), escaped_path)
    }

    fn answers(&self) -> impl Iterator<Item = (&DatabaseTimeline, LogAnswer)> {
        self.log.databases.iter().map(|timeline| (timeline, answer::answer(self, timeline)))
    }
}
