//! A folder of snapshots, which one test owns.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use insta::Settings;

/// The snapshots of a room.
#[must_use = "close() looks for files that nobody pins any more"]
pub struct Book {
    folder: PathBuf,
    pinned: BTreeSet<String>,
}

impl Book {
    /// The folder `snapshots/ROOM`.
    pub fn open(room: &str) -> Self {
        let folder = beadlock_tests::skip::checkout()
            .join("tests/contract/snapshots")
            .join(room);
        Self {
            folder,
            pinned: BTreeSet::new(),
        }
    }

    /// The text is that of `NAME.snap`.
    #[track_caller]
    pub fn pin(&mut self, name: &str, text: &str) {
        assert!(
            self.pinned.insert(name.to_owned()),
            "{name} is pinned twice"
        );
        let mut settings = Settings::new();
        settings.set_snapshot_path(&self.folder);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, text));
    }

    /// Fails for a file that no line of the test has pinned.
    #[track_caller]
    pub fn close(self) {
        let entries = fs::read_dir(&self.folder)
            .expect("the folder of the snapshots")
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let left: Vec<String> = names
            .filter_map(|name| Some(name.strip_suffix(".snap")?.to_owned()))
            .filter(|name| !self.pinned.contains(name))
            .collect();
        assert!(
            left.is_empty(),
            "nobody pins these of {}: {left:?}; remove them",
            self.folder.display()
        );
    }
}

/// A room that was renamed leaves a folder that no test opens any more.
#[test]
fn every_folder_of_snapshots_is_named_by_a_test() {
    let top = beadlock_tests::skip::checkout().join("tests/contract");
    let mut sources = String::new();
    let mut rooms = Vec::new();
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("a folder").flatten() {
            let path = path.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                sources += &fs::read_to_string(path).expect("a source");
            } else if path.extension().is_some_and(|kind| kind == "snap") {
                let room = path.parent().and_then(|room| room.file_name());
                rooms.push(room.expect("a room").to_string_lossy().into_owned());
            }
        }
    }
    rooms.sort();
    rooms.dedup();
    // A name may be put together: the last part of it stands before a quote all the same.
    let unnamed = rooms
        .iter()
        .filter(|room| !sources.contains(&format!("{room}\"")));
    assert_eq!(
        unnamed.collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "remove these"
    );
    assert!(
        rooms.len() > 40,
        "few rooms, or the scan sees few: {rooms:?}"
    );
}
