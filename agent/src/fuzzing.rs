//! What hostile input reaches, for our own tests and fuzz targets. No part of the API.

use std::ffi::OsString;
use std::path::Path;

use beadlock_core::Decision;

use crate::config::{AgentSettings, CommandLine};
use crate::log::{Line, LogFormat, Whose, named, own};
use crate::roots::RootScan;
use crate::{command, config};

/// What `--print-config` prints for the file at `path`, without a look below its roots; or the code and the words
/// of the mistake. The one database of `cwd` is served where the file names none.
///
/// # Errors
/// As the agent ends with them.
pub fn print_config(cwd: &Path, path: &Path) -> Result<String, (u8, String)> {
    let args = [
        OsString::from("beadlock-agent"),
        "--config".into(),
        path.into(),
    ];
    let mut typed = CommandLine::read(args).map_err(|_| (2, "the command line".to_owned()))?;
    typed.environment.cwd = cwd.to_owned();
    typed.environment.beads_dir = None;
    let print = || {
        config::print(
            &AgentSettings::read(&typed, &[])?,
            cwd,
            &RootScan::default(),
        )
    };
    print().map_err(|failure| (failure.code, failure.to_string()))
}

/// The log of an agent whose cycles skipped for these reasons, and of one more in which a command printed `output`: in
/// text and in JSON. `name` is what a log that several databases share calls this one.
///
/// # Errors
/// When there is no runtime to read the output with.
pub fn log(
    skips: &[Decision],
    output: &[u8],
    name: Option<&str>,
) -> std::io::Result<(String, String)> {
    let mut lines = vec![own::header(), own::started()];
    for decision in skips {
        lines.push(own::skipped(decision));
        lines.extend(
            decision
                .record()
                .map(|record| own::held(record, decision.reason(), None)),
        );
    }
    lines.push(own::begun());
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(command::read_lines(output, |text| {
        lines.push(own::output(text))
    }));
    lines.push(own::ended(&crate::cycle_end::CycleEnd::Complete));
    let shown = name.map(|name| named(Path::new(name)));
    let whose = Whose {
        name: shown.as_deref(),
        dir: name,
    };
    let written = |format| {
        let at =
            |(second, line): (i64, &Line)| line.in_format(format, 1_767_225_600 + second, whose);
        (0..).zip(&lines).map(at).collect()
    };
    Ok((written(LogFormat::Text), written(LogFormat::Json)))
}
