//! Versions in commits: those that are ahead, those that a pull would bring, and a commit that is being made.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use beadlock_records::BlemishKind;

use super::HeldBack;
use super::fault::{Fault, RecordLoss, blemish};
use super::records::{Text, ids_in};
use crate::{Event, Part, to_type};
use beadlock_repository::names::is_record_name;
use beadlock_repository::{
    Distance, Git, GitReason, HindranceKind, Repository, SyncStop, Upstream, blobs, counted,
};

/// A record file in two commits, by its ids.
struct TwoVersions {
    /// The path from the top of the working tree.
    path: Vec<u8>,
    old: Option<String>,
    new: Option<String>,
}

/// The record files that two commits, or trees, have otherwise, and their contents.
struct Changed {
    files: Vec<TwoVersions>,
    texts: HashMap<String, Text>,
}

impl Changed {
    /// The record files of the database in which two commits differ, with their contents.
    fn between(repository: &Repository, from: &str, to: &str) -> Result<Self, SyncStop> {
        let mut changed = Self::in_databases(repository, from, to)?;
        changed.files.retain(|file| repository.has(&file.path));
        changed.read(repository)
    }

    /// The record files of every database of the repository in which two commits differ, without their contents.
    fn in_databases(repository: &Repository, from: &str, to: &str) -> Result<Self, SyncStop> {
        let args = ["diff-tree", "-r", "-z", "--no-renames", from, to];
        let words = repository.git.call(args).words()?;
        let files = words
            .chunks_exact(2)
            .filter_map(TwoVersions::parse)
            .filter(|file| repository.has_anywhere(&file.path))
            .collect();
        let texts = HashMap::new();
        Ok(Self { files, texts })
    }

    fn read(self, repository: &Repository) -> Result<Self, SyncStop> {
        let files = self.files;
        let ids: BTreeSet<_> = files
            .iter()
            .flat_map(|file| [&file.old, &file.new])
            .flatten()
            .map(String::as_str)
            .collect();
        let texts = blobs::contents(&repository.git, ids.into_iter())?;
        Ok(Self { files, texts })
    }

    fn text(&self, id: Option<&String>) -> Option<&[u8]> {
        let text = id.and_then(|id| self.texts.get(id));
        text.map(|text| text.as_slice())
    }

    /// Whether git has both versions. Of an object that is missing or damaged, git tells when it needs it; that is no
    /// file that somebody has emptied.
    fn are_here(&self, file: &TwoVersions) -> bool {
        [&file.old, &file.new]
            .into_iter()
            .flatten()
            .all(|id| self.texts.contains_key(id))
    }

    /// The first line that the new version must not have.
    fn blemish(&self, file: &TwoVersions) -> Option<(BlemishKind, usize)> {
        if !self.are_here(file) {
            return None;
        }
        let new = self.text(file.new.as_ref())?;
        blemish(self.text(file.old.as_ref()).unwrap_or_default(), new)
    }

    /// Why the new version is held. `tree` is the tree or commit that has it, for the record files beside it.
    fn fault(
        &self,
        repository: &Repository,
        file: &TwoVersions,
        tree: &str,
    ) -> Result<Option<Fault>, SyncStop> {
        if let Some((kind, line)) = self.blemish(file) {
            return Ok(Some(Fault::Line(kind, line)));
        }
        if !self.are_here(file) {
            return Ok(None);
        }
        let old = self.text(file.old.as_ref());
        let mut loss = RecordLoss::between(old, self.text(file.new.as_ref()));
        if matches!(loss.fault(), Some(Fault::Gone(..))) {
            let others = others(&repository.git, &ids_in(repository, tree)?, &file.path)?;
            let others = others.values().map(|text| text.as_slice());
            loss.forget_moved(old.unwrap_or_default(), others);
        }
        Ok(loss.fault())
    }
}

impl TwoVersions {
    /// Reads `:MODE MODE ID ID STATUS` and the path. `None` for a file that is no record file.
    fn parse(pair: &[Vec<u8>]) -> Option<Self> {
        let fields: Vec<_> = pair[0].split(|byte| *byte == b' ').collect();
        let [old_mode, new_mode, old, new, ..] = fields.as_slice() else {
            return None;
        };
        let id = |mode: &[u8], id: &[u8]| {
            let is_file = mode.starts_with(b"100");
            is_file.then(|| String::from_utf8_lossy(id).into_owned())
        };
        is_record_name(&pair[1]).then(|| Self {
            path: pair[1].clone(),
            old: id(old_mode.strip_prefix(b":").unwrap_or(old_mode), old),
            new: id(new_mode, new),
        })
    }
}

/// The record files of a tree but one.
fn others(
    git: &Git,
    ids: &BTreeMap<Vec<u8>, String>,
    path: &[u8],
) -> Result<HashMap<String, Text>, SyncStop> {
    let others: BTreeSet<_> = ids
        .iter()
        .filter(|(other, _)| is_record_name(other) && *other != path)
        .map(|(_, id)| id.as_str())
        .collect();
    blobs::contents(git, others.into_iter())
}

/// Refuses to push commits with a version that is held: somebody has committed it by hand, and pushes it by hand.
pub(crate) fn refuse_ahead(repository: &Repository, distance: &Distance) -> Result<(), SyncStop> {
    // One commit of this very sync was looked at before it was made.
    let Some(place) = distance.upstream.as_ref().filter(|_| !distance.is_ours) else {
        return Ok(());
    };
    let head = &distance.head.commit;
    let changed = Changed::between(repository, place, head)?;
    let mut found = None;
    for file in &changed.files {
        if let Some(fault) = changed.fault(repository, file, head)? {
            found = Some((&file.path, fault));
            break;
        }
    }
    let Some((path, fault)) = found else {
        return Ok(());
    };
    let what = if fault.is_to_be_edited() {
        "edit the file, or push that yourself if it is meant"
    } else {
        "push that yourself if it is meant"
    };
    let why = format!(
        "{}{fault}, in {} that {} not pushed; {what}",
        repository.shown(path),
        counted(distance.ahead, "commit"),
        if distance.ahead == 1 { "is" } else { "are" },
    );
    let stop = SyncStop::notice(
        Event::NotPushing,
        HindranceKind::NotPushing,
        GitReason::Held,
        why,
    );
    Err(match fault.is_to_be_edited() {
        true => stop,
        false => stop.next(to_type(
            "git -C {} push",
            &[Part::Path(&repository.git.dir)],
        )),
    })
}

/// Refuses a pull of a record file with a line that no record file should have, and that the one here has not. What
/// somebody has deleted comes in.
pub(crate) fn refuse_arriving(
    repository: &Repository,
    upstream: &Upstream,
    (from, to): (&str, &str),
) -> Result<(), SyncStop> {
    let changed = Changed::in_databases(repository, from, to)?.read(repository)?;
    let found = changed
        .files
        .iter()
        .find_map(|file| Some((&file.path, changed.blemish(file)?)));
    let Some((path, (kind, line))) = found else {
        return Ok(());
    };
    let what = match kind {
        BlemishKind::Marker => "conflict markers",
        BlemishKind::Nul => "NUL bytes",
        BlemishKind::Torn => "a line that is not JSON (cut off?)",
        BlemishKind::NotJson => "a line that is not JSON",
    };
    let why = format!(
        "{} has {what} in {}, line {line}; pull it yourself if it is meant",
        upstream.name(),
        repository.shown(path),
    );
    let stop = SyncStop::notice(
        Event::NotPulling,
        HindranceKind::NotPulling,
        GitReason::Held,
        why,
    );
    let top = Part::Path(&repository.git.dir);
    // Where commits are ahead, git would ask how to go on.
    let is_ahead = repository.commit_of(&upstream.tracking)?.as_deref() != Some(to);
    Err(stop.next(if is_ahead {
        to_type("git -C {} pull --rebase", &[top])
    } else {
        to_type("git -C {} pull", &[top])
    }))
}

/// Refuses a tree in which a file has become one that is held since it was looked at: the next look sees it.
pub(crate) fn refuse_changed(
    repository: &Repository,
    held: &HeldBack,
    (before, tree): (&str, &str),
) -> Result<(), SyncStop> {
    let changed = Changed::between(repository, held.place.as_deref().unwrap_or(before), tree)?;
    let now = match held.place {
        // What the last commit has already, this one does not bring.
        Some(_) => Changed::between(repository, before, tree)?.files,
        None => Vec::new(),
    };
    let is_now = |file: &&TwoVersions| {
        held.place.is_none() || now.iter().any(|changed| changed.path == file.path)
    };
    for file in changed.files.iter().filter(is_now) {
        if changed.fault(repository, file, tree)?.is_some() {
            return Err(SyncStop::moved(format!(
                "{} was written while it was committed; the next cycle looks at it again",
                repository.shown(&file.path)
            )));
        }
    }
    Ok(())
}
