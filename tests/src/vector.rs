//! The recorded inputs of `shared/vectors/beads`, made ready for this machine.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, gettid};

use crate::{dead_pid, run, this_host, tool};

/// A child that has ended and is not reaped; reaped when dropped.
pub struct Zombie(Child);

impl Zombie {
    /// Returns once it has ended.
    #[expect(clippy::new_without_default, reason = "a process is no default")]
    pub fn new() -> Self {
        let child = Command::new("true").spawn().expect("true starts");
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a PID is an i32"));
        waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
            .expect("the child is ours");
        Self(child)
    }
}

impl Drop for Zombie {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

/// A template with its placeholders replaced.
pub fn filled(template: &str, zombie: &Zombie) -> String {
    let host = this_host();
    let mixed: String = host
        .char_indices()
        .map(|(at, c)| {
            if at % 2 == 0 {
                c.to_ascii_uppercase()
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect();
    template
        .replace("@HOST@", &host)
        .replace("@HOSTUPPER@", &host.to_ascii_uppercase())
        .replace("@HOSTMIXED@", &mixed)
        .replace("@DEAD@", &dead_pid().to_string())
        .replace("@LIVE@", &std::process::id().to_string())
        .replace("@ZOMBIE@", &zombie.0.id().to_string())
        .replace("@TID@", &gettid().to_string())
}

/// The bytes of an input file, unpacked, filled in. `None`: the program that unpacks it is missing, and it was said.
pub fn input(path: &Path, zombie: &Zombie) -> Option<Vec<u8>> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("gz") => {
            let mut command = Command::new(tool("gzip")?);
            command.arg("-dc").arg(path);
            let output = run(command);
            assert!(output.status.success(), "{output:?}");
            Some(output.stdout)
        }
        Some("tmpl") => {
            Some(filled(&fs::read_to_string(path).expect("a template"), zombie).into_bytes())
        }
        _ => Some(fs::read(path).expect("an input")),
    }
}
