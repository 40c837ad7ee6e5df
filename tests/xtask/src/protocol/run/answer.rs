//! What the run of a test comes to.

use std::process::Output;

use beadlock_testkit::skip::{NO_SHARED, find_shared, is_ci};

/// How a test has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Passed,
    /// For this reason.
    Skipped(String),
    /// For this reason, with the end of what it said.
    Failed(String),
}

impl Answer {
    /// That of a row with several tests: the worst.
    pub fn and(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Failed(_), _) => self,
            (_, Self::Failed(_)) => other,
            (Self::Skipped(_), _) => self,
            _ => other,
        }
    }
}

/// A test that says it was skipped. Only what is not there can be missing; anything else than `shared/` is missing
/// outside CI alone.
pub fn skipped(reason: &str) -> Answer {
    judge_skip(reason, find_shared().is_some(), is_ci())
}

fn judge_skip(reason: &str, has_shared: bool, is_ci: bool) -> Answer {
    let reason = reason.to_owned();
    match (reason.contains(NO_SHARED), has_shared, is_ci) {
        (true, false, _) | (false, _, false) => Answer::Skipped(reason),
        (true, true, _) => Answer::Failed(format!("says {reason:?}, and there is one")),
        (false, _, true) => Answer::Failed(format!("was skipped: {reason}, and CI is set")),
    }
}

/// The answer of a test binary that was asked for this test alone.
pub fn of_cargo(path: &str, output: &Output) -> Answer {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let line = out.lines().find_map(|line| {
        let (test, answer) = line.strip_prefix("test ")?.split_once(" ... ")?;
        (test.strip_suffix(" - should panic").unwrap_or(test) == path).then_some(answer)
    });
    match line {
        None => Answer::Failed(format!("its binary has no such test\n{}", end(&out, &err))),
        Some("ok") if output.status.success() => {
            let said = out
                .lines()
                .chain(err.lines())
                .find_map(|line| line.strip_prefix("skipped: "));
            said.map_or(Answer::Passed, skipped)
        }
        Some(answer) if answer.starts_with("ignored") => Answer::Failed("is ignored".to_owned()),
        Some(_) => Answer::Failed(format!("FAILED\n{}", end(&out, &err))),
    }
}

/// The answer in a TAP stream.
pub fn of_bats(name: &str, output: &Output) -> Answer {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    for (at, line) in out.lines().enumerate() {
        let (is_ok, rest) = match line.strip_prefix("not ok ") {
            Some(rest) => (false, rest),
            None => match line.strip_prefix("ok ") {
                Some(rest) => (true, rest),
                None => continue,
            },
        };
        let Some((_, title)) = rest.split_once(' ') else {
            continue;
        };
        let (title, reason) = match title.split_once(" # skip") {
            Some((title, reason)) => (title, Some(reason.trim())),
            None => (title, None),
        };
        if title != name {
            continue;
        }
        let says: Vec<_> = out
            .lines()
            .skip(at + 1)
            .take_while(|line| line.starts_with('#'))
            .collect();
        return match (is_ok, reason) {
            (false, _) => Answer::Failed(format!("FAILED\n{}", says.join("\n"))),
            (true, Some(reason)) => skipped(reason),
            (true, None) => Answer::Passed,
        };
    }
    Answer::Failed(format!("bats did not run it\n{}", end(&out, &err)))
}

/// The worst answer of pytest's lines for the function `name`, which may run with several parameters.
pub fn of_python(file: &str, name: &str, output: &Output) -> Answer {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let begin = format!("{file}::{name}");
    let answers = out.lines().filter_map(|line| {
        let rest = line.strip_prefix(&begin)?;
        // What stands in brackets may have spaces, too.
        let answer = match rest.strip_prefix('[') {
            Some(parameters) => parameters.rsplit_once("] ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        Some(match answer.split(' ').next() {
            Some("PASSED") => Answer::Passed,
            Some("SKIPPED") => skipped(
                answer
                    .rsplit_once('[')
                    .map_or(answer, |(said, _)| said)
                    .trim_end(),
            ),
            _ => Answer::Failed(format!("FAILED\n{}", end(&out, &err))),
        })
    });
    // The script says so, where it lacks something.
    let is_lacking = || {
        err.lines()
            .find_map(|line| line.strip_prefix("skipped: "))
            .map(skipped)
    };
    let none = || Answer::Failed(format!("pytest did not run it\n{}", end(&out, &err)));
    answers
        .reduce(Answer::and)
        .or_else(is_lacking)
        .unwrap_or_else(none)
}

/// The last lines of both streams.
fn end(out: &str, err: &str) -> String {
    let lines: Vec<_> = out
        .lines()
        .chain(err.lines())
        .filter(|line| !line.is_empty())
        .collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn output(code: i32, out: &str, err: &str) -> Output {
        Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: out.into(),
            stderr: err.into(),
        }
    }

    #[test]
    fn the_test_runners_line_is_read_with_the_exit_code() {
        let said = |code, out: &str| match of_cargo("a::b", &output(code, out, "")) {
            Answer::Failed(why) => why.lines().next().unwrap_or_default().to_owned(),
            answer => format!("{answer:?}"),
        };
        assert_eq!(said(0, "running 1 test\ntest a::b ... ok\n"), "Passed");
        assert_eq!(
            said(0, "running 1 test\ntest a::b - should panic ... ok\n"),
            "Passed"
        );
        assert_eq!(said(101, "running 1 test\ntest a::b ... ok\n"), "FAILED");
        assert_eq!(
            said(101, "running 1 test\ntest a::b ... FAILED\n"),
            "FAILED"
        );
        assert_eq!(
            said(0, "running 1 test\ntest a::b ... ignored, takes long\n"),
            "is ignored"
        );
        assert_eq!(said(0, "running 0 tests\n"), "its binary has no such test");
        assert_eq!(
            said(0, "running 1 test\ntest a::b_c ... ok\n"),
            "its binary has no such test"
        );
        let skip = |out: &str, err: &str| of_cargo("a", &output(0, out, err));
        let is_skip = |answer: &Answer| !matches!(answer, Answer::Passed);
        assert!(is_skip(&skip("test a ... ok\n", "skipped: a needs jq\n")));
        assert!(is_skip(&skip(
            "test a ... ok\n\n---- a stdout ----\nskipped: a needs jq\n",
            ""
        )));
        assert!(!is_skip(&skip(
            "test a ... ok\n\n---- a stdout ----\nwas not skipped: a\n",
            ""
        )));
    }

    #[test]
    fn bats_lines_are_read() {
        let tap = "1..4\nok 1 a b\nnot ok 2 a\n# (in test file a.bats, line 3)\n#   `false' failed\nok 3 c # skip\nok 40 d # e\n";
        let tap = output(1, tap, "");
        assert_eq!(of_bats("a b", &tap), Answer::Passed);
        let Answer::Failed(why) = of_bats("a", &tap) else {
            panic!("a has failed")
        };
        assert!(why.contains("line 3") && why.contains("`false'"), "{why}");
        assert_ne!(of_bats("c", &tap), Answer::Passed);
        assert_eq!(of_bats("d # e", &tap), Answer::Passed);
        assert!(matches!(of_bats("b", &tap), Answer::Failed(_)));
    }

    #[test]
    fn pytests_lines_are_read() {
        let lines = "a.py::test_a PASSED [ 20%]\na.py::test_b[x y-1] PASSED [ 40%]\na.py::test_b[2] FAILED [ 60%]\n\
                     a.py::test_c SKIPPED (needs a)   [ 80%]\na.py::test_dd ERROR [ 90%]\na.py::test_e[x y] PASSED [100%]\nFAILED a.py::test_a - x\n";
        let lines = output(1, lines, "");
        assert_eq!(of_python("a.py", "test_a", &lines), Answer::Passed);
        assert!(
            matches!(of_python("a.py", "test_b", &lines), Answer::Failed(_)),
            "one of its parameters"
        );
        assert_eq!(of_python("a.py", "test_e", &lines), Answer::Passed);
        assert_eq!(
            of_python("a.py", "test_c", &lines),
            skipped("SKIPPED (needs a)")
        );
        assert!(matches!(
            of_python("a.py", "test_dd", &lines),
            Answer::Failed(_)
        ));
        let Answer::Failed(why) = of_python("a.py", "test_d", &lines) else {
            panic!("it is not there")
        };
        assert!(why.starts_with("pytest did not run it"), "{why}");
        let lacking = output(
            0,
            "",
            "skipped: the tests of integration/python need Python\n",
        );
        assert_eq!(
            of_python("a.py", "test_a", &lacking),
            skipped("the tests of integration/python need Python")
        );
    }

    #[test]
    fn only_what_is_missing_is_skipped() {
        let is_skipped =
            |reason, shared, ci| matches!(judge_skip(reason, shared, ci), Answer::Skipped(_));
        assert!(is_skipped(NO_SHARED, false, true) && is_skipped(NO_SHARED, false, false));
        assert!(!is_skipped(NO_SHARED, true, true) && !is_skipped(NO_SHARED, true, false));
        assert!(is_skipped("a needs jq", true, false) && is_skipped("a needs jq", false, false));
        assert!(!is_skipped("a needs jq", true, true) && !is_skipped("a needs jq", false, true));
    }

    #[test]
    fn the_worst_answer_is_a_rows_answer() {
        let (passed, skip, fail) = (
            Answer::Passed,
            Answer::Skipped("s".to_owned()),
            Answer::Failed("f".to_owned()),
        );
        let both = |a: &Answer, b: &Answer| (a.clone().and(b.clone()), b.clone().and(a.clone()));
        assert_eq!(both(&passed, &passed), (passed.clone(), passed.clone()));
        assert_eq!(both(&passed, &skip), (skip.clone(), skip.clone()));
        assert_eq!(both(&passed, &fail), (fail.clone(), fail.clone()));
        assert_eq!(both(&skip, &fail), (fail.clone(), fail.clone()));
    }
}
