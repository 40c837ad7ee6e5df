use super::*;

fn order() -> Order {
    let grace = Duration::from_millis(1500);
    Order { pid: 77, start_ticks: Some(4242), leads: true, token: "t1".to_owned(), grace, silence: None }
}

#[test]
fn the_order_survives_the_command_line() {
    for order in [
        order(),
        Order { start_ticks: None, leads: false, ..order() },
        Order { silence: Some(Duration::from_millis(875)), ..order() },
    ] {
        let words = order.words().map(OsString::from).into_iter().chain(["make".into()]);
        assert_eq!(Order::parse(words), Some(order));
    }
    let ages = Order { silence: Some(Duration::from_secs(i64::MAX.cast_unsigned())), ..order() };
    let read = Order::parse(ages.words().map(OsString::from)).unwrap();
    assert_eq!(read.silence, Some(Duration::from_millis(u64::MAX)));
    for words in [
        &[][..],
        &["77", "4242", "group", "1500", "-"],
        &["77", "4242", "group", "1500", "-", ""],
        &["0", "4242", "group", "1500", "-", "t1"],
        &["-1", "4242", "group", "1500", "-", "t1"],
        &["77", "x", "group", "1500", "-", "t1"],
        &["77", "-", "all", "1500", "-", "t1"],
        &["77", "-", "group", "soon", "-", "t1"],
        &["77", "-", "group", "1500", "soon", "t1"],
    ] {
        assert_eq!(Order::parse(words.iter().map(OsString::from)), None, "{words:?}");
    }
}

#[test]
fn a_token_is_found_whole_and_in_its_own_variable_alone() {
    let marks = |environment: &str| order().marks(environment.as_bytes());
    for marked in ["BEADLOCK_WARDS=t1\0", "A=b\0BEADLOCK_WARDS=t0:t1\0C=d\0", "BEADLOCK_WARDS=t1:t2"] {
        assert!(marks(marked), "{marked}");
    }
    for other in
        ["", "BEADLOCK_WARDS=t11\0", "XBEADLOCK_WARDS=t1\0", "BEADLOCK_WARDS_=t1\0", "A=BEADLOCK_WARDS=t1\0"]
    {
        assert!(!marks(other), "{other}");
    }
    assert_eq!(variable("t1", None), "t1");
    assert_eq!(variable("t1", Some(OsStr::new("t0"))), "t0:t1");
}

#[test]
fn the_tree_is_the_command_its_group_and_all_below() {
    let stat = |pid: i32, ppid: i32, pgrp: i32| {
        // None of these PIDs is anybody's: the kernel's limit is 2^22.
        let base = 1 << 30;
        Stat::parse(
            format!("{} (x) S {} {} 0 {}", base + pid, base + ppid, base + pgrp, "0 ".repeat(15) + "9")
                .as_bytes(),
        )
        .unwrap()
    };
    let all = vec![stat(4, 3, 9), stat(1, 0, 1), stat(3, 1, 9), stat(2, 0, 1), stat(5, 0, 5)];
    let order = Order { pid: (1 << 30) + 1, start_ticks: Some(9), ..order() };
    let pids = |order: &Order| {
        let mut pids: Vec<i32> = order.tree(all.clone()).iter().map(|stat| stat.pid - (1 << 30)).collect();
        pids.sort_unstable();
        pids
    };
    assert_eq!(pids(&order), [1, 2, 3, 4]);
    assert_eq!(pids(&Order { leads: false, ..order }), [1, 3, 4]);
    for (start_ticks, leads) in [(Some(8), true), (Some(8), false), (None, false)] {
        let another = Order { start_ticks, leads, pid: (1 << 30) + 1, ..self::order() };
        assert_eq!(pids(&another), [0; 0], "the PID is another process by now");
    }
}
