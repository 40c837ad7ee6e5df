//! The same with the real programs, some of which are killed: claims, agents and checks in processes of their own.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use beadlock_base::process::Stat;
use beadlock_tests::process::marked_by;
use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{
    Dice, Ended, OverAtLast, Running, Scene, binaries, lock_text, run, this_host, wait_until,
};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::cast::{CONTENDERS, Role};
use super::moves::Moves;
use super::naive;
use super::round::{DEAD, Shown};
use super::witness::{Counts, Witness};

/// Whose programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Troupe {
    /// beadlock's.
    Ours,
    /// The same where the kernel refuses leases: the stale lock is another user's, and root has no `CAP_LEASE`.
    WithoutLeases,
    /// The control: a script that reads, judges, unlinks, and writes without overwriting.
    Naive,
}

/// At work: nobody else is, as an flock on another file says, which ends with the shell.
fn work(done: &str, at_once: &str, dice: &mut Dice) -> String {
    let nap = 1 + dice.below(60);
    format!(
        "exec 9>>inside; flock -n 9 || echo . >>{at_once}; echo . >>{done}; sleep 0.0{nap:02} 9>&-"
    )
}

/// How long a claim waits beside a writer, whose claim stands to the end of the round.
const BESIDE_A_WRITER: &str = "400ms";

/// Its lock is there to the end.
const STILL: &str = r#"grep -q "\"pid\": $$," .beads/.exclusive-lock || echo . >>lost"#;

/// The control's claim, up to its work.
const NAIVE: &str = r#"lock=.beads/.exclusive-lock
for try in 1 2 3 4 5 6 7 8; do
    pid=$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' $lock 2>&- | head -n 1)
    if [ -n "$pid" ] && ! kill -0 "$pid" 2>&-; then rm -f $lock; fi
    if (set -C; printf '{"holder":"naive",\n"pid": %d,\n"hostname":"%s","started_at":"2025-10-25T12:00:00Z"}\n' \
        $$ "$(uname -n)" > $lock) 2>&-
    then
"#;

/// Plays so many rounds below `dir`, in so many lanes side by side.
pub fn play(dir: &Path, troupe: Troupe, rounds: usize, lanes: usize, seed: u64) -> Shown {
    let (counts, moves) = (Counts::default(), Moves::new());
    std::thread::scope(|threads| {
        for lane in 0..lanes {
            let (counts, moves) = (&counts, &moves);
            threads.spawn(move || {
                for round in (lane..rounds).step_by(lanes) {
                    let scene = Scene::below(dir);
                    moves.watch(&scene.beads());
                    let dice = Dice::new(seed, &format!("programs {round}"));
                    Round {
                        scene: &scene,
                        troupe,
                        witness: Witness::new(counts),
                        dice,
                    }
                    .play(round);
                    moves.count();
                }
            });
        }
    });
    Shown {
        counts,
        aside: moves.aside.into_inner(),
        back: moves.back.into_inner(),
    }
}

struct Round<'a> {
    scene: &'a Scene,
    troupe: Troupe,
    witness: Witness<'a>,
    dice: Dice,
}

/// A program, and when it is killed.
struct Player {
    running: Running,
    begun: Instant,
    /// With its command in place of itself, where it has one that claims.
    killed: Option<(Duration, bool)>,
    is_daemon: bool,
}

impl Round<'_> {
    fn play(mut self, round: usize) {
        self.scene
            .write_lock(lock_text("crashed", DEAD, &this_host()));
        if self.troupe == Troupe::WithoutLeases {
            chown(self.scene.lock(), Some(65534), None).expect("give the stale lock away");
        }
        let writer = [None, Some(Role::InPlace), Some(Role::ByRename)][self.dice.below(3) as usize];
        let wait = match writer {
            Some(_) => BESIDE_A_WRITER,
            None => ["20s", "20s", "0"][self.dice.below(3) as usize],
        };
        let mut writing = Dice::new(self.dice.below(u64::MAX), "writer");
        let mut dice = Dice::new(self.dice.below(u64::MAX), "players");
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let (scene, witness) = (self.scene, &self.witness);
            if let Some(role) = writer {
                threads.spawn(move || {
                    naive::write(&scene.beads(), round, role, witness, &mut writing)
                });
            }
            let _over = OverAtLast(&over);
            threads.spawn(|| {
                while !over.load(SeqCst) {
                    self.reap_holder();
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
            let players = (0..CONTENDERS - usize::from(writer.is_some()))
                .map(|number| self.start(number, wait, &mut dice))
                .collect();
            self.direct(players, wait, &mut dice);
        });
        self.settle(writer.is_some());
    }

    /// Starts the next one: mostly claims.
    fn start(&self, number: usize, wait: &str, dice: &mut Dice) -> Player {
        let is_daemon = self.troupe != Troupe::Naive && number > 0 && dice.below(4) == 0;
        let command = match self.troupe {
            Troupe::Naive => {
                let work = work("claims", "doubles", dice);
                let script =
                    format!("{NAIVE}{work}; {STILL}; exit 0; fi; sleep 0.02; done; exit 4");
                self.scene.shell(&script)
            }
            _ if is_daemon && dice.below(2) == 0 => {
                // Looks without a cycle, again and again, until it is killed.
                let script =
                    "for n in $(seq 999); do \"$0\" \"$@\" check -q .beads; sleep 0.01; done";
                let mut command = self.scene.shell(script);
                command.args(self.program("beadlock"));
                command
            }
            _ if is_daemon => {
                let work = work("cycles", "beside", dice);
                let words = ["--db", ".beads", "--interval", "30ms", "--exec", &work];
                self.command("beadlock-agent", &words)
            }
            _ => {
                let work = format!("{}; {STILL}", work("claims", "doubles", dice));
                self.command(
                    "beadlock",
                    &["hold", "-q", "--wait", wait, "--", "sh", "-c", &work],
                )
            }
        };
        let moment = Duration::from_millis(dice.below(500));
        let killed = (is_daemon || dice.below(3) == 0).then(|| (moment, dice.below(2) == 0));
        Player {
            running: Running::start(command),
            begun: Instant::now(),
            killed,
            is_daemon,
        }
    }

    /// A program of ours as its words, before it the one that takes a capability away.
    fn program(&self, name: &str) -> Vec<String> {
        let program = binaries::directory()
            .join(name)
            .to_string_lossy()
            .into_owned();
        match self.troupe {
            Troupe::WithoutLeases => ["setpriv", "--bounding-set", "-lease", "--", &program]
                .map(str::to_owned)
                .into(),
            _ => vec![program],
        }
    }

    fn command(&self, name: &str, words: &[&str]) -> Command {
        let program = self.program(name);
        let mut command = self.scene.command(&program[0]);
        command.args(&program[1..]).args(words);
        command
    }

    /// Kills whose moment has come, and starts daemons again, until everybody else has ended.
    fn direct(&self, mut players: Vec<Player>, wait: &str, dice: &mut Dice) {
        let begun = Instant::now();
        while players.iter().any(|player| !player.is_daemon) {
            assert!(begun.elapsed() < 2 * PATIENCE, "a claim does not end");
            let mut next = Vec::new();
            for mut player in players {
                if let Some((moment, its_command)) = player.killed
                    && player.begun.elapsed() >= moment
                {
                    player.killed = None;
                    let ours = !player.is_daemon && self.troupe != Troupe::Naive;
                    if !(its_command && ours && self.kill_holder()) {
                        player.running.signal(Signal::SIGKILL);
                    }
                    self.witness.counts.crashes.fetch_add(1, SeqCst);
                }
                if player.running.is_running() {
                    next.push(player);
                } else if player.is_daemon {
                    next.push(self.start(usize::MAX, wait, dice));
                } else {
                    let ended = Ended::from(player.running.finish(PATIENCE));
                    // Killed: itself or its command, which may still have been waiting to become it.
                    let is_expected = matches!(ended.code, 0 | 4 | 125 | 137);
                    let is_overwritten = ended.code == 9 && wait == BESIDE_A_WRITER;
                    if !is_expected && !is_overwritten {
                        println!("a claim ended with {ended:?}");
                        self.witness.counts.broken.fetch_add(1, SeqCst);
                    }
                }
            }
            players = next;
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// Kills the command that is named in the lock. False: there is none of this round.
    ///
    /// With what it has started, and stands still meanwhile, so that nothing is born. A `grep` that outlives it has
    /// the flock that says who is at work, and on a busy machine the next one may be there before that is gone.
    fn kill_holder(&self) -> bool {
        let holder = holder(self.scene).filter(|pid| marked_by(self.scene).contains(pid));
        let Some(pid) = holder.filter(|pid| kill(*pid, Signal::SIGSTOP).is_ok()) else {
            return false;
        };
        wait_until(PATIENCE, "the command stands still", || {
            Stat::read(pid.as_raw()).is_none_or(|stat| stat.state == 'T' || stat.is_zombie())
        });
        let is_its =
            |child: &Pid| Stat::read(child.as_raw()).is_some_and(|stat| stat.ppid == pid.as_raw());
        for child in marked_by(self.scene).into_iter().filter(is_its) {
            let _ = kill(child, Signal::SIGKILL);
        }
        kill(pid, Signal::SIGKILL).is_ok()
    }

    /// An orphan that has ended answers for its lock until somebody reaps it: here that is us. The control's claims
    /// are not orphans.
    fn reap_holder(&self) {
        if let Some(pid) = holder(self.scene)
            && self.troupe != Troupe::Naive
        {
            let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        }
    }

    /// Everybody has come to an end: what was seen is counted, and the next check finds the writer's claim or nothing.
    fn settle(&self, with_writer: bool) {
        let counts = self.witness.counts;
        wait_until(
            PATIENCE,
            "the work that killed programs left behind",
            || {
                self.reap_holder();
                marked_by(self.scene).is_empty()
            },
        );
        let lines = |name: &str| {
            fs::read_to_string(self.scene.path().join(name))
                .unwrap_or_default()
                .lines()
                .count()
        };
        counts.claims.fetch_add(lines("claims"), SeqCst);
        counts.doubles.fetch_add(lines("doubles"), SeqCst);
        counts.beside.fetch_add(lines("beside"), SeqCst);
        if !with_writer {
            counts.lost.fetch_add(lines("lost"), SeqCst);
        }
        let next_check = || match self.troupe {
            Troupe::Naive => 0,
            _ => Ended::from(run(self.command("beadlock", &["check", "-q", ".beads"]))).code,
        };
        let mut code = next_check();
        let claims = self.witness.claims_of_writers();
        if let Some(record) = claims.first() {
            if self.scene.lock_text() == *record {
                fs::remove_file(self.scene.lock()).expect("remove the writer's lock");
            } else {
                self.witness.lost();
            }
            code = next_check();
        }
        let is_left = self
            .scene
            .names()
            .iter()
            .any(|name| name.starts_with(".exclusive-lock"));
        if self.troupe != Troupe::Naive && (code != 0 || is_left) {
            println!(
                "left behind: {:?}, {code}: {}",
                self.scene.names(),
                self.scene.lock_text()
            );
            counts.left.fetch_add(1, SeqCst);
        }
    }
}

/// The process in the lock.
fn holder(scene: &Scene) -> Option<Pid> {
    let record: serde_json::Value = serde_json::from_str(&scene.lock_text()).ok()?;
    let pid = i32::try_from(record["pid"].as_i64()?).ok()?;
    Some(Pid::from_raw(pid))
}
