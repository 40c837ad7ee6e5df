//! The order of the rooms: a room is a top-level module of a crate, and imports only from rooms below it. An arrow that
//! is still against that order has a name in `rooms.rs`, and that list may only shrink.
//!
//! `seam.rs` holds the protocols to their folders.

mod graph;
mod lexer;
mod rooms;
mod seam;
mod source;
mod workspace;

use std::path::Path;

use beadlock_tests::skip::checkout;

use graph::{Arrows, circles};
use rooms::{HOUSES, House};
use source::Crate;

fn read(house: &House) -> Crate {
    Crate::read(&checkout().join(house.name).join("src"))
}

#[test]
fn every_arrow_points_down_or_has_a_name() {
    let mut wrong = Vec::new();
    for house in HOUSES {
        wrong.extend(
            house
                .problems(&read(house))
                .into_iter()
                .map(|why| format!("{}: {why}", house.name)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_two_rooms_of_the_integration_import_each_other_round_any_corner() {
    let integration = Crate::read(&checkout().join("integration/src"));
    assert_eq!(circles(&integration.arrows), Vec::<Vec<String>>::new());
}

/// The rules are tried on a small house, so that a reader who breaks one is told.
#[test]
fn a_forbidden_import_is_found_with_its_file() {
    let house = House {
        name: "small",
        order: &[&["lib"], &["upper", "beside"], &["lower"]],
        exceptions: &[("lower", "beside")],
    };
    let of = |files: &[(&str, &str)]| {
        let files = files
            .iter()
            .map(|(path, text)| (Path::new(path).to_path_buf(), (*text).to_owned()));
        Crate::of(&files.collect::<Vec<_>>())
    };
    let lib = ("lib.rs", "mod upper; mod beside; mod lower;");
    let beside = ("beside.rs", "");
    let excused = "use crate::beside::Thing;";
    let right = [
        lib,
        beside,
        ("upper.rs", "use crate::lower::Thing;"),
        ("lower.rs", excused),
    ];
    assert_eq!(house.problems(&of(&right)), Vec::<String>::new());

    let upwards = [
        lib,
        beside,
        ("upper.rs", ""),
        ("lower.rs", "use crate::{beside, upper::Thing};"),
    ];
    assert_eq!(
        house.problems(&of(&upwards)),
        ["lower -> upper points up: lower.rs has upper::Thing"]
    );

    let sideways = [
        lib,
        beside,
        ("upper/mod.rs", "fn f() { super::beside::run() }"),
        ("lower.rs", excused),
    ];
    assert_eq!(
        house.problems(&of(&sideways)),
        ["upper -> beside points sideways: upper/mod.rs has beside::run"]
    );

    let cut = [lib, beside, ("upper.rs", ""), ("lower.rs", "")];
    assert_eq!(
        house.problems(&of(&cut)),
        ["lower -> beside is cut: take it off the list of exceptions"]
    );

    let unknown = [
        lib,
        beside,
        ("upper.rs", ""),
        ("lower.rs", excused),
        ("new.rs", ""),
    ];
    assert_eq!(
        house.problems(&of(&unknown)),
        ["new is a room without a place in the order"]
    );

    let missing = [lib, ("beside.rs", ""), ("lower.rs", excused)];
    assert_eq!(
        house.problems(&of(&missing)),
        ["upper has a place in the order and does not exist"]
    );
}

#[test]
fn a_circle_is_found_with_all_its_rooms() {
    let arrows: Arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "a")]
        .map(|(from, to)| ((from.to_owned(), to.to_owned()), Vec::new()))
        .into();
    assert_eq!(circles(&arrows), [["a", "b", "c"]]);
}
