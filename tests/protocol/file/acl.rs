//! Access control lists: with one, the group's bits of a mode are the most that anybody may whom the list names.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use beadlock_tests::{Scene, binaries, skip, tool};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use crate::support::{Files, with_input};

/// The list of a file, and the one that a directory gives to what is made in it.
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// Reading and writing for the owner and for the user 4711, and nothing for the group or anybody else, as the kernel
/// writes it (`linux/posix_acl_xattr.h`): a version, then tag, rights and id of each entry.
fn for_4711() -> Vec<u8> {
    let nobody = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, nobody),
        (2, 6, 4711),
        (4, 0, nobody),
        (0x10, 6, nobody),
        (0x20, 0, nobody),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(
            tag.to_le_bytes()
                .into_iter()
                .chain(rights.to_le_bytes())
                .chain(id.to_le_bytes()),
        );
    }
    list
}

/// False: there are none on this file system.
fn give(path: &Path, name: &str) -> bool {
    let given = setxattr(path, name, &for_4711(), XattrFlags::empty());
    if given == Err(Errno::OPNOTSUPP) {
        skip::cannot("needs a file system with ACLs");
        return false;
    }
    given.expect("a list");
    true
}

/// The mode, and the list.
fn rights(path: &Path) -> (u32, Option<Vec<u8>>) {
    let mut list = [0; 200];
    let list = getxattr(path, ACCESS, &mut list)
        .ok()
        .and_then(|length| list.get(..length).map(<[u8]>::to_vec));
    (
        fs::metadata(path).expect("it is there").mode() & 0o777,
        list,
    )
}

#[test]
fn a_list_is_kept_and_the_group_is_given_nothing() {
    let scene = Scene::new();
    scene.put("secret.json", "1");
    let path = scene.path().join("secret.json");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("chmod");
    if !give(&path, ACCESS) {
        return;
    }
    let before = rights(&path);
    assert_eq!(
        before,
        (0o660, Some(for_4711())),
        "what the mode says of the group is the list's mask"
    );
    assert_eq!(
        scene.given("2", &["write", "-q", "file:secret.json"]).code,
        0
    );
    assert_eq!(
        (rights(&path), scene.text("secret.json").as_str()),
        (before, "2")
    );
}

#[test]
fn where_there_are_no_hard_links_the_backup_has_the_list_too() {
    let Some(strace) = tool("strace") else { return };
    let scene = Scene::new();
    scene.put("secret.json", "1");
    let path = scene.path().join("secret.json");
    if !give(&path, ACCESS) {
        return;
    }
    let mut command = scene.command(strace);
    command.args(["-f", "-o", "/dev/null", "-e", "inject=linkat:error=EPERM"]);
    command
        .arg(binaries::beadlock())
        .args(["write", "-q", "file:secret.json"]);
    assert_eq!(with_input(command, b"2").code, 0);
    let backup = scene.path().join("secret.json.1");
    assert_eq!(
        (rights(&path), rights(&backup)),
        ((0o660, Some(for_4711())), (0o660, Some(for_4711())))
    );
    assert_eq!(
        fs::metadata(&backup).expect("a backup").nlink(),
        1,
        "a copy"
    );
}

#[test]
fn a_directory_with_a_list_gives_it_to_no_file_that_had_none() {
    let scene = Scene::new();
    scene.put("secret.json", "1");
    let path = scene.path().join("secret.json");
    fs::set_permissions(&path, Permissions::from_mode(0o660)).expect("chmod");
    if !give(scene.path(), DEFAULT) {
        return;
    }
    assert_eq!(
        scene.given("2", &["write", "-q", "file:secret.json"]).code,
        0
    );
    assert_eq!(
        (rights(&path), scene.text("secret.json").as_str()),
        ((0o660, None), "2")
    );
    assert_eq!(scene.given("1", &["write", "-q", "file:new.json"]).code, 0);
    assert_eq!(
        rights(&scene.path().join("new.json")).1,
        Some(for_4711()),
        "as any new file there"
    );
}
