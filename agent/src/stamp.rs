//! A directory whose change time is the same need not be read again: a redirect that was not in it is not in it now.

use std::os::fd::AsFd;
use std::time::Duration;

use beadlock_base::{
    filesystem::{FileSystem, Reach},
    open_directory::OpenDirectory,
};
use beadlock_core::database::Database;
use beadlock_core::facts;
use beadlock_trust::{DirStamp, SETTLED};

/// Whether there is no redirect in this open directory; `seen` is what an earlier call has remembered. Change times are
/// not trusted where other machines may write the file system.
pub(crate) fn has_no_redirect(opened: &OpenDirectory, seen: &mut Option<DirStamp>) -> bool {
    let stamp = opened.stat().ok().as_ref().map(DirStamp::from);
    if stamp.is_some() && stamp == *seen {
        return true;
    }
    let has_none = Database::has_no_redirect(opened);
    let settled = || {
        Duration::try_from(facts::now().0)
            .unwrap_or_default()
            .saturating_sub(SETTLED)
    };
    *seen = stamp.filter(|stamp| has_none && stamp.is_older_than(settled()) && is_local(opened));
    has_none
}

/// Whether only this machine writes the file system.
pub(crate) fn is_local(dir: impl AsFd) -> bool {
    FileSystem::of(dir).is_ok_and(|file_system| file_system.reach == Reach::Local)
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "the test removes what it has made"
    )]

    use super::*;
    use std::fs::{self, File, FileTimes};
    use std::time::{Instant, SystemTime};

    #[test]
    fn a_redirect_is_noticed_when_it_comes_and_when_it_goes() {
        let top = tempfile::tempdir().unwrap();
        let redirect = top.path().join("redirect");
        let mut seen = None;
        let is_unredirected = |seen: &mut Option<DirStamp>| {
            let opened = OpenDirectory::open_alone(top.path()).unwrap();
            has_no_redirect(&opened, seen)
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while seen.is_none() && is_local(File::open(top.path()).unwrap()) {
            assert!(is_unredirected(&mut seen) && Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(is_unredirected(&mut seen), "remembered");
        fs::write(&redirect, "elsewhere").unwrap();
        assert!(!is_unredirected(&mut seen));
        fs::remove_file(&redirect).unwrap();
        assert!(is_unredirected(&mut seen));
    }

    /// The change time of a file cannot be set: time has to pass.
    #[test]
    fn what_has_just_changed_is_not_remembered() {
        let top = tempfile::tempdir().unwrap();
        let opened = OpenDirectory::open_alone(top.path()).unwrap();
        let mut seen = None;
        assert!(has_no_redirect(&opened, &mut seen));
        assert_eq!(seen, None, "it may change again within the same tick");
        let old = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        File::open(top.path()).unwrap().set_times(old).unwrap();
        assert!(has_no_redirect(&opened, &mut seen));
        assert_eq!(seen, None, "the modification time says nothing");
    }
}
