//! Inside another hold, or inside a cycle (DESIGN 7 and 5).

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use beadlock_checker::escape::escaped_path;
use beadlock_checker::take::{Adopted, Held};
use beadlock_checker::target::Target;
use beadlock_checker::{Names, Options, Place, Verdict, look};

use crate::environment::Environment;
use crate::failure::{Code, Error};
use crate::target::Found;

/// `$BEADLOCK_CYCLE` names this target: whoever started this is a cycle of it.
pub fn is_inside_a_cycle(target: &Found, environment: &Environment) -> bool {
    environment.get("BEADLOCK_CYCLE").is_some_and(|cycle| is_directory(Path::new(cycle), target.dir()))
}

/// A cycle that claimed its own target would wait for itself.
///
/// # Errors
/// At once, inside a cycle of this target.
pub fn refuse_inside_a_cycle(target: &Found, environment: &Environment) -> Result<(), Error> {
    if !is_inside_a_cycle(target, environment) {
        return Ok(());
    }
    Err(Error::new(
        Code::DrainTimeout,
        format!(
            "this runs inside a sync cycle of {}, which a claim would wait for: it would wait for itself; leave \
             the claim out here, or run it outside of the cycle",
            escaped_path(target.dir())
        ),
    ))
}

/// The id of the claim that this runs under already: still in the file, and still held.
pub fn outer_claim(target: &Found, environment: &Environment) -> Option<String> {
    let of_hold = environment
        .get("BEADLOCK_HELD_ID")
        .filter(|_| environment.get("BEADLOCK_HELD_TARGET").is_some_and(|held| is_the_same(held, target)));
    let known = [of_hold, environment.get("BEADLOCK_ID")];
    let there = look(&target.place, &Options::default());
    let id = there.id.filter(|_| matches!(there.verdict, Verdict::Held(_)))?;
    known
        .into_iter()
        .flatten()
        .any(|known| known == id.as_str() || known == name_of(&id).as_str())
        .then_some(id)
}

/// A guard of the outer claim with this id, to watch it. `None` when that is a `hold`, which watches it itself and ends
/// all that runs in it, and when it cannot be had just now.
pub fn guard_of(id: &str, target: &Found, environment: &Environment) -> Option<Held> {
    if is_of_hold(id, target, environment) {
        return None;
    }
    match Held::adopt(&target.place, id) {
        Ok(Adopted::Held(held)) => Some(held),
        _ => None,
    }
}

/// What names a claim under an outer one: releasing it releases nothing.
const NESTED: &str = "nested:";

/// The id of a claim that stands under the claim `outer`.
pub fn name_of(outer: &str) -> String {
    format!("{NESTED}{outer}")
}

/// The id is of a claim that stands under another, or of the `hold` that this runs in: it is not ended from here.
pub fn is_nested(id: &str, target: &Found, environment: &Environment) -> bool {
    id.starts_with(NESTED) || is_of_hold(id, target, environment)
}

fn is_of_hold(id: &str, target: &Found, environment: &Environment) -> bool {
    environment.get("BEADLOCK_HELD_ID").is_some_and(|held| held == id)
        && environment.get("BEADLOCK_HELD_TARGET").is_some_and(|held| is_the_same(held, target))
}

/// `[beads:]DIR` or `lock:PATH` is this target, the directory by device and inode.
fn is_the_same(name: &OsStr, target: &Found) -> bool {
    match Target::parse(name) {
        Ok(Target::Beads(dir)) => *target.place.names() == Names::BEADS && is_directory(&dir, target.dir()),
        Ok(Target::Lock(path)) => {
            let place = Place::of_lock(&path, Path::new("/"));
            place.is_ok_and(|place| {
                place.names() == target.place.names() && is_directory(place.dir(), target.dir())
            })
        }
        Err(_) => false,
    }
}

fn is_directory(path: &Path, dir: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let asked = number(path);
    asked.is_some() && asked == number(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_directory_under_another_name_is_the_same() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join(".beads");
        fs::create_dir(&dir).unwrap();
        std::os::unix::fs::symlink(&dir, top.path().join("link")).unwrap();
        let environment = Environment::default();
        let found = |name: &OsStr| Found::resolve(Some(name), &environment).unwrap();
        let target = found(dir.as_os_str());
        let name = |scheme: &str, path: &str| format!("{scheme}{}", top.path().join(path).display());
        for name in [name("", ".beads"), name("", "link"), name("beads:", "link")] {
            assert!(is_the_same(OsStr::new(&name), &target), "{name:?}");
        }
        for name in [name("", ""), name("lock:", ".beads/x"), "/nowhere".to_owned(), String::new()] {
            assert!(!is_the_same(OsStr::new(&name), &target), "{name:?}");
        }
        let lock = found(OsStr::new(&name("lock:", ".beads/x")));
        assert!(is_the_same(OsStr::new(&name("lock:", "link/x")), &lock));
        assert!(!is_the_same(OsStr::new(&name("lock:", "link/y")), &lock));
        assert!(!is_the_same(dir.as_os_str(), &lock));
    }
}
