//! `beadlock merge`: three versions of a record file become one, in place of OURS (docs/guide/merging.md).
//!
//! Everything that may fail comes before OURS is written, also the words that are said afterwards: an exit code of 1
//! means that OURS has the conflict, and 129 that OURS is as it was.

use beadlock_claim::error::Problem;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use beadlock_base::escape::{escaped, escaped_path};
use beadlock_records::{
    Conflict, ConflictLabels, Id, MAX_BYTES, Merged, Note, SideNames, TooLarge, Undecided, merge,
};
use clap::Args;
use serde_json::{Value, json};

use beadlock_base::words::counted;
use beadlock_claim::error::{Error, Exit};
use beadlock_console::talk::Talk;
use beadlock_files::replace::Replacement;

const EXAMPLES: &str = "\
Examples:
  beadlock setup git                                # git merges so from now on
  beadlock merge base.jsonl ours.jsonl theirs.jsonl # by hand";

const HELP: &str = "\
A record is a line with a JSON object that has an id. What one side added, changed or removed counts. Where both sides \
changed a record, it is merged member by member; for a member that both changed, the newer updated_at decides. What \
cannot be decided is a conflict: the two lines stand in OURS between markers, with everything merged that could be. \
The result replaces OURS, whose mode stays. A note on stderr names each record that was decided by its time.

Nothing is printed on stdout unless --json is typed; BEADLOCK_JSON does not count here.

Exit codes:
  0    merged
  1    merged but for the conflicts, which are in OURS
  129  not merged, and OURS is as it was: usage, I/O, above 512 MiB";

/// Lines of one kind that are printed without `-v`. A merge of thousands of records would fill the terminal.
const SHOWN: usize = 20;

#[derive(Debug, Args)]
#[command(before_help = EXAMPLES, after_help = HELP)]
pub struct MergeArgs {
    /// The version that both sides changed; an empty file if there is none (git: %O)
    pub base: PathBuf,
    /// Our version, which the result replaces (git: %A)
    pub ours: PathBuf,
    /// Their version (git: %B)
    pub theirs: PathBuf,
    /// What messages call the file (git: %P) [default: OURS]
    pub path: Option<PathBuf>,
    /// What messages and markers call our version (git: %X) [default: ours]
    #[arg(
        long = "ours",
        id = "ours_label",
        value_name = "LABEL",
        allow_hyphen_values = true
    )]
    pub ours_label: Option<OsString>,
    /// What messages and markers call their version (git: %Y) [default: theirs]
    #[arg(
        long = "theirs",
        id = "theirs_label",
        value_name = "LABEL",
        allow_hyphen_values = true
    )]
    pub theirs_label: Option<OsString>,
    /// How many characters a conflict marker has (git: %L)
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    pub marker_size: u16,
}

/// Merges, and replaces OURS where that changes it. The exit code, and the data of the envelope.
///
/// # Errors
/// When a file cannot be read, is too large, or cannot be written. OURS is as it was then.
pub fn merge_files(typed: &MergeArgs, talk: &Talk) -> Result<(Exit, Value), Error> {
    let base = read(&typed.base)?;
    let ours = read_regular(&typed.ours)?;
    let theirs = read(&typed.theirs)?;
    let labels = [
        label(typed.ours_label.as_deref(), "ours", "%X"),
        label(typed.theirs_label.as_deref(), "theirs", "%Y"),
    ];
    let undecided = Undecided::Mark(ConflictLabels {
        ours: labels[0].as_bytes(),
        theirs: labels[1].as_bytes(),
        marker_size: usize::from(typed.marker_size),
    });
    let path = typed.path.as_deref().unwrap_or(&typed.ours);
    let is_by_record = ours != base && theirs != base;
    let base = match is_by_record {
        true => without_conflicts(&base),
        false => base.into(),
    };
    let merged = merge(&base, &ours, &theirs, &undecided).map_err(|why| too_large(path, why))?;
    let report = Report::of(&merged, path, &labels);
    if merged.bytes != ours {
        Replacement::prepare(&typed.ours, &merged.bytes)?.commit()?;
    }
    report.say(talk);
    Ok((report.exit(), report.data))
}

/// All of it: a file, or what comes through a pipe.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed =
        |error: io::Error| Error::failed(format_args!("read {}", escaped_path(path)), &error);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    // One more than is merged: that is refused, however large the file is.
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let lines = 0;
    match bytes.len() {
        0..=MAX_BYTES => Ok(bytes),
        bytes => Err(too_large(path, TooLarge { bytes, lines })),
    }
}

/// The file that is replaced. Nothing else can be: a device or a pipe would become a file.
fn read_regular(path: &Path) -> Result<Vec<u8>, Error> {
    let failed =
        |error: io::Error| Error::failed(format_args!("read {}", escaped_path(path)), &error);
    if !fs::metadata(path).map_err(failed)?.is_file() {
        let message = format!(
            "{} is not a regular file, and the result would replace it",
            escaped_path(path)
        );
        return Err(Error::io(message, io::ErrorKind::InvalidInput));
    }
    read(path)
}

fn too_large(path: &Path, why: TooLarge) -> Error {
    let message = format!("{}: {why}", escaped_path(path));
    Error::io(message, io::ErrorKind::FileTooLarge)
}

/// BASE without what stands between conflict markers, with the markers.
///
/// Where two branches have several newest common commits, git merges these first, and what could not be decided between
/// them stands so in BASE. It is not a record of BASE: each side has decided it since, perhaps in another way.
fn without_conflicts(base: &[u8]) -> Cow<'_, [u8]> {
    let lines: Vec<&[u8]> = base.split_inclusive(|byte| *byte == b'\n').collect();
    if !lines.iter().any(|line| marker(line, b'<').is_some()) {
        return base.into();
    }
    let mut left = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        match end_of_conflict(&lines[at..]) {
            Some(end) => at += end + 1,
            None => {
                left.extend_from_slice(line);
                at += 1;
            }
        }
    }
    left.into()
}

/// Where the conflict ends that begins with the first of these lines. One inside it has longer markers.
fn end_of_conflict(lines: &[&[u8]]) -> Option<usize> {
    let size = marker(lines.first()?, b'<');
    size?;
    let middle = lines.iter().position(|line| marker(line, b'=') == size)?;
    let end = lines[middle..]
        .iter()
        .position(|line| marker(line, b'>') == size)?;
    Some(middle + end)
}

/// How many of `sign` the line begins with, where it is a conflict marker.
fn marker(line: &[u8], sign: u8) -> Option<usize> {
    let size = line.iter().take_while(|byte| **byte == sign).count();
    let is_marker = size >= 7 && matches!(line.get(size), None | Some(b' ' | b'\r' | b'\n'));
    is_marker.then_some(size)
}

/// A label on one line. Git before 2.44 hands over its `placeholder` as it is.
fn label(typed: Option<&OsStr>, default: &str, placeholder: &str) -> OsString {
    let Some(typed) = typed.filter(|typed| !typed.is_empty() && *typed != placeholder) else {
        return default.into();
    };
    let bytes = typed.as_bytes().iter();
    let line: Vec<u8> = bytes
        .map(|byte| if byte.is_ascii_control() { b' ' } else { *byte })
        .collect();
    OsStr::from_bytes(&line).to_owned()
}

/// The output of a merge: messages for people, and `data` for the JSON envelope.
struct Report {
    notes: Vec<String>,
    conflicts: Vec<String>,
    /// The advice how to resolve the conflicts; `None` without conflicts.
    advice: Option<String>,
    /// The start of each message: the word merge, and the path.
    about: String,
    data: Value,
}

impl Report {
    fn of(merged: &Merged, path: &Path, labels: &[OsString; 2]) -> Self {
        let [ours, theirs] = labels
            .each_ref()
            .map(|label| format!("at {}", escaped(&label.to_string_lossy())));
        let (ours, theirs) = (ours.as_str(), theirs.as_str());
        let names = || SideNames { ours, theirs };
        let notes = merged.notes.iter();
        let notes: Vec<String> = notes.map(|note| note.told(names()).to_string()).collect();
        let conflicts = merged.conflicts.iter();
        let conflicts: Vec<String> = conflicts
            .map(|conflict| conflict.told(names()).to_string())
            .collect();
        let row = |id: Option<&Id>, message: &String| json!({"id": id.map(ToString::to_string), "message": message});
        let data = json!({
            "path": path.to_string_lossy(),
            "merged": merged.merged,
            "conflicts": merged.conflicts.iter().zip(&conflicts)
                .map(|(conflict, message)| row(conflict.id.as_ref(), message)).collect::<Vec<_>>(),
            "notes": merged.notes.iter().zip(&notes)
                .map(|(note, message)| row(id_of(note), message)).collect::<Vec<_>>(),
        });
        Self {
            notes,
            advice: advice(&merged.conflicts),
            conflicts,
            about: format!("merge {}", escaped_path(path)),
            data,
        }
    }

    fn exit(&self) -> Exit {
        match self.conflicts.is_empty() {
            true => Exit::Done,
            false => Exit::Undecided,
        }
    }

    fn say(&self, talk: &Talk) {
        let most = if talk.is_verbose() { usize::MAX } else { SHOWN };
        let rest = |lines: &[String]| {
            let left = lines.len().saturating_sub(most);
            (left > 0).then(|| format!("{}: and {left} more; -v names them", self.about))
        };
        for note in self.notes.iter().take(most) {
            talk.note(&format!("{}: {note}", self.about));
        }
        rest(&self.notes).iter().for_each(|line| talk.say(line));
        for conflict in self.conflicts.iter().take(most) {
            talk.warn(&format!("{}: {conflict}", self.about));
        }
        rest(&self.conflicts).iter().for_each(|line| talk.say(line));
        if let Some(advice) = &self.advice {
            talk.say(&format!("{}: {advice}", self.about));
        }
    }
}

fn id_of(note: &Note) -> Option<&Id> {
    match note {
        Note::KeptChanged { id, .. } | Note::ByTime { id, .. } => Some(id),
    }
}

/// A side that is empty has no markers: its conflict is the only one, and is not in a record.
fn advice(conflicts: &[Conflict]) -> Option<String> {
    use beadlock_records::ConflictKind::Emptied;
    match conflicts {
        [] => None,
        [
            Conflict {
                kind: Emptied { .. },
                ..
            },
        ] => Some(
            "the file has what the other side has; if it is meant to be empty, empty it".to_owned(),
        ),
        conflicts => Some(format!(
            "{} between markers in the file; keep one line of each",
            counted(conflicts.len(), "conflict is", "conflicts are")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_of_base_are_no_records_of_it() {
        let of = |base: &'static str| {
            String::from_utf8(without_conflicts(base.as_bytes()).into_owned()).unwrap()
        };
        let hunk = "a\n<<<<<<< x\nb\n=======\nc\n>>>>>>> y\nd\n";
        assert_eq!(of(hunk), "a\nd\n");
        let nested = "<<<<<<< x\n<<<<<<<<< 1\r\nb\n=========\n>>>>>>>>> 2\n=======\n>>>>>>>\nd";
        assert_eq!(of(nested), "d");
        for base in [
            "a\nb",
            "",
            "<<<<<<< x\nb\n=======\n",
            "<<<<<<\n======\n>>>>>>\n",
            "<<<<<<<x\n=======\n>>>>>>> y\n",
        ] {
            assert_eq!(of(base), base);
        }
    }

    #[test]
    fn a_label_is_one_line_and_never_a_placeholder() {
        let of = |typed: &str| label(Some(OsStr::new(typed)), "ours", "%X");
        assert_eq!(of("HEAD"), "HEAD");
        assert_eq!(of("1f3c (two\nlines\u{1b})"), "1f3c (two lines )");
        assert_eq!((of("%X"), of("")), ("ours".into(), "ours".into()));
        assert_eq!(label(None, "theirs", "%Y"), "theirs");
    }
}
