//! What the doctor says of how git merges record files, and what is true after its advice was typed.

use std::process::Command;

use beadlock_testkit::{Ended, Scene, gits, run};
use serde_json::Value;

use super::trial;

/// A repository whose user has a home, with this git.
struct Repository {
    scene: Scene,
    path: String,
}

impl Repository {
    fn command(&self, script: &str) -> Command {
        let mut command = self.scene.shell(script);
        command.env("HOME", self.scene.path());
        command.env("PATH", &self.path);
        command
    }

    #[track_caller]
    fn typed(&self, script: &str) {
        Ended::from(run(self.command(script))).expect(0, &[]);
    }

    fn row(&self, name: &str) -> Value {
        let doctor = self.command("exec \"$BEADLOCK\" doctor --json");
        trial(&Ended::from(run(doctor)).json(), name)
    }

    /// Whether it is there, and what was seen.
    fn seen(&self, name: &str) -> (Option<bool>, String) {
        let row = self.row(name);
        (
            row["ok"].as_bool(),
            row["detail"].as_str().unwrap().to_owned(),
        )
    }

    /// Types what the row says to type. A scene's program is not in PATH.
    #[track_caller]
    fn type_its_advice(&self, name: &str) {
        let row = self.row(name);
        let advice = row["next"]
            .as_str()
            .unwrap_or_else(|| panic!("no advice: {row}"));
        self.typed(&advice.replace("beadlock setup", "\"$BEADLOCK\" setup"));
    }
}

#[test]
fn the_attribute_and_the_driver_of_record_files_have_rows_whose_advice_helps() {
    for git in gits() {
        let repository = Repository {
            scene: super::scene(),
            path: format!("{}:/usr/bin:/bin", git.display()),
        };
        let no_tree = (Some(true), "it is not in a git work tree".to_owned());
        assert_eq!(repository.seen("merge_attribute"), no_tree);
        assert_eq!(repository.seen("merge_driver"), no_tree);
        repository.typed("git init -q");
        let detail = |name: &str, is_there, words: &str| {
            let (ok, detail) = repository.seen(name);
            assert!(
                ok == Some(is_there) && detail.contains(words),
                "{name}: {ok:?} {detail}"
            );
        };
        detail(
            "merge_attribute",
            true,
            "issues.jsonl has no merge attribute",
        );
        detail("merge_driver", true, "none is set up");
        repository.typed("echo '*.jsonl merge=union' >.gitattributes");
        detail("merge_attribute", false, "issues.jsonl has merge=union");
        repository.type_its_advice("merge_attribute");
        detail("merge_attribute", true, "issues.jsonl has merge=beadlock");
        detail("merge_driver", false, "merge.beadlock.driver is not set");
        repository.type_its_advice("merge_driver");
        detail("merge_driver", true, "merge.beadlock starts /");
        // Whoever has set it: the user, or this repository.
        for scope in ["--global", "--local"] {
            repository.typed(&format!(
                "git config {scope} merge.beadlock.driver '/nowhere/beadlock merge'"
            ));
            detail(
                "merge_driver",
                false,
                "starts /nowhere/beadlock, which is not there",
            );
            repository.type_its_advice("merge_driver");
            detail("merge_driver", true, "merge.beadlock starts /");
        }
        repository.typed("git config merge.default beadlock");
        detail("merge_attribute", false, "source code too");
    }
}
