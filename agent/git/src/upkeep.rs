//! The upkeep of a repository: the loose objects that syncs make are packed from time to time. It runs beside the
//! syncs, in a process of its own, and holds nothing that a claim or a sync would wait for.

use std::time::Duration;

use tokio::time::Instant;

use beadlock_repository::{Repository, SyncRequest, SyncStop, Upkeep};

/// How often git is asked whether there is anything to tidy up, and when it is asked first.
const DAY: Duration = Duration::from_secs(24 * 3600);
const FIRST: Duration = Duration::from_secs(3600);
/// How many loose objects syncs make, and of how many bytes, before they are packed.
const MANY: u64 = 2_000;
const LARGE: u64 = 256 * 1024 * 1024;
/// How long each call of git may take.
const BOUND: Duration = Duration::from_secs(600);

/// The loose objects that the syncs of a database have left, and when they are tidied up. Pure.
#[derive(Debug, Default)]
pub(crate) struct UpkeepClock {
    /// The loose objects that syncs have made since, and their bytes.
    loose: (u64, u64),
    next: Option<Instant>,
}

impl UpkeepClock {
    /// A sync has made so many loose objects, of so many bytes.
    pub(crate) fn add(&mut self, (objects, bytes): (u64, u64)) {
        let (all, size) = self.loose;
        self.loose = (all.saturating_add(objects), size.saturating_add(bytes));
    }

    /// The upkeep that is due at `now`; `None`: nothing yet.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Upkeep> {
        let next = *self.next.get_or_insert(now + FIRST);
        match self.loose {
            (objects, bytes) if objects >= MANY || bytes >= LARGE => Some(Upkeep::Pack),
            _ if next <= now => Some(Upkeep::Daily),
            _ => None,
        }
    }

    /// Notes that the upkeep was begun. When it is ended early, it comes again in a day, or with as many objects more.
    pub(crate) fn begun(&mut self, now: Instant) {
        (self.loose, self.next) = ((0, 0), Some(now + DAY));
    }
}

/// Tidies up the repository. An error is told to nobody: the next upkeep finds the same.
///
/// # Errors
/// When it is not this user's repository, or a git cannot be run.
pub(crate) fn run(request: &SyncRequest, upkeep: Upkeep) -> Result<(), SyncStop> {
    tidy(&Repository::of(request)?, upkeep)
}

fn tidy(repository: &Repository, upkeep: Upkeep) -> Result<(), SyncStop> {
    // Who has switched that off tidies up otherwise.
    let git = &repository.git;
    let get = |args: &[&str]| git.tidying([&["config"], args].concat()).run();
    let is_zero = get(&["--get", "gc.auto"])?.ok_text().as_deref() == Some("0");
    let is_off = get(&["--type=bool", "--get", "maintenance.auto"])?
        .ok_text()
        .as_deref()
        == Some("false");
    if is_zero || is_off {
        return Ok(());
    }
    if upkeep == Upkeep::Pack {
        repository
            .git
            .tidying(["repack", "-d", "--quiet"])
            .within(BOUND)
            .run()?;
    }
    let maintain = ["maintenance", "run", "--auto", "--quiet"];
    repository.git.tidying(maintain).within(BOUND).run()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use beadlock_repository::Git;

    use crate::for_tests::known;

    /// A repository with many loose objects. Returns how many are left after its upkeep.
    fn loose_after(upkeep: Upkeep, settings: &[&str]) -> u64 {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().canonicalize().unwrap();
        let git = Git::in_dir(&top);
        let done = |args: &[&str]| git.call(args).text().unwrap_or_else(|_| panic!("{args:?}"));
        done(&["init", "--quiet"]);
        done(&["config", "user.name", "u"]);
        done(&["config", "user.email", "u@x.y"]);
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap();
            done(&["config", name, value]);
        }
        let database = top.join(".beads");
        std::fs::create_dir(&database).unwrap();
        for number in 0..40 {
            std::fs::write(database.join(number.to_string()), format!("{number}\n")).unwrap();
        }
        done(&["add", "."]);
        done(&["commit", "--quiet", "--message", "many"]);
        let request = SyncRequest::to_tidy(database, upkeep, BOUND);
        let known = known(&top, &request.dir);
        let repository = Repository::known(&request, &known).unwrap();
        tidy(&repository, upkeep).unwrap();
        let counted = done(&["count-objects"]);
        counted.split(' ').next().unwrap().parse().unwrap()
    }

    #[test]
    fn loose_objects_are_packed_unless_it_is_switched_off() {
        assert_eq!(loose_after(Upkeep::Pack, &[]), 0);
        assert_eq!(loose_after(Upkeep::Daily, &[]), 43, "few are left alone");
        for off in ["gc.auto=0", "maintenance.auto=false"] {
            assert_eq!(loose_after(Upkeep::Pack, &[off]), 43, "{off}");
        }
    }

    #[test]
    fn it_is_due_once_a_day_and_after_many_objects() {
        let (mut clock, begun) = (UpkeepClock::default(), Instant::now());
        let hour = Duration::from_secs(3600);
        assert_eq!(clock.due(begun), None);
        assert_eq!(clock.due(begun + hour), Some(Upkeep::Daily));
        clock.begun(begun + hour);
        assert_eq!(clock.due(begun + 24 * hour), None);
        assert_eq!(clock.due(begun + 25 * hour), Some(Upkeep::Daily));
        clock.begun(begun + 25 * hour);
        for (loose, times) in [((4, 1000), 500), ((4, 4_000_000), 68)] {
            let mut due = None;
            for _ in 0..times {
                assert_eq!(due, None, "{loose:?}");
                clock.add(loose);
                due = clock.due(begun + 25 * hour);
            }
            assert_eq!(due, Some(Upkeep::Pack), "{loose:?}");
            clock.begun(begun + 25 * hour);
        }
    }
}
