//! The first page of docs/fleet.md is typed as it is printed: a server with its certificate and log-in, and two clones.
//! Only the names of the machine and of its directories differ, and who starts the server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use beadlock_testkit::{Dice, Running, Scene, skip::checkout, this_host, tool, until};

/// The blocks of the section, in their order.
fn blocks() -> [String; 8] {
    let page = fs::read_to_string(checkout().join("docs/fleet.md")).expect("the page");
    let section = page
        .split("\n## ")
        .find(|part| part.starts_with("Two machines"))
        .expect("the section");
    let blocks: Vec<String> = section
        .split("```\n")
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    blocks.try_into().expect("eight blocks")
}

/// The machine `build-1` of the page, which is an address of this machine here.
struct Build1 {
    etcd: PathBuf,
    dir: tempfile::TempDir,
    address: String,
}

impl Build1 {
    fn as_here(&self, text: &str) -> String {
        let dir = self.dir.path().display().to_string();
        text.replace("DNS:build-1", &format!("IP:{}", self.address))
            .replace("https://0.0.0.0", "https://build-1")
            .replace("build-1:", &format!("{}:", self.address))
            .replace("/var/lib/etcd-beads", &format!("{dir}/data"))
            .replace("/etc/etcd/beads", &dir)
    }

    /// Types these lines of the page, but those that are for a machine of its own.
    fn type_in(&self, block: &str) {
        let typed = self.as_here(block);
        let lines = typed.lines().filter(|line| {
            !["apt-get", "systemctl", "chown"]
                .iter()
                .any(|no| line.starts_with(no))
        });
        // Both passwords are the same.
        let lines = lines.map(|line| match line.strip_prefix("etcdctl user add ") {
            Some(user) => format!("echo s3cret | etcdctl user add {user} --interactive=false"),
            None => line.to_owned(),
        });
        let script = lines.collect::<Vec<_>>().join("\n");
        let mut shell = Command::new("sh");
        let ended = shell
            .args(["-e", "-c", &script])
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .output();
        let ended = ended.expect("a shell");
        assert!(
            ended.status.success(),
            "{script}\n{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }

    /// Starts what the unit of the page starts.
    fn start(&self, unit: &str) -> Running {
        let unit = self.as_here(&unit.replace("\\\n", " "));
        let line = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/etcd "))
            .expect("a command");
        let log = fs::File::create(self.dir.path().join("log")).expect("a log");
        let mut command = Command::new(&self.etcd);
        command
            .env_clear()
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // The cheapest hash of a password: on a busy machine the usual one takes longer than etcd has for an answer.
        command.arg("--bcrypt-cost=4");
        // The page's machine has the ports of the nodes to itself.
        let peers = format!("http://{}:2380", self.address);
        command.args([
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
        ]);
        command.args(["--initial-cluster", &format!("build-1={peers}")]);
        Running::on(log, command)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        path
    }
}

fn beadlock(scene: &Scene, file: &Path, args: &[&str]) -> Command {
    let mut command = scene.beadlock(args);
    command.env("BEADLOCK_FLEET_CONFIG", file);
    command
}

/// A text with one `0` for each number and `s` for each unit of time, so that two runs can be compared.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars() {
        match character.is_ascii_digit() || (character == '.' && plain.ends_with('0')) {
            true if plain.ends_with('0') => {}
            true => plain.push('0'),
            false => plain.push(character),
        }
    }
    plain.replace("0ms", "0s")
}

#[test]
fn the_first_page_sets_up_two_machines_as_it_says() {
    let (Some(etcd), Some(_), Some(_)) = (tool("etcd"), tool("etcdctl"), tool("openssl")) else {
        return;
    };
    let mut dice = Dice::new(u64::from(std::process::id()), "first page");
    let address = format!("127.{}.{}.1", 1 + dice.below(250), 1 + dice.below(250));
    let build_1 = Build1 {
        etcd,
        dir: tempfile::tempdir().expect("a directory"),
        address,
    };
    let [keys, unit, users, config, create, join, hold, log] = blocks();
    build_1.type_in(&keys);
    let _server = build_1.start(&unit);
    until("etcd listens", || {
        std::net::TcpStream::connect((build_1.address.as_str(), 2379)).is_ok()
    });
    build_1.type_in(&users);
    build_1.write("password", "s3cret\n");
    let file = build_1.write("fleet.toml", &build_1.as_here(&config));

    let (here, there) = (Scene::new(), Scene::new());
    let says = |scene: &Scene, block: &str| {
        let mut lines = block.lines();
        let typed = lines
            .next()
            .and_then(|line| line.strip_prefix("$ beadlock "))
            .expect("a command");
        let args: Vec<&str> = typed.split_whitespace().collect();
        let ended = Running::start(beadlock(scene, &file, &args)).end();
        let shown: Vec<&str> = lines.collect();
        let shown = without_numbers(&build_1.as_here(&shown.join("\n")));
        // On a busy machine it also says that it waits.
        let said: Vec<&str> = ended
            .err
            .lines()
            .filter(|line| !line.starts_with("beadlock: waiting for "))
            .collect();
        assert_eq!(
            (ended.code, without_numbers(&said.join("\n"))),
            (0, shown),
            "{ended:?}"
        );
    };
    says(&here, &create);
    says(&here, &join);
    beadlock(&there, &file, &["fleet", "join", "acme/tracker"])
        .output()
        .expect("beadlock");
    let mut agent = there.agent(&["--interval", "20ms", "--exec", "true"]);
    agent.env("BEADLOCK_FLEET_CONFIG", &file);
    let _agent = Running::start(agent);
    there.wait_for_log("its first cycle", |log| log.contains("Sync cycle complete"));
    let claimed = here.path().join("claimed");
    here.write(
        "Makefile",
        format!(
            "release:\n\t@touch {0}; while [ -e {0} ]; do sleep 0.05; done\n",
            claimed.display()
        ),
    );
    std::thread::scope(|scope| {
        let held = scope.spawn(|| says(&here, &hold));
        until("the release runs", || claimed.exists());
        there.wait_for_log("the claim", |log| log.contains("(fleet_held)"));
        fs::remove_file(&claimed).expect("the release to end");
        held.join().expect("what the page says");
    });
    there.wait_for_log("the next cycle", |log| log.contains("Resumed after"));
    let shown = log.replace("build-1", &this_host());
    let logged = there.log();
    for line in shown.lines() {
        let line = without_numbers(line.split_once("] ").expect("a time").1);
        let start = line.split(" in 0s").next().expect("a start");
        assert!(
            logged
                .lines()
                .any(|logged| without_numbers(logged).contains(start)),
            "{line}: not in\n{logged}"
        );
    }
}
