//! The name and the words of the processes between the agent and what it runs, by which `ps` shows them and other
//! versions find them.

use beadlock_tests::tool;
use regex::Regex;

use super::git::{Repositories, in_here, shown_with_commits};
use super::shown;
use crate::book::Book;
use crate::setting::Setting;

/// From the process that runs this up to the agent: the name of each, and its words, one a line.
const ANCESTORS: &str = r#"
    pid=$$
    while pid=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$pid/status); do
        words=$(tr '\0' '\n' </proc/$pid/cmdline)
        case $words in *--once*) break ;; esac
        echo "comm: $(cat /proc/$pid/comm)"
        echo "$words"
    done
"#;

#[test]
fn between_the_agent_and_its_work() {
    let Some(_) = tool("git") else { return };
    let mut book = Book::open("agent/helper-argv");
    let setting = Setting::free().with("ancestors", ANCESTORS);
    setting
        .run("beadlock-agent --once --exec 'sh ancestors >words'")
        .expect(0, &[]);
    book.pin(
        "contract-exec",
        &shown(&described(&setting), &setting.known),
    );
    let setting = Setting::free().with("ancestors", ANCESTORS);
    let line = "beadlock-agent --once --cycle-timeout 90s --exec 'exec sh ancestors >words'";
    setting.run(line).expect(0, &[]);
    book.pin(
        "contract-exec-timeout",
        &shown(&described(&setting), &setting.known),
    );

    let setting = Repositories::make()
        .after("echo x >.beads/more.jsonl; hook .git/hooks/pre-commit 'sh ../ancestors >../words'");
    let setting = setting.with("ancestors", ANCESTORS);
    in_here(&setting, "beadlock-agent --once --log-file .beads/all.log").expect(0, &[]);
    book.pin(
        "contract-git",
        &shown_with_commits(&described(&setting), &setting),
    );
    book.close();
}

/// What the script has written, without the processes of git, the PID, and the number of the descriptor.
fn described(setting: &Setting) -> String {
    let words = setting.scene.read("words");
    let is_ours = |process: &&str| process.starts_with("beadlock");
    let ours = words.split("comm: ").filter(is_ours);
    let daemon = Regex::new(r"(__run-cycle\n)\d+\n").expect("an expression");
    let pipe = Regex::new(r"(__sync-git\n)\d+\n").expect("an expression");
    let ours = ours.map(|process| {
        let process = daemon.replace(process, "$1[PID]\n");
        let process = pipe.replace(&process, "$1[FD]\n");
        format!("comm: {}\n", process.trim_end())
    });
    ours.collect::<Vec<_>>().join("\n")
}
