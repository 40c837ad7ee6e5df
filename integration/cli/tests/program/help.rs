//! `--help` and `beadlock help`: groups, examples, exit codes, protocols, 80 columns, colours.

use beadlock_testkit::{Ended, Scene, run};

/// The program's commands, as its help lists them.
fn commands(scene: &Scene) -> Vec<String> {
    let help = scene.run(&["--help"]).expect(0, &[]).out;
    let rows = help
        .split("Options:")
        .next()
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("  "));
    rows.map(|row| row.split(' ').next().unwrap().to_owned())
        .collect()
}

fn help(scene: &Scene, words: &[&str]) -> String {
    scene.run(words).expect(0, &[]).out
}

#[test]
fn the_commands_are_listed_in_groups_of_one_line_each() {
    let scene = crate::a_scene();
    let help = help(&scene, &["--help"]);
    let mut at = 0;
    for heading in [
        "Claim:",
        "Run sync cycles:",
        "Look:",
        "Files:",
        "Git:",
        "By force:",
        "Help:",
        "Options:",
        "Targets:",
    ] {
        at += help[at..]
            .find(&format!("\n{heading}\n"))
            .unwrap_or_else(|| panic!("{heading} in {help}"));
    }
    let commands = commands(&scene);
    for command in [
        "hold",
        "acquire",
        "status",
        "write",
        "merge",
        "setup",
        "break",
        "help",
        "man",
        "completions",
        "schema",
    ] {
        assert!(
            commands.iter().any(|known| known == command),
            "{command} in {commands:?}"
        );
    }
    assert_eq!(scene.run(&["-h"]).expect(0, &[]).out, help);
    assert_eq!(scene.run(&["help"]).expect(0, &[]).out, help);
}

#[test]
fn all_help_fits_80_columns() {
    let scene = crate::a_scene();
    let mut count = 0;
    let mut check = |words: &[&str]| {
        let mut command = scene.beadlock(words);
        command.env("COLUMNS", "200");
        let help = Ended::from(run(command)).expect(0, &[]).out;
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
        }
        count += help.lines().count();
    };
    check(&["--help"]);
    for command in commands(&scene) {
        check(&["help", &command]);
        check(&[&command, "--help"]);
        check(&[&command, "-h"]);
    }
    for protocol in ["beads", "lock", "tower", "memory", "file"] {
        check(&["help", protocol]);
        check(&["hold", &format!("{protocol}:x"), "--help"]);
    }
    assert!(
        count > 1000,
        "little help, or the scan sees little: {count}"
    );
}

#[test]
fn hold_begins_with_two_examples_and_ends_with_the_exit_codes() {
    let scene = crate::a_scene();
    let help = help(&scene, &["hold", "--help"]);
    let (before, after) = help.split_once("\nArguments:\n").unwrap();
    let (_, examples) = before.split_once("\nExamples:\n").unwrap();
    assert_eq!(
        examples
            .lines()
            .filter(|line| line.starts_with("  beadlock hold "))
            .count(),
        2,
        "{examples}"
    );
    let (_, exits) = after.split_once("\nExit codes:\n").unwrap();
    let codes: Vec<&str> = exits
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .collect();
    assert_eq!(codes, ["1", "2", "4", "5", "8", "9", "125", "126", "127"]);
    assert_eq!(
        scene.run(&["help", "hold"]).expect(0, &[]).out,
        help,
        "the same by way of help"
    );
}

#[test]
fn options_of_a_protocol_are_shown_where_the_command_line_is_about_it() {
    let scene = crate::a_scene();
    let options = |words: &[&str]| {
        let help = help(&scene, words);
        help.lines()
            .filter_map(|line| line.trim_start().strip_prefix("--"))
            .map(first_word)
            .collect::<Vec<_>>()
    };
    let plain = options(&["hold", "--help"]);
    let of_tower = options(&["hold", "tower:x", "--help"]);
    let of_file = options(&["hold", "file:x", "--help"]);
    let by_option = options(&["hold", "--intent", "x", "--help"]);
    for (option, in_tower, in_file) in [
        ("force-lock", true, false),
        ("ttl", true, false),
        ("lock-dir", true, false),
        ("shared", false, true),
        ("session-id", false, false),
        ("wait", true, true),
    ] {
        let has = |options: &[String]| options.iter().any(|known| known == option);
        assert_eq!(has(&plain), option == "wait", "{option}: {plain:?}");
        assert_eq!(
            (has(&of_tower), has(&of_file)),
            (in_tower, in_file),
            "{option}"
        );
        assert_eq!(has(&by_option), in_tower, "{option} with --intent");
    }
    assert!(options(&["hold", "--and", "memory:x", "--help"]).contains(&"session-id".to_owned()));
    assert!(
        options(&["hold", "--help", "--", "tower:x"]) == plain,
        "the words of the command are not its own"
    );
    let hold = help(&scene, &["hold", "--help"]);
    for protocol in ["tower", "memory", "file"] {
        assert!(
            hold.contains(&format!("\n  beadlock help {protocol}\n")),
            "{hold}"
        );
    }
}

fn first_word(line: &str) -> String {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_protocol_has_a_page_with_its_options_and_their_commands() {
    let scene = crate::a_scene();
    for (protocol, words) in [
        (
            "beads",
            &["[beads:]DIR", "Examples:", "$BEADLOCK_TARGET"][..],
        ),
        ("lock", &["lock:PATH", "Examples:"]),
        (
            "tower",
            &[
                "tower:NAME",
                "Options of hold and acquire:",
                "--force-lock",
                "--rollback",
                "Options of hold:",
            ],
        ),
        (
            "memory",
            &[
                "memory:DIR",
                "--stale-after",
                "--create",
                "Options of hold and acquire:",
            ],
        ),
        (
            "file",
            &["file:PATH", "--shared", "Options of hold and acquire:"],
        ),
        (
            "flock",
            &["flock:PATH", "--shared", "Options of hold and acquire:"],
        ),
    ] {
        let page = help(&scene, &["help", protocol]);
        for word in words {
            assert!(page.contains(word), "{word} in {page}");
        }
        assert!(!page.contains("--drain"), "{page}");
    }
    scene
        .run(&["help", "nothing"])
        .expect(2, &["there is no help on nothing", "beadlock help"]);
    scene
        .run(&["help", "hold", "acquire"])
        .expect(2, &["there is no help on hold acquire"]);
}

/// Whether help has colours with these variables, on a pipe.
fn is_coloured(scene: &Scene, words: &[&str], variables: &[(&str, &str)]) -> bool {
    let mut command = scene.beadlock(words);
    command.envs(variables.iter().copied());
    Ended::from(run(command))
        .expect(0, &[])
        .out
        .contains("\u{1b}[")
}

#[test]
fn the_environment_and_the_command_line_decide_on_colours() {
    let scene = crate::a_scene();
    for words in [
        &["--help"][..],
        &["hold", "--help"],
        &["help", "hold"],
        &["help", "tower"],
    ] {
        for (variables, wanted) in [
            (&[][..], false),
            (&[("CLICOLOR_FORCE", "1")], true),
            (&[("CLICOLOR_FORCE", "")], false),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
            (&[("CLICOLOR", "1")], false),
            (&[("BEADLOCK_COLOR", "always")], true),
            (
                &[("BEADLOCK_COLOR", "never"), ("CLICOLOR_FORCE", "1")],
                false,
            ),
        ] {
            assert_eq!(
                is_coloured(&scene, words, variables),
                wanted,
                "{words:?} {variables:?}"
            );
        }
        assert!(
            is_coloured(
                &scene,
                &[&["--color", "always"], words].concat(),
                &[("NO_COLOR", "1")]
            ),
            "{words:?}"
        );
        assert!(
            !is_coloured(
                &scene,
                &[&["--color=never"], words].concat(),
                &[("CLICOLOR_FORCE", "1")]
            ),
            "{words:?}"
        );
    }
}

#[test]
fn on_a_terminal_help_has_colours_unless_they_are_not_wanted() {
    let scene = crate::a_scene();
    for (variable, wanted) in [
        ("X=1", true),
        ("NO_COLOR=1", false),
        ("CLICOLOR=0", false),
        ("TERM=dumb", false),
    ] {
        let words = ["env", variable, crate::terminal::BEADLOCK, "hold", "--help"];
        let terminal = crate::terminal::Terminal::start(&scene, &words);
        terminal.until("the end of the help", || {
            terminal.seen().contains("when signal N killed CMD")
        });
        assert_eq!(
            terminal.seen().contains("\u{1b}["),
            wanted,
            "{variable}: {}",
            terminal.seen()
        );
    }
}
