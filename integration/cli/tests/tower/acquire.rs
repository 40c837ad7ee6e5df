//! Section 4 (docs/protocols/tower.md#the-requirements): a free name is taken.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use beadlock_testkit::Running;

use crate::scene::{INTENT, TARGET, Tower, keys, parsed};

#[test]
fn the_lock_file_has_the_twelve_fields() {
    let tower = Tower::new();
    let ended = tower
        .hold(&[], "cat $LOCK; stat -c %a $LOCK >mode")
        .expect(0, &["claimed tower:app-prod for"]);
    let record = parsed(&ended.out);
    assert_eq!(
        keys(&record),
        [
            "lock_version",
            "lock_name",
            "request_id",
            "actor",
            "intent",
            "intent_version",
            "host_id",
            "pid",
            "created_at",
            "last_heartbeat_at",
            "ttl_seconds",
            "metadata",
        ]
    );
    assert_eq!(
        (&record["lock_version"], &record["lock_name"]),
        (&"v1".into(), &"app-prod".into())
    );
    assert_eq!(tower.scene.read("mode"), "600\n");
}

#[test]
fn a_free_name_is_taken() {
    let tower = Tower::new();
    let ended = tower
        .hold(&[], "test -e $LOCK; echo $?")
        .expect(0, &["claimed", "released"]);
    assert_eq!(ended.out, "0\n");
    assert!(tower.names().is_empty());
}

#[test]
fn a_lost_race_leaves_nothing_behind() {
    let tower = Tower::new();
    let claim = || {
        let command = [
            &["hold", TARGET][..],
            &INTENT,
            &["--", "sh", "-c", "sleep 0.3; echo ran"],
        ]
        .concat();
        Running::apart(tower.command(&command))
    };
    let racers: Vec<Running> = (0..6).map(|_| claim()).collect();
    let ended: Vec<_> = racers.into_iter().map(Running::end).collect();
    let winners = ended.iter().filter(|ended| ended.code == 0).count();
    assert!(winners >= 1, "{ended:?}");
    for ended in &ended {
        assert!(
            matches!((ended.code, ended.out.as_str()), (0, "ran\n") | (4, "")),
            "{ended:?}"
        );
    }
    assert!(tower.names().is_empty(), "{:?}", tower.names());
    // Each winner's own two events, and none of the losers'.
    assert_eq!(tower.events().len(), 2 * winners, "{:?}", tower.events());
}

#[test]
fn a_directory_that_is_not_there_is_made_for_one_user_alone() {
    let tower = Tower::new();
    fs::remove_dir(tower.dir()).unwrap();
    tower.hold(&[], "true").expect(0, &[]);
    assert_eq!(
        fs::metadata(tower.dir()).unwrap().permissions().mode() & 0o7777,
        0o700
    );
}
