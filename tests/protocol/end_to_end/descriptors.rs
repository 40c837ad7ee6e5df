//! Every command of both programs with any small number of descriptors: it works, or says that it has too few. It never
//! panics and never hangs.

use beadlock_tests::binaries::{agent, beadlock};
use beadlock_tests::{Ended, Scene, run};

const COMMANDS: [&str; 30] = [
    "$AGENT --db .beads --once --exec true",
    "$AGENT --db .beads --once",
    "$AGENT --root . --once --action none",
    "$AGENT --db .beads --once --action none --listen 127.0.0.1:0",
    "$AGENT --db .beads --once --action none --log-file log --audit trail",
    "$AGENT --version",
    "$BEADLOCK",
    "$BEADLOCK check",
    "$BEADLOCK status --agent 127.0.0.1:1",
    "$BEADLOCK list",
    "$BEADLOCK wait",
    "$BEADLOCK hold -- true",
    "$BEADLOCK hold --audit trail --report report -- true",
    "$BEADLOCK hold lock:l -- true",
    "$BEADLOCK hold file:f -- true",
    "$BEADLOCK hold memory:m --create -- true",
    "$BEADLOCK hold tower:n -- true",
    "$BEADLOCK cycle -- true",
    "$BEADLOCK acquire --for 1",
    "$BEADLOCK release --id none",
    "$BEADLOCK break",
    "$BEADLOCK renew",
    "$BEADLOCK write file:f",
    "$BEADLOCK append file:f",
    "$BEADLOCK update file:f -- cat",
    "$BEADLOCK doctor",
    "$BEADLOCK log .beads/daemon.log",
    "$BEADLOCK fleet status",
    "$BEADLOCK completions bash",
    "$BEADLOCK merge in in in",
];

#[test]
fn no_number_of_descriptors_makes_a_command_panic_or_hang() {
    let scene = Scene::new();
    std::fs::write(scene.file("in"), "{}\n").expect("an input");
    let mut short = 0;
    for limit in 3..=40 {
        for words in COMMANDS {
            let _ = std::fs::remove_file(scene.lock());
            let mut command = scene.command("sh");
            command
                .args(["-c", &format!("exec <in; ulimit -n {limit}; exec {words}")])
                .env("AGENT", agent())
                .env("BEADLOCK", beadlock());
            let ended: Ended = run(command).into();
            // With three no library can be loaded, and the loader says so.
            assert!(
                ended.code <= 9 || [125, 126, 127, 129].contains(&ended.code),
                "{limit}, {words}: {ended:?}"
            );
            assert!(
                !ended.err.contains("panicked"),
                "{limit}, {words}: {ended:?}"
            );
            // The agent may have said it in its log.
            assert!(
                ended.code == 0
                    || words.starts_with("$AGENT")
                    || !format!("{}{}", ended.out, ended.err).is_empty(),
                "{limit}, {words}: {ended:?}"
            );
            short += usize::from(ended.err.contains("(ulimit -n)"));
        }
    }
    assert!(short >= 50, "{short}: the test shows nothing");
}
