//! list: what is the lock of a directory, and what is only called so.

use std::fs;

use crate::scene::Memory;

#[test]
fn a_lock_is_listed_and_what_is_only_called_so_is_not() {
    let memory = Memory::new();
    memory.write(1000);
    for (dir, content) in [
        ("a", ""),
        ("b", "not json"),
        ("c", r#"{"pid": 7}"#),
        ("d", r#"{"name": "package"}"#),
    ] {
        fs::create_dir(memory.scene.file(dir)).unwrap();
        fs::write(memory.scene.file(dir).join(".lock"), content).unwrap();
    }
    fs::create_dir_all(memory.scene.file("e/.lock")).unwrap();
    let listed = memory.run(&["list"]).expect(0, &["1 lock in", "1 held"]);
    let words: Vec<&str> = listed.out.split_whitespace().collect();
    let ["memory:memory", "held", "main", age, "age_fresh"] = words[..] else {
        panic!("{listed:?}")
    };
    let age: f64 = age
        .strip_suffix('s')
        .and_then(|age| age.parse().ok())
        .expect("seconds");
    assert!((1.0..30.0).contains(&age), "{listed:?}");
    memory
        .run(&["list", "memory:memory"])
        .expect(2, &["beadlock status memory:memory"]);
}
