//! The pauses between two looks at a held lock, as the system was asked for them.

use beadlock_testkit::{Running, has_program};

use crate::scene::Memory;

/// Milliseconds of the pauses that fit into a wait of 4 s.
const SCHEDULE: [f64; 5] = [100.0, 200.0, 400.0, 800.0, 1600.0];

#[test]
fn the_pauses_are_the_documents_and_up_to_a_quarter_shorter() {
    if !has_program("strace") {
        return;
    }
    let memory = Memory::new();
    memory.write(0);
    let script = "strace -f -ttt -e trace=openat,poll,ppoll -o calls $BEADLOCK hold memory:memory --wait 4 -- true";
    let mut command = memory.scene.shell(script);
    command.env("BEADLOCK", env!("CARGO_BIN_EXE_beadlock"));
    let words = "Could not acquire lock within 4.0s. Held by session 'main' for operation 'write:tasks.json'";
    Running::apart(command).end().expect(4, &[words]);
    let pauses = pauses(&memory.scene.read("calls"));
    let first = pauses.iter().position(|pause| pause.is_some()).unwrap();
    assert!(first > 0, "the second look comes at once: {pauses:?}");
    let asked: Vec<(f64, f64)> = pauses.into_iter().skip(first).flatten().collect();
    assert!(asked.len() >= SCHEDULE.len(), "{asked:?}");
    // The room above is for a machine under load, and less than the half of the next pause.
    for (full, (least, most)) in SCHEDULE.into_iter().zip(&asked) {
        assert!(
            *most >= full * 0.75 - 1.0 && *least <= full * 1.25 + 20.0,
            "{full}: {asked:?}"
        );
    }
}

/// For each look at the lock the pause after it, in milliseconds, if there was one: counted from the first call that
/// waits, and from the look. Its end is when the last of the calls would have ended, for one may end to say something.
fn pauses(calls: &str) -> Vec<Option<(f64, f64)>> {
    let mut pauses = Vec::new();
    let (mut look, mut first) = (0.0, 0.0);
    for call in calls.lines() {
        // `26451 1795597715.277570 poll([{fd=4, events=POLLIN}, …], 3, 96) = 0 (Timeout)`
        let Some((time, call)) = call
            .split_once(' ')
            .and_then(|(_, rest)| rest.trim_start().split_once(' '))
        else {
            continue;
        };
        let Ok(time) = time.parse::<f64>().map(|seconds| seconds * 1000.0) else {
            continue;
        };
        if call.starts_with("openat(AT_FDCWD") && call.contains("/memory/.lock\"") {
            look = time;
            pauses.push(None);
        } else if let (Some(limit), Some(pause)) = (limit(call), pauses.last_mut()) {
            if pause.is_none() {
                first = time;
            }
            *pause = Some((time + limit - first, time + limit - look));
        }
    }
    pauses
}

/// The milliseconds for which a call waits at most.
fn limit(call: &str) -> Option<f64> {
    let (name, rest) = call.split_once('(')?;
    let digits = |text: &str| {
        text.split(|char: char| !char.is_ascii_digit())
            .next()?
            .parse::<f64>()
            .ok()
    };
    let (_, rest) = rest
        .rsplit_once("}], ")
        .filter(|_| name == "poll")
        .or_else(|| rest.split_once("}], "))?;
    let (_, limit) = rest.split_once(", ")?;
    match limit.strip_prefix("{tv_sec=") {
        None => digits(limit),
        Some(seconds) => {
            let (_, nanos) = seconds.split_once("tv_nsec=")?;
            Some(digits(seconds)? * 1000.0 + digits(nanos)? / 1_000_000.0)
        }
    }
}
