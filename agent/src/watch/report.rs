//! What the watcher tells, in the few words that count here: a pure function and its table.

use std::path::PathBuf;

use notify::Event;
use notify::event::{CreateKind, EventKind, ModifyKind, RenameMode};

/// What has become of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is there, and something about it is new.
    New,
    /// A directory has come under this name.
    NewDirectory,
    /// Something has come under this name; it may be a directory.
    Arrived,
    /// What it was has no name here any more, and is watched no longer, nor is anything below.
    Gone,
    /// It has been moved away, and is still watched under this path.
    MovedWithItsWatch,
}

/// What has happened.
#[derive(Debug, PartialEq)]
pub(super) enum WatchReport {
    /// Nobody knows: reports were lost.
    Lost,
    /// Something at this path.
    At(PathBuf, Fate),
}

/// `None`: nothing that is not told otherwise as well.
pub(super) fn heard(mut event: Event) -> Option<WatchReport> {
    if event.need_rescan() {
        return Some(WatchReport::Lost);
    }
    let fate = match event.kind {
        EventKind::Create(CreateKind::Folder) => Fate::NewDirectory,
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Fate::Arrived,
        // Of a move out of a watched directory the other half may come, by a number for both; the directory itself
        // has none.
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) if event.tracker().is_none() => {
            Fate::MovedWithItsWatch
        }
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => Fate::Gone,
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => Fate::New,
        // Both halves of a move were told one by one.
        _ => return None,
    };
    Some(WatchReport::At(event.paths.pop()?, fate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::event::{DataChange, Flag, MetadataKind, RemoveKind};

    #[test]
    fn what_becomes_of_a_path() {
        let moved = |mode| EventKind::Modify(ModifyKind::Name(mode));
        let table = [
            (EventKind::Create(CreateKind::File), None, Some(Fate::New)),
            (EventKind::Create(CreateKind::Folder), None, Some(Fate::NewDirectory)),
            (EventKind::Modify(ModifyKind::Data(DataChange::Any)), None, Some(Fate::New)),
            (EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)), None, Some(Fate::New)),
            (EventKind::Remove(RemoveKind::File), None, Some(Fate::Gone)),
            (EventKind::Remove(RemoveKind::Folder), None, Some(Fate::Gone)),
            // An unmount.
            (EventKind::Remove(RemoveKind::Other), None, Some(Fate::Gone)),
            (moved(RenameMode::From), Some(7), Some(Fate::Gone)),
            (moved(RenameMode::From), None, Some(Fate::MovedWithItsWatch)),
            (moved(RenameMode::To), Some(7), Some(Fate::Arrived)),
            (moved(RenameMode::Both), Some(7), None),
            (EventKind::Other, None, None),
        ];
        for (kind, tracker, expected) in table {
            let path = PathBuf::from("/x/.beads/file");
            let mut event = Event::new(kind).add_path(path.clone());
            if let Some(tracker) = tracker {
                event = event.set_tracker(tracker);
            }
            assert_eq!(
                heard(event),
                expected.map(|fate| WatchReport::At(path, fate)),
                "{kind:?} {tracker:?}"
            );
        }
        assert_eq!(heard(Event::new(EventKind::Other).set_flag(Flag::Rescan)), Some(WatchReport::Lost));
        assert_eq!(heard(Event::new(EventKind::Create(CreateKind::File))), None, "nowhere");
    }
}
