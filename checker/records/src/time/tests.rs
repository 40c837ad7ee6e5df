use super::*;

fn instant(text: &str) -> Option<Instant> {
    Instant::read(text.as_bytes())
}

#[test]
fn instants_are_rfc_3339_with_an_offset() {
    let same = [
        "2026-03-01T00:00:00Z",
        "2026-03-01t00:00:00z",
        "2026-03-01 00:00:00.000+00:00",
        "2026-02-28T23:59:60Z",
        "2026-03-01T05:45:00+05:45",
        "2026-02-28T12:30:00.0-11:30",
        "2026-03-01T00:00:00-00:00",
    ];
    for text in same {
        assert_eq!(instant(text), instant(same[0]), "{text}");
        assert!(instant(text).is_some(), "{text}");
    }
    let none = [
        "",
        "2026-03-01",
        "2026-03-01T00:00:00",
        "2026-03-01T00:00Z",
        "2026-03-01T00:00:00.Z",
        "2026-03-01T00:00:00,5Z",
        "2026-03-01T00:00:00+0100",
        "2026-03-01T00:00:00+01",
        "2026-03-01T24:00:00Z",
        "2026-03-01T00:60:00Z",
        "2026-03-01T00:00:61Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-03-01T00:00:00+24:00",
        "2026-03-01T00:00:00Z ",
        " 2026-03-01T00:00:00Z",
        "+026-03-01T00:00:00Z",
        "12026-03-01T00:00:00Z",
        "２026-03-01T00:00:00Z",
    ];
    for text in none {
        assert_eq!(instant(text), None, "{text}");
    }
}

#[test]
fn instants_are_in_the_order_of_time() {
    let order = [
        "0000-01-01T00:00:00Z",
        "1969-12-31T23:59:59.999999999999999999999Z",
        "1970-01-01T00:00:00Z",
        "1999-12-31T23:30:00-00:31",
        "2000-02-29T00:00:00Z",
        "2026-02-28T23:59:59.4Z",
        "2026-02-28T23:59:59.45Z",
        "2026-02-28T23:59:59.5Z",
        "2026-03-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
    ];
    let instants: Vec<Instant> = order.iter().filter_map(|text| instant(text)).collect();
    assert_eq!(instants.len(), order.len());
    assert!(instants.is_sorted_by(|one, two| one < two), "{instants:?}");
    assert_eq!(instant("1970-01-01T00:00:00Z").unwrap().seconds, 0);
    assert_eq!(
        instant("2026-04-01T00:00:00Z").unwrap().seconds,
        1_775_001_600
    );
    assert_eq!(
        instant("0000-03-01T00:00:00Z").unwrap().seconds,
        -62_162_035_200
    );
}

#[test]
fn numbers_are_compared_by_their_exact_value() {
    let order = [
        "-1e999999999999999999999",
        "-18446744073709551617",
        "-18446744073709551616",
        "-2",
        "-1.5",
        "-1e-9",
        "0",
        "1e-9999999999999999999999",
        "0.05",
        "0.5",
        "9",
        "10",
        "10.01",
        "11e0",
        "1.2e1",
        "18446744073709551616",
        "18446744073709551617",
        "1e20",
    ];
    let numbers: Vec<Decimal> = order
        .iter()
        .map(|text| Decimal::read(text.as_bytes()))
        .collect();
    assert!(numbers.is_sorted_by(|one, two| one < two), "{numbers:?}");
    for (one, two) in [
        ("-0", "0"),
        ("0e5", "0.00"),
        ("100", "1e2"),
        ("1.50", "15E-1"),
    ] {
        assert_eq!(
            Decimal::read(one.as_bytes()),
            Decimal::read(two.as_bytes()),
            "{one}"
        );
    }
}
