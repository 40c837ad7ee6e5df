//! A look at contents without git, for changes that no time of a file shows.
//!
//! A program that keeps a file mapped writes into a page without a call. The kernel gives the file new times when the
//! page is written for the first time since it was last saved, so a later write within half a minute (on tmpfs: ever)
//! leaves the times as they are. So what was written within the last hour is read again: a second after the change,
//! then after twice as long each time, and at last every five minutes. It costs no process, and a database in which
//! nothing was written for an hour costs nothing.
//!
//! # Limits
//! Files above 64 MiB are not read. What was mapped and written more than an hour after its last times is found by the
//! next sync that compares all contents, once an hour.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use beadlock_base::regular::{self, Links};
use tokio::time::Instant;

use beadlock_repository::stamp::FileStamp;

/// How long after a change the contents are looked at.
pub(crate) const RECENT: Duration = Duration::from_secs(3600);
/// The first and the longest wait between two looks.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// The longest file that is read.
const LONG: u64 = 64 * 1024 * 1024;

/// The contents of what was written a short time ago, as they were before the last sync.
#[derive(Debug)]
pub(crate) struct ContentLook {
    files: Vec<ReadFile>,
    changed: Instant,
    looked: Instant,
}

#[derive(Debug)]
struct ReadFile {
    path: PathBuf,
    stamp: FileStamp,
    digest: u64,
}

impl ContentLook {
    /// Reads the files that were written a short time ago. A file that was read before, and has the same stamp, is not
    /// read again.
    pub(crate) fn begin(
        before: Option<Self>,
        recent: &[(PathBuf, FileStamp)],
        now: Instant,
    ) -> Self {
        let (before, looked) = match before {
            Some(look) => (look.files, look.looked),
            None => (Vec::new(), now),
        };
        let mut before: HashMap<_, _> = before
            .into_iter()
            .map(|file| ((file.path, file.stamp), file.digest))
            .collect();
        let read = |file: &(PathBuf, FileStamp)| {
            let digest = before.remove(file).or_else(|| digest(&file.0).ok())?;
            let (path, stamp) = file.clone();
            Some(ReadFile {
                path,
                stamp,
                digest,
            })
        };
        Self {
            files: recent.iter().filter_map(read).collect(),
            changed: now,
            looked,
        }
    }

    /// Whether it is time for the next look, which is then counted as made.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let (first, longest) = WAIT;
        let quiet = self.looked.saturating_duration_since(self.changed);
        let is_due = now.saturating_duration_since(self.looked) >= quiet.clamp(first, longest)
            && now.saturating_duration_since(self.changed) < RECENT
            && !self.files.is_empty();
        if is_due {
            self.looked = now;
        }
        is_due
    }

    /// Whether a file has other contents under the same stamp. From then on these are known.
    pub(crate) fn has_hidden_change(&mut self) -> bool {
        let mut has_one = false;
        for file in &mut self.files {
            let now = digest(&file.path).unwrap_or(file.digest);
            if now != file.digest && FileStamp::of(&file.path).as_ref() == Some(&file.stamp) {
                (file.digest, has_one) = (now, true);
            }
        }
        has_one
    }
}

fn digest(path: &Path) -> io::Result<u64> {
    let mut file = regular::open(path, Links::Refused)?;
    if file.metadata()?.len() > LONG {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let (mut hasher, mut buffer) = (DefaultHasher::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.write(&buffer[..read]),
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests change what they have made"
)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn looks_are_rarer_the_longer_nothing_happens() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        fs::write(&path, "x").unwrap();
        let recent = [(path.clone(), FileStamp::of(&path).unwrap())];
        let begun = Instant::now();
        let mut look = ContentLook::begin(None, &recent, begun);
        let times =
            (0..4 * 3600).filter(|second| look.is_due(begun + Duration::from_secs(*second)));
        let times: Vec<_> = times.collect();
        assert_eq!(times[..9], [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(times[9..11], [512, 812]);
        assert!(
            times.last().is_some_and(|last| (3200..3600).contains(last)),
            "{times:?}"
        );
        let mut empty = ContentLook::begin(None, &[], begun);
        assert!(!empty.is_due(begun + Duration::from_secs(60)));
    }

    #[test]
    fn a_change_without_another_stamp_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        fs::write(&path, "one").unwrap();
        let recent = || [(path.clone(), FileStamp::of(&path).unwrap())];
        let begin = |before| ContentLook::begin(before, &recent(), Instant::now());
        let mut look = begin(None);
        assert!(!look.has_hidden_change());
        fs::write(&path, "longer").unwrap();
        assert!(!look.has_hidden_change(), "the stamp tells it");
        look = begin(Some(look));
        look.files[0].digest ^= 1;
        look = begin(Some(look));
        assert!(look.has_hidden_change(), "what was read is not read again");
        assert!(!look.has_hidden_change(), "it is known now");
        look.files[0].digest ^= 1;
        fs::remove_file(&path).unwrap();
        assert!(!look.has_hidden_change(), "gone");
    }
}
