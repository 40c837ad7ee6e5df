//! Operations inside a `hold` of the same file, and inside the filter of an `update` of it.

use beadlock_tests::{Scene, binaries};

use crate::support::Files;

#[test]
fn inside_a_hold_of_the_same_file_it_is_that_ones_lock() {
    let scene = Scene::new();
    scene.put("todo.json", "{\"n\":0}");
    let beadlock = binaries::beadlock();
    let script = format!(
        "echo 1 | {0} write -q file:todo.json --no-wait && {0} update -q file:todo.json --no-wait -- cat && \
         echo 2 | {0} append -q file:todo.json --no-wait",
        beadlock.display()
    );
    let ended = scene.run(&["hold", "-q", "file:todo.json", "--", "sh", "-c", &script]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(scene.text("todo.json"), "1\n2\n");
}

#[test]
fn many_nested_in_one_hold_take_turns() {
    let scene = Scene::new();
    scene.put("todo.json", "{\"n\":0}\n");
    let beadlock = binaries::beadlock();
    let script = format!(
        "for i in 1 2 3 4 5 6 7 8; do
           {} update -q file:todo.json -- sh -c 'read text; n=${{text#*:}}; n=${{n%\\}}}}; echo \"{{\\\"n\\\":$((n+1))}}\"' & pids=\"$pids $!\"
         done; for pid in $pids; do wait $pid || exit 1; done",
        beadlock.display()
    );
    let ended = scene.run(&["hold", "-q", "file:todo.json", "--", "sh", "-c", &script]);
    assert_eq!(
        (ended.code, scene.text("todo.json").as_str()),
        (0, "{\"n\":8}\n"),
        "{ended:?}"
    );
}

/// What the filter prints becomes the file, and so nothing else in there may: at once, also where the update is itself
/// nested.
#[test]
fn inside_the_filter_of_an_update_of_the_same_file_it_would_wait_for_itself() {
    let scene = Scene::new();
    let beadlock = binaries::beadlock().display().to_string();
    for command in [
        "write",
        "append",
        "update -- cat",
        "hold -- true",
        "hold --shared -- true",
    ] {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let script =
            format!("echo 1 | {beadlock} {verb} file:./todo.json --wait 1h {rest}; echo $?");
        let update = ["update", "-q", "file:todo.json", "--", "sh", "-c", &script];
        for outer in [&[][..], &["hold", "-q", "file:todo.json", "--", &beadlock]] {
            scene.put("todo.json", "{}");
            let ended = scene.run(&[outer, &update].concat());
            assert_eq!(
                (ended.code, scene.text("todo.json").as_str()),
                (0, "8\n"),
                "{command}: {ended:?}"
            );
            let words = "todo.json is being updated by the beadlock update that this runs in (PID ";
            assert!(ended.err.contains(words), "{command}: {ended:?}");
        }
    }
    // Another file is another lock.
    scene.put("todo.json", "{}");
    let script = format!("echo 1 | {beadlock} write -q file:other.json && cat");
    let ended = scene.run(&["update", "-q", "file:todo.json", "--", "sh", "-c", &script]);
    assert_eq!(
        (ended.code, scene.text("other.json").as_str()),
        (0, "1\n"),
        "{ended:?}"
    );
}
