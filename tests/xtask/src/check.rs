//! `protocol-check [NAME…]`: runs every test that the tables of `docs/protocols` and `docs/fleet.md`, or of those
//! pages, name, and says for each page how many of its rows have been shown. `make protocol-check`.

use std::collections::BTreeSet;
use std::process::ExitCode;

use crate::protocol::run::{Answer, run};
use crate::protocol::{Named, Page, pages};

/// Prints it for these pages, for all where none is named. Fails when a row has not been shown.
pub fn protocols(wanted: &[String]) -> ExitCode {
    let pages = match pages() {
        Ok(pages) => pages,
        Err(wrong) => return fail(&wrong.join("\n")),
    };
    if let Some(name) = wanted
        .iter()
        .find(|name| !pages.iter().any(|page| page.name == **name))
    {
        return fail(&format!(
            "there is no docs/protocols/{name}.md, and docs/fleet.md is called fleet"
        ));
    }
    let pages: Vec<Page> = pages
        .into_iter()
        .filter(|page| wanted.is_empty() || wanted.contains(&page.name))
        .collect();
    let tests: BTreeSet<Named> = pages
        .iter()
        .flat_map(|page| &page.rows)
        .flat_map(|row| row.tests.clone())
        .collect();
    println!("protocol-check: {} tests", tests.len());
    let answers = run(&tests);

    let mut is_whole = true;
    for page in &pages {
        let (mut passed, mut skipped, mut failed) = (0, 0, 0);
        for row in &page.rows {
            let place = format!("{} {} ({})", page.name, row.id, row.section);
            let mut whole = Answer::Passed;
            for test in &row.tests {
                let answer = answers
                    .get(test)
                    .cloned()
                    .unwrap_or(Answer::Failed("was not run".to_owned()));
                match &answer {
                    Answer::Passed => {}
                    Answer::Skipped(reason) => println!("skipped: {place}: {test}: {reason}"),
                    Answer::Failed(why) => println!("FAILED: {place}: {test}: {why}"),
                }
                whole = whole.and(answer);
            }
            match whole {
                Answer::Passed => passed += 1,
                Answer::Skipped(_) => skipped += 1,
                Answer::Failed(_) => failed += 1,
            }
        }
        is_whole &= failed == 0;
        println!(
            "{}: {} rows (at least {}), {passed} passed, {skipped} skipped, {failed} failed",
            page.name,
            page.rows.len(),
            page.at_least
        );
    }
    if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("protocol-check: {why}");
    ExitCode::FAILURE
}
