//! `check`, `status`, `wait` and `break` of a file.

use serde_json::json;

use crate::scene::{Files, TARGET};

/// With several targets one of them may have a use for it.
#[test]
fn a_check_says_that_there_is_nothing_to_reap_and_answers() {
    let files = Files::new();
    let ended = files
        .scene
        .run(&["check", "--reap-proven-dead", TARGET, ".beads"]);
    let said = "beadlock: --reap-proven-dead means nothing to file:todo.json; an flock ends with its process: none is ever left behind\n";
    assert_eq!(
        (ended.code, ended.err.as_str(), ended.out.as_str()),
        (0, said, ""),
        "{ended:?}"
    );
}

#[test]
fn flock_held() {
    let files = Files::new();
    let somebody = files.somebody("-x");
    let (code, envelope) = files.scene.json(&["check", TARGET]);
    let data = &envelope["data"][0];
    assert_eq!((code, &envelope["ok"]), (4, &json!(true)));
    assert_eq!(
        (&data["decision"], &data["verdict"], &data["reason"]),
        (&json!("skip"), &json!("held"), &json!("flock_held"))
    );
    assert_eq!(
        (&data["holder"], &data["removed"]),
        (&json!(null), &json!(false))
    );
    assert_eq!(
        data["message"],
        "Cannot acquire lock on todo.json (another process may be active)"
    );
    let pid = somebody.pid();
    assert!(
        data["id"]
            .as_str()
            .is_some_and(|id| id.ends_with(&format!(":{pid}"))),
        "{data}"
    );
    let ended = files.scene.run(&["check", TARGET, ".beads"]);
    assert_eq!((ended.code, ended.out.lines().count()), (4, 1), "{ended:?}");
    let ended = files.scene.run(&["status", TARGET]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let words = format!("file:todo.json: held by PID {pid} (sleep 600), exclusive (flock_held)\n");
    assert!(ended.out.starts_with(&words), "{ended:?}");
    let (_, envelope) = files.scene.json(&["status", TARGET]);
    let witnesses = &envelope["data"][0]["witnesses"];
    assert_eq!(
        (&witnesses["mode"], &witnesses["flock"][0]["pid"]),
        (&json!("exclusive"), &json!(pid))
    );
    let ended = files.scene.run(&["break", TARGET]);
    assert_eq!(ended.code, 4, "{ended:?}");
    assert!(
        ended.err.contains(&format!(
            "cannot be taken away: it is gone when its process has ended; when it is to end: kill {pid}"
        )),
        "{ended:?}"
    );
    assert_eq!(
        files.scene.run(&["break", TARGET, "--even-if-live"]).code,
        2
    );
}

#[test]
fn list_leaves_out_the_locks_of_files_and_its_help_says_so() {
    let files = Files::new();
    for name in ["Cargo.lock", "free.json.lock"] {
        std::fs::write(files.path(name), "").expect("a file");
    }
    let _somebody = files.somebody("-x");
    let ended = files.scene.run(&["list"]);
    assert_eq!((ended.code, ended.out.as_str()), (0, ""));
    assert!(ended.err.contains("0 locks in "), "{}", ended.err);
    let help = files.scene.run(&["list", "--help"]).out;
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("Locks of file:PATH and flock:PATH have no record and are not listed"),
        "{help}"
    );
    assert!(
        files
            .scene
            .run(&["status", TARGET])
            .out
            .contains("flock_held")
    );
}
