//! A tool on a terminal, where somebody types Ctrl-C.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{skip, wait_until};
use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

use crate::Bench;

/// A child of the same group has SIGINT from the terminal, and gets it once; one that has left the group gets it from
/// the tool.
#[test]
fn what_the_terminal_sent_is_not_sent_again() {
    let Some(setsid) = skip::tool("setsid") else {
        return;
    };
    let bench = Bench::new();
    let counts = |name: &str| {
        // After the first it stays for a moment, in which a second would come.
        format!(
            "trap 'echo int >> {name}' INT; echo > begun-{name}; while ! test -e {name}; do sleep 0.02; done; sleep 0.3; echo end >> {name}"
        )
    };
    let away = counts("away").replace('\'', "'\\''");
    let script = format!("exec setsid sh -c '{away}'\n{}", counts("near"));
    let master =
        posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("a terminal");
    grantpt(&master)
        .and_then(|()| unlockpt(&master))
        .expect("a terminal");
    let name = ptsname_r(&master).expect("its name");
    let open = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(name);
    let stream = open.expect("the terminal");
    let mut command: Command = bench.0.command(setsid);
    command
        .arg("--ctty")
        .arg(crate::EMBEDDED)
        .arg(bench.dir())
        .args(["shells", &script]);
    command
        .stdin(stream.try_clone().expect("it"))
        .stdout(stream.try_clone().expect("it"))
        .stderr(stream);
    let mut tool = command.spawn().expect("it starts");
    bench.wait_for(i32::try_from(tool.id()).expect("a PID"));
    wait_until(PATIENCE, "both", || {
        ["near", "away"]
            .iter()
            .all(|name| bench.file(&format!("begun-{name}")).exists())
    });
    let mut keyboard = File::from(OwnedFd::from(master));
    keyboard.write_all(&[3]).expect("Ctrl-C");
    let mut status = None;
    wait_until(PATIENCE, "its end", || {
        status = tool.try_wait().expect("ours");
        status.is_some()
    });
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status.expect("its end")),
        Some(2)
    );
    for name in ["near", "away"] {
        let lines = std::fs::read_to_string(bench.file(name)).expect("it has heard");
        assert_eq!(lines, "int\nend\n", "{name}");
    }
    bench.is_clean();
}
