//! Section 3.2 (docs/protocols/tower.md#the-requirements): where the fields come from.

use beadlock_testkit::this_host;

use crate::scene::{TARGET, Tower, parsed, seconds_ago};

#[test]
fn a_request_id_is_made_where_none_is_given() {
    let tower = Tower::new();
    let ids: Vec<String> = (0..2)
        .map(|_| {
            parsed(&tower.hold(&[], "cat $LOCK").expect(0, &[]).out)["request_id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    for id in &ids {
        assert!(
            id.strip_prefix("req_").is_some_and(|rest| rest.len() == 12),
            "{id}"
        );
    }
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn what_is_typed_is_what_is_written() {
    let tower = Tower::new();
    let words = [
        "hold",
        TARGET,
        "--request-id",
        "R.1_x-",
        "--actor",
        "a b",
        "--intent-name",
        "i n",
        "--intent-version",
        "v 1",
        "--host-id",
        "h",
        "--metadata",
        r#"{"z":{"n":[1,"x"]},"a":null}"#,
        "--ttl",
        "77",
        "--",
        "sh",
        "-c",
        "cat $LOCK; echo $BEADLOCK_HELD_ID >&2",
    ];
    let ended = tower
        .run(&words)
        .expect(0, &["R.1_x-", "claimed tower:app-prod for a b"]);
    let record = parsed(&ended.out);
    for (key, value) in [
        ("request_id", "R.1_x-"),
        ("actor", "a b"),
        ("intent", "i n"),
        ("intent_version", "v 1"),
        ("host_id", "h"),
    ] {
        assert_eq!(record[key], value);
    }
    assert_eq!(
        (&record["ttl_seconds"], record["metadata"].to_string()),
        (&77.into(), r#"{"z":{"n":[1,"x"]},"a":null}"#.to_owned())
    );
}

#[test]
fn without_an_intent_file_its_name_and_version_are_asked_for() {
    let tower = Tower::new();
    let hold =
        |options: &[&str]| tower.run(&[&["hold", TARGET][..], options, &["--", "true"]].concat());
    hold(&[]).expect(
        2,
        &[
            "--intent-name NAME and --intent-version VERSION",
            "--intent FILE",
        ],
    );
    hold(&["--intent-name", "x"]).expect(2, &["--intent-version VERSION"]);
    hold(&["--intent-version", "x"]).expect(2, &["--intent-name NAME"]);
}

#[test]
fn the_pid_is_the_commands() {
    let tower = Tower::new();
    let ended = tower.hold(&[], "cat $LOCK; echo $$ >pid").expect(0, &[]);
    assert_eq!(
        parsed(&ended.out)["pid"].to_string(),
        tower.scene.read("pid").trim()
    );
}

#[test]
fn both_times_are_the_second_of_the_claim_in_utc() {
    let tower = Tower::new();
    let before = seconds_ago(0);
    let record = parsed(&tower.hold(&[], "cat $LOCK").expect(0, &[]).out);
    let after = seconds_ago(0);
    let time = record["created_at"].as_str().unwrap();
    assert!(
        *before <= *time && *time <= *after && time.len() == 20 && time.ends_with('Z'),
        "{time}"
    );
    assert_eq!(record["last_heartbeat_at"], time);
}

#[test]
fn the_ttl_is_900_unless_said() {
    let tower = Tower::new();
    let ttl = |options: &[&str]| {
        parsed(&tower.hold(options, "cat $LOCK").expect(0, &[]).out)["ttl_seconds"].clone()
    };
    assert_eq!((ttl(&[]), ttl(&["--ttl", "5"])), (900.into(), 5.into()));
    tower
        .hold(&["--ttl", "0"], "true")
        .expect(2, &["whole seconds, above 0"]);
}

#[test]
fn the_actor_is_in_the_environment_or_the_user_and_the_host_is_this() {
    let tower = Tower::new();
    let mut command = tower.hold_command(&[], "cat $LOCK");
    command.env("ACTOR", "ann");
    let record = parsed(
        &beadlock_testkit::Running::apart(command)
            .end()
            .expect(0, &[])
            .out,
    );
    assert_eq!(
        (&record["actor"], &record["host_id"]),
        (&"ann".into(), &this_host().into())
    );
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .unwrap()
        .unwrap()
        .name;
    assert_eq!(
        parsed(&tower.hold(&[], "cat $LOCK").expect(0, &[]).out)["actor"],
        user
    );
}

#[test]
fn what_means_nothing_here_is_refused() {
    let tower = Tower::new();
    tower
        .hold(&["--holder", "x"], "true")
        .expect(2, &["--actor NAME"]);
    tower
        .hold(&["--reap-proven-dead"], "true")
        .expect(2, &["never asked"]);
    tower
        .run(&["hold", ".beads", "--ttl", "5", "--", "true"])
        .expect(2, &["--ttl is for named locks (tower:NAME)"]);
    tower
        .run(&["hold", ".beads", "--rollback", "x", "--", "true"])
        .expect(2, &["--rollback is for named locks"]);
}
