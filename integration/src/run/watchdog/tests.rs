use super::*;
use crate::claim::known_process::KnownProcess;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn a_group_is_empty_when_no_process_lives_in_it() {
    let mut leader = Command::new("sh")
        .args(["-c", "sleep 60 & echo $!; wait"])
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let group = leader.id().cast_signed();
    let mut line = String::new();
    io::BufRead::read_line(&mut io::BufReader::new(leader.stdout.take().unwrap()), &mut line).unwrap();
    let member = Pid::from_raw(line.trim().parse().unwrap());
    leader.kill().unwrap();
    KnownProcess::of(group).wait(sys::pidfd_open(group));
    assert!(!is_empty(group), "its leader has ended, and one of it lives");
    nix::sys::signal::kill(member, Signal::SIGKILL).unwrap();
    // It was never ours to reap; the leader is a zombie of the group.
    wait_for_group(group);
    assert!(is_empty(group));
    leader.wait().unwrap();
}
