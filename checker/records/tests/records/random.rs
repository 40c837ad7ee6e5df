//! How often something random is tried.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestError, TestRunner};

/// Tries so many values, or as many as `PROPTEST_CASES` says; `shown` prints the smallest that fails.
#[expect(
    clippy::disallowed_methods,
    reason = "the variable is for people who run these tests longer"
)]
pub fn holds<S: Strategy>(
    cases: u32,
    strategy: &S,
    shown: impl Fn(&S::Value) -> String,
    check: impl Fn(&S::Value),
) {
    let wanted = std::env::var("PROPTEST_CASES").ok();
    let config = Config {
        cases: wanted.and_then(|cases| cases.parse().ok()).unwrap_or(cases),
        failure_persistence: None,
        ..Config::default()
    };
    let cases = config.cases;
    let begun = std::time::Instant::now();
    let tried = TestRunner::new(config).run(strategy, |value| {
        check(&value);
        Ok(())
    });
    match tried {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => panic!("{}\n{reason}", shown(&value)),
        Err(error) => panic!("{error}"),
    }
    println!("{cases} cases in {:.1} s", begun.elapsed().as_secs_f64());
}
