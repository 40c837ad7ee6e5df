//! A file system that is full.

use beadlock_tests::{Ended, Scene, run};

/// A file system of 64 KiB at `small`, and what the script does there; `fill` takes all of it but so many KiB.
fn on_small(script: &str) -> Option<Ended> {
    let scene = Scene::new();
    let before = "set -u; mkdir small && mount -t tmpfs -o size=64k,nr_inodes=40 tmpfs small && cd small || exit 99
        fill() { dd if=/dev/zero of=filler bs=1024 count=200 2>/dev/null; truncate -s -\"${1}k\" filler; }
        long() { printf '[\"'; head -c \"$1\" /dev/zero | tr '\\0' x; printf '\"]\\n'; }\n";
    let ended = Ended::from(run(
        scene.in_namespaces(&["--mount"], &format!("{before}{script}"))?
    ));
    assert_ne!(ended.code, 99, "{ended:?}");
    Some(ended)
}

#[test]
fn a_write_that_has_no_room_changes_nothing() {
    let Some(ended) = on_small(
        "echo '{\"n\":0}' > todo.json; fill 8
        long 30000 | $BEADLOCK write file:todo.json; echo code $?
        cat todo.json; ls",
    ) else {
        return;
    };
    assert_eq!(
        ended.out, "code 1\n{\"n\":0}\nfiller\ntodo.json\n",
        "{ended:?}"
    );
    assert!(
        ended
            .err
            .contains("no space left on device; it stays as it was"),
        "{ended:?}"
    );
}

#[test]
fn an_update_that_has_no_room_ends_its_filter_and_changes_nothing() {
    let Some(ended) = on_small(
        "echo '{\"n\":0}' > todo.json; fill 8
        $BEADLOCK update file:todo.json -- sh -c 'echo [; while echo 1,; do :; done'; echo code $?
        cat todo.json; ls",
    ) else {
        return;
    };
    assert_eq!(
        ended.out, "code 1\n{\"n\":0}\nfiller\ntodo.json\ntodo.json.lock\n",
        "{ended:?}"
    );
    assert!(
        ended
            .err
            .contains("no space left on device; it stays as it was"),
        "{ended:?}"
    );
}

#[test]
fn a_half_line_is_cut_off_again() {
    let Some(ended) = on_small(
        "echo '{\"n\":0}' > log.jsonl; fill 8
        long 30000 | $BEADLOCK append file:log.jsonl; echo code $?
        long 30000 | $BEADLOCK append file:new.jsonl; echo code $?
        cat log.jsonl; ls; rm filler
        long 3 | $BEADLOCK append -q file:log.jsonl; echo code $?; cat log.jsonl",
    ) else {
        return;
    };
    let names = "filler\nlog.jsonl\nlog.jsonl.lock\nnew.jsonl.lock\n";
    let expected = format!("code 1\ncode 1\n{{\"n\":0}}\n{names}code 0\n{{\"n\":0}}\n[\"xxx\"]\n");
    assert_eq!(ended.out, expected, "{ended:?}");
    assert!(
        ended
            .err
            .contains("no space left on device; it stays as it was"),
        "{ended:?}"
    );
    assert!(
        ended.err.contains("there is no such file still"),
        "{ended:?}"
    );
}

#[test]
fn no_room_for_a_name_or_a_lock_file() {
    let Some(ended) = on_small(
        "echo 0 > todo.json; n=0; while true > inode-$n; do n=$((n+1)); done 2>/dev/null
        echo 1 | $BEADLOCK write file:todo.json; echo code $?; cat todo.json
        rm inode-1; echo 1 | $BEADLOCK write file:todo.json; echo code $?; cat todo.json
        ls | grep -c tmp; rm inode-2 inode-3 inode-4; echo 1 | $BEADLOCK write -q file:todo.json; echo code $?; cat todo.json",
    ) else {
        return;
    };
    assert_eq!(
        ended.out, "code 1\n0\ncode 8\n0\n0\ncode 0\n1\n",
        "{ended:?}"
    );
}
