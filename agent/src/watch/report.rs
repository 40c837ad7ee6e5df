//! The watcher's events, reduced to what counts here: a pure function and its table.

use std::path::PathBuf;

use notify::Event;
use notify::event::{CreateKind, EventKind, ModifyKind, RenameMode};

/// The change of a path that an event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathFate {
    /// The path is new, or its content or metadata has changed.
    New,
    /// A directory has come under this name.
    NewDirectory,
    /// Something has come under this name; it may be a directory.
    Arrived,
    /// The path is gone. Nothing there or below is watched any more.
    Gone,
    /// The watched directory was moved away. It is still watched, and its events have this old path.
    MovedWithItsWatch,
}

#[derive(Debug, PartialEq)]
pub(super) enum WatchReport {
    /// Events were lost.
    Lost,
    At(PathBuf, PathFate),
}

/// `None`: another event reports the same.
pub(super) fn heard(mut event: Event) -> Option<WatchReport> {
    if event.need_rescan() {
        return Some(WatchReport::Lost);
    }
    let fate = match event.kind {
        EventKind::Create(CreateKind::Folder) => PathFate::NewDirectory,
        EventKind::Modify(ModifyKind::Name(RenameMode::To)) => PathFate::Arrived,
        // A move out of a watched directory has a tracker that joins both halves; a move of that directory has none.
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) if event.tracker().is_none() => {
            PathFate::MovedWithItsWatch
        }
        EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
            PathFate::Gone
        }
        EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => {
            PathFate::New
        }
        // Both halves of a move were reported one by one.
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
            (
                EventKind::Create(CreateKind::File),
                None,
                Some(PathFate::New),
            ),
            (
                EventKind::Create(CreateKind::Folder),
                None,
                Some(PathFate::NewDirectory),
            ),
            (
                EventKind::Modify(ModifyKind::Data(DataChange::Any)),
                None,
                Some(PathFate::New),
            ),
            (
                EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
                None,
                Some(PathFate::New),
            ),
            (
                EventKind::Remove(RemoveKind::File),
                None,
                Some(PathFate::Gone),
            ),
            (
                EventKind::Remove(RemoveKind::Folder),
                None,
                Some(PathFate::Gone),
            ),
            // An unmount.
            (
                EventKind::Remove(RemoveKind::Other),
                None,
                Some(PathFate::Gone),
            ),
            (moved(RenameMode::From), Some(7), Some(PathFate::Gone)),
            (
                moved(RenameMode::From),
                None,
                Some(PathFate::MovedWithItsWatch),
            ),
            (moved(RenameMode::To), Some(7), Some(PathFate::Arrived)),
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
        assert_eq!(
            heard(Event::new(EventKind::Other).set_flag(Flag::Rescan)),
            Some(WatchReport::Lost)
        );
        assert_eq!(
            heard(Event::new(EventKind::Create(CreateKind::File))),
            None,
            "nowhere"
        );
    }
}
