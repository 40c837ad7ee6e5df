//! The option that means something to `file:PATH` alone.

use clap::Args;

use beadlock_checker::internal::dialect::file::Mode;

pub const HEADING: &str = "Files (file:PATH)";

/// What a claim of a file takes besides.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct FileArgs {
    /// Share the file with others who do, and keep out who wants it alone: for readers
    #[arg(long, help_heading = HEADING)]
    pub shared: bool,
}

impl FileArgs {
    pub fn mode(&self) -> Mode {
        if self.shared { Mode::Shared } else { Mode::Exclusive }
    }

    pub fn given(&self) -> Vec<&'static str> {
        self.shared.then_some("--shared").into_iter().collect()
    }
}
