//! `beadlock doctor` on file systems of their own: tmpfs, overlayfs, FUSE, full ones and read-only ones.

use beadlock_testkit::{Ended, Running, Scene, has_program, may_be_root, skip};
use serde_json::Value;

use super::{guarantee, missing, scene, trial};

/// Checks of `doctor` that depend on the machine, whatever the file system.
const OF_MACHINE: [&str; 4] = ["pidfd", "proc", "machine_id", "boot_id"];

/// Runs `script` in a mount namespace of its own, after `mount`. None where that cannot be had, which is said.
fn on_a_mount(scene: &Scene, mount: &str, script: &str) -> Option<Ended> {
    if !has_program("unshare") || !has_program("mount") {
        return None;
    }
    let root = if may_be_root() { "" } else { "--map-root-user" };
    let in_namespace = |script: &str| {
        let mut command = scene.shell(&format!("exec unshare {root} --mount sh -c \"$SCRIPT\""));
        command.env("SCRIPT", script);
        Running::apart(command).end()
    };
    let probe = in_namespace(mount);
    if probe.code != 0 {
        skip::cannot(&format!("cannot mount: {}", probe.err.trim()));
        return None;
    }
    Some(in_namespace(&format!("{mount}\n{script}")))
}

/// Doctor's answer in JSON, then what it has left.
const EXAMINE: &str =
    "$BEADLOCK doctor --json disk/.beads >answer; code=$?; ls -A disk/.beads >left; exit $code";

fn answer(scene: &Scene) -> Value {
    assert_eq!(scene.read("left"), "", "what was tried is cleared away");
    serde_json::from_str(&scene.read("answer")).unwrap()
}

const TMPFS: &str =
    "mkdir -p disk && mount -t tmpfs -o size=4m tmpfs disk && mkdir -m 700 disk/.beads || exit 1";

#[test]
fn on_a_tmpfs_all_is_there() {
    let scene = scene();
    let Some(ended) = on_a_mount(&scene, TMPFS, EXAMINE) else {
        return;
    };
    let json = answer(&scene);
    let missing = missing(&json);
    assert!(
        missing
            .iter()
            .all(|name| OF_MACHINE.contains(&name.as_str())),
        "{json}"
    );
    ended.expect(i32::from(!missing.is_empty()), &[]);
    assert_eq!(
        (&json["ok"], &json["error"], &json["data"]["can_lock"]),
        (&true.into(), &Value::Null, &true.into())
    );
    let system = trial(&json, "file_system");
    assert!(
        system["detail"]
            .as_str()
            .unwrap()
            .starts_with("tmpfs, mounted at "),
        "{system}"
    );
    assert_eq!(guarantee(&json, "drain").0, "yes");
    assert_eq!(
        guarantee(&json, "live_lock"),
        ("yes".to_owned(), "watched by lease".to_owned())
    );
    assert_eq!(guarantee(&json, "stale_lock").0, "yes");
    assert_eq!(guarantee(&json, "claim").0, "yes");
}

#[test]
fn on_an_overlay_the_gate_covers_this_machine_only() {
    const OVERLAY: &str = "mkdir -p disk base && mount -t tmpfs tmpfs base && mkdir base/lower base/upper base/work \
        && mount -t overlay -o lowerdir=base/lower,upperdir=base/upper,workdir=base/work overlay disk \
        && mkdir -m 700 disk/.beads || exit 1";
    let scene = scene();
    let Some(ended) = on_a_mount(&scene, OVERLAY, EXAMINE) else {
        return;
    };
    let json = answer(&scene);
    ended.expect(1, &[]);
    let system = trial(&json, "file_system");
    assert_eq!(system["ok"], false, "{system}");
    assert!(
        system["detail"]
            .as_str()
            .unwrap()
            .starts_with("overlayfs, mounted at "),
        "{system}"
    );
    assert_eq!(json["data"]["can_lock"], true);
    let how = "a running cycle is waited for on this machine only".to_owned();
    assert_eq!(guarantee(&json, "drain"), ("limited".to_owned(), how));
    assert_eq!(guarantee(&json, "claim").0, "yes");
    for name in ["flock_processes", "hard_link", "fdatasync", "notify"] {
        assert_eq!(trial(&json, name)["ok"], true, "{json}");
    }
}

/// bindfs passes some calls on and knows others not: locks hold there by the portable ways.
#[test]
fn on_fuse_what_is_missing_is_named_and_locks_hold() {
    const FUSE: &str = "mkdir -p disk source/.beads && chmod 700 source/.beads
        test -c /dev/fuse || { echo no /dev/fuse >&2; exit 1; }
        bindfs -f source disk & bindfs=$!
        trap 'umount disk; wait $bindfs' EXIT
        for i in $(seq 500); do
            grep -q \" $PWD/disk fuse\" /proc/self/mounts && break
            kill -0 $bindfs || exit 1
            sleep 0.01
        done
        grep -q \" $PWD/disk fuse\" /proc/self/mounts || exit 1";
    let scene = scene();
    if !has_program("bindfs") {
        return;
    }
    let Some(ended) = on_a_mount(&scene, FUSE, EXAMINE) else {
        return;
    };
    let json = answer(&scene);
    ended.expect(1, &[]);
    let missing = missing(&json);
    assert!(missing.contains(&"file_system".to_owned()), "{missing:?}");
    let system = trial(&json, "file_system");
    assert!(
        system["detail"]
            .as_str()
            .unwrap()
            .to_lowercase()
            .starts_with("fuse"),
        "{system}"
    );
    for name in [
        "exclusive_create",
        "hard_link",
        "flock_descriptors",
        "flock_processes",
        "flock_wakes",
        "flock_death",
    ] {
        assert_eq!(trial(&json, name)["ok"], true, "{json}");
    }
    assert_eq!(
        (
            guarantee(&json, "claim").0.as_str(),
            guarantee(&json, "drain").0.as_str()
        ),
        ("yes", "limited")
    );
    assert_eq!(json["data"]["can_lock"], true);
    // And so it is: what the doctor says of claims holds for a claim.
    let Some(ended) = on_a_mount(&scene, FUSE, "$BEADLOCK hold disk/.beads -- true") else {
        return;
    };
    ended.expect(0, &["released"]);
}

#[test]
fn where_nothing_can_be_made_the_answer_is_no() {
    let full = format!("{TMPFS}\ndd if=/dev/zero of=disk/fill bs=64k 2>/dev/null; true");
    let cases = [
        (
            format!("{TMPFS}\nmount -o remount,ro disk"),
            "read-only file system",
            "writable",
        ),
        (full, "no space left on device", "space"),
        (
            TMPFS.replace("size=4m", "size=4m,nr_inodes=2"),
            "no space left on device",
            "space",
        ),
    ];
    for (mount, why, name) in cases {
        let scene = scene();
        let Some(ended) = on_a_mount(&scene, &mount, EXAMINE) else {
            return;
        };
        ended.expect(5, &[]);
        let json = answer(&scene);
        assert_eq!(
            (&json["ok"], &json["data"]["can_lock"]),
            (&true.into(), &false.into())
        );
        assert_eq!(trial(&json, name)["ok"], false, "{json}");
        let message = json["data"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("NO, nothing can be locked here: ") && message.contains(why),
            "{message}"
        );
        assert_eq!(guarantee(&json, "claim").0, "no");
        // What could not be tried is not said to be missing.
        assert_eq!(
            trial(&json, "exclusive_create")["ok"],
            Value::Null,
            "{json}"
        );
    }
}
