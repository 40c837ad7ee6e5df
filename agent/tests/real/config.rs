//! `--config` and `--print-config` of the real program; the grammar has its tests beside it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use crate::agent::{OfAgent, count_in, fresh_scene};
use beadlock_testkit::{Scene, read, until};

/// Exit code, stdout, stderr.
fn run(scene: &Scene, args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = scene.agent(args);
    command.envs(variables.iter().copied());
    let output = beadlock_testkit::run(command);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn each_database_has_its_own_settings() {
    let scene = fresh_scene();
    let other = scene.database("other");
    scene.write(
        "conf.toml",
        "interval = 600\nexec = 'echo top'\n[[database]]\ndir = '.beads'\n\
         [[database]]\ndir = 'other/.beads'\nexec = 'echo own'\ninterval = '50ms'\n",
    );
    let agent = scene.start(&["--config", "conf.toml"]);
    until("three cycles", || count_in(&other, "own") >= 3);
    until("a cycle", || scene.count("top") == 1);
    assert_eq!((scene.count("own"), count_in(&other, "top")), (0, 0));
    assert_eq!(agent.stop(), Some(0));
    assert_eq!(scene.count("top"), 1);
}

#[test]
fn paths_begin_where_the_file_lies() {
    let scene = fresh_scene();
    let dir = scene.database("conf.d");
    scene.write(
        "conf.d/agent.toml",
        "log-file = 'all.log'\nexec = 'true'\n[[database]]\ndir = '.beads'\n",
    );
    assert_eq!(
        scene.once(&["--config", "conf.d/agent.toml"]),
        (0, String::new())
    );
    let line = format!("] {}: Sync cycle complete\n", dir.display());
    assert!(scene.read("conf.d/all.log").contains(&line));
    assert!(!dir.join("daemon.log").exists() && !scene.beads().join("daemon.log").exists());
}

#[test]
fn the_command_line_beats_the_environment_and_both_beat_the_file() {
    let scene = fresh_scene();
    scene.write(
        "conf.toml",
        "interval = 1\ndebounce = 1\njobs = 1\nallow-worktree = true\n",
    );
    let (code, printed, stderr) = run(
        &scene,
        &["--print-config", "--interval", "3"],
        &[
            ("BEADLOCK_AGENT_CONFIG", "conf.toml"),
            ("BEADLOCK_AGENT_INTERVAL", "2"),
            ("BEADLOCK_AGENT_DEBOUNCE", "2"),
            ("BEADLOCK_AGENT_ALLOW_WORKTREE", "no"),
            ("BEADLOCK_AGENT_ALLOW_FOREIGN_OWNER", "yes"),
            ("BEADLOCK_AGENT_ANY_DIRECTORY", "yes"),
            ("BEADLOCK_AUDIT", "of-all"),
        ],
    );
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let audit = format!("audit = \"{}/of-all\"", scene.path().display());
    let lines = [
        "interval = \"3s\"",
        "debounce = \"2s\"",
        "jobs = 1",
        "allow-worktree = false",
        &audit,
    ];
    for line in lines
        .into_iter()
        .chain(["allow-foreign-owner = false", "any-directory = false"])
    {
        assert!(
            printed.lines().any(|printed| printed == line),
            "{line}: {printed}"
        );
    }
}

#[test]
fn printing_starts_and_touches_nothing_and_what_is_printed_runs() {
    let scene = fresh_scene();
    let other = scene.database("below/other");
    let before = |dir: &Path| {
        (
            fs::metadata(dir).unwrap().mtime_nsec(),
            fs::read_dir(dir).unwrap().count(),
        )
    };
    let seen = (before(&scene.beads()), before(&other), before(scene.path()));
    let args = [
        "--print-config",
        "--exec",
        "touch ran",
        "--db",
        ".beads",
        "--root",
        "below",
    ];
    let args = [
        &args[..],
        &["--log-file", "all.log", "--audit", "audit.jsonl"],
    ]
    .concat();
    let (code, printed, stderr) = run(&scene, &args, &[]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    assert_eq!(
        (before(&scene.beads()), before(&other), before(scene.path())),
        seen
    );
    assert!(
        printed.contains(&format!("# Database found: {}\n", other.display())),
        "{printed}"
    );
    assert_eq!(
        printed.matches("[[database]]").count(),
        1,
        "what is found is not named: {printed}"
    );
    scene.write("printed.toml", &printed);
    let again = run(&scene, &["--config", "printed.toml", "--print-config"], &[]);
    assert_eq!(again, (Some(0), printed, String::new()));
    assert_eq!(
        scene.once(&["--config", "printed.toml"]),
        (0, String::new())
    );
    assert!(scene.file("ran").exists() && scene.file("below/other/ran").exists());
    assert!(scene.file("all.log").exists() && scene.file("audit.jsonl").exists());
    // A reader that stops wants no more.
    let mut agent = scene.agent(&args);
    let (reader, writer) = nix::unistd::pipe().unwrap();
    drop(reader);
    assert_eq!(
        agent
            .stdout(Stdio::from(writer))
            .output()
            .unwrap()
            .status
            .code(),
        Some(0)
    );
}

#[test]
fn what_is_wrong_is_said_before_anything_is_started() {
    let scene = fresh_scene();
    nix::unistd::mkfifo(&scene.file("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    scene.write("typo.toml", "jobs = 1\n\nintervall = 3\n");
    scene.write("nowhere.toml", "[[database]]\ndir = 'nowhere/.beads'\n");
    scene.write("root.toml", "root = ['nowhere']\n");
    for (file, code, words) in [
        (
            "typo.toml",
            2,
            "typo.toml:3:1: unknown key intervall; did you mean interval?\n  3 | intervall = 3\n",
        ),
        ("nowhere.toml", 1, "nowhere.toml:2:1: "),
        (
            "root.toml",
            1,
            "nowhere cannot be reached: no such file or directory; name a directory",
        ),
        (
            "none.toml",
            1,
            "cannot read none.toml: no such file or directory; name a TOML file\n",
        ),
        (
            "fifo",
            1,
            "cannot read fifo: it is not a regular file; name a TOML file\n",
        ),
        (
            ".",
            1,
            "cannot read .: it is a directory; name a TOML file\n",
        ),
    ] {
        for args in [
            &["--config", file][..],
            &["--config", file, "--print-config"],
        ] {
            let (ended, stdout, stderr) = run(&scene, args, &[]);
            assert_eq!(
                (ended, stdout.as_str()),
                (Some(code), ""),
                "{file}: {stderr}"
            );
            assert!(stderr.contains(words), "{file}: {stderr}");
        }
    }
    assert!(!scene.beads().join("daemon.log").exists());
}

/// It is read here as a user would read it, so that it can be trusted.
#[test]
fn the_example_of_the_documentation_is_a_configuration() {
    let manual = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md"));
    let examples: Vec<&str> = manual
        .split("```toml\n")
        .skip(1)
        .filter_map(|part| part.split("```").next())
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        let scene = fresh_scene();
        let dirs = example
            .lines()
            .filter_map(|line| line.strip_prefix("dir = \""));
        for dir in dirs.filter_map(|rest| rest.split('"').next()) {
            fs::create_dir_all(scene.file(&format!("etc/{dir}"))).unwrap();
        }
        fs::create_dir_all(scene.file("etc/work")).unwrap();
        scene.write("etc/agent.toml", example);
        let (code, printed, stderr) = run(
            &scene,
            &["--config", "etc/agent.toml", "--print-config"],
            &[],
        );
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{example}");
        assert!(printed.contains("[[database]]"), "{printed}");
    }
}

/// With every line of it in force.
#[test]
fn the_example_beside_the_units_is_a_configuration() {
    let example =
        read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/systemd/agent.toml"));
    let is_setting =
        |line: &&str| line.starts_with("# ") && line.contains(" = ") && line.contains("  # ");
    let settings: Vec<&str> = example.lines().filter(is_setting).collect();
    assert!(settings.len() >= 10, "the scan sees few: {settings:?}");
    // These two are one setting.
    for left_out in ["# exec = ", "# action = "] {
        let scene = fresh_scene();
        for dir in ["work", "shop/.beads", "log"] {
            fs::create_dir_all(scene.file(dir)).unwrap();
        }
        let in_force = |line: &str| match settings.contains(&line) && !line.starts_with(left_out) {
            true => line[2..].to_owned(),
            false => line.to_owned(),
        };
        let lines: Vec<String> = example.lines().map(in_force).collect();
        let here = scene.path().display().to_string();
        let text = lines
            .join("\n")
            .replace("/home/ann", &here)
            .replace("/var/log/…", &format!("{here}/log/x"));
        scene.write("agent.toml", &text);
        let (code, printed, stderr) =
            run(&scene, &["--config", "agent.toml", "--print-config"], &[]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{text}");
        assert!(
            printed.contains("log-keep = 3") && printed.contains("interval = \"1m\""),
            "{printed}"
        );
    }
}
