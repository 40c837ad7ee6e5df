//! How a program ended, and what it said.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use serde_json::Value;

use crate::schema;

/// Its exit code (128 and the signal, as a shell says it) and its words.
#[derive(Debug)]
pub struct Ended {
    /// The exit code.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// stdout.
    pub out: String,
    /// stderr.
    pub err: String,
}

impl From<Output> for Ended {
    #[track_caller]
    fn from(output: Output) -> Self {
        Self::whole(&output)
    }
}

impl Ended {
    #[track_caller]
    fn whole(output: &Output) -> Self {
        let signal = output.status.signal();
        schema::see(&String::from_utf8_lossy(&output.stdout));
        schema::see(&String::from_utf8_lossy(&output.stderr));
        Self {
            code: output
                .status
                .code()
                .unwrap_or_else(|| signal.map_or(-1, |signal| 128 + signal)),
            signal,
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The same without what is said of the file system that the tests happen to lie on: that is another test's.
    #[track_caller]
    pub fn of(output: &Output) -> Self {
        let whole = Self::whole(output);
        let remark = |line: &&str| line.contains("is waited for on this machine only");
        let err = whole
            .err
            .split_inclusive('\n')
            .filter(|line| !remark(line))
            .collect();
        Self { err, ..whole }
    }

    /// What it has printed, as JSON.
    ///
    /// # Panics
    ///
    /// When it has printed something else.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Itself, if it ended with this code and said all these words on stderr.
    ///
    /// # Panics
    ///
    /// When it did not, or when it panicked itself.
    #[track_caller]
    pub fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }
}
