//! A free lock is taken, names its holder, and goes with its command.

use beadlock_tests::Running;
use serde_json::Value;

use crate::envelope::{keys, shown};
use crate::protocol::HOLDER;
use crate::site::Site;

pub fn tell(site: &Site) {
    a_command_runs_under_a_lock_that_names_it(site);
    the_commands_exit_code_is_passed_on(site);
    a_hold_inside_a_hold_runs_under_the_outer_lock(site);
    a_command_that_does_not_exist_takes_no_lock(site);
}

fn a_command_runs_under_a_lock_that_names_it(site: &Site) {
    let script = "cp \"$LOCK\" seen; stat -c %a \"$LOCK\" >mode; echo $$ >pid; echo \"$BEADLOCK_HELD_TARGET\" >target; \
                  echo \"$BEADLOCK_HELD_ID\" >id; \"$BEADLOCK\" status \"$TARGET\" --json >status; echo ran";
    let ended = site.hold(&[], script);
    assert_eq!((ended.code, ended.out.as_str()), (0, "ran\n"), "{ended:?}");
    let pid = site.scene.pid_in("pid");
    let (claimed, released) = ended
        .err
        .split_once('\n')
        .expect("a line for claimed, and one for released");
    assert!(
        claimed.starts_with(&format!("beadlock: claimed {} for ", site.protocol.target)),
        "{ended:?}"
    );
    // And of a named lock, which may be in another directory, where.
    let (claimed, _) = claimed.split_once(" in /").unwrap_or((claimed, ""));
    assert!(claimed.ends_with(&format!(" (PID {pid})")), "{ended:?}");
    let said = format!("beadlock: released {} after ", site.protocol.target);
    assert!(
        released.starts_with(&said) && released.lines().count() == 1,
        "{ended:?}"
    );
    the_lock_file_was_the_documents(site, pid);
    the_command_knew_its_lock(site);
    site.assert_tidy();
    site.assert_free();
}

fn the_lock_file_was_the_documents(site: &Site, pid: i32) {
    let text = site.scene.read("seen");
    let mode = u32::from_str_radix(site.scene.read("mode").trim(), 8).expect("an octal number");
    assert_eq!(mode & 0o7133, 0, "at most 0644: {mode:o}");
    if site.protocol.record.is_empty() {
        assert_eq!(text, "");
        return;
    }
    let record: Value = serde_json::from_str(&text).expect("a lock file is JSON");
    assert_eq!(keys(&record), site.protocol.record);
    assert_eq!(record["pid"], pid, "the lock names the command");
    assert_eq!(
        record[site.protocol.holder_key.expect("a record names its holder")],
        HOLDER
    );
    assert!(text.ends_with("}\n"), "{text:?}");
}

fn the_command_knew_its_lock(site: &Site) {
    let envelope: Value = serde_json::from_str(&site.scene.read("status")).expect("an envelope");
    let lock = shown(&envelope);
    assert_eq!(lock["verdict"], "held");
    assert_eq!(lock["path"], site.lock_path());
    assert_eq!(
        lock["id"],
        site.scene.read("id").trim_end(),
        "the command has the lock's id"
    );
    let target = site.scene.read("target");
    let (scheme, place) = target.trim_end().split_once(':').expect("SCHEME:PLACE");
    assert!(
        place.starts_with('/'),
        "the target is valid in every directory: {target}"
    );
    assert!(
        site.protocol.shown.starts_with(&format!("{scheme}:")),
        "{target}"
    );
}

fn the_commands_exit_code_is_passed_on(site: &Site) {
    for (script, code) in [("exit 7", 7), ("kill -KILL $$", 137)] {
        let ended = site.hold(&["-q"], script);
        assert_eq!(
            (ended.code, ended.out.as_str(), ended.err.as_str()),
            (code, "", ""),
            "{ended:?}"
        );
        site.assert_tidy();
    }
}

fn a_hold_inside_a_hold_runs_under_the_outer_lock(site: &Site) {
    let claim = site.protocol.claim.join(" ");
    let script = format!(
        "\"$BEADLOCK\" hold \"$TARGET\" -q {claim} --no-wait -- echo inner; \"$BEADLOCK\" check \"$TARGET\"; echo $?"
    );
    let ended = site.hold(&["-q"], &script);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(
        (lines.first(), lines.last()),
        (Some(&"inner"), Some(&"4")),
        "still held: {ended:?}"
    );
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    site.assert_tidy();
}

fn a_command_that_does_not_exist_takes_no_lock(site: &Site) {
    let _ = std::fs::remove_file(site.lock());
    let words = [site.protocol.claim, &["--", "no-such-command"]].concat();
    let ended = Running::apart(site.command("hold", &words)).end();
    assert_eq!((ended.code, ended.out.as_str()), (127, ""), "{ended:?}");
    assert_eq!(
        site.names(),
        Vec::<String>::new(),
        "nothing was claimed: {ended:?}"
    );
}
