//! A directory with one lock of a protocol in it, and the programs that want it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use beadlock_tests::process::marked_by;
use beadlock_tests::{Ended, Running, Scene, binaries, dead_pid, sleeper, until};
use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;

use crate::protocol::{Leaves, Neighbour, Protocol};

/// A scene with a free lock of the protocol.
pub struct Site {
    pub scene: Scene,
    pub protocol: &'static Protocol,
}

/// A `beadlock hold` whose command runs.
pub struct Holding {
    pub beadlock: Running,
    /// The command's PID.
    pub command: i32,
}

/// A command that works until there is a file `go`.
pub const UNTIL_GO: &str = "until test -e go; do sleep 0.02; done";

impl Site {
    pub fn new(protocol: &'static Protocol) -> Self {
        let scene = Scene::of(&binaries::beadlock().to_string_lossy());
        let site = Self { scene, protocol };
        fs::create_dir_all(site.directory()).expect("a directory for the lock");
        // That of named locks is warned of where others may read it.
        fs::set_permissions(site.directory(), fs::Permissions::from_mode(0o700))
            .expect("a directory of one's own");
        site
    }

    pub fn directory(&self) -> PathBuf {
        self.scene.file(self.protocol.directory)
    }

    pub fn lock(&self) -> PathBuf {
        self.directory().join(self.protocol.lock_file)
    }

    /// The lock's path as the programs write it.
    pub fn lock_path(&self) -> String {
        let directory = fs::canonicalize(self.directory()).expect("the lock's directory");
        directory
            .join(self.protocol.lock_file)
            .to_string_lossy()
            .into_owned()
    }

    /// The names in the lock's directory.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.directory()).expect("the lock's directory");
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// The lock file's bytes; none without a lock file.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        fs::read(self.lock()).ok()
    }

    /// The record in the lock file; null where the lock file is empty by its protocol.
    #[track_caller]
    pub fn record(&self) -> Value {
        if self.protocol.record.is_empty() {
            return Value::Null;
        }
        let text = self.bytes().expect("a lock file");
        serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    /// Puts this lock file there, in place.
    #[track_caller]
    pub fn put(&self, text: &str) {
        fs::write(self.lock(), text).expect("write the lock file");
    }

    /// A PID that was and is gone.
    pub fn gone(&self) -> i32 {
        dead_pid()
    }

    /// Another tool's live lock, and the process that holds it.
    #[track_caller]
    pub fn neighbour(&self) -> Running {
        match self.protocol.neighbour {
            Neighbour::Locks(lock) => lock(self),
            Neighbour::Writes(text) => {
                let process = sleeper();
                self.put(&text(process.pid()));
                process
            }
        }
    }

    /// The flock is there that a claim has to wait for before it begins.
    pub fn gate_is_shut(&self) -> bool {
        let gate = File::open(self.scene.file(self.protocol.gate));
        gate.is_ok_and(|gate| Flock::lock(gate, FlockArg::LockExclusiveNonblock).is_err())
    }

    /// Takes that flock until it is dropped.
    #[track_caller]
    pub fn shut_gate(&self) -> Flock<File> {
        let path = self.scene.file(self.protocol.gate);
        let file = if path.is_dir() {
            File::open(&path)
        } else {
            File::create(&path)
        };
        let gate = Flock::lock(
            file.expect("open the gate"),
            FlockArg::LockExclusiveNonblock,
        );
        gate.map_err(|(_, errno)| errno).expect("the gate is free")
    }

    pub fn start_shell(&self, script: &str) -> Running {
        let mut command = self.scene.shell(script);
        self.put_environment(&mut command);
        Running::apart(command)
    }

    /// What a script needs to know of the lock.
    fn put_environment(&self, command: &mut Command) {
        command.env("BEADLOCK_LOCK_DIR", self.scene.file("locks"));
        command
            .env("TARGET", self.protocol.target)
            .env("LOCK", self.lock());
    }

    /// `beadlock COMMAND TARGET OPTIONS`.
    pub fn command(&self, command: &str, options: &[&str]) -> Command {
        self.plain(&[&[command, self.protocol.target], options].concat())
    }

    /// `beadlock ARGS`.
    pub fn plain(&self, args: &[&str]) -> Command {
        let mut command = self.scene.beadlock(args);
        self.put_environment(&mut command);
        command
    }

    /// Runs `beadlock COMMAND TARGET OPTIONS` to its end.
    #[track_caller]
    pub fn run(&self, command: &str, options: &[&str]) -> Ended {
        Running::apart(self.command(command, options)).end()
    }

    /// Runs it with `--json`, and returns its exit code and its envelope.
    #[track_caller]
    pub fn json(&self, command: &str, options: &[&str]) -> (i32, Value) {
        let ended = self.run(command, &[&["--json"], options].concat());
        (ended.code, ended.json())
    }

    /// `beadlock hold TARGET …OPTIONS -- sh -c SCRIPT`, with what every claim needs.
    pub fn hold_command(&self, options: &[&str], script: &str) -> Command {
        let words = [self.protocol.claim, options, &["--", "sh", "-c", script]].concat();
        self.command("hold", &words)
    }

    #[track_caller]
    pub fn hold(&self, options: &[&str], script: &str) -> Ended {
        Running::apart(self.hold_command(options, script)).end()
    }

    /// `beadlock acquire TARGET …OPTIONS`, with what every claim needs.
    #[track_caller]
    pub fn acquire(&self, options: &[&str]) -> Ended {
        self.run("acquire", &[self.protocol.claim, options].concat())
    }

    /// Starts a hold, and returns once its command runs.
    #[track_caller]
    pub fn holding(&self, options: &[&str], script: &str) -> Holding {
        let _ = fs::remove_file(self.scene.file("pid"));
        let script = format!("echo $$ >pid; {script}");
        let mut beadlock = Running::apart(self.hold_command(options, &script));
        until("the command runs", || {
            assert!(!beadlock.has_ended(), "{}", beadlock.err());
            self.scene.read("pid").ends_with('\n')
        });
        Holding {
            beadlock,
            command: self.scene.pid_in("pid"),
        }
    }

    /// Starts a hold, and returns once it says that it waits.
    #[track_caller]
    pub fn waiting(&self, options: &[&str], script: &str) -> Running {
        let mut waiting = Running::apart(self.hold_command(options, script));
        until("it waits", || {
            assert!(!waiting.has_ended(), "{}", waiting.err());
            waiting.err().contains("beadlock: waiting ")
        });
        waiting
    }

    /// Lets a command of [`UNTIL_GO`] end.
    pub fn go(&self) {
        self.scene.write("go", "");
    }

    /// What `check` says, without changing anything: verdict and reason.
    #[track_caller]
    pub fn verdict(&self) -> (String, String) {
        let (_, envelope) = self.json("check", &["--dry-run"]);
        let word = |key: &str| {
            envelope["data"][0][key]
                .as_str()
                .expect("a word")
                .to_owned()
        };
        (word("verdict"), word("reason"))
    }

    #[track_caller]
    pub fn assert_free(&self) {
        assert_eq!(self.verdict(), ("free".to_owned(), "no_lock".to_owned()));
    }

    #[track_caller]
    pub fn assert_held(&self) {
        assert_eq!(
            self.verdict(),
            ("held".to_owned(), self.protocol.refusal.reason.to_owned())
        );
    }

    /// Nothing is left of a lock but what its protocol leaves.
    #[track_caller]
    pub fn assert_tidy(&self) {
        match self.protocol.leaves {
            Leaves::Nothing => assert_eq!(self.names(), Vec::<String>::new()),
            Leaves::AnEmptyLockFile => {
                assert_eq!(self.names(), [self.protocol.lock_file]);
                assert_eq!(self.bytes(), Some(Vec::new()));
            }
        }
    }

    /// Waits until nothing runs that was started here.
    #[track_caller]
    pub fn until_still(&self) {
        until("every process of the scene has ended", || {
            marked_by(&self.scene).is_empty()
        });
    }

    /// The id by which `status` shows the lock.
    #[track_caller]
    pub fn id(&self) -> String {
        let (_, envelope) = self.json("status", &[]);
        envelope["data"][0]["id"]
            .as_str()
            .expect("a held lock has an id")
            .to_owned()
    }

    /// The events in `audit`.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        };
        self.scene.read("audit").lines().map(parse).collect()
    }
}
