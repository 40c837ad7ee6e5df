//! A remote, a clone with an agent and something to sync in it, and a clone of somebody else.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use beadlock_tests::stepped::walk::{Next, Step, Walked, walk};
use beadlock_tests::{Ended, OverAtLast, Scene, memory, run};
use nix::libc;

/// Whose steps are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    Sync,
    /// The sync's steps that change a name.
    Moves,
    Gits,
}

/// How a tool writes to the record file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Reads it, changes one line, writes it beside and renames that.
    Rewrite,
    /// Adds a line by a descriptor that it has open from the beginning.
    Append,
}

/// In every version of the file.
const FIRST: usize = 12;

const SET_UP: &str = r#"
git init -q --bare r.git; git init -q a; cd a; git remote add origin ../r.git; mkdir .beads src
printf 'daemon.log*\n.exclusive-lock*\n' >.beads/.gitignore; echo code >src/s; echo code >src/staged; echo one >src/moved; mkdir src/joined; echo 1 >src/joined/1
record() { printf '{"id":"%s","title":"%s","created_at":"2026-01-02T00:00:00Z","updated_at":"2026-01-0%sT00:00:00Z"}\n' "$1" "$2" "$3"; }
for n in 01 02 03 04 05 06 07 08 09 10 11 12; do record "bd-$n" old 2; done >.beads/issues.jsonl
git add -A; git commit -qm first; git push -qu origin main; git clone -q ../r.git ../b; git -C ../b remote set-url origin ../r.git
cd ../b; record bd-20 there 3 >>.beads/issues.jsonl; sed -i '/bd-03/s/"old"\(.*\)-02T00:00:00Z"}/"there"\1-03T00:00:00Z"}/' .beads/issues.jsonl
echo there >src/there; echo there >src/s; rm src/moved; mkdir src/moved; echo 1 >src/moved/one; rm -r src/joined; echo joined >src/joined
git add -A; git commit -qm there; git push -q
cd ../a; record bd-30 here 3 >>.beads/issues.jsonl; sed -i '/bd-04/s/"old"\(.*\)-02T00:00:00Z"}/"here"\1-03T00:00:00Z"}/' .beads/issues.jsonl
echo notes >.beads/notes.md; git add .beads/notes.md
"#;

/// The remote is where it was, and a person works outside of the database.
const STAGED: &str = "cd ../a; echo staged >src/staged; git add src/staged; echo more >>src/staged
git -C ../r.git update-ref refs/heads/main $(git rev-parse HEAD)";

/// What the sync finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Changes here and at the remote.
    Both,
    /// Changes here, and what a person has staged outside of the database: with that nothing is pulled.
    Staged,
}

pub struct Clones {
    found: Found,
    scene: Scene,
    /// The tool that has the record file open.
    open: Mutex<File>,
}

/// The clones as they are before each walk.
fn template(found: Found) -> &'static Path {
    static TEMPLATES: [OnceLock<Scene>; 2] = [const { OnceLock::new() }; 2];
    let more = if found == Found::Staged { STAGED } else { "" };
    TEMPLATES[usize::from(found == Found::Staged)]
        .get_or_init(|| {
            let scene = Scene::below(&memory());
            fs::remove_dir_all(scene.beads()).expect("the scene's own database is in the way");
            let config =
                "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n";
            fs::write(scene.path().join(".gitconfig"), config).expect("write .gitconfig");
            let ended = Ended::from(run(scene.shell(&format!("set -eu\n{SET_UP}\n{more}"))));
            assert_eq!(ended.code, 0, "{ended:?}");
            scene
        })
        .path()
}

impl Clones {
    pub fn new(found: Found) -> Self {
        let scene = Scene::below(&memory());
        fs::remove_dir_all(scene.beads()).expect("the scene's own database is in the way");
        let mut copy = Command::new("cp");
        copy.arg("-a")
            .arg(template(found).join("."))
            .arg(scene.path());
        assert!(run(copy).status.success());
        let path = scene.path().join("a/.beads/issues.jsonl");
        let open = File::options().append(true).open(path).expect("open");
        Self {
            found,
            scene,
            open: Mutex::new(open),
        }
    }

    pub fn record_file(&self) -> PathBuf {
        self.scene.path().join("a/.beads/issues.jsonl")
    }

    fn agent(&self) -> Command {
        let mut command = self
            .scene
            .shell("kill -STOP $$; exec \"$@\" >>../told 2>&1");
        command.current_dir(self.scene.path().join("a"));
        command.arg("sh").arg(beadlock_tests::binaries::agent());
        command.args(["--db", ".beads", "--action", "git", "--once"]);
        command.env("BEADLOCK_AGENT_FETCH_INTERVAL", "20ms");
        command
    }

    /// One cycle in which `next` is asked before each step of those that are watched.
    pub fn cycle_in_steps(
        &self,
        watched: Watched,
        mut next: impl FnMut(&Step) -> Next,
    ) -> Option<Walked> {
        let is_sync = |words: &[Vec<u8>]| words.get(1).is_some_and(|word| word == b"__sync-git");
        let is_git = |words: &[Vec<u8>]| words.first().is_some_and(|word| word.ends_with(b"git"));
        let (mut number, mut started) = (0, HashSet::new());
        let walked = walk(
            self.agent(),
            |words| match watched {
                Watched::Sync | Watched::Moves => is_sync(words),
                Watched::Gits => is_git(words),
            },
            |step| {
                // A program is looked for in each directory of PATH.
                let is_again = step.call == libc::SYS_execve && !started.insert(step.pid);
                if is_again || watched == Watched::Moves && !moves(step) {
                    return Next::GoOn;
                }
                let step = Step { number, ..*step };
                number += 1;
                next(&step)
            },
        )?;
        Some(Walked {
            steps: number,
            ..walked
        })
    }

    /// One cycle that nobody disturbs.
    fn cycle(&self) -> i32 {
        let mut command = self.scene.agent(&["--action", "git", "--once", "--db"]);
        command.arg(self.scene.path().join("a/.beads"));
        command.env("BEADLOCK_AGENT_FETCH_INTERVAL", "20ms");
        Ended::from(run(command)).code
    }

    /// At most three cycles; the last one has found nothing more to say.
    pub fn settle(&self, at: &str) {
        for _ in 0..3 {
            let code = self.cycle();
            if code == 0 && self.is_settled() {
                return;
            }
            self.remove_locks_of_git();
        }
        let status = self
            .shell("git --no-optional-locks status --porcelain; ls -R .git/beadlock*")
            .out;
        panic!(
            "{at}: not settled after three cycles:\n{status}\n{}",
            self.log()
        );
    }

    /// Nothing of the database is uncommitted, and the remote has the commit.
    fn is_settled(&self) -> bool {
        let look = "git --no-optional-locks status --porcelain -- .beads; git rev-list --count --left-right main...origin/main
            [ \"$(git rev-parse main)\" = \"$(git -C ../r.git rev-parse main)\" ]";
        let ended = self.shell(look);
        ended.code == 0 && ended.out == "0\t0\n"
    }

    /// What a person does who is told that a killed git has left them.
    pub fn remove_locks_of_git(&self) {
        self.shell("rm -f .git/HEAD.lock .git/packed-refs.lock .git/config.lock; find .git/refs ../r.git -name '*.lock' -delete");
    }

    pub fn write(&self, tool: Tool) {
        let path = self.record_file();
        match tool {
            Tool::Append => {
                let mut open = self.open.lock().expect("the file");
                writeln!(open, "{{\"id\":\"bd-40\",\"title\":\"tool\"}}").expect("append");
            }
            Tool::Rewrite => {
                // Where it is missing the reader has seen that.
                let text = fs::read_to_string(&path).unwrap_or_default();
                let text: String = text
                    .lines()
                    .map(|line| {
                        let line = match line.contains("\"bd-11\"") {
                            true => line
                                .replace("\"old\"", "\"tool\"")
                                .replace("-02T00:00:00Z\"}", "-04T00:00:00Z\"}"),
                            false => line.to_owned(),
                        };
                        line + "\n"
                    })
                    .collect();
                let beside = self.scene.path().join("beside");
                fs::write(&beside, text).expect("write");
                fs::rename(&beside, &path).expect("rename");
            }
        }
    }

    /// Does this while a reader looks at the record file all the time.
    pub fn watched<T>(&self, work: impl FnOnce() -> T) -> T {
        let (over, path) = (AtomicBool::new(false), self.record_file());
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let wrong = match fs::read(&path) {
                        Ok(text) => why_cut(&text),
                        Err(error) => Some(error.to_string()),
                    };
                    if wrong.is_some() {
                        return wrong;
                    }
                    std::thread::sleep(Duration::from_micros(300));
                }
                None
            });
            let result = {
                let _over = OverAtLast(&over);
                work()
            };
            let wrong = reader.join().expect("a reader");
            assert_eq!(wrong, None, "a reader has seen that:\n{}", self.log());
            result
        })
    }

    /// Every record is everywhere once, and the rest is as it should be.
    pub fn are_whole(&self, tools: &[Tool], at: &str) {
        let mut expected = vec![("bd-04", "here"), ("bd-12", "old"), ("bd-30", "here")];
        let mut count = FIRST + 1;
        if self.found == Found::Both {
            expected.extend([("bd-03", "there"), ("bd-20", "there")]);
            count += 1;
        }
        for tool in tools {
            expected.push(match tool {
                Tool::Rewrite => ("bd-11", "tool"),
                Tool::Append => ("bd-40", "tool"),
            });
        }
        count += usize::from(tools.contains(&Tool::Append));
        for place in [
            "cat .beads/issues.jsonl",
            "git show HEAD:.beads/issues.jsonl",
            "git -C ../r.git show main:.beads/issues.jsonl",
            "cd ../b; git pull -q --rebase; cat .beads/issues.jsonl",
        ] {
            let text = self.shell(place).out;
            assert_eq!(
                text.lines().count(),
                count,
                "{at}: {place}:\n{text}\n{}",
                self.log()
            );
            for (id, title) in &expected {
                let lines: Vec<_> = text
                    .lines()
                    .filter(|line| line.contains(&format!("\"id\":\"{id}\"")))
                    .collect();
                assert!(
                    lines.len() == 1 && lines[0].contains(&format!("\"title\":\"{title}\"")),
                    "{at}: {place}: {id} is {lines:?}, not {title}\n{text}\n{}",
                    self.log()
                );
            }
        }
        let look = "git diff --cached --name-status; git status --porcelain; git show :src/staged; git show HEAD:.beads/notes.md
            cat src/s; cat src/there src/moved/one src/moved src/joined src/joined/1; ls .git | grep -e beadlock -e '\\.lock$' | grep -vx -e beadlock -e 'beadlock.truth.*'
            ls -A .beads; find . -name '*.mine'";
        let seen = self.shell(look).out;
        let outside = match self.found {
            Found::Both => "code\nnotes\nthere\nthere\n1\njoined\n",
            Found::Staged => "M\tsrc/staged\nMM src/staged\nstaged\nnotes\ncode\none\n1\n",
        };
        let right = format!("{outside}.gitignore\ndaemon.log\nissues.jsonl\nnotes.md\n");
        assert_eq!(seen, right, "{at}:\n{}", self.log());
    }

    fn shell(&self, script: &str) -> Ended {
        let mut command = self.scene.shell(script);
        command.current_dir(self.scene.path().join("a"));
        run(command).into()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scene.path().join("a/.beads/daemon.log")).unwrap_or_default()
    }
}

/// A step that changes a name.
fn moves(step: &Step) -> bool {
    const CALLS: [libc::c_long; 3] = [libc::SYS_linkat, libc::SYS_renameat2, libc::SYS_unlinkat];
    CALLS.contains(&step.call) || is_old_move(step.call)
}

#[cfg(target_arch = "x86_64")]
fn is_old_move(call: libc::c_long) -> bool {
    [
        libc::SYS_link,
        libc::SYS_rename,
        libc::SYS_renameat,
        libc::SYS_rmdir,
    ]
    .contains(&call)
}

#[cfg(not(target_arch = "x86_64"))]
fn is_old_move(_: libc::c_long) -> bool {
    false
}

/// Why a text is not a whole record file of this clone.
fn why_cut(text: &[u8]) -> Option<String> {
    let lines = text.iter().filter(|byte| **byte == b'\n').count();
    if text.last() == Some(&b'\n') && lines >= FIRST {
        return None;
    }
    Some(format!(
        "{lines} lines: {:?}",
        String::from_utf8_lossy(text)
    ))
}
