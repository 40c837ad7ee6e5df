//! Names of a lock file and of the files beside it (docs/design.md#changing-a-lock-file).

use std::{borrow::Cow, ffi::CStr, ffi::CString, ffi::OsStr, os::unix::ffi::OsStrExt};

use super::{Record, RecordKind, Rejected, StartedAt, beads, memory};

/// Names of a lock file and of the files beside it, and the protocol of the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    record_kind: RecordKind,
    lock: Cow<'static, CStr>,
    aside: Cow<'static, CStr>,
}

impl Names {
    /// Names of the lock of a beads database.
    pub const BEADS: Self = beads::NAMES;

    /// Names of the one lock of a directory, judged by its age.
    pub const MEMORY: Self = memory::NAMES;

    /// Length, in bytes, of the longest lock name that leaves room for the names of the files beside the lock. The
    /// longest tail is `.broken-20261121T051327Z-99.json`, and a name on Linux's file systems has at most 255 bytes.
    pub const LIMIT: usize = 255 - b".broken-20261121T051327Z-99.json".len();

    /// Names in a protocol whose locks all have one name.
    pub(super) const fn fixed(
        record_kind: RecordKind,
        lock: &'static CStr,
        aside: &'static CStr,
    ) -> Self {
        Self {
            record_kind,
            lock: Cow::Borrowed(lock),
            aside: Cow::Borrowed(aside),
        }
    }

    /// Names of a lock file called `lock`, which must have no NUL.
    pub(super) fn called(record_kind: RecordKind, lock: &[u8]) -> Self {
        let named =
            |tail: &[u8]| Cow::Owned(CString::new([lock, tail].concat()).unwrap_or_default());
        Self {
            record_kind,
            lock: named(b""),
            aside: named(b".aside"),
        }
    }

    /// Names of a lock file of this protocol called `name`. `None`: a file cannot have this name.
    pub(crate) fn of(record_kind: RecordKind, name: &OsStr) -> Option<Self> {
        let bytes = name.as_bytes();
        let is_unfit = ["", ".", ".."].map(OsStr::new).contains(&name)
            || bytes.iter().any(|byte| b"/\0".contains(byte));
        (!is_unfit).then(|| Self::called(record_kind, bytes))
    }

    /// True if a file of this name is a lock, whatever its content. A `lock:` file may be another program's data.
    pub(crate) fn is_lock_by_name(&self) -> bool {
        self.record_kind != RecordKind::Beads || *self == Self::BEADS
    }

    /// True if programs that know nothing of the gate may write this lock file: the document of its protocol says how.
    ///
    /// A lock file at a path (`lock:PATH`) has no such document, and only beadlock writes it. A file with the name of a
    /// database's lock is one, whatever the target that it is claimed by.
    pub fn has_foreign_writers(&self) -> bool {
        self.is_lock_by_name()
    }

    /// Protocol of the lock.
    pub fn record_kind(&self) -> RecordKind {
        self.record_kind
    }

    /// Reads the record from the bytes of this lock file. Errors: those of the protocol's `Record::parse`.
    pub fn parse(&self, bytes: &[u8]) -> Result<Record, Rejected> {
        (self.record_kind.properties().parse)(bytes, &self.lock)
    }

    /// Name of the lock file.
    pub fn lock(&self) -> &CStr {
        &self.lock
    }

    /// Side name of the lock. Only a process that holds the gate touches it (docs/model.md#v4).
    pub fn aside(&self) -> &CStr {
        &self.aside
    }

    pub(crate) fn aside_shown(&self) -> String {
        beadlock_base::escape::escaped(&self.aside.to_string_lossy()).to_string()
    }

    /// Name of a draft of `process`, where a draft needs a name. `random` has 8 lower-case hex digits.
    pub(crate) fn draft(&self, process: u32, random: &str) -> CString {
        self.with(&format!(".tmp-{process}-{random}"))
    }

    /// Name under which a lock that is broken at `time` is kept, for the `number`th of that second.
    pub(crate) fn broken(&self, time: StartedAt, number: usize) -> CString {
        let time = time.to_string();
        let second = time
            .split(['.', 'Z'])
            .next()
            .unwrap_or_default()
            .replace(['-', ':'], "");
        let number = if number > 1 {
            format!("-{number}")
        } else {
            String::new()
        };
        self.with(&format!(".broken-{second}Z{number}.json"))
    }

    /// Name of the lock with `tail`. Neither half has a NUL.
    fn with(&self, tail: &str) -> CString {
        CString::new([self.lock.to_bytes(), tail.as_bytes()].concat()).unwrap_or_default()
    }

    /// PID of the process whose draft of this lock has the name `name`. `None`: the name is not one of a draft.
    pub(crate) fn process_of_draft(&self, name: &CStr) -> Option<i64> {
        draft(name.to_bytes())
            .and_then(|(lock, process)| (lock == self.lock.to_bytes()).then_some(process))
    }

    /// Name of the lock whose side file or draft would be called `name`, so that no lock may have that name. `None`:
    /// a lock may be called `name`.
    pub fn belongs_to(name: &OsStr) -> Option<&OsStr> {
        let bytes = name.as_bytes();
        let of_aside = bytes.strip_suffix(b".aside");
        let of_draft = || draft(bytes).map(|(lock, _)| lock);
        of_aside
            .or_else(of_draft)
            .filter(|lock| !lock.is_empty())
            .map(OsStr::from_bytes)
    }
}

/// Splits a name that [`Names::draft`] has made into the lock's name and the PID. Any other name is `None`, since it
/// may belong to another program's file.
fn draft(name: &[u8]) -> Option<(&[u8], i64)> {
    const TMP: &[u8] = b".tmp-";
    let (rest, random) = name.split_at_checked(name.len().checked_sub(8)?)?;
    let rest = rest.strip_suffix(b"-")?;
    let (lock, process) = rest.split_at(rest.windows(TMP.len()).rposition(|window| window == TMP)?);
    let process = &process[TMP.len()..];
    let is_random = random
        .iter()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_process = process.iter().all(u8::is_ascii_digit) && !process.starts_with(b"0");
    let process: u32 = std::str::from_utf8(process)
        .ok()
        .filter(|_| is_random && is_process)?
        .parse()
        .ok()?;
    Some((lock, i64::from(process)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_lock_tells_whose_it_is() {
        let draft = Names::BEADS.draft(77, "ab120934");
        assert_eq!(draft.as_c_str(), c".exclusive-lock.tmp-77-ab120934");
        assert_eq!(Names::BEADS.process_of_draft(&draft), Some(77));
        let names = Names::of(RecordKind::Beads, OsStr::new("x.tmp-7-01234567")).unwrap();
        assert_eq!(
            names.process_of_draft(c"x.tmp-7-01234567.tmp-4294967295-01234567"),
            Some(4_294_967_295)
        );
        for other in [
            "x.tmp-7-01234567",
            ".exclusive-lock",
            ".exclusive-lock.tmp-7-01234567.tmp-7-01234567",
        ] {
            assert_eq!(
                Names::BEADS.process_of_draft(&CString::new(other).unwrap()),
                None,
                "{other}"
            );
        }
    }

    #[test]
    fn only_beadlock_writes_a_lock_file_at_a_path() {
        let at_path = |name: &str| Names::of(RecordKind::Beads, OsStr::new(name)).unwrap();
        assert!(!at_path("x.lock").has_foreign_writers());
        let tower = Names::of(RecordKind::Tower, OsStr::new("x.lock")).unwrap();
        for names in [
            Names::BEADS,
            Names::MEMORY,
            tower,
            at_path(".exclusive-lock"),
        ] {
            assert!(names.has_foreign_writers(), "{names:?}");
        }
    }

    /// `build.tmp-999999-notes.txt` is another program's file, and not a draft of `lock:build`.
    #[test]
    fn what_looks_only_like_an_unfinished_lock_is_none() {
        for tail in [
            "",
            "7",
            "7-",
            "x-01234567",
            "-01234567",
            "7-0123456",
            "7-012345678",
            "7-0123456g",
            "7-0123456A",
            "07-01234567",
            "0-01234567",
            "+7-01234567",
            "-7-01234567",
            "4294967296-01234567",
            "7-01234567.txt",
            "7-notes.txt",
            "7_01234567",
            " 7-01234567",
            "7-é12345",
        ] {
            let name = format!(".exclusive-lock.tmp-{tail}");
            assert_eq!(
                Names::BEADS.process_of_draft(&CString::new(name.as_str()).unwrap()),
                None,
                "{name}"
            );
            assert_eq!(Names::belongs_to(OsStr::new(&name)), None, "{name}");
        }
    }

    #[test]
    fn a_broken_lock_has_the_second_in_its_name() {
        let time = StartedAt::from_unix(1_795_238_007, 999_999_999);
        let names =
            [1, 2, 11].map(|number| Names::BEADS.broken(time, number).into_string().unwrap());
        let tails = ["", "-2", "-11"];
        assert_eq!(
            names,
            tails.map(|tail| format!(".exclusive-lock.broken-20261121T051327Z{tail}.json"))
        );
        let longest = Names::of(RecordKind::Beads, OsStr::new(&"x".repeat(Names::LIMIT))).unwrap();
        assert_eq!(longest.broken(time, 99).count_bytes(), 255);
        assert!(longest.draft(u32::MAX, "0123abcd").count_bytes() <= 255);
    }

    #[test]
    fn a_side_name_is_no_locks_name() {
        let owner =
            |name: &'static str| Names::belongs_to(OsStr::new(name)).and_then(OsStr::to_str);
        assert_eq!(owner("x.aside"), Some("x"));
        assert_eq!(owner("x.tmp-77-ab120934"), Some("x"));
        for name in [
            "x",
            ".aside",
            "x.aside.lock",
            "x.tmp-old",
            "x.tmp",
            ".tmp-77-ab120934",
        ] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
