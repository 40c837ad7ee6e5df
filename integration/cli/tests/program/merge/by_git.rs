//! `beadlock merge` as git's driver, set up by `beadlock setup git`, with each version of git that is here.

use std::path::Path;
use std::process::Command;

use beadlock_testkit::{Ended, Scene, gits, run};

use super::record;

const RECORDS: &str = ".beads/issues.jsonl";

/// A repository whose record file is merged by beadlock.
struct Repository {
    scene: Scene,
    path: String,
}

impl Repository {
    fn with(git: &Path) -> Self {
        let repository = Self::without_driver(git);
        repository
            .run("\"$BEADLOCK\" setup git >/dev/null")
            .expect(0, &[]);
        repository
    }

    fn without_driver(git: &Path) -> Self {
        let scene = crate::a_scene();
        let path = format!("{}:/usr/bin:/bin", git.display());
        let repository = Self { scene, path };
        let config = "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n\
            [advice]\n\tdetachedHead = false\n[core]\n\teditor = true\n";
        repository.scene.write(".gitconfig", config);
        repository
            .scene
            .write(".gitattributes", "/.beads/*.jsonl merge=beadlock\n");
        repository.records(&[record("bd-1", "old", 1), record("bd-2", "old", 1)]);
        repository.run("git init -q && git add .beads .gitattributes && git commit -qm base && git branch side").expect(0, &[]);
        repository
    }

    fn records(&self, records: &[String]) {
        self.scene.write(RECORDS, records.concat());
    }

    fn run(&self, script: &str) -> Ended {
        run(self.command(script)).into()
    }

    fn command(&self, script: &str) -> Command {
        let mut command = self.scene.shell(script);
        command
            .env("HOME", self.scene.path())
            .env("PATH", &self.path);
        command
    }

    /// Commits these records on this branch.
    #[track_caller]
    fn commit(&self, branch: &str, records: &[String]) {
        self.run(&format!("git checkout -q {branch}"))
            .expect(0, &[]);
        self.commit_here(records);
    }

    #[track_caller]
    fn commit_here(&self, records: &[String]) {
        self.records(records);
        self.run("git commit -qam records").expect(0, &[]);
    }

    /// One side changed bd-1 and added bd-3, the other changed bd-2 and added bd-4, at the same places of the file.
    fn diverged(&self) {
        self.commit(
            "main",
            &[
                record("bd-1", "left", 2),
                record("bd-2", "old", 1),
                record("bd-3", "new", 2),
            ],
        );
        self.commit(
            "side",
            &[
                record("bd-1", "old", 1),
                record("bd-2", "right", 2),
                record("bd-4", "new", 2),
            ],
        );
    }

    #[track_caller]
    fn holds(&self, records: &[String]) {
        assert_eq!(self.scene.read(RECORDS), records.concat());
        let status = self.run("git status --porcelain --untracked-files=no").out;
        assert!(!status.contains("UU"), "{status}");
    }
}

fn all() -> [String; 4] {
    [
        record("bd-1", "left", 2),
        record("bd-2", "right", 2),
        record("bd-3", "new", 2),
        record("bd-4", "new", 2),
    ]
}

#[test]
fn merge_rebase_cherry_pick_and_stash_keep_every_record() {
    for git in gits() {
        for script in [
            "git checkout -q main && git merge -q side",
            "git checkout -q side && git merge -q main",
            "git checkout -q side && git rebase -q main",
            "git checkout -q main && git rebase -q side",
            "git checkout -q main && git cherry-pick side >out",
            "git checkout -q main && git checkout -q -b tip side && git reset -q --soft HEAD~ && git stash -q && \
             git checkout -q main && git stash pop -q",
            "git checkout -q side && git revert --no-edit HEAD >out && git revert --no-edit HEAD >out && git merge -q main",
        ] {
            let repository = Repository::with(&git);
            repository.diverged();
            repository.run(script).expect(0, &[]);
            repository.holds(&all());
        }
    }
}

#[test]
fn a_conflict_has_the_labels_of_git() {
    for git in gits() {
        let repository = Repository::with(&git);
        let (left, right) = (record("bd-1", "left", 2), record("bd-1", "right", 2));
        repository.commit("main", std::slice::from_ref(&left));
        repository.commit("side", &[right.clone(), record("bd-2", "old", 1)]);
        let driver = repository.run("git config merge.beadlock.driver").out;
        let labels = |ours, theirs| match driver.contains("%X") {
            true => (ours, theirs),
            false => ("ours", "theirs"),
        };
        let ended = repository.run("git checkout -q main && git merge side");
        let said = ["merge .beads/issues.jsonl: bd-1: both sides changed title"];
        assert!(ended.out.contains("CONFLICT (content)"), "{ended:?}");
        ended.expect(1, &said);
        let (ours, theirs) = labels("HEAD", "side");
        let conflict = format!("<<<<<<< {ours}\n{left}=======\n{right}>>>>>>> {theirs}\n");
        assert_eq!(repository.scene.read(RECORDS), conflict);
        // The conflict is known to git, and a choice ends it.
        assert!(
            repository
                .run("git status --porcelain")
                .out
                .contains(&format!("UU {RECORDS}"))
        );
        repository.records(std::slice::from_ref(&left));
        repository.run("git commit -qam merged").expect(0, &[]);
        repository.holds(std::slice::from_ref(&left));
    }
}

/// `git merge-tree` prints the tree that it has made, and programs read that.
#[test]
fn both_ways_round_make_one_tree_and_nothing_is_on_stdout() {
    for git in gits() {
        let repository = Repository::with(&git);
        repository.diverged();
        let tree = |sides: &str| {
            let mut command = repository.command(&format!("git merge-tree --write-tree {sides}"));
            command.env("BEADLOCK_JSON", "1");
            Ended::from(run(command)).expect(0, &[]).out
        };
        assert_eq!(tree("main side"), tree("side main"));
        assert_eq!(tree("main side").lines().count(), 1);
    }
}

/// The two merge bases of the last merge are in conflict, and each branch has decided in its own way.
#[test]
fn criss_cross_merges_lose_no_record() {
    for git in gits() {
        for (left, right) in [
            (
                "{\"id\":\"bd-1\",\"t\":\"left\"}\n".to_owned(),
                "{\"id\":\"bd-1\",\"t\":\"right\"}\n".to_owned(),
            ),
            (record("bd-1", "left", 2), record("bd-1", "right", 2)),
        ] {
            let repository = Repository::with(&git);
            repository.commit("main", &[left.clone(), record("bd-2", "old", 1)]);
            repository.commit("side", &[right.clone(), record("bd-2", "old", 1)]);
            repository
                .run("git branch left main && git branch right side")
                .expect(0, &[]);
            for (branch, other, decided) in [("main", "right", &left), ("side", "left", &right)] {
                repository
                    .run(&format!("git checkout -q {branch} && git merge -q {other}"))
                    .expect(1, &["bd-1"]);
                repository.commit_here(&[decided.clone(), record("bd-2", "old", 1)]);
            }
            let ended = repository.run("git checkout -q main && git merge -q side");
            let records = repository.scene.read(RECORDS);
            let ids = records.matches("bd-1").count();
            assert!(ids == ended.code as usize + 1, "{records} {ended:?}");
            assert!(
                ended.code == 0 || records.contains(&left) && records.contains(&right),
                "{records}"
            );
        }
    }
}

/// A program that is not there, or that does not know the command, must not look like a conflict with ours in the file:
/// that would be committed, and theirs lost. The merge fails; an old git can only have a conflict, with both in the file.
#[test]
fn a_driver_that_cannot_merge_loses_no_side() {
    for git in gits() {
        for program in ["/nowhere/beadlock", "exit 2", "exit 126", "kill -9 $$"] {
            let repository = Repository::with(&git);
            repository.diverged();
            let driver = repository.run("git config merge.beadlock.driver").out;
            let (_, rest) = driver.trim().split_once(" merge ").unwrap();
            let broken = match program.starts_with('/') {
                true => format!("{program} merge {rest}"),
                false => format!("sh -c '{program}' merge {rest}"),
            };
            let mut command =
                repository.command("git config --global merge.beadlock.driver \"$BROKEN\"");
            command.env("BROKEN", broken);
            Ended::from(run(command)).expect(0, &[]);
            let ended = repository.run("git checkout -q main && git merge side");
            assert_ne!(ended.code, 0, "{ended:?}");
            let records = repository.scene.read(RECORDS);
            let unmerged = repository.run("git ls-files --unmerged").out;
            if driver.contains("merge-file") {
                assert!(ended.out.contains("CONFLICT"), "{program}: {ended:?}");
                let both = ["bd-3", "bd-4", "left", "right"];
                assert!(
                    both.iter().all(|word| records.contains(word)),
                    "{program}: {records}"
                );
            } else {
                assert!(
                    !ended.out.contains("CONFLICT") && unmerged.is_empty(),
                    "{program}: {ended:?}"
                );
            }
        }
    }
}

/// A clone without the setup, with the attribute: git's ordinary merge of text.
#[test]
fn the_attribute_alone_does_no_harm() {
    for git in gits() {
        let repository = Repository::without_driver(&git);
        repository.diverged();
        let ended = repository
            .run("git checkout -q main && git merge side")
            .expect(1, &[]);
        assert!(ended.out.contains("CONFLICT (content)"), "{ended:?}");
        assert!(repository.scene.read(RECORDS).contains("<<<<<<< HEAD\n"));
    }
}
