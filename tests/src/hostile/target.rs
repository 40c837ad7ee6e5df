use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use beadlock_checker::Place;
use beadlock_core::place::Names;
use beadlock_core::target::{ParsedTarget, Scheme};

use super::{is_fit_to_be_said, scratch};

/// A word of the command line is a target whose path is what stands there to the byte, or a mistake of the command
/// line. The lock of one has a name of its own in a directory that is there.
pub fn target(bytes: &[u8]) {
    let target = match ParsedTarget::parse(OsStr::from_bytes(bytes)) {
        Ok(target) => target,
        Err(error) => {
            is_fit_to_be_said(&error.to_string());
            return assert_eq!(error.exit_code(), 2, "{error}");
        }
    };
    let (path, scheme) = (&target.rest, target.scheme.prefix());
    let path = path.as_os_str().as_bytes();
    let typed = bytes.strip_prefix(scheme.as_bytes()).unwrap_or(bytes);
    assert!(!path.is_empty() && path == typed, "{target:?} of {bytes:?}");
    if typed.len() == bytes.len() {
        let colon = bytes.iter().position(|byte| *byte == b':');
        let has_scheme = colon.is_some_and(|colon| !bytes[..colon].contains(&b'/'));
        assert!(scheme == "beads:" && !has_scheme, "{target:?} of {bytes:?}");
    }
    let ParsedTarget {
        scheme: Scheme::Lock,
        rest: path,
    } = &target
    else {
        return;
    };
    let cwd = scratch("target");
    std::fs::create_dir_all(&cwd).expect("a directory");
    match Place::of_lock(path, &cwd) {
        Ok(place) => {
            let lock = place.path();
            let name = lock.file_name().expect("a name");
            assert!(
                place.dir().is_dir() && name.len() <= Names::LIMIT,
                "{lock:?}"
            );
            assert_eq!(
                (Names::belongs_to(name), lock.parent()),
                (None, Some(place.dir())),
                "{lock:?}"
            );
            assert_eq!(path.file_name(), Some(name), "{lock:?}");
        }
        Err(error) => {
            is_fit_to_be_said(&error.to_string());
            assert!([1, 2].contains(&error.exit_code()), "{error}");
        }
    }
}
