//! Every situation that `status` and `check --explain` tell apart: its witnesses, its words, and what to type.
#![expect(clippy::disallowed_methods, reason = "what tools do to a lock file, and ages for it")]

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, SystemTime};

use beadlock_checker::Gate;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::{
    Running, Scene, as_nobody, children, dead_pid, has_program, lives, reap, this_host, until,
};

/// The record that beadlock writes here and now; its process is gone.
fn record(scene: &Scene) -> Value {
    let _ = fs::remove_file(scene.lock());
    let ended = scene.run(&["hold", "--", "cat", ".beads/.exclusive-lock"]).expect(0, &[]);
    serde_json::from_str(&ended.out).unwrap()
}

fn put(scene: &Scene, record: &Value) {
    fs::write(scene.lock(), record.to_string()).unwrap();
}

/// A record of this test's own process, changed.
fn mine(scene: &Scene, change: impl Fn(&mut Value)) -> Value {
    let me = std::process::id().cast_signed();
    let mut record = record(scene);
    record["pid"] = me.into();
    let stat = beadlock_checker::process::Stat::read(me).unwrap();
    record["beadlock"]["start_ticks"] = stat.start_ticks.into();
    change(&mut record);
    put(scene, &record);
    record
}

/// What the three ways of asking say: they agree.
struct Seen {
    text: String,
    data: Value,
    next: String,
}

impl Seen {
    #[track_caller]
    fn of(scene: &Scene, situation: &str) -> Self {
        let text = scene.run(&["status"]).expect(0, &[]).out;
        let data = scene.run(&["status", "--json"]).expect(0, &[]).json()["data"][0].clone();
        assert_eq!(data["witnesses"]["situation"], situation, "{text}");
        let line = |text: &str, label: &str| {
            let line = text.lines().find_map(|line| line.trim_start().strip_prefix(label));
            line.unwrap_or_else(|| panic!("no {label} in {text}")).to_owned()
        };
        let next = line(&text, "next: ");
        assert_eq!(data["next"], next);
        let explained = scene.run(&["check", "--dry-run", "--explain"]).out;
        assert_eq!(line(&explained, "next: "), next, "check --explain says the same");
        assert_eq!(
            line(&explained, "why: ").split(" old:").count(),
            line(&text, "why: ").split(" old:").count()
        );
        let pasted = Command::new("sh").args(["-n", "-c", &next]).status().unwrap();
        assert!(pasted.success(), "a shell reads {next}");
        Self { text, data, next }
    }

    /// The text has all of these.
    #[track_caller]
    fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.text.contains(word), "no {word:?} in {}", self.text);
        }
        self
    }

    /// What is to be typed, without the comment, and words of the comment.
    #[track_caller]
    fn next(self, command: &str, comment: &str) -> Self {
        let (typed, why) = self.next.split_once("   # ").unwrap_or((&self.next, ""));
        assert_eq!(typed, command, "{}", self.text);
        assert!(why.contains(comment), "no {comment:?} in {}", self.next);
        self
    }

    #[track_caller]
    fn witness(self, key: &str, expected: impl Into<Value>) -> Self {
        assert_eq!(self.data["witnesses"][key], expected.into(), "{key}: {}", self.data);
        self
    }
}

/// `beadlock break .beads --id … --even-if-live` for what `record` is.
fn by_hand(record: &Value) -> String {
    format!("beadlock break .beads --id {} --even-if-live", record["beadlock"]["id"].as_str().unwrap())
}

#[test]
fn a_process_that_lives() {
    let scene = Scene::new();
    let me = std::process::id();
    mine(&scene, |_| {});
    Seen::of(&scene, "alive")
        .says(&["why: its process lives here, and started when the record says", "succeeds: it lives"])
        .next("beadlock wait --wait 10m .beads", &format!("ps -fp {me}"))
        .witness("kill", "ok");
    scene.write_lock("vc", me.into(), &this_host());
    Seen::of(&scene, "alive").says(&["whether it is still the one that claimed is not recorded"]);
    let mut command = scene.command(&["status", ".beads"]);
    fs::set_permissions(scene.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    if as_nobody(&mut command) {
        let text = Running::start(command).finish().expect(0, &[]).out;
        assert!(text.contains("why: its process lives here, and is another user's"), "{text}");
        assert!(text.contains("says EPERM") && text.contains("next: beadlock wait"), "{text}");
    }
}

#[test]
fn a_process_that_is_gone() {
    let scene = Scene::new();
    let mut gone = record(&scene);
    put(&scene, &gone);
    let check = "beadlock check .beads";
    Seen::of(&scene, "gone").says(&["stale, left by cat", "says ESRCH"]).next(check, "removes it");
    gone["beadlock"]["boot_id"] = "another".into();
    put(&scene, &gone);
    Seen::of(&scene, "gone")
        .says(&["why: its process is gone; this machine has booted since", "boot: other"])
        .next(check, "removes it")
        .witness("boot", "other");
    let gate = Gate::try_take(&scene.beads()).unwrap().unwrap();
    let text = scene.run(&["status"]).expect(0, &[]).out;
    assert!(text.contains("# removes it, once the gate is open"), "{text}");
    drop(gate);
}

#[test]
fn a_recycled_pid_and_whose_it_is_now() {
    let scene = Scene::new();
    let record = mine(&scene, |record| {
        let ticks = record["beadlock"]["start_ticks"].as_u64().unwrap();
        record["beadlock"]["start_ticks"] = (ticks + 1000).into();
    });
    let pid = &record["pid"];
    let reap = "beadlock check --reap-proven-dead .beads";
    let seen = Seen::of(&scene, "pid_recycled")
        .says(&[&format!("why: its process is gone: PID {pid} is another one now ("), "that PID now: "])
        .next(reap, "removes it: pid_reused");
    assert!(seen.data["witnesses"]["command_now"].is_string(), "{}", seen.data);
    scene.run(&["check"]).expect(4, &[]);
    scene.run(&["check", "--reap-proven-dead", ".beads"]).expect(0, &[]);
    assert!(!scene.lock().exists(), "as it said");
}

#[test]
fn a_zombie() {
    let scene = Scene::new();
    let mut child = Command::new("true").spawn().unwrap();
    until("it has ended", || !lives(child.id().cast_signed()));
    scene.write_lock("vc", child.id().into(), &this_host());
    Seen::of(&scene, "zombie")
        .says(&["why: its process has ended; only its parent", "that PID is a zombie"])
        .next("beadlock check --reap-proven-dead .beads", "removes it: zombie")
        .witness("zombie", true);
    child.wait().unwrap();
}

#[test]
fn a_boot_since_with_the_pid_in_use_again() {
    let scene = Scene::new();
    let boot = |record: &mut Value| record["beadlock"]["boot_id"] = "another".into();
    let record = mine(&scene, boot);
    let local = scene.run(&["status", "--json"]).json()["data"][0]["witnesses"]["local_file_system"].clone();
    if local == true {
        Seen::of(&scene, "rebooted")
            .says(&["why: this machine has booted since: its process is gone", "that PID now: "])
            .says(&["file system: only this machine writes it"])
            .next("beadlock check --reap-proven-dead .beads", "removes it: other_boot");
    } else {
        not_proved(&scene, &record, "not known to lie on a file system that only this machine writes");
    }
    let record = mine(&scene, |record| {
        boot(record);
        record["beadlock"].as_object_mut().unwrap().remove("machine_id");
    });
    if local == true {
        not_proved(&scene, &record, "which machine it was is not recorded");
    }
}

#[track_caller]
fn not_proved(scene: &Scene, record: &Value, why: &str) {
    Seen::of(scene, "rebooted")
        .says(&["is in use again", why])
        .next(&format!("ps -fp {}", record["pid"]), &by_hand(record));
    scene.run(&["check", "--reap-proven-dead"]).expect(4, &[]);
}

/// A file system that is on no list of local ones proves nothing by a boot.
#[test]
fn a_boot_since_on_a_file_system_that_is_not_known_to_be_local() {
    let scene = Scene::new();
    mine(&scene, |record| record["beadlock"]["boot_id"] = "another".into());
    let script = "mount -t ramfs none .beads && cp lock .beads/.exclusive-lock && exec $BEADLOCK status";
    fs::copy(scene.lock(), scene.file("lock")).unwrap();
    let Some(command) = apart(&scene, &["--mount"], script) else { return };
    let text = Running::start(command).finish().expect(0, &[]).out;
    for words in
        ["not known to lie on a file system", "file system: other machines may write it", "next: ps -fp "]
    {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}

#[test]
fn a_machine_that_was_renamed() {
    let scene = Scene::new();
    let renamed = |record: &mut Value| record["hostname"] = "before".into();
    let record = mine(&scene, renamed);
    if record["beadlock"]["machine_id"].is_null() {
        return eprintln!("skipped: this machine has no machine id");
    }
    let me = &record["pid"];
    let words = format!(
        "why: this machine was renamed: it was before when this was claimed, and is {} now",
        this_host()
    );
    Seen::of(&scene, "renamed")
        .says(&[&words, &format!("so PID {me} can be looked up here: it lives"), "that PID here: kill("])
        .next("beadlock wait --wait 10m .beads", &format!("ps -fp {me}"))
        .witness("kill", "not_asked")
        .witness("kill_here", "ok");
    let record = mine(&scene, |record| {
        renamed(record);
        record["beadlock"]["start_ticks"] = 1.into();
    });
    Seen::of(&scene, "renamed")
        .says(&["it is another process now ("])
        .next(&format!("ps -fp {me}"), &by_hand(&record));
    let record = mine(&scene, |record| {
        renamed(record);
        record["pid"] = dead_pid().into();
    });
    Seen::of(&scene, "renamed")
        .says(&["can be looked up here: it is gone"])
        .next(&format!("ps -fp {}", record["pid"]), &by_hand(&record))
        .witness("kill_here", "ESRCH");
    scene.run(&["check", "--reap-proven-dead"]).expect(4, &[]);
    let words = [record["beadlock"]["id"].as_str().unwrap(), "--even-if-live"];
    scene.run(&["break", ".beads", "--id", words[0], words[1]]).expect(0, &[]);
    assert!(!scene.lock().exists(), "what it says can be typed");
}

#[test]
fn another_host_and_another_machine_of_this_name() {
    let scene = Scene::new();
    scene.write_lock("vc", 4242, "elsewhere");
    let seen = Seen::of(&scene, "remote").says(&["why: it was claimed on another host, elsewhere"]);
    let id = seen.data["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("sha256:"), "{id}");
    let once_gone = format!("once it is gone: beadlock break .beads --id {id} --even-if-live");
    seen.next("ssh -- elsewhere ps -p 4242", &once_gone).witness("kill", "not_asked");
    let mut record = record(&scene);
    if record["beadlock"]["machine_id"].is_null() {
        return eprintln!("skipped: this machine has no machine id");
    }
    record["hostname"] = "elsewhere".into();
    record["beadlock"]["boot_id"] = "another".into();
    put(&scene, &record);
    Seen::of(&scene, "remote")
        .says(&["with the machine id of this one", "or elsewhere is a copy of its disk"]);
    record["hostname"] = this_host().into();
    record["beadlock"]["machine_id"] = "another".into();
    put(&scene, &record);
    Seen::of(&scene, "namesake")
        .says(&["on another machine that is called", "machine: other"])
        .next(&format!("ssh -- {} ps -p {}", this_host(), record["pid"]), "leads to the other machine");
}

#[test]
fn a_pid_that_no_process_can_have() {
    let scene = Scene::new();
    scene.write_lock("vc", 1 << 40, &this_host());
    Seen::of(&scene, "pid_unknown")
        .says(&["why: no process can have PID 1099511627776"])
        .next(
            &format!("cat {}", fs::canonicalize(scene.lock()).unwrap().display()),
            "beadlock break .beads --id sha256:",
        )
        .witness("kill", "unknown");
}

#[test]
fn a_start_in_the_future() {
    let scene = Scene::new();
    mine(&scene, |record| record["started_at"] = "2999-01-01T00:00:00Z".into());
    let seen = Seen::of(&scene, "alive").says(&["in the future: a clock is wrong, here or on "]);
    assert!(!seen.text.contains(" for "), "no age is made up: {}", seen.text);
    assert!(
        seen.data["witnesses"]["starts_in_ms"].as_i64() > Some(0) && seen.data["age_ms"] == 0,
        "{}",
        seen.data
    );
}

#[test]
fn an_empty_file_by_its_age() {
    let scene = Scene::new();
    let file = fs::File::create(scene.lock()).unwrap();
    // A little ahead, so that a slow machine cannot make it old.
    let age = |seconds| file.set_modified(now() - Duration::from_secs(seconds)).unwrap();
    file.set_modified(now()).unwrap();
    let text = scene.run(&["status"]).out;
    assert!(
        text.contains("somebody may be writing it") && text.contains("next: sleep 2; beadlock status .beads"),
        "{text}"
    );
    age(2);
    Seen::of(&scene, "empty")
        .says(&[
            "why: the file is empty: who made it died before the first byte, or the disk is full",
            "file: 0 bytes",
        ])
        .next("beadlock break .beads --malformed", "df -h");
    let witnesses = scene.run(&["status", "--json"]).json()["data"][0]["witnesses"]["file"].clone();
    assert_eq!((&witnesses["kind"], &witnesses["size"]), (&json!("file"), &json!(0)));
    assert!(witnesses["age_ms"].as_i64() >= Some(2000), "{witnesses}");
    scene.run(&["break", ".beads", "--malformed"]).expect(0, &[]);
    Seen::of(&scene, "free").next("beadlock hold .beads -- CMD", "");
}

fn now() -> SystemTime {
    SystemTime::now()
}

#[test]
fn what_cannot_be_understood() {
    let scene = Scene::new();
    for (content, situation) in
        [("{\"holder\":", "malformed"), ("[1]", "malformed"), ("{\"holder\":\"x\"}", "invalid")]
    {
        fs::write(scene.lock(), content).unwrap();
        let file = fs::File::options().append(true).open(scene.lock()).unwrap();
        file.set_modified(now() - Duration::from_secs(60)).unwrap();
        Seen::of(&scene, situation)
            .says(&["every daemon skips", "last written 1m"])
            .next("beadlock status --raw .beads", "when nobody needs it: beadlock break .beads --malformed");
    }
}

#[test]
fn what_is_no_lock_file_at_all() {
    let scene = Scene::new();
    let lock = fs::canonicalize(scene.beads()).unwrap().join(".exclusive-lock");
    let shown = lock.display();
    symlink("/etc/passwd", &lock).unwrap();
    Seen::of(&scene, "not_a_file")
        .says(&["why: there is a symbolic link where a lock is a regular file"])
        .next(&format!("ls -ld {shown}"), "beadlock break .beads --malformed");
    fs::remove_file(&lock).unwrap();
    nix::unistd::mkfifo(&lock, Mode::S_IRWXU).unwrap();
    let seen = Seen::of(&scene, "not_a_file").says(&["there is a FIFO", "file: a FIFO, of user "]);
    assert_eq!(seen.data["witnesses"]["file"]["kind"], "fifo");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    Seen::of(&scene, "not_a_file").says(&["there is a directory"]).next(&format!("ls -la {shown}"), "");
    fs::remove_dir(&lock).unwrap();
    fs::write(&lock, vec![b' '; 64 * 1024 + 1]).unwrap();
    Seen::of(&scene, "too_large").says(&["why: no lock is that large", "file: 65537 bytes"]);
    fs::write(&lock, "{}").unwrap();
    let mode = |mode| fs::set_permissions(&lock, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0);
    fs::set_permissions(scene.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = scene.command(&["status", ".beads"]);
    if as_nobody(&mut command) {
        let text = Running::start(command).finish().expect(0, &[]).out;
        assert!(text.contains("permission denied") && text.contains("next: ls -ld "), "{text}");
    }
}

#[test]
fn a_lock_that_is_aside() {
    let scene = Scene::new();
    fs::write(scene.beads().join(".exclusive-lock.aside"), "x").unwrap();
    let text = scene.run(&["status"]).expect(0, &[]).out;
    for words in [
        "why: no lock, but one is aside: a crash has left it there",
        "side file: .exclusive-lock.aside is there",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    assert!(text.contains("next: beadlock check .beads   # puts right what a crash has left"), "{text}");
    let witnesses = scene.run(&["status", "--json"]).json()["data"][0]["witnesses"].clone();
    assert_eq!((&witnesses["situation"], &witnesses["side_file"]), (&json!("set_aside"), &json!(true)));
}

/// A cycle's gate: shut by who runs it, then, when that was killed, by what it has left running.
#[test]
fn a_gate_that_an_orphan_keeps_shut() {
    let scene = Scene::new();
    let cycle = Running::start(scene.command(&["cycle", "--", "sh", "-c", "echo $$ > pid; exec sleep 300"]));
    until("it works", || scene.read("pid").ends_with('\n'));
    let work: i32 = scene.read("pid").trim().parse().unwrap();
    let daemon = cycle.pid();
    Seen::of(&scene, "free")
        .says(&[&format!("PID {daemon} ("), &format!("(for PID {daemon})"), "(a sync cycle or a claim)"])
        .next("beadlock hold .beads -- CMD", "waits until the gate is open");
    let waiting = Running::start(scene.command(&["hold", "--", "true"]));
    until("it waits", || waiting.err().contains("waiting"));
    let guardians = children(daemon).into_iter().filter(|pid| *pid != work).collect::<Vec<_>>();
    cycle.signal(Signal::SIGKILL);
    drop(cycle);
    until("it is gone", || !lives(daemon));
    let left =
        format!("gate: shut by what PID {daemon}, which is gone, has left running: PID {work} (sleep 300)");
    until("it is an orphan", || scene.run(&["status"]).out.contains(&left));
    let seen = Seen::of(&scene, "free")
        .says(&["why: no lock; a claim waits for the gate, which a cycle of", "waiting for the gate: PID "])
        .next(&format!("ps -fp {work}"), "to end it: kill -- ");
    let orphan = &seen.data["witnesses"]["gate"][0];
    assert_eq!((&orphan["role"], &orphan["daemon"]), (&json!("orphan"), &json!(daemon)));
    assert_eq!(orphan["work"][0]["pid"], work);
    let (_, end) = seen.next.split_once("to end it: ").unwrap();
    assert!(Command::new("sh").args(["-c", end]).status().unwrap().success(), "{end}");
    waiting.finish().expect(0, &["claimed"]);
    for pid in guardians.into_iter().chain([work]) {
        reap(pid);
    }
}

/// `sh -c SCRIPT` in namespaces of its own, as root there; none where they cannot be had.
pub fn apart(scene: &Scene, namespaces: &[&str], script: &str) -> Option<Command> {
    if !has_program("unshare") {
        return None;
    }
    let command = |script: &str| {
        let namespaces = namespaces.join(" ");
        let map = if nix::unistd::geteuid().is_root() { "" } else { "--map-root-user" };
        let mut command = scene.shell(&format!("exec unshare {map} {namespaces} sh -c \"$SCRIPT\""));
        command.env("SCRIPT", script);
        command
    };
    let probe = Running::start(command("true")).finish();
    if probe.code != 0 {
        eprintln!("skipped: cannot have {namespaces:?}: {}", probe.err.trim());
        return None;
    }
    Some(command(script))
}

const CONTAINER: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// Claims in a container, which is looked at and then killed.
fn container(scene: &Scene, more: &[&str], before: &str, look: impl FnOnce(&Value)) -> bool {
    let script = format!("{before} $BEADLOCK hold -- sh -c 'touch up; exec sleep 300'");
    let Some(command) = apart(scene, &[&CONTAINER, more].concat(), &script) else { return false };
    let running = Running::start(command);
    until("it is claimed", || scene.file("up").exists());
    let record: Value = serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    look(&record);
    let members =
        scene.run(&["status", "--json"]).json()["data"][0]["witnesses"]["pid_namespace"]["processes"].clone();
    drop(running);
    for member in members.as_array().unwrap() {
        let pid = i32::try_from(member["pid"].as_i64().unwrap()).unwrap();
        until("the container's processes end", || !lives(pid));
        let _ = nix::sys::wait::waitpid(Pid::from_raw(pid), Some(nix::sys::wait::WaitPidFlag::WNOHANG));
    }
    true
}

#[test]
fn a_container_that_lives_and_one_that_is_gone() {
    let scene = Scene::new();
    let had = container(&scene, &[], "", |record| {
        let pid = record["pid"].as_i64().unwrap();
        let seen = Seen::of(&scene, "container")
            .says(&[
                "(other_pid_namespace)",
                "why: it was claimed in a container of this machine, and its process lives",
            ])
            .says(&[&format!("its PID {pid} is PID ")])
            .witness("namespace_gone", false);
        let those = seen.data["witnesses"]["pid_namespace"]["processes"].as_array().unwrap().clone();
        let here = those.iter().find(|member| member["pid_there"] == pid).unwrap()["pid"].as_i64().unwrap();
        seen.says(&[&format!("PID {here} (sleep 300) here")])
            .next(&format!("ps -fp {here}"), &by_hand(record));
        let mut other = record.clone();
        other["pid"] = 30_000.into();
        let text = fs::read(scene.lock()).unwrap();
        // Written for a moment only, and back before it counts as lost.
        let fake = Scene::new();
        put(&fake, &other);
        Seen::of(&fake, "container")
            .says(&["none of them is its PID 30000"])
            .next(&format!("nsenter -t {} -p -m ps -p 30000", those[0]["pid"]), "once it is gone");
        assert_eq!(fs::read(scene.lock()).unwrap(), text);
    });
    if !had || !nix::unistd::geteuid().is_root() {
        return;
    }
    let witnesses = scene.run(&["status", "--json"]).json()["data"][0]["witnesses"].clone();
    if witnesses["namespace_gone"] != true {
        return eprintln!("skipped: here nobody can know that a namespace is gone");
    }
    Seen::of(&scene, "container_gone")
        .says(&["nobody lives in that any more", "in that namespace: nobody, seen twice"])
        .next("beadlock check --reap-proven-dead .beads", "removes it: namespace_gone");
    scene.run(&["check", "--reap-proven-dead"]).expect(0, &[]);
    assert!(!scene.lock().exists());
}

/// As with most container engines: its host name is its own.
#[test]
fn a_container_with_a_name_of_its_own() {
    let scene = Scene::new();
    let had = container(&scene, &["--uts"], "hostname box;", |record| {
        assert_eq!(record["hostname"], "box");
        Seen::of(&scene, "container").says(&["(other_host)", "and its process lives: PID "]);
    });
    let witnesses = || scene.run(&["status", "--json"]).json()["data"][0]["witnesses"].clone();
    if !had || witnesses()["namespace_gone"] != true {
        return eprintln!("skipped: here nobody can know that a namespace is gone");
    }
    let record: Value = serde_json::from_slice(&fs::read(scene.lock()).unwrap()).unwrap();
    Seen::of(&scene, "container_gone")
        .says(&["called box", "by its name it is another host's, so no check removes it"])
        .next(&by_hand(&record), "nobody lives in its container");
}

/// Seen from inside, a claim of outside is another namespace's, and nobody there can be seen.
#[test]
fn from_inside_of_a_container() {
    let scene = Scene::new();
    mine(&scene, |_| {});
    let Some(command) = apart(&scene, &CONTAINER, "exec $BEADLOCK status") else { return };
    let text = Running::start(command).finish().expect(0, &[]).out;
    for words in [
        "only root outside of every container sees",
        "nobody that we can see",
        "next: sudo beadlock status .beads",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
}
