use super::*;

/// So many records, `bd-1` and on, written in one year.
fn records(numbers: impl IntoIterator<Item = u32>, year: u32) -> String {
    let line = |number| {
        format!(
            "{{\"id\":\"bd-{number}\",\"title\":\"t\",\"updated_at\":\"{year}-01-01T00:00:00Z\"}}\n"
        )
    };
    numbers.into_iter().map(line).collect()
}

#[test]
fn a_line_that_no_record_file_should_have_is_found() {
    use BlemishKind::{Marker, NotJson, Nul, Torn};
    let place = records(1..=3, 2026);
    let with = |tail: &str| format!("{place}{tail}");
    for (here, found) in [
        (with(""), None),
        (with("{\"id\":\"bd-4\"}\n"), None),
        (with("\n  \n"), None),
        (with("{\"id\":\"bd-4\"}"), None),
        (with("<<<<<<< ours\n"), Some((Marker, 4))),
        (with("=======\n"), Some((Marker, 4))),
        (with(">>>>>>> theirs"), Some((Marker, 4))),
        (with("<<<<<<<\n"), Some((NotJson, 4))),
        (with("======== \n"), Some((NotJson, 4))),
        (with("{\"id\":\"bd-4\"}\n\0\0\n"), Some((Nul, 5))),
        (with("{\"id\":\"bd-4"), Some((Torn, 4))),
        (with("{\"id\":\"bd-4\n"), Some((NotJson, 4))),
        (with("[1]\n7\n\"x\"\n"), None),
        (format!("x\n{place}"), Some((NotJson, 1))),
        (place[..20].to_owned(), Some((Torn, 1))),
        ("\0".repeat(200), Some((Nul, 1))),
        (String::new(), None),
    ] {
        assert_eq!(
            blemish(place.as_bytes(), here.as_bytes()),
            found,
            "{here:?}"
        );
    }
}

#[test]
fn a_fault_of_the_place_is_old() {
    let place = format!("{}oops\n<<<<<<< ours\n", records(1..=5, 2026));
    let of = |here: &str| blemish(place.as_bytes(), here.as_bytes());
    assert_eq!(of(&place), None);
    assert_eq!(of(&format!("{place}{}", records(6..=6, 2026))), None);
    assert_eq!(
        of(&format!("oops\n{}<<<<<<< ours\n", records(2..=5, 2026))),
        None
    );
    assert_eq!(
        of(&format!("{place}oops\n")),
        Some((BlemishKind::NotJson, 8)),
        "once more than before"
    );
}

#[test]
fn only_record_files_are_judged() {
    let of = |place: &str, here: &str| blemish(place.as_bytes(), here.as_bytes());
    assert_eq!(of("issue 1\n", "issue 1\nissue 2"), None, "another form");
    for new in [
        "issue 1\n",
        "issue 1",
        "{\n \"id\": 1\n}\n",
        "=======\n",
        "text\n=======\n",
    ] {
        assert_eq!(of("", new), None, "{new:?}");
        assert_eq!(of("\n", new), None, "{new:?}");
    }
    for (new, found) in [
        ("{\"id\":\"x", (BlemishKind::Torn, 1)),
        ("{\"id\":1}\n{\"id\":2}\nx\n", (BlemishKind::NotJson, 3)),
        ("{\"id\":1}\n{\"id\":2}\n{\"i", (BlemishKind::Torn, 3)),
        (
            "<<<<<<< ours\n{}\n=======\n>>>>>>> theirs\n",
            (BlemishKind::Marker, 1),
        ),
        ("\0\0\0", (BlemishKind::Nul, 1)),
    ] {
        assert_eq!(of("", new), Some(found), "{new:?}");
    }
}

#[test]
fn most_records_gone_is_held_and_fewer_are_not() {
    let fault = |place: &str, here: Option<&str>| {
        RecordLoss::between(Some(place.as_bytes()), here.map(str::as_bytes)).fault()
    };
    let of = |all: u32, left: u32| {
        let here = records(all - left + 1..=all, 2026);
        fault(&records(1..=all, 2026), Some(&here))
    };
    for (all, left, gone) in [
        (10, 4, Some(6)),
        (10, 5, None),
        (11, 5, Some(6)),
        (9, 1, None),
        (9, 0, Some(9)),
        (2, 0, Some(2)),
        (1, 0, None),
        (100, 50, None),
        (100, 49, Some(51)),
    ] {
        let held = gone.map(|gone| Fault::Gone(gone, all as usize, false));
        assert_eq!(of(all, left), held, "{left} of {all} are left");
    }
    // The file itself.
    for (all, is_held) in [(10, true), (9, false), (1, false)] {
        let held = is_held.then_some(Fault::Gone(all as usize, all as usize, true));
        assert_eq!(fault(&records(1..=all, 2026), None), held, "{all}");
    }
    assert_eq!(
        RecordLoss::between(None, Some(b"")).fault(),
        None,
        "a new file"
    );
    let changed = records(1..=12, 2027);
    assert_eq!(fault(&records(1..=12, 2026), Some(&changed)), None);
}

#[test]
fn ten_records_that_are_older_are_held() {
    let fault = |place: &str, here: &str| {
        RecordLoss::between(Some(place.as_bytes()), Some(here.as_bytes())).fault()
    };
    let (now, old) = (records(1..=20, 2026), records(1..=10, 2025));
    let here = format!("{old}{}", records(11..=20, 2026));
    assert_eq!(fault(&now, &here), Some(Fault::Older(10)));
    let here = format!("{}{}", records(1..=9, 2025), records(10..=20, 2026));
    assert_eq!(fault(&now, &here), None);
    assert_eq!(
        fault(&old, &records(1..=10, 2026)),
        None,
        "newer is as it should be"
    );
}

#[test]
fn a_record_that_is_in_another_file_is_not_gone() {
    let place = records(1..=12, 2026);
    let left = |here: &str, others: &[&str]| {
        let mut loss = RecordLoss::between(Some(place.as_bytes()), Some(here.as_bytes()));
        loss.forget_moved(place.as_bytes(), others.iter());
        (loss.gone.len(), loss.fault())
    };
    let (few, many) = (records(10..=12, 2026), records(1..=9, 2026));
    assert_eq!(left(&few, &[]), (9, Some(Fault::Gone(9, 12, false))));
    assert_eq!(left(&few, &[&many]), (0, None));
    assert_eq!(
        left("", &[&records(1..=6, 2026), &records(7..=11, 2026)]),
        (1, None)
    );
    let closed = many.replace('}', ",\"status\":\"closed\"}");
    assert_eq!(left(&few, &[&closed]), (0, None), "and changed");
    let events: String = (1..=12)
        .map(|number| format!("{{\"id\":\"bd-{number}\",\"event\":\"closed\"}}\n"))
        .collect();
    assert_eq!(
        left(&few, &[&events]),
        (9, Some(Fault::Gone(9, 12, false))),
        "a line about a record is not the record"
    );
    let other = many.replace("\"id\":\"bd-", "\"id\":\"x-");
    assert_eq!(left(&few, &[&other, "oops\n"]).0, 9);
}

#[test]
fn a_loss_says_how_many_and_which_line() {
    let said = |fault: Fault| fault.to_string();
    assert_eq!(
        said(Fault::Gone(50, 50, false)),
        ": 50 of 50 records are gone"
    );
    assert_eq!(
        said(Fault::Gone(1, 1, true)),
        ": 1 of 1 record is gone, with the file"
    );
    assert_eq!(
        said(Fault::Line(BlemishKind::Marker, 2)),
        ", line 2, is a conflict marker"
    );
    assert_eq!(
        said(Fault::Line(BlemishKind::Torn, 51)),
        ": line 51 is not JSON (cut off?)"
    );
    assert_eq!(
        said(Fault::Older(14)),
        ": 14 records went back to older contents (a stale export, a backup?)"
    );
}
