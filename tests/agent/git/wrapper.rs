//! What happens in the middle of a sync: a `git` in front of git that runs a script at one moment, and a filter that
//! does so while the working tree is written.

use std::fs;
use std::process::Command;

use beadlock_tests::{Ended, run};

use crate::bench::{Bench, Told, script, write};

/// The script's words come to a file beside it. It has none of the variables by which a sync leads its git to another
/// index.
const WRAPPER: &str = "export PATH='PATH_OF_ALL'
case \" $* \" in *' WORDS '*)
    echo seen >>'BIN/seen'
    if [ \"$(wc -l <'BIN/seen')\" -eq NTH ]; then
        (
            unset $(git rev-parse --local-env-vars) GIT_OPTIONAL_LOCKS
            cd 'HERE' && . 'BIN/script'
        ) </dev/null >>'BIN/said' 2>&1
    fi ;;
esac
exec git \"$@\"";

/// Ends a whole sync at once, as a machine without power does; and no git of a person.
pub const KILL_ALL: &str = "[ -z \"$BEADLOCK_CYCLE\" ] || kill -9 0";

/// The git of a pull after which its files are in the working tree, and neither the index nor the branch have moved.
pub const AFTER_THE_FILES: (&str, usize) = ("update-index -q --refresh", 2);

impl Bench {
    /// One cycle; just before its first git with these words starts, a person runs a script here.
    #[track_caller]
    pub fn once_before(&self, words: &str, then: &str) -> Told {
        self.once_before_nth(words, 1, then)
    }

    /// The same before the `nth` of them.
    ///
    /// # Panics
    /// When that moment has not come.
    #[track_caller]
    pub fn once_before_nth(&self, words: &str, nth: usize, then: &str) -> Told {
        let bin = self.path().join("bin");
        let _ = fs::remove_dir_all(&bin);
        let path = std::env::var("PATH").expect("PATH");
        let wrapper = WRAPPER
            .replace("PATH_OF_ALL", &path)
            .replace("WORDS", words);
        let wrapper = wrapper
            .replace("BIN", &bin.to_string_lossy())
            .replace("NTH", &nth.to_string());
        script(
            &bin.join("git"),
            &wrapper.replace("HERE", &self.here().to_string_lossy()),
        );
        write(&bin.join("script"), then);
        let mut agent = self.agent(&["--once"]);
        agent.env("PATH", format!("{}:{path}", bin.display()));
        let told = self.once_as(agent);
        let seen = fs::read_to_string(bin.join("seen"))
            .unwrap_or_default()
            .lines()
            .count();
        assert!(
            seen >= nth,
            "git {words} was called {seen} times, not {nth}:\n{}",
            told.log
        );
        told
    }

    /// One cycle of an agent that was started in a way of its own.
    #[track_caller]
    pub fn once_as(&self, agent: Command) -> Told {
        let before = self.log().len();
        let ended = Ended::from(run(agent));
        self.told_since(before, ended)
    }

    /// Runs a script just before git writes a file for the working tree here, in a directory of ours, `times` times; how often it was is the
    /// `called` of "smudge".
    pub fn before_file(&self, path: &str, times: usize, then: &str) {
        let count = self.path().join("smudge.called");
        let _ = fs::remove_file(&count);
        let then = format!(
            "[ \"$(wc -l <'{}')\" -le {times} ] && {{ {then}; }}\nexec cat",
            count.display()
        );
        let smudge = self.trap("smudge", &then);
        self.write(".git/info/attributes", format!("{path} filter=trap\n"));
        self.git(self.here(), &["config", "filter.trap.smudge", &smudge]);
        self.git(self.here(), &["config", "filter.trap.required", "true"]);
        self.git(self.here(), &["config", "filter.trap.clean", "cat"]);
    }

    /// Every file outside is as in the last commit, by what it has in it and not by its times; nothing of a sync is
    /// left in the git directory. What a `hold` leaves there stays: when it last said that git does not ignore the
    /// lock. So do the index of the place and the notes.
    #[track_caller]
    pub fn is_whole(&self, case: &str) {
        let look = "rm -f ../looked; GIT_INDEX_FILE=../looked git read-tree HEAD; \
                    GIT_INDEX_FILE=../looked git status --porcelain -uall -- . ':!*daemon.log*'; \
                    git --no-optional-locks status --porcelain -uall -- . ':!*daemon.log*'; git diff --cached --raw; \
                    ls .git | grep -e beadlock -e '\\.lock$' | grep -vx -e beadlock -e beadlock.reminded";
        assert_eq!(self.shell(look).out, "", "{case}:\n{}", self.log());
    }
}
