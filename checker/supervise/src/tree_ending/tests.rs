use super::*;

const GRACE: Duration = Duration::from_secs(10);

/// PID, parent and start of a process that does not exist: the kernel's limit is 2^22.
fn stat(pid: i32, ppid: i32, start_ticks: u64) -> Stat {
    const BASE: i32 = 1 << 30;
    let numbers = "0 ".repeat(15);
    let line = format!(
        "{} (x) S {} 0 0 {numbers}{start_ticks}",
        BASE + pid,
        BASE + ppid
    );
    Stat::parse(line.as_bytes()).unwrap()
}

fn processes(pids: &[i32]) -> Vec<Stat> {
    pids.iter().map(|pid| stat(*pid, 0, 100)).collect()
}

fn living(pids: &[i32]) -> TreeLook {
    TreeLook::Living(processes(pids))
}

/// A machine, and a clock that is set by hand.
struct Bench {
    ending: Ending,
    begun: Instant,
}

impl Bench {
    fn new(asks: Asks, grace: Duration) -> Self {
        let begun = Instant::now();
        Self {
            ending: Ending {
                is_spared: |_| false,
                ..Ending::new(asks, grace, begun)
            },
            begun,
        }
    }

    fn next_with(&mut self, millis: u64, look: &TreeLook, demand: Demand) -> EndingStep {
        let now = Now {
            instant: self.begun + Duration::from_millis(millis),
            ticks: 1000 + millis / 10,
        };
        self.ending.next(look, now, demand)
    }

    fn next(&mut self, millis: u64, look: &TreeLook) -> EndingStep {
        self.next_with(millis, look, Demand::Nothing)
    }
}

fn asked(pids: &[i32]) -> Vec<(Signal, Vec<Stat>)> {
    vec![
        (Signal::SIGTERM, processes(pids)),
        (Signal::SIGCONT, processes(pids)),
    ]
}

fn killed(pids: &[i32]) -> Vec<(Signal, Vec<Stat>)> {
    vec![(Signal::SIGKILL, processes(pids))]
}

#[test]
fn each_is_asked_once_and_what_is_left_after_the_grace_is_killed() {
    let mut bench = Bench::new(Asks::EachNew, GRACE);
    assert_eq!(bench.next(0, &living(&[1, 2])).send, asked(&[1, 2]));
    assert_eq!(bench.next(5, &living(&[1, 2, 3])).send, asked(&[3]));
    assert_eq!(bench.next(9_999, &living(&[1, 3])).send, []);
    assert_eq!(bench.next(10_000, &living(&[1, 3])).send, killed(&[1, 3]));
    let reborn = TreeLook::Living(vec![stat(1, 0, 200)]);
    let mut bench = Bench::new(Asks::EachNew, GRACE);
    bench.next(0, &living(&[1]));
    assert_eq!(
        bench.next(5, &reborn).send.len(),
        2,
        "its PID is another process by now"
    );
}

#[test]
fn two_looks_in_a_row_that_show_nobody_are_the_end() {
    let mut bench = Bench::new(Asks::EachNew, GRACE);
    assert!(!bench.next(0, &TreeLook::NoneSeen).done);
    let missed = bench.next(5, &living(&[1]));
    assert_eq!((missed.send, missed.done), (asked(&[1]), false));
    assert!(!bench.next(10, &TreeLook::NoneSeen).done, "once again");
    assert!(bench.next(15, &TreeLook::NoneSeen).done);
    assert!(
        Bench::new(Asks::EachNew, GRACE)
            .next(0, &TreeLook::Nobody)
            .done,
        "that is certain"
    );
}

#[test]
fn a_look_that_shows_nobody_while_somebody_lives_is_not_the_end() {
    let mut bench = Bench::new(Asks::Present, GRACE);
    for millis in [0, 5] {
        assert!(!bench.next(millis, &TreeLook::Hidden).done);
    }
    let mut bench = Bench::new(Asks::Present, GRACE);
    assert_eq!(
        bench.next(0, &TreeLook::Hidden).send,
        asked(&[]),
        "their group hears it"
    );
    assert_eq!(bench.next(5, &TreeLook::Hidden).send, []);
    assert_eq!(bench.next(10_000, &TreeLook::Hidden).send, killed(&[]));
}

#[test]
fn what_those_that_were_asked_start_to_tidy_up_is_left_alone_until_the_grace_is_over() {
    let mut bench = Bench::new(Asks::Present, GRACE);
    let nobody = bench.next(0, &TreeLook::NoneSeen);
    assert_eq!(nobody.send, asked(&[]), "a chain in the group hears it");
    assert_eq!(bench.next(5, &living(&[1])).send, asked(&[1]));
    assert_eq!(bench.next(10, &living(&[1, 2])).send, []);
    assert_eq!(bench.next(10_000, &living(&[2])).send, killed(&[2]));
}

#[test]
fn a_process_of_a_parent_that_had_been_asked_is_new_once_that_parent_is_gone() {
    let look = |stats: &[Stat]| TreeLook::Living(stats.to_vec());
    // Asked at 1000 ticks: 2 was born before that and missed, 3 and 4 after it.
    let (parent, missed, after, below) = (
        stat(1, 0, 500),
        stat(2, 1, 999),
        stat(3, 1, 1000),
        stat(4, 3, 1001),
    );
    let mut bench = Bench::new(Asks::NewLineages, GRACE);
    bench.next(0, &look(std::slice::from_ref(&parent)));
    let all = [parent, missed.clone(), after.clone(), below.clone()];
    assert_eq!(bench.next(20, &look(&all)).send[0].1, [missed]);
    let orphans = [stat(3, 9, 1000), below];
    assert_eq!(bench.next(40, &look(&orphans)).send[0].1, orphans);
    let circle = [stat(5, 6, 1), stat(6, 5, 1)];
    assert_eq!(bench.next(60, &look(&circle)).send[0].1, circle);
}

#[test]
fn a_deadline_kills_before_the_grace_is_over_and_no_grace_kills_at_once() {
    for demand in [Demand::Nothing, Demand::Ask] {
        let mut bench = Bench::new(Asks::EachNew, GRACE);
        assert_eq!(bench.next_with(0, &living(&[1]), demand).send, asked(&[1]));
        let step = bench.next_with(5, &living(&[1]), Demand::Kill);
        assert_eq!(step.send, killed(&[1]));
    }
    let mut bench = Bench::new(Asks::EachNew, Duration::ZERO);
    assert_eq!(bench.next(0, &living(&[1])).send, killed(&[1]));
    let mut bench = Bench::new(Asks::Nobody, Duration::MAX);
    let step = bench.next(u64::from(u32::MAX), &living(&[1]));
    assert_eq!((step.send, step.done), (vec![], false), "there is no end");
}

#[test]
fn who_may_not_be_killed_is_asked_ever_more_seldom_and_a_new_one_at_once() {
    let mut bench = Bench::new(Asks::EachNew, Duration::ZERO);
    let (mut millis, mut pauses) = (0, Vec::new());
    for _ in 0..11 {
        let mut step = bench.next(millis, &living(&[1, 2]));
        assert_eq!(step.send, killed(&[1, 2]));
        let since = millis;
        let at = |millis| bench.begun + Duration::from_millis(millis);
        while !bench.ending.left(at(millis)).is_zero() {
            let look_in = u64::try_from(step.again_in.as_millis()).unwrap();
            let late = (millis / 10).clamp(20, 2000);
            assert!(look_in <= late, "no look for {look_in} ms at {millis} ms");
            let early = TreeLook::Living(processes(&[2, 1]));
            let now = Now {
                instant: at(millis + look_in / 2),
                ticks: 0,
            };
            let woken = bench.ending.next(&early, now, Demand::Nothing);
            assert_eq!(woken.send, [], "woken before its time");
            millis += look_in;
            if !bench.ending.left(at(millis)).is_zero() {
                let now = Now {
                    instant: at(millis),
                    ticks: 0,
                };
                step = bench.ending.next(&early, now, Demand::Nothing);
                assert_eq!(step.send, [], "only looked");
            }
        }
        pauses.push(millis - since);
    }
    assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
    bench.next(millis, &living(&[1, 2]));
    assert_eq!(
        bench.next(millis + 1, &living(&[2, 3])).send,
        killed(&[2, 3])
    );
}

#[test]
fn a_watchdog_is_killed_when_nobody_else_is_left() {
    let mut bench = Bench::new(Asks::EachNew, Duration::ZERO);
    bench.ending.is_spared = |one| one.pid == stat(2, 0, 0).pid;
    assert_eq!(bench.next(0, &living(&[1, 2, 3])).send, killed(&[1, 3]));
    assert_eq!(bench.next(1, &living(&[2])).send, killed(&[2]));
}

#[test]
fn the_looks_come_at_short_pauses_and_not_after_the_grace_is_over() {
    let mut bench = Bench::new(Asks::EachNew, Duration::from_millis(52));
    let pauses = [0, 5, 15, 35, 51].map(|millis| bench.next(millis, &living(&[1])).again_in);
    assert_eq!(pauses, [5, 10, 20, 17, 1].map(Duration::from_millis));
}

#[test]
fn what_is_given_up_is_not_waited_for_and_is_asked_by_the_signal_that_was_given() {
    let mut bench = Bench::new(Asks::EachNew, GRACE);
    bench.ending = bench
        .ending
        .asking_by(Signal::SIGHUP)
        .giving_up_after(Duration::from_secs(3));
    assert_eq!(bench.next(0, &living(&[1])).send[0].0, Signal::SIGHUP);
    for (millis, left) in [(10_000, 5), (12_990, 10), (12_996, 4)] {
        let step = bench.next(millis, &living(&[1]));
        assert_eq!(
            (step.again_in, step.done),
            (Duration::from_millis(left), false),
            "{millis}"
        );
    }
    assert!(bench.next(13_000, &living(&[1])).done);
}

#[test]
fn one_that_waits_is_woken_by_ends_and_kills_once_it_is_told_to() {
    let mut ending = Ending {
        is_spared: |_| false,
        ..Ending::waiting()
    };
    let now = Now::read();
    let next = |ending: &mut Ending, look: &TreeLook| ending.next(look, now, Demand::Nothing);
    let step = next(&mut ending, &living(&[1]));
    assert_eq!((step.send, step.again_in), (vec![], NET));
    ending.kill_within(GRACE, now.instant);
    ending.kill_within(GRACE * 2, now.instant);
    assert_eq!(ending.left(now.instant), GRACE, "the first one counts");
    ending.ask_within(GRACE * 2, now.instant);
    assert_eq!(next(&mut ending, &living(&[1, 2])).send, asked(&[1, 2]));
    assert_eq!(next(&mut ending, &living(&[1, 2])).send, []);
    ending.kill_within(Duration::ZERO, now.instant);
    assert_eq!(next(&mut ending, &living(&[1, 2])).send, killed(&[1, 2]));
}

#[test]
fn who_cannot_be_killed_and_starts_others_costs_a_look_ever_more_seldom() {
    let mut bench = Bench::new(Asks::EachNew, Duration::ZERO);
    let (mut at, mut looks, mut child) = (0, 0, 2);
    while at < 60_000 {
        let step = bench.next(at, &living(&[1, child]));
        assert_eq!(
            step.send,
            killed(&[1, child]),
            "the new one gets it at once"
        );
        at += u64::try_from(step.again_in.as_millis()).unwrap();
        (looks, child) = (looks + 1, child + 1);
    }
    assert!(looks < 120, "{looks} looks in a minute");
}
