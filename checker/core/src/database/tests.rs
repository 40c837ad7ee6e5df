use super::*;

fn scene() -> (tempfile::TempDir, DatabaseVariables) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("repo/.beads")).unwrap();
    fs::create_dir_all(dir.path().join("repo/src/deep")).unwrap();
    let cwd = fs::canonicalize(dir.path()).unwrap();
    (
        dir,
        DatabaseVariables {
            cwd,
            ..DatabaseVariables::default()
        },
    )
}

#[test]
fn finds_the_nearest_up_the_tree() {
    let (_keep, mut environment) = scene();
    let repo = environment.cwd.join("repo");
    environment.cwd = repo.join("src/deep");
    let found = Database::find(&environment).unwrap();
    assert_eq!(found.dir, repo.join(".beads"));
    environment.cwd = repo.clone();
    assert_eq!(Database::find(&environment).unwrap().given, ".beads");
    environment.beads_dir = Some("src".into());
    assert_eq!(
        Database::find(&environment).unwrap().dir,
        repo.join("src"),
        "$BEADS_DIR need not be called .beads"
    );
    environment.target = Some("beads:.beads".into());
    assert_eq!(
        Database::find(&environment).unwrap().dir,
        repo.join(".beads")
    );
    for (target, words) in [
        ("memory:x", "memory:x is no beads database"),
        ("tower:x", "tower:x is no beads database"),
    ] {
        environment.target = Some(target.into());
        let error = Database::find(&environment).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("$BEADLOCK_TARGET: {words}")),
            "{error}"
        );
    }
    environment.target = Some("".into());
    environment.beads_dir = Some("nowhere".into());
    let error = Database::find(&environment).unwrap_err().to_string();
    assert!(
        error.starts_with("$BEADS_DIR: nowhere does not exist"),
        "{error}"
    );
    environment.beads_dir = Some("".into());
    assert_eq!(
        Database::find(&environment).unwrap().dir,
        repo.join(".beads"),
        "empty is unset"
    );
}

#[test]
fn none_is_said_with_what_to_type() {
    let (_keep, environment) = scene();
    let error = Database::find(&environment).unwrap_err();
    assert_eq!(
        (error.exit_code(), error.kind()),
        (1, NoDatabaseKind::NotThere)
    );
    let message = error.to_string();
    assert!(
        message.starts_with("no .beads here or above (looked in "),
        "{message}"
    );
    assert!(
        message.ends_with("name one: beadlock hold path/.beads -- …"),
        "{message}"
    );
}

#[test]
fn one_that_cannot_be_looked_at_is_not_passed_over() {
    let (_keep, mut environment) = scene();
    let repo = environment.cwd.join("repo");
    for (name, target) in [
        ("loop", BEADS),
        ("nowhere", "/nowhere/.beads"),
        ("file", "../file/x"),
    ] {
        environment.cwd = repo.join(name);
        fs::create_dir(&environment.cwd).unwrap();
        fs::write(environment.cwd.join("x"), "").unwrap();
        std::os::unix::fs::symlink(target, environment.cwd.join(BEADS)).unwrap();
        match Database::find(&environment) {
            Ok(found) => assert!(
                name == "file" && found.dir == repo.join(BEADS),
                "{name}: {found:?}"
            ),
            Err(error) => {
                let words = format!("repo/{name}/.beads is a link that leads nowhere (");
                assert!(error.to_string().contains(&words), "{error}");
            }
        }
    }
}

#[test]
fn one_level_too_high_is_a_usage_error() {
    let (_keep, mut environment) = scene();
    environment.cwd.push("repo");
    let error = Database::named(Path::new("."), &environment).unwrap_err();
    assert_eq!(
        error.to_string(),
        ". is not a beads database; did you mean ./.beads?"
    );
    assert_eq!(
        (error.exit_code(), error.kind()),
        (2, NoDatabaseKind::Usage)
    );
    environment.beads_dir = Some(".".into());
    assert!(
        Database::named(Path::new("."), &environment).is_ok(),
        "unless it is $BEADS_DIR"
    );
}

#[test]
fn what_is_not_there_or_no_directory_is_named() {
    let (_keep, environment) = scene();
    fs::write(environment.cwd.join("file"), "").unwrap();
    for (path, word) in [
        ("nowhere", "does not exist"),
        ("file", "not a directory"),
        ("file/x", "not a directory"),
    ] {
        let error = Database::named(Path::new(path), &environment).unwrap_err();
        assert!(error.to_string().starts_with(path), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(error.exit_code(), 1);
    }
}

#[test]
fn follows_a_redirect_once() {
    let (_keep, environment) = scene();
    let repo = environment.cwd.join("repo");
    let other = environment.cwd.join("other/.beads");
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("redirect"), "../repo/.beads\n").unwrap();
    fs::write(
        repo.join(".beads/redirect"),
        "# the database is shared\n\n../other/.beads\n",
    )
    .unwrap();
    let found = Database::named(Path::new("repo/.beads"), &environment).unwrap();
    assert_eq!(found.dir, other, "no chains");
    fs::write(repo.join(".beads/redirect"), other.to_str().unwrap()).unwrap();
    let absolute = Database::named(Path::new("repo/.beads"), &environment).unwrap();
    assert!(found.is_same(&absolute));
    fs::write(repo.join(".beads/redirect"), "nowhere").unwrap();
    let error = Database::named(Path::new("repo/.beads"), &environment)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("repo/.beads/redirect") && error.contains("nowhere does not exist"),
        "{error}"
    );
    fs::write(repo.join(".beads/redirect"), "../other").unwrap();
    let error = Database::named(Path::new("repo/.beads"), &environment).unwrap_err();
    let words = "../other is not a beads database; did you mean ../other/.beads?";
    assert!(
        error.to_string().contains(words),
        "one level too high, here as well: {error}"
    );
    assert_eq!(
        (error.exit_code(), error.kind()),
        (1, NoDatabaseKind::Io),
        "the file is wrong, not the command line"
    );
    fs::write(repo.join(".beads/redirect"), "\n").unwrap();
    assert_eq!(
        Database::named(Path::new("repo/.beads"), &environment)
            .unwrap()
            .dir,
        repo.join(".beads")
    );
}

#[test]
fn own_names() {
    for name in [
        ".exclusive-fleet",
        ".exclusive-lock",
        ".exclusive-lock.aside",
        "daemon.log",
        "daemon.log.1",
        "daemon.pid",
        "bd.sock",
        "redirect",
        ".Exclusive-Lock",
        ".EXCLUSIVE-FLEET.x",
        "Daemon.log.1",
        "BD.sock",
        "Redirect",
    ] {
        assert!(is_own_name(OsStr::new(name)), "{name}");
    }
    for name in [
        "issues.jsonl",
        "exclusive-lock",
        "daemon.pid2",
        "bd.sock.old",
        "redirects",
        "",
    ] {
        assert!(!is_own_name(OsStr::new(name)), "{name}");
    }
}

#[test]
fn a_path_that_a_line_shows_as_it_is_is_given_back() {
    let top = tempfile::tempdir().unwrap();
    let environment = DatabaseVariables {
        cwd: top.path().to_owned(),
        ..DatabaseVariables::default()
    };
    for (name, is_plain) in [
        (".beads", true),
        ("a b", true),
        ("a\\b", false),
        ("a\nb", false),
        ("a\u{fffd}b", false),
    ] {
        fs::create_dir(top.path().join(name)).unwrap();
        let named = Database::named(Path::new(name), &environment).unwrap();
        let given = is_plain.then_some(Path::new(name));
        assert_eq!(named.as_given(), given, "{name:?}");
    }
    let found = Database::find(&environment).unwrap();
    assert_eq!(found.as_given(), Some(Path::new(".beads")));
}
