//! What the kernel does about leases, where the steps of a removal rest on it.

use std::fs::{self, File};
use std::io::Write;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use beadlock_base::sys::{drop_lease, lease_unbroken, take_lease};
use beadlock_testkit::skip;
use nix::errno::Errno;

use crate::scene::Database;

const ROUNDS: usize = 50;

/// A process that is blocked in `open` for writing, because of a lease, counts as a writer already. When the file is
/// back in its place and the lease is given up, no new one is granted, though that `open` may not have returned. So
/// there can be no second look under a new lease in between, and what he writes comes into the file that was put back.
#[test]
fn who_waits_for_a_lease_to_write_counts_as_a_writer() {
    let mut refused = 0;
    for round in 0..ROUNDS {
        let database = Database::new();
        fs::write(database.lock(), "dead").unwrap();
        let remover = File::open(database.lock()).unwrap();
        if let Err(errno) = take_lease_alone(&remover) {
            assert_eq!(
                (round, errno),
                (0, Errno::EINVAL),
                "a file system without leases"
            );
            return skip::cannot("needs leases in the temporary directory");
        }
        let (go_on, asked) = channel::<()>();
        let writer = std::thread::spawn({
            let lock = database.lock();
            move || {
                let mut file = File::options().write(true).open(lock).unwrap();
                // Open until it is asked for: what refuses the lease is nothing but this one.
                asked.recv().unwrap();
                file.write_all(b"live").unwrap();
            }
        });
        let deadline = Instant::now() + Duration::from_secs(30);
        while lease_unbroken(&remover) {
            assert!(Instant::now() < deadline, "the writer never comes");
            std::thread::sleep(Duration::from_millis(1));
        }
        // As a removal does: aside, seen that it is broken, back, and only then is the lease given up.
        fs::rename(database.lock(), database.aside()).unwrap();
        fs::rename(database.aside(), database.lock()).unwrap();
        let again = File::open(database.lock()).unwrap();
        drop_lease(&remover);
        refused += usize::from(take_lease(&again) == Err(Errno::EAGAIN));
        go_on.send(()).unwrap();
        writer.join().unwrap();
        assert_eq!(
            fs::read_to_string(database.lock()).unwrap(),
            "live",
            "his bytes are in the file that is back"
        );
        assert_eq!(
            take_lease_alone(&again),
            Ok(()),
            "the control: nobody writes any more, and a new lease is granted"
        );
        drop_lease(&again);
    }
    assert_eq!(refused, ROUNDS, "of {ROUNDS} new leases were refused");
}

/// Takes a lease that the test itself no longer hinders. A child that another thread starts has a copy of every
/// descriptor until it executes, also of the one that has just written the file. Until then the lease is refused.
fn take_lease_alone(file: &File) -> Result<(), Errno> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match take_lease(file) {
            Err(Errno::EAGAIN) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1))
            }
            answer => return answer,
        }
    }
}
