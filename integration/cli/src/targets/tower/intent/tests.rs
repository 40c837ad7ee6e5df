use super::*;

const WHOLE: &str = "\
metadata:
  name: deploy-app
  version: 1.20
spec:
  mode: mutate
  params:
    app: {type: string}
  controls:
    lock: \"${params.app}-${params.environment}\"
  timeouts:
    lock_ttl: 1800  # 30 minutes
  steps: [&a {run: x}, *a]
";

fn params(pairs: &[(&str, &str)]) -> Params {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn said(text: &str) -> String {
    Intent::parse("i.yaml", text).unwrap_err().to_string()
}

#[test]
fn a_whole_intent() {
    let intent = Intent::parse("i.yaml", WHOLE).unwrap();
    assert_eq!(intent.name.as_deref(), Some("deploy-app"));
    assert_eq!(
        intent.version.as_deref(),
        Some("1.20"),
        "as written, not the number 1.2"
    );
    assert_eq!(
        (intent.mode, intent.lock_ttl),
        (Some(IntentMode::Mutate), Some(1800))
    );
    let name = intent.lock_name(&params(&[
        ("app", "money-tracker"),
        ("environment", "production"),
    ]));
    assert_eq!(name.unwrap().unwrap().as_str(), "money-tracker-production");
    let error = intent
        .lock_name(&params(&[("app", "Shop"), ("environment", "x")]))
        .unwrap_err()
        .to_string();
    let words = "i.yaml:9: the lock would be \"Shop-x\": a lock's name has only a-z, 0-9, '_' and '-', not 'S'";
    assert_eq!(error, words);
    let error = intent.lock_name(&params(&[("app", "x")])).unwrap_err();
    let words =
        "i.yaml:9: the lock needs ${params.environment}, which is not set: --param environment=…";
    assert_eq!(
        (error.to_string().as_str(), error.exit()),
        (words, beadlock_claim::error::Exit::Usage)
    );
}

#[test]
fn the_other_places_are_read_too() {
    for text in [
        "name: n\nversion: '2'\nmode: observe\ncontrols: {lock: l}\ntimeouts: {lock_ttl: 60}",
        "spec: {name: n, version: '2', mode: observe, controls: {lock: l}, timeouts: {lock_ttl: 60}}",
        "metadata: {name: n}\nspec: {version: 2}\nmode: observe\ncontrols: {lock: l}\ntimeouts: {lock_ttl: 60}",
    ] {
        let Intent {
            name,
            version,
            mode,
            lock_ttl,
            lock,
            ..
        } = Intent::parse("i", text).unwrap();
        assert_eq!(
            (name.as_deref(), version.as_deref()),
            (Some("n"), Some("2")),
            "{text}"
        );
        assert_eq!(
            (mode, lock_ttl),
            (Some(IntentMode::Observe), Some(60)),
            "{text}"
        );
        assert_eq!(lock.map(|(lock, _)| lock).as_deref(), Some("l"), "{text}");
    }
    let empty = Intent::parse("i", "kind: Intent\nspec:\n").unwrap();
    assert_eq!(
        (empty.name.clone(), empty.lock_name(&Params::new())),
        (None, Ok(None))
    );
}

#[test]
fn what_is_wrong_is_named_with_its_line_and_what_is_wanted() {
    for (text, words) in [
        ("", "i.yaml:1: the file is empty; wanted: an intent"),
        (
            "- a",
            "i.yaml:1: an intent is a list; wanted: keys and values",
        ),
        (
            "a: 1\nmode: Observe",
            "i.yaml:2: mode is \"Observe\"; wanted: observe, mutate or reconcile",
        ),
        (
            "spec:\n  mode: [observe]",
            "i.yaml:2: spec.mode is a list; wanted: a plain value, or leave the key out",
        ),
        (
            "spec:\n  controls:\n    lock:\n",
            "i.yaml:3: spec.controls.lock is empty; wanted: a plain value",
        ),
        (
            "spec:\n  controls:\n    lock: {a: b}",
            "i.yaml:3: spec.controls.lock is a mapping; wanted",
        ),
        (
            "spec:\n  timeouts: {lock_ttl: 30m}",
            "i.yaml:2: lock_ttl is \"30m\"; wanted: whole seconds, above 0",
        ),
        (
            "spec:\n  timeouts: {lock_ttl: 0}",
            "i.yaml:2: lock_ttl is \"0\"",
        ),
        (
            "spec:\n  timeouts: {lock_ttl: -1}",
            "i.yaml:2: lock_ttl is \"-1\"",
        ),
        (
            "spec:\n  timeouts: {lock_ttl: 9223372036854775808}",
            "i.yaml:2: lock_ttl is",
        ),
        (
            "name: a\nmetadata:\n  name: b",
            "i.yaml:3: name is given a second time here (first in line 1)",
        ),
        (
            "name: a\nname: b",
            "i.yaml:2: name is given a second time here (first in line 1)",
        ),
        (
            "spec: {}\nspec: {}",
            "i.yaml:2: spec is given a second time here (first in line 1)",
        ),
        (
            "a: &x {lock: l}\nspec:\n  controls: *x",
            "i.yaml:3: spec.controls is an alias, which is not followed",
        ),
        (
            "a: &x {lock: l}\nspec:\n  controls:\n    <<: *x",
            "i.yaml:4: spec.controls merges other keys in (<<)",
        ),
        (
            "a: &x l\nspec: {controls: {lock: *x}}",
            "i.yaml:2: spec.controls.lock is an alias, which is not followed",
        ),
        ("a: \"\u{1b}[2J\nmode: x", "i.yaml:"),
    ] {
        let said = said(text);
        assert!(said.starts_with(words), "{text:?}: {said}");
    }
}

#[test]
fn templates() {
    let known = params(&[("a", "1"), ("b.c", "2"), ("e", "")]);
    assert_eq!(
        resolve("x-${params.a}-${params.b.c}", &known).as_deref(),
        Ok("x-1-2")
    );
    assert_eq!(resolve("plain$", &known).as_deref(), Ok("plain$"));
    for (template, words) in [
        (
            "${params.z}",
            "the lock needs ${params.z}, which is not set: --param z=…",
        ),
        (
            "${params.e}",
            "the lock needs ${params.e}, which is empty: --param e=…",
        ),
        (
            "${params.a",
            "the lock \"${params.a\" has a ${ without its }",
        ),
        (
            "${env.HOME}",
            "the lock has ${env.HOME}; only ${params.NAME} is known here",
        ),
        (
            "${params.${params.a}}",
            "the lock has ${params.${params.a}; only ${params.NAME} is known here",
        ),
        ("${}", "the lock has ${}; only ${params.NAME} is known here"),
    ] {
        assert_eq!(resolve(template, &known).unwrap_err(), words);
    }
    // What a parameter stands for is not resolved again.
    let nested = params(&[("a", "${params.b}")]);
    assert_eq!(
        resolve("${params.a}", &nested).as_deref(),
        Ok("${params.b}")
    );
}

#[test]
fn only_a_regular_file_of_a_bounded_size_is_read() {
    let top = tempfile::tempdir().unwrap();
    let said = |name: &str| {
        Intent::read(&top.path().join(name))
            .unwrap_err()
            .to_string()
    };
    nix::unistd::mkfifo(&top.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::write(top.path().join("large"), "#".repeat(64 * 1024 + 1)).unwrap();
    std::fs::write(top.path().join("latin"), b"name: \xe9").unwrap();
    std::fs::write(
        top.path().join("fits"),
        format!("name: n\n{}", "#".repeat(64 * 1024 - 8)),
    )
    .unwrap();
    for (name, why) in [
        ("fifo", "it is not a regular file"),
        (".", "it is a directory"),
        ("none", "no such file or directory"),
        ("large", "it is larger than 64 KiB"),
        ("latin", "it is not UTF-8"),
    ] {
        let said = said(name);
        assert!(
            said.starts_with("the intent file /")
                && said.ends_with(&format!("cannot be read: {why}")),
            "{said}"
        );
    }
    assert_eq!(
        Intent::read(&top.path().join("fits"))
            .unwrap()
            .name
            .as_deref(),
        Some("n")
    );
}
