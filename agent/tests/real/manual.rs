//! What the agent says of itself: its help, its manual pages, its completion. `tests/more` has the rest of these two.

use std::fs::{self, File};
use std::path::Path;

use beadlock_testkit::{Ended, run, tool};

use crate::agent::fresh_scene;

/// Every option of the help, without its dashes.
fn options(help: &str) -> Vec<&str> {
    let options = help.lines().filter_map(|line| {
        line.trim_start()
            .trim_start_matches("-h, ")
            .strip_prefix("--")
    });
    options
        .filter_map(|option| option.split([' ', '[', '<']).next())
        .collect()
}

#[test]
fn help_is_in_groups_and_fits_80_columns() {
    let scene = fresh_scene();
    let help = scene.run(&["--help"]).expect(0, &[]).out;
    let mut at = 0;
    for heading in [
        "Examples:",
        "Databases:",
        "Cycles:",
        "Logs:",
        "Seen from outside:",
        "Safeguards that these options waive:",
        "Documentation:",
        "Exit codes:",
    ] {
        at += help[at..]
            .find(&format!("\n{heading}\n"))
            .unwrap_or_else(|| panic!("{heading} in {help}"));
    }
    let mut wide = scene.agent(&["--help"]);
    wide.env("COLUMNS", "200");
    let wide = Ended::from(run(wide)).expect(0, &[]).out;
    assert!(
        wide.lines().all(|line| line.chars().count() <= 80),
        "{wide}"
    );
    assert_eq!(scene.run(&["-h"]).expect(0, &[]).out, help);
    assert!(options(&help).len() > 25, "{:?}", options(&help));
}

#[test]
fn the_environment_decides_on_colours() {
    let scene = fresh_scene();
    for (variables, wanted) in [
        (&[][..], false),
        (&[("CLICOLOR_FORCE", "1")], true),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[("CLICOLOR", "1")], false),
    ] {
        let mut command = scene.agent(&["--help"]);
        command.envs(variables.iter().copied());
        let help = Ended::from(run(command)).expect(0, &[]).out;
        assert_eq!(help.contains("\u{1b}["), wanted, "{variables:?}");
    }
}

#[test]
fn the_pages_name_every_option() {
    let scene = fresh_scene();
    fs::create_dir(scene.file("pages")).unwrap();
    assert_eq!(scene.run(&["--man", "pages"]).expect(0, &[]).out, "");
    let page = fs::read_to_string(scene.file("pages/beadlock-agent.8")).unwrap();
    let keys = fs::read_to_string(scene.file("pages/beadlock-agent.toml.5")).unwrap();
    let help = scene.run(&["--help"]).expect(0, &[]).out;
    for option in options(&help) {
        let roff = option.replace('-', "\\-");
        assert!(
            page.contains(&format!("\\-\\-{roff}")),
            "{option} in {page}"
        );
        let is_key = ![
            "db",
            "config",
            "print-config",
            "once",
            "man",
            "completions",
            "help",
            "V",
        ]
        .contains(&option);
        if is_key && option != "version" {
            assert!(
                keys.contains(&format!("\\fB{roff}\\fR = ")),
                "{option} in {keys}"
            );
        }
    }
    scene.run(&["--man", "nowhere"]).expect(
        1,
        &["cannot write nowhere/beadlock-agent.8: no such file or directory"],
    );
}

#[test]
fn no_page_goes_through_a_link_or_waits_for_a_reader() {
    let scene = fresh_scene();
    fs::write(scene.file("other"), "mine").unwrap();
    std::os::unix::fs::symlink("other", scene.file("beadlock-agent.8")).unwrap();
    scene
        .run(&["--man", "."])
        .expect(1, &["cannot write ./beadlock-agent.8: "]);
    assert_eq!(fs::read_to_string(scene.file("other")).unwrap(), "mine");
    fs::create_dir(scene.file("fifo")).unwrap();
    nix::unistd::mkfifo(
        &scene.file("fifo/beadlock-agent.8"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .unwrap();
    scene
        .run(&["--man", "fifo"])
        .expect(1, &["cannot write fifo/beadlock-agent.8: "]);
}

#[test]
fn bash_completes_its_options() {
    let scene = fresh_scene();
    scene.run(&["--completions", "tcsh"]).expect(2, &["tcsh"]);
    scene.write(
        "agent.bash",
        scene.run(&["--completions", "bash"]).expect(0, &[]).out,
    );
    let Some(bash) = tool("bash") else { return };
    // Without the tab's work there is no such option.
    let keys = "source ./agent.bash\nbeadlock-agent --cycle\t5s --version\nexit\n";
    scene.write("keys", keys);
    let folder = Path::new(env!("CARGO_BIN_EXE_beadlock-agent"))
        .parent()
        .unwrap();
    // In a session of its own: it must not take the terminal of the tests.
    let mut command = scene.command("setsid");
    command
        .arg("--wait")
        .arg(bash)
        .args(["--norc", "--noprofile", "-i"])
        .stdin(File::open(scene.file("keys")).unwrap());
    command
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .env("TERM", "dumb")
        .env("PS1", "");
    let ended = Ended::from(run(command));
    assert!(
        ended
            .out
            .contains(concat!("beadlock-agent ", env!("CARGO_PKG_VERSION"))),
        "{ended:?}"
    );
}
