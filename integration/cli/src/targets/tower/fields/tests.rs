use super::*;
use clap::Parser;

use beadlock_claim::error::Exit;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    typed: TowerArgs,
}

fn typed(words: &[&str]) -> TowerArgs {
    Cli::try_parse_from(["x"].iter().chain(words))
        .unwrap()
        .typed
}

fn fields_in(words: &[&str], variables: &[(&str, &str)]) -> Result<Record, Error> {
    IntentClaim::resolve(&typed(words), &Environment::of(variables))?.record(name("x"))
}

fn fields(words: &[&str]) -> Result<Record, Error> {
    fields_in(
        &[&["--intent-name", "deploy", "--intent-version", "1"], words].concat(),
        &[("ACTOR", "ann")],
    )
}

fn said(words: &[&str]) -> String {
    let error = fields(words).unwrap_err();
    assert_eq!(error.exit(), Exit::Usage, "{error}");
    error.to_string()
}

fn name(text: &str) -> LockName {
    LockName::parse(text).unwrap()
}

fn named(text: &str) -> LockChoice {
    LockChoice::Named(name(text))
}

struct File {
    _top: tempfile::TempDir,
    path: String,
}

fn file(text: &str) -> File {
    let top = tempfile::tempdir().unwrap();
    let path = top.path().join("i.yaml");
    std::fs::write(&path, text).unwrap();
    File {
        path: path.to_str().unwrap().to_owned(),
        _top: top,
    }
}

#[test]
fn the_defaults() {
    let fields = fields(&[]).unwrap();
    let Record {
        request_id,
        actor,
        intent,
        intent_version,
        host_id,
        ttl_seconds,
        metadata,
        ..
    } = &fields;
    assert_eq!(
        (actor.as_str(), intent.as_str(), intent_version.as_str()),
        ("ann", "deploy", "1")
    );
    assert_eq!((*ttl_seconds, metadata), (900, &Some(Map::new())));
    assert_eq!(
        *host_id,
        nix::unistd::gethostname().unwrap().into_string().unwrap()
    );
    let made = request_id.strip_prefix("req_").unwrap();
    assert!(
        made.len() == 12
            && made
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
        "{made}"
    );
    assert!(request_id_is_fit(request_id));
}

#[test]
fn the_actor_is_typed_or_in_the_environment_or_the_user() {
    let whose = ["--intent-name", "i", "--intent-version", "1"];
    let actor = |words: &[&str], variables: &[(&str, &str)]| {
        fields_in(&[&whose, words].concat(), variables)
            .unwrap()
            .actor
    };
    assert_eq!(actor(&["--actor", "bob"], &[("ACTOR", "ann")]), "bob");
    assert_eq!(actor(&[], &[("ACTOR", "ann")]), "ann");
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .unwrap()
        .map(|user| user.name);
    let user = user.unwrap_or_else(|| nix::unistd::getuid().to_string());
    assert_eq!(actor(&[], &[("ACTOR", "")]), user, "empty is unset");
}

#[test]
fn without_an_intent_file_its_name_and_version_are_to_be_typed() {
    for (words, missing) in [
        (
            &[][..],
            "a named lock says what it is for: --intent-name NAME and --intent-version VERSION; or --intent FILE",
        ),
        (
            &["--intent-name", "i"],
            "a named lock says what it is for: --intent-version VERSION; or",
        ),
        (
            &["--intent-version", "1"],
            "a named lock says what it is for: --intent-name NAME; or",
        ),
    ] {
        let error = fields_in(words, &[]).unwrap_err();
        assert!(
            error.exit() == Exit::Usage && error.to_string().starts_with(missing),
            "{error}"
        );
    }
    let file = file("metadata: {name: deploy}\n");
    let error = fields_in(&["--intent", &file.path], &[])
        .unwrap_err()
        .to_string();
    let wanted = format!(
        "{} has no metadata.version: write it there, or type --intent-version VERSION",
        file.path
    );
    assert_eq!(error, wanted);
}

#[test]
fn what_cannot_be_is_refused() {
    for id in ["", "a b", "a/b", "é", "a\nb", &"x".repeat(129)] {
        assert!(
            said(&["--request-id", id]).contains("1 to 128 of A-Z, a-z, 0-9"),
            "{id:?}"
        );
    }
    for id in ["a", "A.b_c-9", "..", &"x".repeat(128)] {
        assert_eq!(fields(&["--request-id", id]).unwrap().request_id, id);
    }
    assert!(
        said(&["--actor", "a\u{1b}b"])
            .starts_with(r#"the actor is 1 to 128 printable characters, and "a\u{1b}b""#)
    );
    assert!(said(&["--host-id", ""]).contains("--host-id NAME"));
    assert!(said(&["--actor", &"x".repeat(129)]).contains("(129 characters)"));
    for (text, why) in [
        ("[1]", "it is a list"),
        ("null", "it is null"),
        ("7", "it is a number"),
        ("\"x\"", "it is a string"),
        ("true", "it is a boolean"),
        ("{", "no JSON (EOF while"),
        ("{} {}", "no JSON (trailing"),
        ("", "no JSON (EOF while"),
    ] {
        let said = said(&["--metadata", text]);
        assert!(
            said.starts_with(&format!("--metadata: {why}"))
                && said.contains("wanted: a JSON object"),
            "{said}"
        );
    }
    // `{`, a line of the key and its value, `}`, and two more columns for each.
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(48 * 1024 - 19));
    assert!(fields(&["--metadata", &long]).is_ok());
    let too_long = said(&["--metadata", &long.replacen('x', "xx", 1)]);
    assert!(
        too_long.contains("takes 49153 bytes of the lock file, and 49152 is the most"),
        "{too_long}"
    );
    let wide = format!("{{\"a\":[{}1]}}", "1,".repeat(8000));
    assert!(
        said(&["--metadata", &wide]).contains("of the lock file"),
        "short, but not when it is indented"
    );
    let deep = |depth: usize| {
        format!(
            "{{\"a\":{}{}}}",
            "[".repeat(depth - 1),
            "]".repeat(depth - 1)
        )
    };
    assert!(fields(&["--metadata", &deep(100)]).is_ok());
    assert!(said(&["--metadata", &deep(101)]).contains("it is 101 deep, and 100 is the most"));
    assert!(said(&["--metadata", &deep(100_000)]).contains("recursion limit"));
}

#[test]
fn metadata_keeps_its_order() {
    let metadata = fields(&["--metadata", r#"{"z": 1, "a": {"y": null}}"#])
        .unwrap()
        .metadata;
    assert_eq!(
        serde_json::to_string(&metadata).unwrap(),
        r#"{"z":1,"a":{"y":null}}"#
    );
}

#[test]
fn the_command_line_beats_the_intent() {
    let file = file(
        "metadata: {name: deploy-app, version: 1.2.0}\nspec: {mode: reconcile, controls: {lock: \"${params.a}-x\"}, timeouts: {lock_ttl: 1800}}",
    );
    let environment = Environment::of(&[]);
    let of_intent = typed(&["--intent", &file.path, "--param", "a=shop"]);
    let wanted = IntentClaim::resolve(&of_intent, &environment).unwrap();
    let fields = wanted.record(name("x")).unwrap();
    assert_eq!(
        (fields.intent.as_str(), fields.intent_version.as_str()),
        ("deploy-app", "1.2.0")
    );
    assert_eq!(
        (fields.ttl_seconds, wanted.mode()),
        (1800, IntentMode::Reconcile)
    );
    assert_eq!(wanted.locking(None), Ok(named("shop-x")));
    assert_eq!(wanted.locking(Some(&name("other"))), Ok(named("other")));

    let over = [
        "--intent-name",
        "n",
        "--intent-version",
        "v",
        "--ttl",
        "5",
        "--mode",
        "mutate",
    ];
    let over = typed(&[&["--intent", &file.path][..], &over].concat());
    let wanted = IntentClaim::resolve(&over, &environment).unwrap();
    let fields = wanted.record(name("x")).unwrap();
    assert_eq!(
        (fields.intent.as_str(), fields.intent_version.as_str()),
        ("n", "v")
    );
    assert_eq!((fields.ttl_seconds, wanted.mode()), (5, IntentMode::Mutate));
    assert_eq!(
        wanted.locking(Some(&name("other"))),
        Ok(named("other")),
        "needs no parameter"
    );
    assert!(
        wanted
            .locking(None)
            .unwrap_err()
            .to_string()
            .contains("--param a=…")
    );
}

#[test]
fn who_locks() {
    let environment = Environment::of(&[]);
    let locking = |mode: &str, lock: &str, named: Option<&LockName>| {
        let file = file(&format!("spec: {{mode: {mode}{lock}}}"));
        let typed = typed(&["--intent", &file.path]);
        IntentClaim::resolve(&typed, &environment)
            .unwrap()
            .locking(named)
            .unwrap()
    };
    let (lock, l) = (", controls: {lock: l}", name("l"));
    let unset = ", controls: {lock: \"${params.unset}\"}";
    assert_eq!(locking("mutate", lock, None), named("l"));
    assert_eq!(locking("reconcile", lock, None), named("l"));
    for named in [None, Some(&l)] {
        assert_eq!(locking("observe", lock, named), LockChoice::Observe);
        assert_eq!(locking("observe", unset, named), LockChoice::Observe);
    }
    let warning = LockChoice::Unnamed("Mutate intent without lock - concurrent execution possible");
    assert_eq!(locking("mutate", "", None), warning);
    assert!(matches!(
        locking("reconcile", "", None),
        LockChoice::Unnamed(_)
    ));
    assert_eq!(locking("mutate", "", Some(&l)), named("l"));
}

#[test]
fn a_record_of_them_is_read_back_also_when_it_is_as_large_as_may_be() {
    let wide = "\u{10ffff}".repeat(128);
    let long = format!("{{\"a\":\"{}\"}}", "\\u0000".repeat(8 * 1024 - 4));
    let words = [
        "--actor",
        &wide,
        "--intent-name",
        &wide,
        "--intent-version",
        &wide,
        "--host-id",
        &wide,
    ];
    let fields = fields_in(&[&words[..], &["--metadata", &long]].concat(), &[]).unwrap();
    let record = Record {
        lock_name: name(&"x".repeat(128)),
        pid: u32::MAX.into(),
        ..fields
    };
    let json = record.to_json();
    assert!(
        json.len() > 48 * 1024 && json.len() < 64 * 1024,
        "{}",
        json.len()
    );
    let read = Record::parse(json.as_bytes(), record.lock_name.as_str()).unwrap();
    assert_eq!(
        (&read.metadata, &read.actor),
        (&record.metadata, &record.actor)
    );
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(99), "]".repeat(99));
    let fields = self::fields(&["--metadata", &deep]).unwrap();
    let json = Record { pid: 1, ..fields }.to_json();
    Record::parse(json.as_bytes(), "x").unwrap();
}
