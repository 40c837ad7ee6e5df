use super::*;
use beadlock_core::database::DatabaseVariables;
use beadlock_testkit::root;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

const SOMEBODY: u32 = 54_321;

/// `home/repo/.beads` in a directory of its own.
struct Scene {
    _root: tempfile::TempDir,
    home: PathBuf,
    repo: PathBuf,
    dir: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(root.path()).unwrap().join("home");
        let repo = home.join("repo");
        let dir = repo.join(".beads");
        fs::create_dir_all(&dir).unwrap();
        for dir in [&home, &repo, &dir] {
            fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        }
        Self {
            _root: root,
            home,
            repo,
            dir,
        }
    }

    fn database(&self) -> Database {
        Database::named(&self.dir, &DatabaseVariables::default()).unwrap()
    }

    /// The refusal where the directory has this mode for the time of the question.
    fn refusal_with(&self, dir: &Path, mode: u32) -> Option<Refusal> {
        fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
        let refusal = ours().check(&self.database()).err();
        fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        refusal
    }
}

fn ours() -> Owners {
    Owners::of_this_user(false)
}

#[test]
fn own_databases_are_served_and_other_users_are_not() {
    let scene = Scene::new();
    let database = scene.database();
    assert_eq!(ours().check(&database), Ok(()));
    // As any other user than root: what root owns is trusted, and what the first one owns is not.
    let another = Owners::Trusted(Trusted::user(SOMEBODY));
    assert_eq!(another.check(&database).is_ok(), geteuid().is_root());
    assert_eq!(
        another
            .check_open(File::open(&scene.dir).unwrap(), &scene.dir)
            .is_ok(),
        geteuid().is_root()
    );
    if !root() {
        return;
    }
    for foreign in [&scene.dir, &scene.repo] {
        chown(foreign, Some(SOMEBODY), None).unwrap();
        let refusal = ours().check(&database).unwrap_err();
        let words = format!(
            "{} belongs to uid 54321, and as root the agent would run commands there; run it as that user, or give \
             --allow-foreign-owner",
            escaped_path(foreign)
        );
        assert_eq!(
            (refusal.to_string(), refusal.is_of_ancestor),
            (words.clone(), false)
        );
        assert_eq!(
            ours().check_open(File::open(foreign).unwrap(), foreign),
            Err(words)
        );
        assert_eq!(Owners::All.check(&database), Ok(()));
        assert_eq!(
            Owners::All.check_open(File::open(foreign).unwrap(), foreign),
            Ok(())
        );
        chown(foreign, Some(0), None).unwrap();
    }
}

#[test]
fn whoever_owns_a_directory_above_could_replace_the_database() {
    if !root() {
        return;
    }
    let scene = Scene::new();
    chown(&scene.home, Some(SOMEBODY), None).unwrap();
    let refusal = ours().check(&scene.database()).unwrap_err();
    let words = format!(
        "{} belongs to uid 54321, and another directory could be put in the place of {}; run it as that user, or \
         give --allow-foreign-owner",
        escaped_path(&scene.home),
        escaped_path(&scene.dir)
    );
    assert_eq!((refusal.to_string(), refusal.is_of_ancestor), (words, true));
    assert_eq!(Owners::All.check(&scene.database()), Ok(()));
    let that_user = Owners::Trusted(Trusted::user(SOMEBODY));
    assert_eq!(
        that_user.check(&scene.database()),
        Ok(()),
        "root's clone in a home of one's own"
    );
}

#[test]
fn others_may_write_neither_here_nor_above_unless_it_is_sticky_above() {
    let scene = Scene::new();
    for (dir, is_above) in [
        (&scene.dir, false),
        (&scene.repo, false),
        (&scene.home, true),
    ] {
        let refusal = scene.refusal_with(dir, 0o757).unwrap();
        let words = refusal.to_string();
        assert!(
            words.starts_with(&format!(
                "everybody may write to {} (mode 0757), and ",
                escaped_path(dir)
            )),
            "{words}"
        );
        let typed = format!(
            "; type: chmod o-w {}, or give --allow-foreign-owner",
            beadlock_base::shell::quoted_path(dir)
        );
        assert!(words.ends_with(&typed), "{words}");
        assert_eq!(refusal.is_of_ancestor, is_above);
        assert_eq!(
            scene.refusal_with(dir, 0o1777).is_none(),
            is_above,
            "sticky"
        );
    }
}

#[test]
fn a_group_of_others_may_write_neither_here_nor_above() {
    if !root() {
        return;
    }
    let scene = Scene::new();
    for dir in [&scene.dir, &scene.repo, &scene.home] {
        chown(dir, None, Some(SOMEBODY)).unwrap();
        let words = scene.refusal_with(dir, 0o775).unwrap().to_string();
        let begin = format!(
            "the group with gid 54321 may write to {} (mode 0775), and ",
            escaped_path(dir)
        );
        assert!(
            words.starts_with(&begin) && words.contains("; type: chmod g-w "),
            "{words}"
        );
        assert!(
            scene
                .refusal_with(dir, 0o777)
                .unwrap()
                .to_string()
                .contains("; type: chmod go-w ")
        );
        assert!(scene.refusal_with(dir, 0o755).is_none());
    }
}

#[test]
fn the_directory_of_a_redirect_is_asked_too_and_those_above_it() {
    if !root() {
        return;
    }
    let scene = Scene::new();
    let named = scene.home.join("further/other/.beads");
    fs::create_dir_all(&named).unwrap();
    fs::write(
        named.join("redirect"),
        scene.dir.as_os_str().as_encoded_bytes(),
    )
    .unwrap();
    let database = Database::named(&named, &DatabaseVariables::default()).unwrap();
    assert_eq!((&database.dir, &database.named), (&scene.dir, &named));
    assert_eq!(ours().check(&database), Ok(()));
    for (dir, is_above) in [
        (named.clone(), false),
        (scene.home.join("further/other"), true),
        (scene.home.join("further"), true),
    ] {
        chown(&dir, Some(SOMEBODY), None).unwrap();
        let refusal = ours().check(&database).unwrap_err();
        assert!(
            refusal
                .to_string()
                .starts_with(&format!("{} belongs to uid 54321, ", escaped_path(&dir))),
            "{refusal}"
        );
        assert_eq!(refusal.is_of_ancestor, is_above);
        chown(&dir, Some(0), None).unwrap();
    }
}

#[test]
fn a_link_that_has_come_is_not_followed() {
    let scene = Scene::new();
    let database = scene.database();
    let elsewhere = scene.home.join("elsewhere");
    #[expect(clippy::disallowed_methods, reason = "what somebody does")]
    fs::rename(&scene.repo, &elsewhere).unwrap();
    symlink(&elsewhere, &scene.repo).unwrap();
    for owners in [ours(), Owners::All] {
        let refusal = owners.check(&database).unwrap_err();
        let words = format!(
            "{} is a symbolic link now; to follow it, send SIGHUP to the agent, or start it again",
            escaped_path(&scene.repo)
        );
        assert_eq!(refusal.to_string(), words);
    }
}

#[test]
fn one_that_is_not_there_is_left_to_the_cycle() {
    let scene = Scene::new();
    let database = scene.database();
    fs::remove_dir_all(&scene.repo).unwrap();
    let opened = ours().open(&database).unwrap();
    assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::NotFound);
}
