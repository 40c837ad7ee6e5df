//! Operations inside a `hold` of the same file.

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
    assert_eq!((ended.code, scene.text("todo.json").as_str()), (0, "{\"n\":8}\n"), "{ended:?}");
}
