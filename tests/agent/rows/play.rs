//! How a row is played.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use beadlock_tests::gits;
use beadlock_tests::{Ended, Scene, memory, part, run, skip};

/// One situation. Its scripts run with `sh -eu` in the agent's clone `a`; the remote is `../r.git`, another clone is
/// `../b`, and [`WORDS`] has what they may call.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub name: &'static str,
    /// What has happened to the clone before the cycle.
    pub set_up: &'static str,
    /// The state after the cycle.
    pub state: &'static str,
    /// Each is part of what the state's line says.
    pub why: &'static [&'static str],
    /// What the state says to type; "" where there is nothing to type. `TOP` stands for the clone's path, and `*` for
    /// the rest of a word that differs each time.
    pub next: &'static str,
    /// What is typed: `next` is run by `advised`, in a shell of its own. Not run where it is "".
    pub typed: &'static str,
    /// The state after what was typed, and another cycle.
    pub afterwards: &'static str,
    /// What is true then: it ends with 0.
    pub truth: &'static str,
    /// The database, below the clone.
    pub db: &'static str,
    /// Where it is after what was typed; "" where it stays.
    pub moved: &'static str,
    /// More options of the agent.
    pub options: &'static [&'static str],
    /// The agent runs as nobody, to whom all of the scene belongs before `set_up`. Played by root alone.
    pub is_mortal: bool,
}

impl Row {
    /// A row in which nothing has to be typed, and everything is at the place after the first cycle.
    pub const SYNCED: Self = Self {
        name: "",
        set_up: "",
        state: "synced",
        why: &[],
        next: "",
        typed: "",
        afterwards: "synced",
        truth: "at_place",
        db: ".beads",
        moved: "",
        options: &[],
        is_mortal: false,
    };

    /// A row whose advice is typed as it stands, after which everything is at the place.
    pub const TYPED: Self = Self {
        state: "failed",
        typed: "advised",
        ..Self::SYNCED
    };
}

/// What the scripts of a row may call.
const WORDS: &str = r#"
db=.beads/issues.jsonl
# append ID [FILE]: one record more.
append() { printf '{"id":"%s","title":"%s","created_at":"2026-01-02T00:00:00Z","updated_at":"2026-01-02T00:00:00Z"}\n' "$1" "$1" >>"${2:-$db}"; }
# place PATH: the file at the place.
place() { git -C ../r.git show "main:$1"; }
# at_place [PATH]…: these files, or the records, are byte for byte at the place, and HEAD is there.
at_place() {
    [ $# -gt 0 ] || set -- "$db"
    for path; do place "$path" >../placed && cmp ../placed "$path" || return 1; done
    [ "$(git -C ../r.git rev-parse main)" = "$(git rev-parse HEAD)" ]
}
# there SCRIPT: in the other clone, up to date; what it changes is committed and pushed.
there() { (cd ../b && git pull -q --rebase && eval "$1" && git add -A && git commit -qm there && git push -q); }
# both ID…: each record is once in the file and at the place.
both() { for id; do [ "$(grep -c "\"id\":\"$id\"" "$db")" = 1 ] && [ "$(place "$db" | grep -c "\"id\":\"$id\"")" = 1 ] || return 1; done; }
# has REPOSITORY REF [PATH]: the place has HEAD there, and this file, or the records, byte for byte.
has() { git -C "$1" show "$2:${3:-$db}" >../placed && cmp ../placed "${3:-$db}" && [ "$(git -C "$1" rev-parse "$2")" = "$(git rev-parse HEAD)" ]; }
# fork: another remote, which is empty.
fork() { git init -q --bare ../fork.git; git remote add fork ../fork.git; }
# two: pushes go to r.git and to p.git, which are the same.
two() { git clone -q --bare ../r.git ../p.git; for url in r p; do git remote set-url --add --push origin "$(cd .. && pwd)/$url.git"; done; }
# hook DIR NAME SCRIPT: this hook, in the hooks of a repository.
hook() { mkdir -p "$1/hooks"; printf '#!/bin/sh\n%s\n' "$3" >"$1/hooks/$2"; chmod +x "$1/hooks/$2"; }
# advised: what the last state said to type.
advised() { sh -c "$NEXT"; }
"#;

/// What is set up for all of the machine, such as git-lfs, is not there.
const OWN: [(&str, &str); 1] = [("GIT_CONFIG_NOSYSTEM", "1")];

/// Plays the rows that this run tries, and names all that fail. All rows (`ROWS_STRIDE=1`) are played with each git.
#[track_caller]
pub fn play(rows: &[Row]) {
    let mut failed = Vec::new();
    let mut gits = gits();
    if std::env::var_os("ROWS_STRIDE").is_none_or(|stride| stride != "1") {
        gits.truncate(1);
    }
    for git in gits {
        for row in part(rows) {
            if row.is_mortal && !skip::root() {
                continue;
            }
            let tried = std::panic::catch_unwind(|| Played::begin(&git).play(row));
            if let Err(why) = tried {
                let why = why.downcast_ref::<String>().cloned();
                let why = why.unwrap_or_else(|| "it panicked".to_owned());
                failed.push(format!("== {} ({})\n{why}", row.name, git.display()));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} rows failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Whether a command is this one, in which `*` stands for a word that differs each time, such as a commit.
fn is_like(command: &str, pattern: &str) -> bool {
    let (given, wanted) = (command.split(' '), pattern.split(' '));
    let is_equal = |(word, wanted): (&str, &str)| match wanted.split_once('*') {
        Some((front, rest)) => word.starts_with(front) && word.ends_with(rest),
        None => word == wanted,
    };
    given.clone().count() == wanted.clone().count() && given.zip(wanted).all(is_equal)
}

/// The clones of one row.
pub struct Played {
    pub scene: Scene,
    path: String,
}

/// The last `State: ` line of the log, in its parts.
#[derive(Debug)]
pub struct Said {
    pub state: String,
    pub why: String,
    pub next: String,
}

impl Played {
    /// A remote, the agent's clone and another one, with 12 records.
    pub fn begin(git: &Path) -> Self {
        let scene = Scene::below(&memory());
        fs::remove_dir_all(scene.beads()).expect("the scene's own database is in the way");
        let path = format!(
            "{}:{}",
            git.display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let config = "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n\
            [advice]\n\tdetachedHead = false\n[protocol \"file\"]\n\tallow = always\n";
        fs::write(scene.path().join(".gitconfig"), config).expect("write .gitconfig");
        fs::create_dir(scene.path().join("a")).expect("create a");
        let played = Self { scene, path };
        let began = played.shell(
            r#"
            git init -q --bare ../r.git; git init -q; git remote add origin "$(cd .. && pwd)/r.git"
            mkdir .beads src; echo code >src/s; printf 'daemon.log*\n.exclusive-lock*\n' >.beads/.gitignore
            for n in 01 02 03 04 05 06 07 08 09 10 11 12; do append "bd-$n"; done
            git add -A; git commit -qm first; git push -qu origin main; git clone -q ../r.git ../b
            "#,
            "",
        );
        assert_eq!(began.code, 0, "{began:?}");
        played
    }

    /// The agent's clone.
    pub fn top(&self) -> PathBuf {
        self.scene.path().join("a")
    }

    /// Where its programs are looked for.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// A script with the [`WORDS`] that it may call.
    pub fn script(&self, script: &str) -> String {
        format!("{WORDS}\n{script}")
    }

    /// Runs a script in the agent's clone; `next` is what [`WORDS`]' `advised` types.
    pub fn shell(&self, script: &str, next: &str) -> Ended {
        let mut command = self.scene.shell(&format!("set -eu\n{WORDS}\n{script}"));
        command
            .current_dir(self.top())
            .env("PATH", &self.path)
            .envs(OWN)
            .env("GIT_EDITOR", "true")
            .env("NEXT", next);
        run(command).into()
    }

    /// The agent, on its clone.
    pub fn agent(&self, args: &[&str]) -> Command {
        let mut command = self.scene.agent(&["--db"]);
        command.arg(self.top().join(".beads")).args(args);
        command.env("PATH", &self.path).envs(OWN);
        command
    }

    /// One cycle of the clone's database. Returns what the log says of the state.
    pub fn cycle(&self) -> Said {
        self.cycle_in(&self.top().join(".beads"), &Row::SYNCED)
    }

    fn cycle_in(&self, database: &Path, row: &Row) -> Said {
        let mut command = self.scene.agent(&["--once"]);
        command.args(row.options).arg("--db").arg(database);
        if row.is_mortal {
            let program = self.scene.open_to_others().join("beadlock-agent");
            let mut mortal = self.scene.command("setpriv");
            let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
            mortal.args(nobody).arg(program).args(command.get_args());
            command = mortal;
        }
        command.env("PATH", &self.path).envs(OWN);
        let ended = Ended::from(run(command));
        let log = Self::log_of(database);
        let line = log.lines().rev().find_map(|line| {
            let (_, said) = line.split_once("] State: ")?;
            Some(said.to_owned())
        });
        let Some(line) = line else {
            panic!("no state in the log: {log}\n{ended:?}");
        };
        let (state, rest) = line.split_once(" since ").unwrap_or((&line, ""));
        let rest = rest.get(19..).unwrap_or_default();
        let rest = rest.strip_prefix(": ").unwrap_or(rest);
        let (why, next) = rest.split_once("; type: ").unwrap_or((rest, ""));
        let [state, why, next] = [state, why, next].map(str::to_owned);
        Said { state, why, next }
    }

    /// One cycle of another database, by its path from the scene. Returns its log.
    pub fn cycle_of(&self, dir: &str) -> String {
        let dir = self.scene.path().join(dir);
        let mut command = self.scene.agent(&["--once", "--allow-worktree", "--db"]);
        command.arg(&dir).env("PATH", &self.path).envs(OWN);
        let ended = Ended::from(run(command));
        let log = fs::read(dir.join("daemon.log")).unwrap_or_default();
        format!("{}\n{ended:?}", String::from_utf8_lossy(&log))
    }

    /// The agent's log.
    pub fn log(&self) -> String {
        Self::log_of(&self.top().join(".beads"))
    }

    fn log_of(database: &Path) -> String {
        let log = fs::read(database.join("daemon.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn play(&self, row: &Row) {
        if row.is_mortal {
            fs::create_dir_all(self.scene.beads()).expect("create .beads");
            self.done("chown -R 65534:65534 ..", "", "given away");
        }
        self.done(row.set_up, "", "set up");
        let mut database = self.top().join(row.db);
        let said = self.cycle_in(&database, row);
        let what = || format!("{said:#?}\n{}", Self::log_of(&self.top().join(row.db)));
        assert_eq!(said.state, row.state, "{}", what());
        let top = self.top().to_string_lossy().into_owned();
        for why in row.why {
            let why = why.replace("TOP", &top);
            assert!(said.why.contains(&why), "not said: {why:?}\n{}", what());
        }
        let next = said.next.replace(&top, "TOP");
        assert!(
            is_like(&next, row.next),
            "{next:?} is not {:?}\n{}",
            row.next,
            what()
        );
        if !row.typed.is_empty() {
            self.done(row.typed, &said.next, "typed");
        }
        if !row.moved.is_empty() {
            database = self.top().join(row.moved);
        }
        let said = self.cycle_in(&database, row);
        let log = Self::log_of(&database);
        assert_eq!(said.state, row.afterwards, "{said:#?}\n{log}");
        self.done(row.truth, "", "the truth");
    }

    fn done(&self, script: &str, next: &str, what: &str) {
        let ended = self.shell(script, next);
        assert_eq!(ended.code, 0, "{what}: {ended:?}\n{}", self.log());
    }
}
