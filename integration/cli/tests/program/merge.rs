//! `beadlock merge`: the shared cases, what is said, and what becomes of OURS.

mod by_git;
mod refused;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use beadlock_testkit::{Ended, Scene, skip};
use serde_json::json;

/// A record with one text and a time of this day.
fn record(id: &str, title: &str, day: u8) -> String {
    format!(
        "{{\"id\":\"{id}\",\"title\":\"{title}\",\"updated_at\":\"2026-03-{day:02}T00:00:00Z\"}}\n"
    )
}

/// A scene with the three versions of a file.
fn versions(base: &str, ours: &str, theirs: &str) -> Scene {
    let scene = crate::a_scene();
    scene.write("base", base);
    scene.write("ours", ours);
    scene.write("theirs", theirs);
    scene
}

/// Both changed one member of bd-1 in the same second, and each added a record.
fn in_conflict() -> Scene {
    versions(
        &record("bd-1", "old", 1),
        &(record("bd-1", "left", 2) + &record("bd-2", "of ours", 2)),
        &(record("bd-1", "right", 2) + &record("bd-3", "of theirs", 2)),
    )
}

fn merge(scene: &Scene, options: &[&str]) -> Ended {
    let files = ["merge", "base", "ours", "theirs"];
    scene.run(&[&files[..], options].concat())
}

/// Exchanges the halves of each conflict, whose labels are as they are.
fn halves_swapped(file: &str) -> String {
    let mut swapped = String::new();
    let mut halves: Option<[String; 2]> = None;
    let mut half = 0;
    for line in file.split_inclusive('\n') {
        match &mut halves {
            None if line.starts_with("<<<<<<< ") => {
                swapped += line;
                (halves, half) = (Some(Default::default()), 0);
            }
            None => swapped += line,
            Some(_) if line.starts_with("=======") => half = 1,
            Some([first, second]) if line.starts_with(">>>>>>> ") => {
                let middle = line.replace(">>>>>>> theirs", "=======");
                swapped += &format!("{second}{middle}{first}{line}");
                halves = None;
            }
            Some(both) => both[half] += line,
        }
    }
    swapped
}

#[test]
fn every_shared_case_is_merged_by_the_program_both_ways_round() {
    let Some(shared) = skip::shared() else { return };
    let mut cases: Vec<PathBuf> = fs::read_dir(shared.join("vectors/jsonl-merge"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    cases.sort();
    assert!(cases.len() >= 87, "{} cases", cases.len());
    let scene = crate::a_scene();
    for case in cases {
        let file = |name: &str| fs::read(case.join(format!("{name}.jsonl")));
        let [base, ours, theirs] = ["base", "ours", "theirs"].map(|name| file(name).unwrap());
        let clean = file("expected");
        let code = i32::from(clean.is_err());
        let result = clean.unwrap_or_else(|_| file("conflict").unwrap());
        let merged = |ours: &[u8], theirs: &[u8]| {
            scene.write("base", &base);
            scene.write("ours", ours);
            scene.write("theirs", theirs);
            let ended = merge(&scene, &[]).expect(code, &[]);
            assert_eq!(ended.out, "", "{case:?}: git's own stdout: {ended:?}");
            assert_eq!(
                ended.err.is_empty(),
                code == 0 && !ended.err.contains("merge"),
                "{ended:?}"
            );
            fs::read(scene.file("ours")).unwrap()
        };
        assert_eq!(
            merged(&ours, &theirs).escape_ascii().to_string(),
            result.escape_ascii().to_string(),
            "{case:?}"
        );
        let swapped = merged(&theirs, &ours);
        match String::from_utf8(result.clone()) {
            Ok(result) if code == 1 => {
                let swapped = String::from_utf8(swapped).unwrap();
                assert_eq!(halves_swapped(&swapped), result, "{case:?}, swapped");
            }
            _ => assert_eq!(swapped, result, "{case:?}, swapped"),
        }
    }
}

#[test]
fn a_conflict_is_in_ours_and_what_could_be_merged_is_merged() {
    let scene = in_conflict();
    let options = [
        "x/issues.jsonl",
        "--ours",
        "HEAD",
        "--theirs=-1f (a 'b')",
        "--marker-size",
        "9",
    ];
    let ended = merge(&scene, &options).expect(1, &[]);
    assert_eq!(
        scene.read("ours"),
        "<<<<<<<<< HEAD\n".to_owned()
            + &record("bd-1", "left", 2)
            + "=========\n"
            + &record("bd-1", "right", 2)
            + ">>>>>>>>> -1f (a 'b')\n"
            + &record("bd-2", "of ours", 2)
            + &record("bd-3", "of theirs", 2)
    );
    assert_eq!(
        ended.err,
        "beadlock: warning: merge x/issues.jsonl: bd-1: both sides changed title\n\
         beadlock: merge x/issues.jsonl: 1 conflict is between markers in the file; keep one line of each\n"
    );
}

#[test]
fn what_was_decided_by_time_is_said_unless_it_is_to_be_quiet() {
    let scene = versions(
        &(record("bd-1", "old", 1) + &record("bd-2", "old", 1)),
        &record("bd-1", "left", 2),
        &(record("bd-1", "right", 3) + &record("bd-2", "changed", 2)),
    );
    let quiet = merge(&scene, &["-q"]).expect(0, &[]);
    assert_eq!(quiet.err, "");
    let merged = record("bd-1", "right", 3) + &record("bd-2", "changed", 2);
    assert_eq!(scene.read("ours"), merged);
    scene.write("ours", record("bd-1", "left", 2));
    let ended = merge(&scene, &["--ours", "main", "--theirs", "a\u{1b}b"]).expect(0, &[]);
    assert_eq!(
        ended.err,
        "beadlock: merge ours: by updated_at: bd-1 title\n\
         beadlock: merge ours: bd-2: changed at a b, deleted at main: kept\n"
    );
}

#[test]
fn of_many_lines_the_first_ones_are_said() {
    let all = |title: &str| {
        (0..50)
            .map(|id| record(&format!("bd-{id}"), title, 2))
            .collect::<String>()
    };
    let scene = versions(&all("old"), &all("left"), &all("right"));
    let ours = scene.read("ours");
    let ended = merge(&scene, &[]).expect(
        1,
        &[
            "merge ours: and 30 more; -v names them\n",
            "50 conflicts are between markers",
        ],
    );
    assert_eq!(ended.err.matches("both sides changed title").count(), 20);
    scene.write("ours", ours);
    let ended = merge(&scene, &["-v"]).expect(1, &[]);
    assert_eq!(ended.err.matches("both sides changed title").count(), 50);
}

/// A variable that is set for scripts must not put an envelope into the output of git.
#[test]
fn json_is_printed_where_it_was_typed_and_not_for_a_variable() {
    let scene = in_conflict();
    let mut command = scene.beadlock(&["merge", "base", "ours", "theirs"]);
    command.env("BEADLOCK_JSON", "1");
    let ended = Ended::of(&command.output().unwrap()).expect(1, &[]);
    assert_eq!(ended.out, "");
    let scene = in_conflict();
    let envelope = merge(&scene, &["--json"]).expect(1, &["bd-1"]).json();
    assert_eq!(
        (&envelope["ok"], &envelope["data"]),
        (
            &true.into(),
            &json!({
                "path": "ours", "merged": 1, "notes": [],
                "conflicts": [{"id": "bd-1", "message": "bd-1: both sides changed title"}],
            })
        )
    );
    let envelope = scene
        .run(&["merge", "nowhere", "ours", "theirs", "--json"])
        .expect(129, &[])
        .json();
    assert_eq!(
        (&envelope["ok"], &envelope["error"]["code"]),
        (&false.into(), &"IO".into())
    );
}

#[test]
fn ours_keeps_its_mode_and_a_link_stays_a_link() {
    let scene = in_conflict();
    symlink("ours", scene.file("link")).unwrap();
    fs::set_permissions(scene.file("ours"), fs::Permissions::from_mode(0o640)).unwrap();
    scene
        .run(&["merge", "base", "link", "theirs"])
        .expect(1, &[]);
    assert!(scene.read("ours").starts_with("<<<<<<< ours\n"));
    assert!(scene.file("link").is_symlink());
    let mode = fs::metadata(scene.file("ours")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o640);
    let mut names: Vec<String> = fs::read_dir(scene.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [".beads", "base", "link", "ours", "theirs"]);
}

#[test]
fn a_result_that_is_ours_is_not_written() {
    let ours = record("bd-1", "left", 2);
    let scene = versions(&record("bd-1", "old", 1), &ours, &record("bd-1", "old", 1));
    let inode = |scene: &Scene| fs::metadata(scene.file("ours")).unwrap().ino();
    let before = inode(&scene);
    merge(&scene, &[]).expect(0, &[]);
    assert_eq!((inode(&scene), scene.read("ours")), (before, ours));
}

/// Git merges several merge bases first: what could not be decided between them stands so in BASE. Without a time the
/// two lines looked like a log with two lines of one id, of which each side had removed another one.
#[test]
fn a_record_that_was_undecided_in_base_is_not_lost() {
    let line = |title: &str| format!("{{\"id\":\"bd-1\",\"t\":\"{title}\"}}\n");
    let base = format!(
        "<<<<<<<<< Temporary merge branch 1\n{}=========\n{}>>>>>>>>> Temporary merge branch 2\n",
        line("left"),
        line("right")
    );
    let scene = versions(&base, &line("left"), &line("right"));
    merge(&scene, &[]).expect(1, &["bd-1"]);
    let ours = scene.read("ours");
    assert!(
        ours.contains(&line("left")) && ours.contains(&line("right")),
        "{ours}"
    );
    let scene = versions(&base, &line("left"), &line("left"));
    merge(&scene, &[]).expect(0, &[]);
    assert_eq!(scene.read("ours"), line("left"));
    // As it is where one side has not touched it, whatever it is.
    let scene = versions(&base, &base, &line("right"));
    merge(&scene, &[]).expect(0, &[]);
    assert_eq!(scene.read("ours"), line("right"));
}

#[test]
fn base_and_theirs_may_come_through_a_pipe() {
    let scene = versions("", &record("bd-1", "x", 1), &record("bd-2", "y", 1));
    let command = scene.shell("cat theirs | \"$BEADLOCK\" merge /dev/null ours /dev/stdin");
    let output = { command }.output().unwrap();
    Ended::of(&output).expect(0, &[]);
    assert_eq!(
        scene.read("ours"),
        record("bd-1", "x", 1) + &record("bd-2", "y", 1)
    );
}
