//! How a row is played.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use beadlock_tests::{Ended, Scene, memory, part, run};

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
    /// What the state says to type; "" where there is nothing to type. `TOP` stands for the clone's path.
    pub next: &'static str,
    /// What is typed: `next` is run by `advised`, in a shell of its own. Not run where it is "".
    pub typed: &'static str,
    /// The state after what was typed, and another cycle.
    pub afterwards: &'static str,
    /// What is true then: it ends with 0.
    pub truth: &'static str,
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
# advised: what the last state said to type.
advised() { sh -c "$NEXT"; }
"#;

/// Plays the rows that this run tries, with each git, and names all that fail.
#[track_caller]
pub fn play(rows: &[Row]) {
    let mut failed = Vec::new();
    for git in gits() {
        for row in part(rows) {
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

/// The directories of the different versions of git that are here.
pub fn gits() -> Vec<PathBuf> {
    let mut versions = Vec::new();
    let mut dirs = Vec::new();
    for dir in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
        let asked = Command::new(dir.join("git")).arg("--version").output();
        if let Ok(answer) = asked
            && answer.status.success()
            && !versions.contains(&answer.stdout)
        {
            versions.push(answer.stdout);
            dirs.push(dir);
        }
    }
    assert!(!dirs.is_empty(), "there is no git");
    dirs
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

    /// Runs a script in the agent's clone; `next` is what [`WORDS`]' `advised` types.
    pub fn shell(&self, script: &str, next: &str) -> Ended {
        let mut command = self.scene.shell(&format!("set -eu\n{WORDS}\n{script}"));
        command
            .current_dir(self.top())
            .env("PATH", &self.path)
            .env("GIT_EDITOR", "true")
            .env("NEXT", next);
        run(command).into()
    }

    /// The agent, on its clone.
    pub fn agent(&self, args: &[&str]) -> Command {
        let mut command = self.scene.agent(&["--db"]);
        command.arg(self.top().join(".beads")).args(args);
        command.env("PATH", &self.path);
        command
    }

    /// One cycle. Returns what the log says of the state.
    pub fn cycle(&self) -> Said {
        let ended = Ended::from(run(self.agent(&["--once"])));
        let log = self.log();
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

    /// The agent's log.
    pub fn log(&self) -> String {
        let log = fs::read(self.top().join(".beads/daemon.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    fn play(&self, row: &Row) {
        self.done(row.set_up, "", "set up");
        let said = self.cycle();
        let what = || format!("{said:#?}\n{}", self.log());
        assert_eq!(said.state, row.state, "{}", what());
        let top = self.top().to_string_lossy().into_owned();
        for why in row.why {
            let why = why.replace("TOP", &top);
            assert!(said.why.contains(&why), "not said: {why:?}\n{}", what());
        }
        assert_eq!(said.next, row.next.replace("TOP", &top), "{}", what());
        if !row.typed.is_empty() {
            self.done(row.typed, &said.next, "typed");
        }
        let said = self.cycle();
        assert_eq!(said.state, row.afterwards, "{said:#?}\n{}", self.log());
        self.done(row.truth, "", "the truth");
    }

    fn done(&self, script: &str, next: &str, what: &str) {
        let ended = self.shell(script, next);
        assert_eq!(ended.code, 0, "{what}: {ended:?}\n{}", self.log());
    }
}
