use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cli::grammar;
use super::cli::tests::typed_of;
use super::file::ConfigFile;
use super::options::{AgentOptions, names};
use super::page::ConfigPage;
use super::*;
use crate::roots::RootScan;

fn parse_text(text: &str) -> Result<ConfigFile, ConfigFailure> {
    let file = ConfigFile::parse(ConfigPage::of(text), Path::new("/etc/beadlock"))?;
    has_its_schema(text);
    Ok(file)
}

/// A file that is understood is as its schema has it.
fn has_its_schema(text: &str) {
    let table: toml::Table = text.parse().unwrap();
    let value = serde_json::to_value(table).unwrap();
    let errors = beadlock_testkit::schema::errors("agent-toml", &value);
    assert!(errors.is_empty(), "{}\n{text}", errors.join("\n"));
}

#[test]
fn the_schema_has_the_keys_of_the_file() {
    let schema = beadlock_testkit::schema::schema("agent-toml");
    let keys = |properties: &serde_json::Value| {
        let keys = properties.as_object().unwrap().keys().cloned();
        keys.collect::<BTreeSet<String>>()
    };
    let all = |own: &[&str], lists: &[Vec<String>]| {
        let own = own.iter().map(|key| (*key).to_owned());
        own.chain(lists.concat()).collect::<BTreeSet<String>>()
    };
    let (policy, agent) = (names::<Policy>(), names::<AgentOptions>());
    assert_eq!(
        keys(&schema["properties"]),
        all(&["database"], &[policy.clone(), agent])
    );
    let table = &schema["definitions"]["DatabaseTable"];
    assert_eq!(keys(&table["properties"]), all(&["dir"], &[policy]));
}

/// A directory with the databases `a/.beads` and `b/.beads`.
struct Scene {
    _root: tempfile::TempDir,
    dir: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(root.path()).unwrap();
        let scene = Self { _root: root, dir };
        scene.database("a/.beads");
        scene.database("b/.beads");
        scene
    }

    fn database(&self, name: &str) {
        fs::create_dir_all(self.dir.join(name)).unwrap();
    }

    /// The command line of `args` in this directory, with `--config` and a file of this text.
    fn typed(&self, args: &[&str], text: &str) -> CommandLine {
        fs::write(self.dir.join("conf.toml"), text).unwrap();
        let mut typed = typed_of(&[args, &["--config", "conf.toml"]].concat()).unwrap();
        typed.environment.cwd.clone_from(&self.dir);
        typed.environment.beads_dir = None;
        typed
    }

    fn settings(&self, args: &[&str], text: &str) -> Result<AgentSettings, ConfigFailure> {
        let settings = AgentSettings::read(&self.typed(args, text), &[])?;
        has_its_schema(text);
        Ok(settings)
    }

    fn printed(&self, args: &[&str], text: &str) -> Result<String, ConfigFailure> {
        print(&self.settings(args, text)?, &self.dir, &RootScan::default())
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_keys_are_the_options_and_nothing_is_both_or_forgotten() {
    let of_command_line = [
        "db",
        "config",
        "print-config",
        "once",
        "man",
        "completions",
        "no-watch",
        "no-spread",
    ]
    .map(str::to_owned);
    let mut keys = [
        names::<Policy>(),
        names::<AgentOptions>(),
        of_command_line.to_vec(),
    ]
    .concat();
    let options = grammar();
    let mut options: Vec<&str> = options
        .get_arguments()
        .filter_map(|arg| arg.get_long())
        .collect();
    keys.sort_unstable();
    options.sort_unstable();
    assert_eq!(keys, options);
}

#[test]
fn every_key_is_read_and_means_what_it_does_on_the_command_line() {
    let text = r#"
        interval = 3
        debounce = "1.5"
        exec = "make sync"
        fetch-interval = "2m"
        cycle-timeout = "1h30m"
        skip-warn = "2h"
        reap-proven-dead = true
        allow-worktree = true
        jobs = 0x10
        fetch-jobs = 8
        log-file = "logs/all.log"
        log-format = "json"
        log-size = "1MiB"
        log-keep = 7
        log-level = "debug"
        audit = "/var/audit"
        listen = "unix:../agent.sock"
        listen-anywhere = true
        stale-after = "20m"
        root = ["/srv", "../home"]
        allow-foreign-owner = true
        any-directory = true
        [[database]]
        dir = "x/.beads"
        interval = "250ms"
        action = "none"
    "#;
    let file = parse_text(text).unwrap();
    let agent = "--jobs 16 --fetch-jobs 8 --log-file /etc/beadlock/logs/all.log --log-format json \
                 --log-size 1048576 --log-keep 7 \
                 --log-level debug \
                 --audit /var/audit --listen /etc/beadlock/../agent.sock --listen-anywhere --stale-after 20m \
                 --allow-foreign-owner \
                 --any-directory";
    let policy = "--interval 3 --debounce 1.5 --fetch-interval 2m --cycle-timeout 1h30m --skip-warn 2h \
                  --reap-proven-dead --allow-worktree";
    let mut args: Vec<&str> = [agent, policy]
        .iter()
        .flat_map(|text| text.split_whitespace())
        .collect();
    args.extend(["--exec", "make sync"]);
    let typed = typed_of(&args).unwrap();
    let of_file = (file.policy, file.agent);
    assert_eq!(of_file, typed.alone());
    let roots: Vec<&Path> = file.roots.iter().map(|(root, _)| root.as_path()).collect();
    assert_eq!(
        roots,
        [Path::new("/srv"), Path::new("/etc/beadlock/../home")]
    );
    assert_eq!(file.databases[0].dir, Path::new("/etc/beadlock/x/.beads"));
    let own = file.databases[0].policy.clone();
    assert_eq!(
        (own.interval, own.debounce),
        (Duration::from_millis(250), of_file.0.debounce)
    );
    assert_eq!(own.action(), CycleAction::None);
    for key in [names::<Policy>(), names::<AgentOptions>()].concat() {
        assert!(
            key == "action" || text.contains(&format!("{key} = ")),
            "{key} is not in this test"
        );
    }
}

#[test]
fn an_empty_file_says_nothing() {
    for text in [
        "",
        "\n",
        "# nothing\n",
        "\u{feff}interval = 3",
        "interval = 3\r\njobs = 1\r\n",
    ] {
        assert!(parse_text(text).is_ok(), "{text:?}");
    }
}

#[test]
fn a_mistake_is_said_with_its_place_and_what_to_write() {
    let table = [
        (
            "intervall = 1",
            "1:1: unknown key intervall; did you mean interval?",
        ),
        (
            "cycle_timeout = 1",
            "1:1: unknown key cycle_timeout; did you mean cycle-timeout?",
        ),
        (
            "jobs = 1\n[[databases]]\ndir = 'x'",
            "2:3: unknown key databases; did you mean [[database]]?",
        ),
        (
            "[database]\ndir = 'x'",
            "1:1: database must be a list; write [[database]]",
        ),
        (
            "database = [1]",
            "1:13: database is a list of tables; write [[database]]",
        ),
        (
            "[[database]]\ndir = 'x'\n\n  intervall = 1",
            "4:3: unknown key intervall; did you mean interval?",
        ),
        (
            "[[database]]\ndir = 'x'\ndirr = 1",
            "3:1: unknown key dirr; did you mean dir?",
        ),
        ("[[database]]\ndir = 'x'\n[database.interval]\nx = 1", "3:"),
        (
            "[[database]]\ndir = 'x'\njobs = 3",
            "3:1: jobs is the whole agent's; move it to the top, above the first",
        ),
        (
            "[[database]]\ninterval = 3",
            "1:1: a [[database]] without dir; write dir = \"path/.beads\"",
        ),
        (
            "db = ['x']",
            "1:1: unknown key db; did you mean [[database]] and dir?",
        ),
        ("once = true", "1:1: once is for the command line only"),
        ("é = 1", "1:1: "),
        ("zzz = 1", "1:1: unknown key zzz; the keys are interval, "),
        ("\"a\\u001b[2J\" = 1", "1:1: unknown key a\\u{1b}[2J; "),
        (
            "interval = 0",
            "1:12: interval: must be above 0; type 5s or 500ms",
        ),
        (
            "interval = -5",
            "1:12: interval: \"-5\" is no duration; examples: 10s, 500ms, 1h30m",
        ),
        (
            "interval = \"soon\"",
            "1:12: interval: \"soon\" is no duration; examples: 10s",
        ),
        (
            "interval = true",
            "1:12: interval: must be a text in quotes, or a number",
        ),
        (
            "interval = 1e400",
            "1:12: interval: must be a text in quotes, or a number below 2^63",
        ),
        (
            "[[database]]\ndir = 'x'\nskip-warn = 9223372036854775808",
            "3:13: skip-warn: must be a text in quotes, or a number below 2^63",
        ),
        (
            "jobs = 99999999999999999999999999999999999999999",
            "1:8: jobs: must be a text in quotes, or a number below 2^63",
        ),
        (
            "log-keep = 1.0",
            "1:12: log-keep: \"1.0\" is no number: invalid digit",
        ),
        (
            "[[database]]\ndir = 'x'\njobs = 1e400",
            "3:1: jobs is the whole agent's; move it to the top",
        ),
        (
            "[[database]]\ndir = 1e400",
            "2:7: dir: must be a path, in quotes",
        ),
        ("zzz = 1e400", "1:1: unknown key zzz; the keys are interval"),
        (
            "action = 1e400",
            "1:10: action: must be \"git\" or \"none\"; a command goes into exec",
        ),
        ("root = [1e400]", "1:9: root: must be a path, in quotes"),
        (
            "any-directory = 1e400",
            "1:17: any-directory: must be true or false",
        ),
        (
            "interval = {\"$__toml_private_datetime\" = 'x'}",
            "1:12: interval: must be a text in quotes, or a number below",
        ),
        (
            "interval = 1979-05-27",
            "1:12: interval: must be a text in quotes, or a number",
        ),
        ("jobs = 0", "1:8: jobs: \"0\" is no number of cycles: "),
        (
            "jobs = []",
            "1:8: jobs: must be a text in quotes, or a number",
        ),
        (
            "log-format = 'xml'",
            "1:14: log-format: must be \"text\" or \"json\"",
        ),
        ("log-size = 1", "1:12: log-size: must be at least 4KiB"),
        ("log-keep = 1001", "1:12: log-keep: 1001 is not in 0..=1000"),
        (
            "log-level = 'loud'",
            "1:13: log-level: must be \"off\" or \"error\" or \"warn\" or \"info\" or ",
        ),
        ("log-level = 3", "1:13: log-level: must be \"off\""),
        (
            "exec = ''",
            "1:8: exec: has no command; write exec = './sync.sh'",
        ),
        ("exec = ['a']", "1:8: exec: must be a command, in quotes"),
        (
            "exec = \"a\\u0000\"",
            "1:8: exec: no command has a NUL in it",
        ),
        ("action = 'pull'", "1:10: action: must be "),
        (
            "action = 'none'\nexec = 'a'",
            "2:1: exec and action exclude each other; leave one out",
        ),
        (
            "[[database]]\nexec = 'a'\ndir = 'x'\naction = 'none'",
            "4:1: exec and action exclude each other; leave one out",
        ),
        (
            "reap-proven-dead = 1",
            "1:20: reap-proven-dead: must be true or false",
        ),
        (
            "allow-worktree = 'yes'",
            "1:18: allow-worktree: must be true or false",
        ),
        ("listen = 1", "1:10: listen: must be an address, in quotes"),
        (
            "listen = 'x'",
            "1:10: listen: \"x\" is no address; examples: 127.0.0.1:19187",
        ),
        (
            "skip-warn = 0",
            "1:13: skip-warn: must be above 0; type 5s or 500ms",
        ),
        ("audit = 1", "1:9: audit: must be a path, in quotes"),
        (
            "root = '/srv'",
            "1:8: root must be a list; write root = [\"/srv\"]",
        ),
        (
            "root = ['/srv', 1]",
            "1:17: root: must be a path, in quotes",
        ),
        (
            "[[database]]\ndir = ''",
            "2:7: dir: must be a path, in quotes",
        ),
        ("interval = 1\ninterval = 2", "2:1: duplicate key"),
        ("interval = [1,2", "1:"),
        ("interval =", "1:"),
        ("x", "1:"),
        ("[[[", "1:"),
    ];
    for (text, words) in table {
        let failure = parse_text(text).map(|file| file.policy).unwrap_err();
        let message = format!("conf.toml:{words}");
        assert!(failure.message.starts_with(&message), "{text}: {failure}");
        assert_eq!(failure.code, 2, "{text}");
        assert_eq!(failure.message.lines().count(), 1, "{text}: {failure}");
        let shown = failure.to_string();
        assert!(
            shown.lines().count() == 3 && shown.ends_with('^'),
            "{text}: {shown}"
        );
    }
}

#[test]
fn the_mark_stands_below_what_it_marks() {
    let shown = parse_text("jobs = 1\n\"é\\t\"= 1")
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(shown.ends_with("\n  2 | \"é\\t\"= 1\n    | ^"), "{shown}");
    let shown = parse_text("interval\t= 0")
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        shown.ends_with("\n  1 | interval\\t= 0\n    |             ^"),
        "{shown}"
    );
    let long = format!("root = [{}1]", "'/x', ".repeat(1000));
    let shown = parse_text(&long).map(drop).unwrap_err().to_string();
    let [_, line, mark] = shown.lines().collect::<Vec<_>>()[..] else {
        panic!("{shown}")
    };
    assert!(
        line.len() < 200 && line.as_bytes()[mark.find('^').unwrap()] == b'1',
        "{shown}"
    );
}

#[test]
fn nothing_that_is_written_is_a_trap() {
    let deep = [&"a = ".to_owned()[..], &"[".repeat(100_000)].concat();
    for text in [
        deep.as_str(),
        "a = \"\"\"",
        "\0",
        "= = =",
        "[[database]]\n[[database]]",
        "a.b.c = {d = {}}",
    ] {
        assert!(parse_text(text).is_err(), "{}", &text[..20.min(text.len())]);
    }
}

/// Command line, then the database's own table, then the top of the file, then what is built in.
#[test]
fn the_nearest_place_holds() {
    let scene = Scene::new();
    let text = "interval = 2\ndebounce = 2\nexec = 'top'\nallow-worktree = true\n\
                [[database]]\ndir = 'a/.beads'\ninterval = 3\naction = 'none'\nallow-worktree = false\n\
                [[database]]\ndir = 'b/.beads'\n";
    let policies = |args: &[&str]| -> Vec<_> {
        let settings = scene.settings(args, text).unwrap();
        settings
            .named
            .iter()
            .map(|named| named.policy.as_ref().clone())
            .collect()
    };
    let [a, b] = &policies(&[])[..] else { panic!() };
    assert_eq!(
        (a.interval, a.debounce, a.action()),
        (seconds(3), Some(seconds(2)), CycleAction::None)
    );
    assert_eq!(
        (b.interval, b.debounce, b.action()),
        (
            seconds(2),
            Some(seconds(2)),
            CycleAction::Exec("top".as_ref())
        )
    );
    assert_eq!((a.allow_worktree, b.allow_worktree), (false, true));
    assert_eq!(a.cycle_timeout, seconds(120), "built in");
    for policy in policies(&["--interval", "9", "--exec", "typed"]) {
        assert_eq!(
            (policy.interval, policy.action()),
            (seconds(9), CycleAction::Exec("typed".as_ref()))
        );
    }
}

#[test]
fn the_command_line_adds_databases_and_each_is_one() {
    let scene = Scene::new();
    std::os::unix::fs::symlink("a/.beads", scene.dir.join("link")).unwrap();
    let text = "[[database]]\ndir = 'a/.beads'\ninterval = 3\n";
    let dirs = |args: &[&str], text: &str| -> Vec<_> {
        let settings = scene.settings(args, text).unwrap();
        let dir = |path: &Path| {
            path.strip_prefix(&scene.dir)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        settings
            .named
            .iter()
            .map(|named| (dir(&named.database.dir), named.policy.interval))
            .collect()
    };
    let (a, b) = (
        ("a/.beads".to_owned(), seconds(3)),
        ("b/.beads".to_owned(), seconds(5)),
    );
    assert_eq!(
        dirs(&["--db", "b/.beads", "--db", "link"], text),
        [a.clone(), b.clone()]
    );
    assert_eq!(dirs(&["--db", "b/.beads", "--db", "b/.beads"], ""), [b]);
    assert_eq!(dirs(&[], text), [a]);
    let twice = format!("{text}[[database]]\n\ndir = 'link'\n");
    let failure = scene.settings(&[], &twice).map(drop).unwrap_err();
    let words = "conf.toml:6:1: the same directory as the [[database]] of line 2; leave one out";
    assert_eq!((failure.code, failure.message.as_str()), (2, words));
    let failure = scene
        .settings(&[], "[[database]]\ndir = 'nowhere'\n")
        .map(drop)
        .unwrap_err();
    assert!(
        failure.message.starts_with("conf.toml:2:1: ") && failure.code == 1,
        "{failure}"
    );
    assert!(
        failure.message.contains("nowhere does not exist"),
        "{failure}"
    );
}

#[test]
fn without_a_database_the_nearest_is_found_unless_there_is_a_root() {
    let scene = Scene::new();
    let failure = scene.settings(&[], "").map(drop).unwrap_err();
    assert!(
        failure
            .message
            .contains("name one: beadlock-agent --db path/.beads"),
        "{failure}"
    );
    scene.database(".beads");
    assert_eq!(
        scene.settings(&[], "").unwrap().named[0].database.dir,
        scene.dir.join(".beads")
    );
    for (args, text) in [(&["--root", "a"][..], ""), (&[], "root = ['a']")] {
        let settings = scene.settings(args, text).unwrap();
        assert_eq!(
            (settings.named.len(), settings.agent.root),
            (0, vec![scene.dir.join("a")])
        );
    }
    let both = scene
        .settings(&["--root", "a", "--root", "b"], "root = ['a', 'b/..']")
        .unwrap();
    assert_eq!(
        both.agent.root,
        ["a", "b", "b/.."].map(|root| scene.dir.join(root))
    );
    fs::write(scene.dir.join("file"), "").unwrap();
    for (root, words) in [
        ("nowhere", "cannot be reached: no such file"),
        ("file", "is not a directory; name"),
    ] {
        let failure = scene.settings(&["--root", root], "").map(drop).unwrap_err();
        assert!(
            failure.message.contains(words) && failure.code == 1,
            "{failure}"
        );
        let typed = scene.typed(&["--root", root], "");
        assert!(
            AgentSettings::read(&typed, &[scene.dir.join(root)]).is_ok(),
            "it was there at the start"
        );
    }
}

#[test]
fn a_root_of_the_file_that_is_no_directory_is_said_with_its_place() {
    let scene = Scene::new();
    let failure = scene
        .settings(&[], "jobs = 1\nroot = ['a', 'nowhere']")
        .map(drop)
        .unwrap_err();
    assert!(
        failure.message.starts_with("conf.toml:2:14: the root "),
        "{failure}"
    );
    assert_eq!(failure.code, 1);
}

#[test]
fn what_is_no_configuration_is_said_in_one_line_and_keeps_nobody_waiting() {
    let scene = Scene::new();
    nix::unistd::mkfifo(&scene.dir.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(scene.dir.join("long"), " ".repeat(1024 * 1024 + 1)).unwrap();
    fs::write(scene.dir.join("full"), " ".repeat(1024 * 1024)).unwrap();
    fs::write(scene.dir.join("latin"), b"# \xe9\njobs = 1").unwrap();
    for (name, code, words) in [
        ("fifo", 1, "cannot read fifo: it is not a regular file"),
        ("a", 1, "cannot read a: it is a directory"),
        (
            "nowhere",
            1,
            "cannot read nowhere: no such file or directory",
        ),
        (
            "/dev/zero",
            1,
            "cannot read /dev/zero: it is not a regular file",
        ),
        ("long", 2, "long is longer than 1 MiB"),
        ("latin", 2, "latin:1:3: not UTF-8"),
    ] {
        let failure = ConfigFile::read(&scene.dir, Path::new(name))
            .map(drop)
            .unwrap_err();
        assert!(
            failure.message.starts_with(words) && failure.code == code,
            "{failure}"
        );
        assert_eq!(failure.message.lines().count(), 1);
    }
    assert!(ConfigFile::read(&scene.dir, Path::new("full")).is_ok());
}

#[test]
fn what_is_printed_says_the_same_and_prints_the_same() {
    let scene = Scene::new();
    let odd = "spaces and 'quotes' \"both\" \\ back\nline\té\u{1b}";
    scene.database(&format!("{odd}/.beads"));
    let quoted = toml::Value::String(format!("{odd}/.beads")).to_string();
    let top = "interval = 0.0000015\ndebounce = 0\nexec = '''\nfirst \"x\"\n\\second\n'''\njobs = 3\n\
               cycle-timeout = '30000h'\nroot = ['a', 'b']\nlog-file = 'x y.log'\nlog-level = 'trace'\n\
               audit = '../audit'\nlisten = 'unix:a b'\nskip-warn = '1h'\n";
    let text = format!(
        "{top}[[database]]\ndir = {quoted}\naction = 'none'\ndebounce = '2h 3m 4s 5ms 6us'\n\
         [[database]]\ndir = 'b/.beads'\nreap-proven-dead = true\nallow-worktree = true\ncycle-timeout = 1\n"
    );
    for (args, text) in [
        (&[][..], text.as_str()),
        (
            &["--db", "a/.beads", "--interval", "1h30m", "--exec", "x"],
            &text,
        ),
        (&["--db", "a/.beads"], ""),
        (&["--root", "a"], ""),
        (&["--db", "a/.beads", "--jobs", "18446744073709551615"], ""),
    ] {
        let first = scene.printed(args, text).unwrap();
        let settings = scene.settings(args, text).unwrap();
        let again = scene.settings(&[], &first).unwrap();
        assert_eq!(again.defaults, settings.defaults, "{first}");
        let policies = |settings: &AgentSettings| -> Vec<_> {
            settings
                .named
                .iter()
                .map(|named| (named.database.dir.clone(), named.policy.clone()))
                .collect()
        };
        assert_eq!(policies(&again), policies(&settings), "{first}");
        assert_eq!(scene.printed(&[], &first).unwrap(), first);
        for key in [names::<Policy>(), names::<AgentOptions>()].concat() {
            let is_there = first
                .lines()
                .any(|line| line.starts_with(&format!("{key} = ")));
            let may_lack = [
                "action",
                "exec",
                "log-file",
                "audit",
                "listen",
                "debounce",
                "fetch-interval",
            ]
            .contains(&key.as_str());
            assert!(is_there || may_lack, "{key} is not printed: {first}");
        }
    }
}

#[test]
fn what_no_toml_can_say_is_not_printed() {
    let scene = Scene::new();
    let name = OsStr::from_bytes(b"\xff/.beads");
    fs::create_dir_all(scene.dir.join(name)).unwrap();
    let mut typed = scene.typed(&[], "");
    typed.cli.db = vec![name.into()];
    let settings = AgentSettings::read(&typed, &[]).unwrap();
    let failure = print(&settings, &scene.dir, &RootScan::default()).unwrap_err();
    assert!(
        failure
            .message
            .contains("/\u{fffd}/.beads is not UTF-8, and TOML is"),
        "{failure}"
    );
    assert_eq!(failure.code, 1);
}
