//! The claimers, by every kind of claim, and how each is killed in the middle of it.

use std::fs;
use std::process::Command;
use std::time::Duration;

use beadlock_tests::seed::Recipe;
use beadlock_tests::{Dice, lock_text, this_host};

use super::actor::{Actor, children, kill_tree, stop, wait_for_orphan};
use super::site::{Database, Site};

/// How a claim is made.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// `beadlock hold`.
    Hold,
    /// Two of them at once.
    TwoHolds,
    /// `beadlock acquire` and `release`.
    Acquire,
    /// The shell recipe of the protocol's own document, or ours where that is absent.
    Recipe,
    /// A lock written in place, over whatever stale one is there.
    InPlace,
    /// Bytes that mean nothing; somebody removes them later.
    Malformed,
}

/// One claim, or two at once, in a database that no other round is in.
pub struct Round<'a> {
    pub site: &'a Site,
    pub database: &'a Database,
    /// How long the claim's work takes, in milliseconds.
    pub millis: u64,
    /// Whether somebody is killed.
    pub is_killed: bool,
}

const MALFORMED: [&str; 5] = [
    "",
    "{",
    "{\"holder\":\"half\",\"pid\":12",
    "not a lock\n",
    "{\"holder\":\"\",\"pid\":0,\"hostname\":\"\"}",
];

impl Round<'_> {
    pub fn play(&self, kind: Kind, recipe: &Recipe, dice: &mut Dice) {
        match kind {
            Kind::Hold => self.hold(1, dice),
            Kind::TwoHolds => self.hold(2, dice),
            Kind::Acquire => self.acquire(dice),
            Kind::Recipe => self.recipe(recipe, dice),
            Kind::InPlace => self.in_place(dice),
            Kind::Malformed => self.malformed(dice),
        }
    }

    fn beadlock(&self, words: &[&str]) -> Command {
        let mut command = self.site.scene.beadlock(words);
        command.current_dir(self.database.top()).stderr(self.talk());
        command
    }

    fn talk(&self) -> fs::File {
        let path = self.site.ground().join("talk");
        fs::File::options()
            .append(true)
            .create(true)
            .open(path)
            .expect("open the talk")
    }

    /// A witness who waits for a line before it enters, and stays until its stdin ends.
    fn witness(&self, role: &str, drains: bool) -> Actor {
        let mut command = self
            .site
            .command(&self.site.witness(role, self.database, self.millis));
        command
            .arg("--after-go")
            .args(drains.then_some("--drain"))
            .stderr(self.talk());
        Actor::start(command)
    }

    /// Waits for a moment in a claim's life that nobody chose.
    fn until_some_moment(&self, dice: &mut Dice) {
        std::thread::sleep(Duration::from_millis(dice.below(self.millis + 60)));
    }

    fn expect_success(&self, what: &str, actor: &mut Actor) {
        let status = actor.wait();
        if !status.success() {
            self.site.wrong(format!(
                "{what} in {} ended with {status}",
                self.database.name
            ));
        }
    }

    fn hold(&self, count: usize, dice: &mut Dice) {
        let words = self.site.witness("hold", self.database, self.millis);
        let mut holds: Vec<_> = (0..count)
            .map(|_| {
                let mut hold = self.beadlock(&["hold", "-q", "--"]);
                hold.args(&words);
                Actor::start(hold)
            })
            .collect();
        if self.is_killed {
            self.until_some_moment(dice);
            let mut killed = holds.swap_remove(0);
            match dice.below(3) {
                // Its command works on, and the claim with it.
                0 => {
                    stop(killed.pid());
                    let left = children(killed.pid());
                    killed.kill();
                    drop(killed);
                    left.iter().for_each(wait_for_orphan);
                    self.site.count("kills: hold, alone");
                }
                1 => {
                    children(killed.pid())
                        .iter()
                        .for_each(|child| kill_tree(child.pid));
                    killed.wait();
                    self.site.count("kills: hold, its command");
                }
                _ => {
                    kill_tree(killed.pid());
                    self.site.count("kills: hold, both");
                }
            }
        }
        for hold in &mut holds {
            self.expect_success("hold", hold);
        }
    }

    fn acquire(&self, dice: &mut Dice) {
        let mut witness = self.witness("acquire", false);
        let mut acquire =
            Actor::start(self.beadlock(&["acquire", "-q", "--for", &witness.pid().to_string()]));
        let moment = if self.is_killed { dice.below(3) } else { 3 };
        if moment == 0 {
            std::thread::sleep(Duration::from_millis(dice.below(25)));
            acquire.kill();
            acquire.wait();
            self.site.count("kills: acquire, alone");
            return;
        }
        let id = (0..3)
            .map(|_| acquire.line())
            .find_map(|line| Some(line.strip_prefix("export BEADLOCK_ID=")?.to_owned()));
        self.expect_success("acquire", &mut acquire);
        let Some(id) = id else {
            return self.site.wrong("acquire said no id");
        };
        let id = id.trim_matches('\'');
        witness.go();
        if moment == 1 {
            self.until_some_moment(dice);
            self.site.count("kills: acquire, its process");
            return;
        }
        let _ = witness.line();
        if moment == 2 {
            let release = Actor::start(self.beadlock(&["release", "-q", "--id", id]));
            std::thread::sleep(Duration::from_millis(dice.below(15)));
            release.kill();
            self.site.count("kills: acquire, its release");
        }
        self.expect_success(
            "release",
            &mut Actor::start(self.beadlock(&["release", "-q", "--id", id, "--missing-ok"])),
        );
    }

    fn recipe(&self, recipe: &Recipe, dice: &mut Dice) {
        let words = self.site.witness("recipe", self.database, self.millis);
        let words: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
        let mut bash = self.site.scene.command("bash");
        bash.args([
            "-c",
            &recipe.around(&format!("{} --drain", words.join(" "))),
        ]);
        bash.current_dir(self.database.top()).stderr(self.talk());
        let mut bash = Actor::start(bash);
        if self.is_killed {
            self.until_some_moment(dice);
            kill_tree(bash.pid());
            self.site.count("kills: recipe");
            drop(bash);
            self.remove_what_means_nothing();
        } else {
            self.expect_success("the recipe", &mut bash);
        }
    }

    /// A shell that is killed while it writes leaves half a lock, which stays until somebody removes it.
    fn remove_what_means_nothing(&self) {
        let text = fs::read(self.database.lock()).unwrap_or_default();
        let record: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        if record["hostname"].as_str() != Some(&this_host())
            || record["started_at"].as_str() == Some("")
        {
            std::thread::sleep(Duration::from_millis(200));
            if fs::remove_file(self.database.lock()).is_ok() {
                self.site.count("half a lock of a killed shell");
            }
        }
    }

    fn in_place(&self, dice: &mut Dice) {
        let mut witness = self.witness("in-place", true);
        let record = lock_text("in place", witness.pid().into(), &this_host());
        if self.database.lock().exists() {
            self.site.count("written over a stale lock");
        }
        fs::write(self.database.lock(), &record).expect("write a lock in place");
        witness.go();
        if self.is_killed {
            self.until_some_moment(dice);
            self.site.count("kills: in-place");
            return;
        }
        let _ = witness.line();
        self.remove_own(&record);
        witness.let_go();
        self.expect_success("a witness", &mut witness);
    }

    fn malformed(&self, dice: &mut Dice) {
        let text = dice.one_of(&MALFORMED);
        let mut witness = self.witness("malformed", true);
        fs::write(self.database.lock(), text).expect("write a lock that means nothing");
        witness.go();
        let _ = witness.line();
        self.remove_own(text);
        witness.let_go();
        self.expect_success("a witness", &mut witness);
    }

    /// Removes a lock that was written in place; it must be what was written.
    fn remove_own(&self, written: &str) {
        let found = fs::read_to_string(self.database.lock());
        if found.as_ref().is_ok_and(|found| found == written) {
            fs::remove_file(self.database.lock()).expect("remove the lock");
        } else {
            self.site.count("claims in place lost");
            self.site.wrong(format!(
                "a claim in place in {} became {found:?}",
                self.database.name
            ));
        }
    }
}
