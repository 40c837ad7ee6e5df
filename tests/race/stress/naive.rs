//! Tools that know nothing of the gate: writers as the protocol's own recipes have them, and the control, which
//! removes and claims in the obvious way.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;

use beadlock_core::facts::is_process_alive;
use beadlock_core::record::beads::Record;
use beadlock_tests::{Dice, lock_text, this_host};

use super::cast::Role;
use super::round::{ATTEMPTS, Crash, DEAD, dies, hesitate, is_excused, moment, pause, says, work};
use super::witness::Witness;

/// What a look at the lock shows.
#[derive(PartialEq)]
enum Seen {
    Absent,
    Dead,
    /// Alive, or unreadable.
    Taken,
}

fn look(lock: &Path) -> Seen {
    let Ok(bytes) = fs::read(lock) else {
        return Seen::Absent;
    };
    match Record::parse(&bytes) {
        Ok(there) if !is_process_alive(there.pid, &there.hostname) => Seen::Dead,
        _ => Seen::Taken,
    }
}

fn lock(dir: &Path) -> PathBuf {
    dir.join(".exclusive-lock")
}

/// A record that no other contender writes, all of one length.
fn record(number: usize, pid: i64) -> String {
    lock_text(&format!("naive-{number:08}"), pid, &this_host())
}

/// Looks, and where nobody lives writes its record there, some moments later. Its claim stands to the end of the
/// round. No other writer has the same `number`.
pub fn write(dir: &Path, number: usize, role: Role, witness: &Witness<'_>, dice: &mut Dice) {
    let (lock, record) = (lock(dir), record(number, std::process::id().into()));
    moment(dice);
    for _ in 0..2 * ATTEMPTS {
        if look(&lock) == Seen::Taken {
            pause(dice);
            continue;
        }
        if dice.below(2) == 0 {
            moment(dice);
        }
        witness.overwriting.store(true, SeqCst);
        if role == Role::InPlace {
            fs::write(&lock, &record).expect("write the lock");
        } else {
            let draft = dir.join(format!("draft-{number}"));
            fs::write(&draft, &record).expect("write a draft");
            fs::rename(draft, &lock).expect("rename the draft");
        }
        return witness.writer_claimed(record);
    }
}

/// The control: read, judge, unlink. True: there is no lock (any more).
fn is_free(dir: &Path, dice: &mut Dice) -> bool {
    let seen = look(&lock(dir));
    hesitate(dice);
    match seen {
        Seen::Absent => true,
        Seen::Dead => fs::remove_file(lock(dir)).is_ok(),
        Seen::Taken => false,
    }
}

/// The control's check.
pub fn ask(dir: &Path, witness: &Witness<'_>, dice: &mut Dice) {
    witness.daemon(|| is_free(dir, dice));
}

/// The control's cycle.
pub fn cycle(dir: &Path, witness: &Witness<'_>, dice: &mut Dice) {
    let mut let_in = false;
    witness.daemon(|| {
        let_in = is_free(dir, dice);
        let_in
    });
    if let_in {
        witness.cycle(|| work(dice));
    }
}

/// The control's claim: what is dead goes, the lock is made with O_EXCL, and removed in the end if it is still ours.
pub fn claim(dir: &Path, number: usize, witness: &Witness<'_>, dice: &mut Dice) {
    let dies = dies(dice);
    let record = record(
        number,
        if dies {
            DEAD
        } else {
            std::process::id().into()
        },
    );
    for _ in 0..ATTEMPTS {
        let made = is_free(dir, dice).then(|| fs::File::create_new(lock(dir)));
        let Some(Ok(mut file)) = made else {
            pause(dice);
            continue;
        };
        file.write_all(record.as_bytes()).expect("write the lock");
        drop(file);
        if dies {
            std::panic::resume_unwind(Box::new(Crash));
        }
        witness.command(|| {
            work(dice);
            if !says(dir, &record) && !is_excused(witness) {
                witness.lost();
            }
        });
        if says(dir, &record) {
            let _ = fs::remove_file(lock(dir));
        }
        return;
    }
}
