//! What the tests of `beadlock write`, `update` and `append` share.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use beadlock_tests::{Ended, Running, Scene};

/// The files of a scene, beside its `.beads`.
pub trait Files {
    fn put(&self, name: &str, text: impl AsRef<[u8]>);
    fn text(&self, name: &str) -> String;
    /// Every name but `.beads`, sorted.
    fn files(&self) -> Vec<String>;
    /// `beadlock ARGS` with this on its standard input.
    fn given(&self, input: impl AsRef<[u8]>, args: &[&str]) -> Ended;
}

impl Files for Scene {
    fn put(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), text).expect("write a file");
    }

    fn text(&self, name: &str) -> String {
        let bytes = fs::read(self.path().join(name));
        bytes.map_or("(none)".to_owned(), |bytes| {
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).expect("list the scene");
        let names = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name != ".beads").collect();
        names.sort();
        names
    }

    #[track_caller]
    fn given(&self, input: impl AsRef<[u8]>, args: &[&str]) -> Ended {
        with_input(self.beadlock(args), input.as_ref())
    }
}

/// Runs it with this on its standard input.
#[track_caller]
pub fn with_input(mut command: Command, input: &[u8]) -> Ended {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    command.stdin(Stdio::from(reader));
    let running = Running::start(command);
    let input = input.to_vec();
    // It may not want it all.
    let feeder = std::thread::spawn(move || drop(writer.write_all(&input)));
    let ended = Ended::from(running.finish(Duration::from_secs(60)));
    feeder.join().expect("fed");
    ended
}
