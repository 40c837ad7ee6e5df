use super::*;
use beadlock_testkit::root;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

const SOMEBODY: u32 = 54_321;

/// `top/a/b/file`, all of it this user's.
struct Scene {
    _root: tempfile::TempDir,
    top: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(root.path()).unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/file"), "").unwrap();
        let scene = Self { _root: root, top };
        for path in ["a", "a/b"] {
            scene.mode(path, 0o755);
        }
        scene.mode("a/b/file", 0o644);
        scene
    }

    fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.top.join(path), Permissions::from_mode(mode)).unwrap();
    }

    fn go(&self, path: &str) -> io::Result<WayEnd> {
        Trusted::this_user().go(&self.top.join(path))
    }

    /// The path from the top that is doubted, at most one, and whether it is on the way.
    fn doubted(&self, path: &str) -> Option<(PathBuf, bool)> {
        let mut all = self.all_doubted(path);
        assert!(all.len() <= 1, "{all:?}");
        all.pop()
    }

    fn all_doubted(&self, path: &str) -> Vec<(PathBuf, bool)> {
        let WayEnd::Doubted(doubted) = self.go(path).unwrap() else {
            return Vec::new();
        };
        let from_top = |doubted: Doubted| {
            let path = doubted.path.strip_prefix(&self.top).unwrap();
            (path.to_owned(), doubted.is_on_the_way)
        };
        doubted.into_iter().map(from_top).collect()
    }
}

#[test]
fn what_is_at_the_end_and_each_directory_on_the_way_is_asked() {
    let scene = Scene::new();
    let there = WayEnd::There(scene.top.join("a/b/file"), FileKind::File);
    assert_eq!(scene.go("a/b/file").unwrap(), there);
    assert_eq!(scene.go("a/../a/./b//file").unwrap(), there);
    for (path, mode, is_doubted) in [
        ("a/b/file", 0o666, true),
        ("a/b/file", 0o600, false),
        ("a/b", 0o777, true),
        ("a/b", 0o1777, false),
        ("a", 0o757, true),
        ("a", 0o1757, false),
    ] {
        let before = fs::metadata(scene.top.join(path)).unwrap().permissions();
        scene.mode(path, mode);
        let expected = is_doubted.then(|| (PathBuf::from(path), path != "a/b/file"));
        assert_eq!(scene.doubted("a/b/file"), expected, "{path} {mode:o}");
        fs::set_permissions(scene.top.join(path), before).unwrap();
    }
}

#[test]
fn all_that_is_doubted_is_named_each_once() {
    let scene = Scene::new();
    scene.mode("a", 0o777);
    scene.mode("a/b", 0o777);
    scene.mode("a/b/file", 0o666);
    let all = [("a", true), ("a/b", true), ("a/b/file", false)];
    let all = all.map(|(path, is_on_the_way)| (PathBuf::from(path), is_on_the_way));
    assert_eq!(scene.all_doubted("a/b/file"), all);
    assert_eq!(scene.all_doubted("a/b/../b/none"), all[..2]);
    let end = ("a/b".into(), false);
    assert_eq!(scene.all_doubted("a/b"), [all[0].clone(), end]);
}

#[test]
fn where_nothing_is_nobody_else_may_make_it() {
    let scene = Scene::new();
    for path in ["a/b/none", "a/none/deeper/none"] {
        assert_eq!(scene.go(path).unwrap(), WayEnd::Nothing, "{path}");
    }
    scene.mode("a/b", 0o1777);
    assert_eq!(scene.doubted("a/b/none"), Some(("a/b".into(), true)));
    assert_eq!(scene.doubted("a/b/file"), None, "it is there");
    let error = scene.go("a/b/file/below").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ENOTDIR as i32));
    assert!(Trusted::this_user().go(Path::new("a")).is_err());
}

#[test]
fn a_link_is_followed_and_the_directories_that_it_leads_through_are_asked() {
    let scene = Scene::new();
    fs::create_dir_all(scene.top.join("other/open")).unwrap();
    fs::write(scene.top.join("other/open/hook"), "").unwrap();
    scene.mode("other/open", 0o755);
    scene.mode("other/open/hook", 0o755);
    symlink("../../other/open/hook", scene.top.join("a/b/link")).unwrap();
    symlink(scene.top.join("other/open"), scene.top.join("a/dir")).unwrap();
    let there = WayEnd::There(scene.top.join("other/open/hook"), FileKind::File);
    assert_eq!(scene.go("a/b/link").unwrap(), there);
    assert_eq!(scene.go("a/dir/hook").unwrap(), there);
    scene.mode("other/open", 0o777);
    for path in ["a/b/link", "a/dir/hook"] {
        assert_eq!(scene.doubted(path), Some(("other/open".into(), true)));
    }
    assert_eq!(
        scene.doubted("a/dir"),
        Some(("other/open".into(), false)),
        "it is the end itself"
    );
    symlink("loop", scene.top.join("a/loop")).unwrap();
    symlink("/proc/self/cwd", scene.top.join("a/magic")).unwrap();
    for path in ["a/loop", "a/magic"] {
        let error = scene.go(path).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::ELOOP as i32), "{path}");
    }
}

#[test]
fn a_pipe_is_not_waited_for_and_a_device_is_what_it_is() {
    let scene = Scene::new();
    let pipe = scene.top.join("a/pipe");
    nix::unistd::mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
    let there = WayEnd::There(pipe, FileKind::Fifo);
    assert_eq!(scene.go("a/pipe").unwrap(), there);
    let null = Path::new("/dev/null");
    let end = Trusted::this_user().go(null).unwrap();
    assert_eq!(end, WayEnd::There(null.into(), FileKind::Device));
}

#[test]
fn another_users_file_link_and_directory_are_doubted() {
    if !root() {
        return;
    }
    let scene = Scene::new();
    let at = |path: &str| scene.top.join(path);
    symlink("file", at("a/b/link")).unwrap();
    lchown(at("a/b/link"), Some(SOMEBODY), None).unwrap();
    assert_eq!(scene.doubted("a/b/link"), Some(("a/b/link".into(), true)));
    lchown(at("a/b/link"), Some(0), None).unwrap();
    assert_eq!(scene.doubted("a/b/link"), None);
    for path in ["a/b/file", "a/b", "a"] {
        chown(at(path), Some(SOMEBODY), None).unwrap();
        let expected = Some((PathBuf::from(path), path != "a/b/file"));
        assert_eq!(scene.doubted("a/b/file"), expected);
        chown(at(path), Some(0), None).unwrap();
    }
    // A group of its own, which is not that of the owner.
    chown(at("a/b/file"), None, Some(SOMEBODY)).unwrap();
    scene.mode("a/b/file", 0o664);
    assert_eq!(scene.doubted("a/b/file"), Some(("a/b/file".into(), false)));
}
