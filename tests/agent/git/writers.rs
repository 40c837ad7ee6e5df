//! Programs that write to a record file while the agent replaces it: nothing that they write is lost, and nothing that
//! has come in.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use beadlock_tests::wait::PATIENCE;
use beadlock_tests::{Ended, OverAtLast, Running, run, skip, wait_until};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use rustix::fs::{FlockOperation, XattrFlags};

use crate::bench::{Bench, each, stops_when_naive};
use crate::wrapper::AFTER_THE_FILES;

const FILE: &str = ".beads/issues.jsonl";

fn record(id: &str, title: &str, second: usize) -> String {
    format!(
        "{{\"id\":\"{id}\",\"title\":\"{title}\",\"created_at\":\"2026-01-01T00:00:00Z\",\"updated_at\":\"2026-01-02T00:{:02}:{:02}Z\"}}\n",
        second / 60 % 60,
        second % 60
    )
}

/// A bench with twelve records in both clones.
fn bench() -> Bench {
    let bench = Bench::new();
    let text: String = (1..=12)
        .map(|n| record(&format!("bd-{n:02}"), "old", 0))
        .collect();
    bench.write(FILE, text);
    bench.shell("git commit -qam records; git push -q");
    bench.git(bench.there(), &["pull", "--quiet"]);
    bench
}

/// The file of the other clone, with a record more and one changed, comes here with the next pull.
fn change_there(bench: &Bench, id: &str) {
    bench.git(bench.there(), &["pull", "--quiet", "--rebase"]);
    let text = fs::read_to_string(bench.there().join(FILE)).expect("read");
    let text = text.replace(&record("bd-03", "old", 0), &record("bd-03", "there", 1));
    bench.pushed_there(&[(FILE, &(text + &record(id, "there", 1)))]);
}

/// Adds a line, as a tool does that opens the file for that.
fn append(path: &Path, line: &str) {
    let mut file = File::options().append(true).open(path).expect("open");
    writeln!(file, "{line}").expect("append");
}

/// How often a record is in a text.
fn count(text: &str, id: &str) -> usize {
    text.matches(&format!("\"id\":\"{id}\"")).count()
}

/// The remote's file.
fn place(bench: &Bench) -> String {
    bench.git(bench.remote(), &["show", &format!("main:{FILE}")]) + "\n"
}

/// Each of these records is in the file and at the remote, once.
#[track_caller]
fn has_each(bench: &Bench, ids: &[&str], case: &str) {
    for text in [bench.read(FILE), place(bench)] {
        for id in ids {
            assert_eq!(
                count(&text, id),
                1,
                "{case}: {id} in\n{text}\n{}",
                bench.log()
            );
        }
    }
}

/// What a tool goes on from at each of its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    File,
    Memory,
}

/// How long a program rests between two writes: 0.3 s, and on a machine that is busy as long as ten gits take. A merge
/// needs some, and one that rests for less than that is not pulled beside.
fn rest(dir: &Path) -> Duration {
    let begun = Instant::now();
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(["rev-parse", "--git-dir"]);
    run(git);
    Duration::from_millis(300).max(10 * begun.elapsed())
}

/// Writes the file anew again and again, with one record more and one changed. Returns how often.
fn writes_all_the_time(dir: &Path, name: &str, own: &str, from: From, over: &AtomicBool) -> usize {
    let path = dir.join(FILE);
    let beside = dir.join(format!("../beside-{name}"));
    let read = || fs::read_to_string(&path).expect("the file is always there");
    let mut memory = read();
    let mut times = 0;
    while !over.load(Ordering::SeqCst) {
        times += 1;
        let text = match from {
            From::File => read(),
            From::Memory => memory.clone(),
        };
        let of_own = format!("{{\"id\":\"{own}\"");
        let mut text: String = text
            .split_inclusive('\n')
            .map(|line| match line.starts_with(&of_own) {
                true => record(own, &format!("{name}-{times}"), times),
                false => line.to_owned(),
            })
            .collect();
        text += &record(&format!("{name}-{times}"), name, times);
        fs::write(&beside, &text).expect("write");
        fs::rename(&beside, &path).expect("rename");
        memory = text;
        std::thread::sleep(rest(dir));
    }
    times
}

fn daemon(bench: &Bench, clone: &Path, log: &Path) -> Running {
    let mut agent = bench.scene().agent(&["--action", "git"]);
    agent
        .args(["--interval", "3s", "--fetch-interval", "3s"])
        .args(["--debounce", "3s", "--db"])
        .arg(clone.join(".beads"))
        .arg("--log-file")
        .arg(log);
    Running::start(agent)
}

#[test]
fn beside_writers_that_never_rest_the_agents_pull_and_push() {
    if stops_when_naive() {
        return;
    }
    let is_all = std::env::var("ROWS_STRIDE").is_ok_and(|stride| stride == "1");
    let length = Duration::from_secs(if is_all { 20 } else { 6 });
    each(
        &[
            (From::File, From::File),
            (From::Memory, From::File),
            (From::Memory, From::Memory),
        ],
        |row| format!("{row:?}"),
        |(here, there)| {
            let bench = bench();
            let clones = [bench.here().to_owned(), bench.there()];
            let logs = ["here", "there"].map(|name| bench.path().join(format!("log-{name}")));
            let agents: Vec<_> = std::iter::zip(&clones, &logs)
                .map(|(clone, log)| daemon(&bench, clone, log))
                .collect();
            let log = |index: usize| fs::read_to_string(&logs[index]).unwrap_or_default();
            let over = AtomicBool::new(false);
            let times = std::thread::scope(|threads| {
                let writers = [
                    threads
                        .spawn(|| writes_all_the_time(&clones[0], "here", "bd-01", *here, &over)),
                    threads
                        .spawn(|| writes_all_the_time(&clones[1], "there", "bd-02", *there, &over)),
                ];
                {
                    let _over = OverAtLast(&over);
                    let begun = Instant::now();
                    let has_each =
                        |word: &str| (0..2).all(|index| log(index).matches(word).count() > 1);
                    // Meanwhile, not only at the end.
                    while begun.elapsed() < length || !has_each("Pulled ") || !has_each("Pushed ") {
                        assert!(
                            begun.elapsed() < 4 * PATIENCE,
                            "no pulls and pushes of both:\n{}--\n{}",
                            log(0),
                            log(1)
                        );
                        std::thread::sleep(Duration::from_millis(50));
                    }
                }
                writers.map(|writer| writer.join().expect("a writer"))
            });
            let files = || {
                clones
                    .each_ref()
                    .map(|clone| fs::read_to_string(clone.join(FILE)))
            };
            let are_one = || {
                let main = bench.try_git(bench.remote(), &["rev-parse", "main"]).out;
                let files = files().map(Result::unwrap_or_default);
                files[0] == files[1]
                    && files[0] == place(&bench)
                    && clones
                        .iter()
                        .all(|clone| bench.try_git(clone, &["rev-parse", "HEAD"]).out == main)
            };
            let begun = Instant::now();
            while !are_one() && begun.elapsed() < 2 * PATIENCE {
                std::thread::sleep(Duration::from_millis(100));
            }
            let logs = log(0) + "--\n" + &log(1);
            assert!(are_one(), "the clones are not one:\n{:#?}\n{logs}", files());
            for agent in agents {
                agent.signal(Signal::SIGTERM);
                agent.finish(PATIENCE);
            }
            let text = place(&bench);
            let mut missing = Vec::new();
            for (name, times) in ["here", "there"].iter().zip(times) {
                missing.extend(
                    (1..=times)
                        .map(|n| format!("{name}-{n}"))
                        .filter(|id| count(&text, id) != 1),
                );
            }
            missing.extend(
                (1..=12)
                    .map(|n| format!("bd-{n:02}"))
                    .filter(|id| count(&text, id) != 1),
            );
            assert!(
                missing.is_empty(),
                "not there once: {missing:?}\n{text}\n{logs}"
            );
            for (own, name, times) in [("bd-01", "here", times[0]), ("bd-02", "there", times[1])] {
                let last = record(own, &format!("{name}-{times}"), times);
                assert!(text.contains(&last), "not the last: {own}\n{text}\n{logs}");
            }
        },
    );
}

/// How a program has the file open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    ToAppend,
    /// At a place of its own.
    ToWrite,
}

/// Adds a record as a program does that has opened the file long ago.
fn add(file: &mut File, how: Open, end: &mut u64, id: &str) {
    let text = record(id, "tool", 1);
    match how {
        Open::ToAppend => file.write_all(text.as_bytes()).expect("append"),
        Open::ToWrite => file.write_all_at(text.as_bytes(), *end).expect("write"),
    }
    *end += text.len() as u64;
}

/// Nothing is kept of files that were replaced.
fn are_let_go(bench: &Bench) -> bool {
    !bench.here().join(".git/beadlock/open").exists()
        && !bench.here().join(".beads/.exclusive-lock.open").exists()
}

#[test]
fn what_a_program_writes_to_a_file_that_was_replaced_comes_in() {
    if stops_when_naive() {
        return;
    }
    each(
        &[
            (Open::ToAppend, "an edit"),
            (Open::ToWrite, "an edit"),
            (Open::ToAppend, "an append"),
            (Open::ToWrite, "an append"),
        ],
        |row| format!("{row:?}"),
        |(how, comes)| {
            let bench = bench();
            let case = format!("{how:?}, {comes}");
            let mut options = File::options();
            match how {
                Open::ToAppend => options.append(true),
                Open::ToWrite => options.write(true),
            };
            let path = bench.here().join(FILE);
            let mut file = options.open(&path).expect("open");
            let mut end = file.metadata().expect("stat").len();
            let inode = || fs::metadata(&path).expect("stat").ino();
            let before = inode();
            if *comes == "an edit" {
                change_there(&bench, "there-1");
            } else {
                let text = bench.read(FILE) + &record("there-1", "there", 1);
                bench.pushed_there(&[(FILE, &text)]);
            }
            bench.syncs(&case);
            has_each(&bench, &["there-1"], &case);
            // Only who writes at the end, wherever that is, may go on in the same file.
            let stays = *how == Open::ToAppend && *comes == "an append";
            assert_eq!(inode() == before, stays, "{case}: {}", bench.log());
            assert_eq!(are_let_go(&bench), stays, "{case}");
            for id in ["tool-1", "tool-2"] {
                add(&mut file, *how, &mut end, id);
                bench.syncs(&case);
                has_each(&bench, &["there-1", id, "bd-03"], &case);
            }
            let line = "a program still writes to .beads/issues.jsonl as it was before the pull; restart it";
            assert!(!bench.log().contains(line), "{case}: told too early");
            if !stays {
                // As if a minute had passed.
                bench.shell("sed -i 's/\"since\":[0-9]*/\"since\":1/' .git/beadlock/open/*/note");
                bench.once().says(line, &case);
                assert!(!are_let_go(&bench), "{case}");
            }
            add(&mut file, *how, &mut end, "tool-3");
            drop(file);
            bench.once();
            bench.syncs(&case);
            has_each(&bench, &["there-1", "tool-1", "tool-2", "tool-3"], &case);
            assert!(are_let_go(&bench), "{case}: kept for ever");
            assert_eq!(bench.read(FILE).lines().count(), 16, "{case}");
            bench.is_whole(&case);
        },
    );
}

/// A file that was removed, and to which a program goes on to write: what is new is not lost.
#[test]
fn what_a_program_writes_to_a_file_that_was_removed_comes_in() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    let path = bench.here().join(FILE);
    let mut file = File::options().append(true).open(path).expect("open");
    bench.pushed_there(&[(FILE, ""), (".beads/other.jsonl", &record("o", "there", 1))]);
    bench.once();
    assert!(!bench.here().join(FILE).exists(), "{}", bench.log());
    add(&mut file, Open::ToAppend, &mut 0, "tool-1");
    drop(file);
    bench.once();
    bench.syncs("written");
    assert_eq!(
        place(&bench),
        record("tool-1", "tool", 1),
        "{}",
        bench.log()
    );
    assert!(are_let_go(&bench));
}

/// A page of the file that a program has in its memory.
#[test]
fn what_a_program_writes_into_a_mapped_file_comes_in() {
    if stops_when_naive() {
        return;
    }
    let Some(python) = skip::tool("python3") else {
        return;
    };
    let bench = bench();
    let script = "import mmap, os, sys, time
f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); print('mapped', flush=True)
sys.stdin.readline(); at = m.find(b'\"id\":\"bd-05\",\"title\":\"old\"'); at = m.find(b'old', at); m[at:at + 3] = b'map'
at = m.find(b'2026-01-02T00:00:00Z', at); m[at:at + 20] = b'2026-01-03T00:00:00Z'
print('written', flush=True); sys.stdin.readline()";
    let mut command = bench.scene().command(python);
    command
        .args(["-c", script])
        .arg(bench.here().join(FILE))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("python starts");
    let mut said = std::io::BufRead::lines(std::io::BufReader::new(
        child.stdout.take().expect("a pipe"),
    ));
    let mut stdin = child.stdin.take().expect("a pipe");
    assert_eq!(said.next().expect("a line").expect("a line"), "mapped");
    change_there(&bench, "there-1");
    bench.syncs("mapped");
    assert!(!are_let_go(&bench), "{}", bench.log());
    writeln!(stdin).expect("go on");
    assert_eq!(said.next().expect("a line").expect("a line"), "written");
    bench.syncs("written");
    assert!(
        bench
            .read(FILE)
            .contains("\"id\":\"bd-05\",\"title\":\"map\""),
        "{}",
        bench.log()
    );
    has_each(&bench, &["there-1", "bd-05"], "written");
    drop(stdin);
    child.wait().expect("it ends");
    bench.once();
    bench.syncs("unmapped");
    assert!(are_let_go(&bench));
}

/// A program that has opened the file to write it anew and has not written it yet: nothing is taken for removed.
#[test]
fn a_file_that_is_just_being_written_anew_is_not_cut() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    let path = bench.here().join(FILE);
    let old = bench.read(FILE);
    change_there(&bench, "there-1");
    let (first, rest) = old.split_at(old.len() / 3);
    // In the moment before the first exchange it is cut; it is whole again half a second later.
    let file = File::options().write(true).open(&path).expect("open");
    let (begin, go_on) = (bench.path().join("begin"), bench.path().join("go-on"));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            wait_until(PATIENCE, "the moment", || begin.exists());
            file.set_len(0).expect("truncate");
            file.write_all_at(first.as_bytes(), 0).expect("write");
            fs::write(&go_on, "").expect("write");
            std::thread::sleep(Duration::from_millis(500));
            file.write_all_at(rest.as_bytes(), first.len() as u64)
                .expect("write");
            let more = record("tool-1", "tool", 1);
            file.write_all_at(more.as_bytes(), old.len() as u64)
                .expect("write");
            drop(file);
        });
        bench.once_before(
            "update-ref --stdin",
            ": >../begin; while [ ! -e ../go-on ]; do sleep 0.01; done",
        );
    });
    bench.once();
    bench.syncs("written");
    assert_eq!(bench.read(FILE).lines().count(), 14, "{}", bench.log());
    has_each(&bench, &["bd-12", "there-1", "tool-1"], "written");
}

/// A program has opened the file before it was replaced, and writes and closes it before the end of the pull.
#[test]
fn what_is_written_in_the_last_moment_of_a_pull_comes_in() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    change_there(&bench, "there-1");
    let mut file = File::options()
        .append(true)
        .open(bench.here().join(FILE))
        .expect("open");
    let (begin, go_on) = (bench.path().join("begin"), bench.path().join("go-on"));
    let (words, nth) = AFTER_THE_FILES;
    std::thread::scope(|threads| {
        threads.spawn(|| {
            wait_until(PATIENCE, "the moment", || begin.exists());
            add(&mut file, Open::ToAppend, &mut 0, "tool-1");
            drop(file);
            fs::write(&go_on, "").expect("write");
        });
        bench.once_before_nth(
            words,
            nth,
            ": >../begin; while [ ! -e ../go-on ]; do sleep 0.01; done",
        );
    });
    has_each(&bench, &["there-1", "tool-1"], "in the same cycle");
    assert!(are_let_go(&bench));
    bench.is_synced("in the same cycle");
    bench.is_whole("in the same cycle");
}

/// A program has the file locked: two programs that lock it one after the other would lock two files.
#[test]
fn a_file_that_a_program_has_locked_is_waited_for() {
    if stops_when_naive() {
        return;
    }
    each(
        &["flock", "fcntl"],
        |how| (*how).to_owned(),
        |how| {
            let bench = bench();
            change_there(&bench, "there-1");
            let path = bench.here().join(FILE);
            let inode = || fs::metadata(&path).expect("stat").ino();
            let before = inode();
            // A process that closes the file anywhere has no lock of fcntl any more: so nothing is read here.
            let file = File::options().append(true).open(&path).expect("open");
            let (flocked, locked) = if *how == "flock" {
                let flocked = Flock::lock(file, FlockArg::LockExclusiveNonblock);
                (
                    Some(flocked.map_err(|(_, errno)| errno).expect("free")),
                    None,
                )
            } else {
                rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
                    .expect("free");
                (None, Some(file))
            };
            let told = bench.once();
            told.says(
                "Not pulling: a program has .beads/issues.jsonl locked; the next cycle tries again",
                how,
            );
            assert_eq!(inode(), before, "{how}: harm");
            drop((flocked, locked));
            bench.syncs(how);
            has_each(&bench, &["there-1"], how);
            bench.is_whole(how);
        },
    );
}

/// The file is another one after a pull, and for programs it is the same: mode, owner, group, access list, attributes.
#[test]
fn what_is_replaced_keeps_its_owner_and_its_rights() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    let path = bench.here().join(FILE);
    let set = |path: &Path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o664)).expect("chmod");
        if skip::may_be_root() {
            std::os::unix::fs::chown(path, Some(1000), Some(1001)).expect("chown");
        }
    };
    set(&path);
    let has_attribute =
        rustix::fs::setxattr(&path, "user.of-a-tool", b"x", XattrFlags::empty()).is_ok();
    let acl = Ended::from(run({
        let mut command = Command::new("sh");
        command
            .args(["-c", "setfacl -m u:1234:rw \"$0\""])
            .arg(&path);
        command
    }));
    let looks = || {
        let meta = fs::metadata(&path).expect("stat");
        (meta.mode(), meta.uid(), meta.gid())
    };
    let list = || {
        let mut command = Command::new("getfacl");
        command.arg("-cp").arg(&path);
        Ended::from(run(command)).out
    };
    let (before, inode) = (looks(), fs::metadata(&path).expect("stat").ino());
    let list_before = (acl.code == 0).then(list);
    change_there(&bench, "there-1");
    // With a mask that would leave it to its owner alone.
    let agent = bench.agent(&["--once"]);
    let mut shell = bench.scene().shell("umask 077; exec \"$@\"");
    shell
        .arg("sh")
        .arg(agent.get_program())
        .args(agent.get_args());
    shell.envs(
        agent
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    bench.once_as(shell).ends_with(0, "pulled");
    assert_ne!(fs::metadata(&path).expect("stat").ino(), inode);
    has_each(&bench, &["there-1"], "pulled");
    assert_eq!(looks(), before, "{}", bench.log());
    if has_attribute {
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(&path, "user.of-a-tool", &mut value[..]);
        assert_eq!(length, Ok(1));
    }
    match list_before {
        Some(list_before) => assert_eq!(list(), list_before),
        None => skip::cannot("cannot have an access list"),
    }
}

/// Runs a script in the agent's clone, in a mount namespace of its own; `$AGENT` is one cycle.
fn among_mounts(bench: &Bench, script: &str) -> Option<Ended> {
    let script = format!("cd '{}'; set -e\n{script}", bench.here().display());
    let mut command = bench.scene().in_namespaces(&["--mount"], &script)?;
    let agent = bench.agent(&["--once"]);
    let words: Vec<_> = std::iter::once(agent.get_program())
        .chain(agent.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    command.env("AGENT", words.join(" "));
    command.env("BEADLOCK_AGENT_FETCH_INTERVAL", "20ms");
    Some(run(command).into())
}

#[test]
fn a_file_that_is_a_mount_point_is_left_alone() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    change_there(&bench, "there-1");
    bench.pushed_there(&[("src/x.rs", "theirs\n")]);
    let script = "cp .beads/issues.jsonl ../other; mount --bind ../other .beads/issues.jsonl || exit 77
        $AGENT || :; cmp ../other .beads/issues.jsonl; git diff --quiet HEAD; cat .beads/daemon.log";
    let Some(ended) = among_mounts(&bench, script) else {
        return;
    };
    if ended.code == 77 {
        return skip::cannot("needs a bind mount");
    }
    assert_eq!(ended.code, 0, "{ended:?}");
    let line = "Not pulling: .beads/issues.jsonl is a mount point of its own; mount the directory";
    assert!(ended.out.contains(line), "{ended:?}");
    bench.syncs("without the mount");
    bench.is_whole("without the mount");
}

/// The database is on another file system than the rest: files are exchanged only within one.
#[test]
fn a_database_on_another_mount_is_pulled() {
    if stops_when_naive() {
        return;
    }
    let bench = bench();
    change_there(&bench, "there-1");
    bench.pushed_there(&[("src/x.rs", "theirs\n"), (".beads/deep/new", "theirs\n")]);
    let script = "cp -a .beads ../saved; mount -t tmpfs tmpfs .beads || exit 77; cp -a ../saved/. .beads
        exec 3>>.beads/issues.jsonl
        $AGENT; grep there-1 .beads/issues.jsonl; cat src/x.rs .beads/deep/new; [ -d .beads/.exclusive-lock.open ]
        echo '{\"id\":\"tool-1\"}' >&3; $AGENT; grep tool-1 .beads/issues.jsonl; grep there-1 .beads/issues.jsonl
        exec 3>&-; $AGENT; git show origin/main:.beads/issues.jsonl | cmp - .beads/issues.jsonl
        ls -A .beads; git status --porcelain; ls -A .git | grep -e beadlock.stage || :";
    let Some(ended) = among_mounts(&bench, script) else {
        return;
    };
    if ended.code == 77 {
        return skip::cannot("needs a mount of tmpfs");
    }
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(
        ended.out.ends_with("daemon.log\ndeep\nissues.jsonl\n"),
        "{ended:?}"
    );
}

/// Files with CRLF in the working tree and LF in git, merged by record.
#[test]
fn a_record_file_with_other_line_ends_is_merged() {
    let bench = Bench::new();
    bench.pushed_there(&[
        (".gitattributes", "* text=auto eol=crlf\n"),
        (FILE, "{\"id\":\"bd-1\"}\n"),
    ]);
    bench.once();
    bench.shell("git rm -q --cached -r .; git reset -q --hard");
    assert!(
        bench.read(FILE).ends_with("}\r\n"),
        "{:?}",
        bench.read(FILE)
    );
    bench.shell("printf '{\"id\":\"here\"}\\r\\n' >>.beads/issues.jsonl");
    bench.pushed_there(&[(FILE, "{\"id\":\"bd-1\"}\n{\"id\":\"there\"}\n")]);
    bench.syncs("merged");
    let text = bench.read(FILE);
    assert_eq!(text.matches("\r\n").count(), 3, "{text:?}\n{}", bench.log());
    assert_eq!(text.lines().count(), 3, "{text:?}");
    assert!(!place(&bench).contains('\r'), "{:?}", place(&bench));
    bench.is_whole("merged");
}

/// A filter is a program of the working tree, and looks for another one there.
#[test]
fn a_filter_of_the_working_tree_writes_what_is_pulled() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let tool = |path: &str, text: &str| crate::bench::script(&bench.here().join(path), text);
    tool("tools/smudge", "exec ./tools/inner up");
    tool("tools/inner", "sed s/theirs/THEIRS/");
    bench.write("src/deep/README", "x\n");
    bench.shell(
        "git add .; git commit -qm tools; git push -q; git config filter.up.smudge 'sh ./tools/smudge'
         git config filter.up.clean 'sed s/THEIRS/theirs/'; echo '*.up filter=up' >.git/info/attributes",
    );
    bench.pushed_there(&[
        ("src/deep/a.up", "theirs\n"),
        ("tools/other", "theirs\n"),
        (".beads/theirs.jsonl", "{\"id\":\"t\"}\n"),
    ]);
    bench.syncs("filtered");
    assert_eq!(bench.read("src/deep/a.up"), "THEIRS\n", "{}", bench.log());
    bench.is_whole("filtered");
}

/// A person has put a link in the place of a directory: nothing is written through it.
#[test]
fn nothing_is_pulled_through_a_link() {
    let bench = Bench::new();
    bench.shell("mkdir ../elsewhere; cp src/* ../elsewhere; mv src old; ln -s ../elsewhere src; echo /old >>.git/info/exclude");
    bench.pushed_there(&[("src/x.rs", "theirs\n")]);
    bench.once();
    let there = fs::read_to_string(bench.path().join("elsewhere/x.rs")).expect("read");
    assert!(there.starts_with("x one"), "harm: {}", bench.log());
    bench.shell("rm src; mv old src");
    bench.syncs("without the link");
    assert_eq!(bench.read("src/x.rs"), "theirs\n");
}

/// Two databases in one repository, with something to commit and to pull in both, all the time.
#[test]
fn two_databases_pull_at_the_same_time() {
    if stops_when_naive() {
        return;
    }
    let bench = Bench::new();
    let databases = [".beads", "sub/.beads"];
    for database in databases {
        bench.write(&format!("{database}/issues.jsonl"), "{\"id\":\"bd-1\"}\n");
    }
    bench.shell("git add sub; git commit -qam second; git push -q");
    let mut agent = bench
        .scene()
        .agent(&["--action", "git", "--interval", "400ms"]);
    agent.args(["--jobs", "2", "--fetch-interval", "20ms"]);
    for database in databases {
        agent.arg("--db").arg(bench.here().join(database));
    }
    let daemon = Running::start(agent);
    let files = databases.map(|database| format!("{database}/issues.jsonl"));
    let logs = || -> String {
        let log =
            |database: &&str| fs::read_to_string(bench.here().join(database).join("daemon.log"));
        databases
            .iter()
            .filter_map(|database| log(database).ok())
            .collect()
    };
    for round in 0..8 {
        for file in &files {
            append(
                &bench.here().join(file),
                &format!("{{\"id\":\"here-{round}\"}}"),
            );
        }
        bench.git(bench.there(), &["pull", "--quiet", "--rebase"]);
        let texts = files.each_ref().map(|file| {
            let text = fs::read_to_string(bench.there().join(file)).expect("read");
            text + &format!("{{\"id\":\"there-{round}\"}}\n")
        });
        let changed: Vec<_> = std::iter::zip(&files, &texts)
            .map(|(file, text)| (file.as_str(), text.as_str()))
            .collect();
        // The agents may have been faster.
        for (file, text) in changed {
            fs::write(bench.there().join(file), text).expect("write");
        }
        bench.git(
            bench.there(),
            &["commit", "--quiet", "--all", "--message", "there"],
        );
        let script = "until git push -q; do git -c merge.default=union pull -q --no-rebase --no-edit || exit 1; done";
        let mut push = bench.scene().shell(script);
        push.current_dir(bench.there());
        assert!(run(push).status.success());
        let ids = [format!("here-{round}"), format!("there-{round}")];
        let is_there = || {
            files.iter().all(|file| {
                let place = bench
                    .try_git(bench.remote(), &["show", &format!("main:{file}")])
                    .out;
                let here = bench.read(file);
                ids.iter()
                    .all(|id| count(&place, id) == 1 && count(&here, id) == 1)
            })
        };
        let begun = Instant::now();
        while !is_there() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(is_there(), "{ids:?} are not there:\n{}", logs());
    }
    daemon.signal(Signal::SIGTERM);
    daemon.finish(PATIENCE);
    let logs = logs();
    assert!(!logs.contains("failed"), "{logs}");
    bench.is_whole("both");
}
