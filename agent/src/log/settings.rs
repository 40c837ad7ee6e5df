//! How the log is written: where to, in which form, and how much of it is kept.

use std::io;
use std::path::PathBuf;

use super::{LogFile, LogFormat, LogLimits};

/// No file is rotated below this: a line can be longer than a very small one.
const SMALLEST: u64 = 4 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogSettings {
    /// One log for all databases, instead of a daemon.log in each.
    pub(crate) shared: Option<PathBuf>,
    pub(crate) format: LogFormat,
    /// A file that would grow above this, in bytes, is moved aside first.
    pub(crate) size: u64,
    /// How many older files are kept; `.1` is the newest. With 0 a full file is emptied.
    pub(crate) keep: u32,
    /// Databases may come later, so a shared log names the database also while there is only one.
    pub(crate) may_become_several: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        let size = 10 * 1024 * 1024;
        Self {
            shared: None,
            format: LogFormat::Text,
            size,
            keep: 3,
            may_become_several: false,
        }
    }
}

impl LogSettings {
    pub(super) fn limits(&self) -> LogLimits {
        LogLimits {
            size: self.size,
            keep: self.keep,
        }
    }

    pub(super) fn check(&self) -> io::Result<()> {
        self.shared
            .as_deref()
            .map_or(Ok(()), |path| LogFile::at(path, self.limits()).check())
    }
}

/// Reads a size in bytes: `10MiB`, `64KiB`, `1GiB`, `65536`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size; examples: 10MiB, 64KiB, 1GiB, 65536 (bytes)");
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[number.len()..] {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number
        .parse::<u64>()
        .ok()
        .filter(|_| is_number)
        .ok_or_else(wrong)?;
    match number.saturating_mul(unit) {
        size @ SMALLEST.. => Ok(size),
        _ => Err("must be at least 4KiB".to_owned()),
    }
}

pub(crate) fn parse_keep(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(keep @ 0..=1000) => Ok(keep),
        Ok(_) => Err(format!("{text} is not in 0..=1000")),
        Err(error) => Err(format!("{text:?} is no number: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_names_no_file_is_no_log() {
        for path in ["..", "/", "/tmp/..", "."] {
            let settings = LogSettings {
                shared: Some(path.into()),
                ..LogSettings::default()
            };
            let error = settings.check().unwrap_err().to_string();
            assert!(error.contains("is a directory"), "{path}: {error}");
        }
    }

    #[test]
    fn reads_what_the_contract_names() {
        let cases = [
            ("10MiB", 10 << 20),
            ("64KiB", 64 << 10),
            ("1GiB", 1 << 30),
            ("4096", 4096),
            ("4KiB", 4096),
        ];
        for (text, size) in cases {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        assert_eq!(parse_size("18446744073709551615GiB"), Ok(u64::MAX));
        assert_eq!(parse_size("10MiB"), Ok(LogSettings::default().size));
    }

    #[test]
    fn refuses_the_rest_with_examples() {
        for text in [
            "",
            "x",
            "MiB",
            "+5MiB",
            "-1",
            "1.5MiB",
            "10MB",
            "10mib",
            "10 MiB",
            "10M",
            "é",
            "99999999999999999999",
        ] {
            assert!(
                parse_size(text).unwrap_err().contains("examples: 10MiB"),
                "{text}"
            );
        }
        for text in ["0", "4095", "3KiB"] {
            assert_eq!(parse_size(text), Err("must be at least 4KiB".to_owned()));
        }
    }
}
