//! A tool with a command lock, whose body does what it is told to. Used by `tests/protocol/command_lock`.
//!
//! `embedded DIR [--timeout DUR] [--kill-after DUR] [--release-first] [--async one|many] WORK [ARG]`
//!
//! The lock is `DIR/work.lock`; with `-` it is where a tool's lock lies by default. It says `begun` on stderr when the
//! body begins.

use std::ffi::OsStr;
use std::fs::File;
use std::future::Future;
use std::io::{Write, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode, exit};
use std::thread::{self, sleep};
use std::time::Duration;

use beadlock::framework::{CommandLock, Failure, Running};
use beadlock::{Envelope, Request};
use beadlock_base::{duration, sys};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{SigSet, Signal, kill};
use serde_json::{Value, json};

const TICK: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let dir = words.next().unwrap_or_default();
    let lock = move || match dir.as_str() {
        "-" => CommandLock::new("embedded", "work"),
        dir => CommandLock::new("embedded", "work").directory(dir),
    };
    let (mut mine, mut executor) = (lock(), None);
    while let Some(word) = words.next() {
        let mut next = || words.next().unwrap_or_default();
        let mut time = || duration::parse(&next()).expect("a duration");
        match word.as_str() {
            "--timeout" => mine = mine.timeout(time()),
            "--kill-after" => mine = mine.kill_after(time()),
            "--version" => mine = mine.version(next()),
            "--about" => mine = mine.about(next()),
            "--release-first" => mine = mine.release_before_forwarding(),
            "--async" => executor = Some(next()),
            work => {
                let (work, arg) = (work.to_owned(), words.next().unwrap_or_default());
                return match executor.as_deref() {
                    Some(kind) => asynchronous(kind, mine, &work),
                    None if work == "guard" => guard(mine, lock),
                    None if work == "caught" => caught(mine),
                    None if work == "late" => {
                        sys::at_exit(late).expect("an exit handler");
                        mine.run(|_| Ok(Value::Null))
                    }
                    None if work == "exit-in-the-wait" => {
                        thread::spawn(|| mine.run(|_| Ok(Value::Null)));
                        sleep(Duration::from_millis(200));
                        exit(3)
                    }
                    None => mine.run(|running| body(&running, &work, &arg, lock)),
                };
            }
        }
    }
    exit(2)
}

/// A line for the test. Nobody may be reading, and a write that is made to fail is not the lock's fault.
fn tell(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Wants another lock when those of the process are released.
extern "C" fn late() {
    let dir = std::env::args().nth(1).unwrap_or_default();
    if let Err(error) = CommandLock::new("embedded", "late")
        .directory(dir)
        .acquire()
    {
        tell(&format!("late: {error}"));
    }
}

fn body(
    running: &Running,
    work: &str,
    arg: &str,
    again: impl Fn() -> CommandLock,
) -> Result<Value, Failure> {
    tell("begun");
    match work {
        "return" => {
            running.warn("mind the gap");
            running.still_held()?;
            return Ok(json!({ "id": running.id() }));
        }
        "fail" => {
            return Err(Failure::new("no room")
                .code("QUOTA")
                .exit(7)
                .retry_after(Duration::from_secs(9)));
        }
        "question-mark" => drop(File::open("/nowhere/at/all")?),
        "panic" => panic!("as told"),
        "exit" => exit(7),
        "exit-elsewhere" => drop(thread::spawn(|| exit(7)).join()),
        "abort" => std::process::abort(),
        // Comes to its end when it is to; nobody else is in meanwhile.
        "heed" => {
            let alone = Flock::lock(File::create(arg)?, FlockArg::LockExclusiveNonblock);
            let alone = alone.map_err(|_| Failure::new("not alone").exit(99))?;
            while !running.is_ending() {
                sleep(TICK);
            }
            drop(alone);
        }
        "lose" => std::fs::remove_file(running.path())?,
        "overwritten" => {
            std::fs::write(running.path(), "somebody else's")?;
            running.still_held()?;
        }
        // Is at work for `ID MILLIS`, and says in `log` whether anybody else is.
        "take-part" => take_part(arg)?,
        "sleep" => sleep_on(),
        // Ends by a signal, and nobody has to wait for the moment to send it.
        "raise" => {
            kill(nix::unistd::getpid(), Signal::SIGTERM)?;
            sleep_on();
        }
        "block-all" => {
            SigSet::all().thread_block()?;
            sleep_on();
        }
        "shell" => {
            let status = shell(arg, running).status()?;
            return Ok(json!({ "status": status.to_string() }));
        }
        // Several at once, a script a line.
        "shells" => {
            let all: Result<Vec<_>, _> = arg
                .lines()
                .map(|script| shell(script, running).spawn())
                .collect();
            for mut child in all? {
                child.wait()?;
            }
        }
        // One after the other, whatever comes.
        "steps" => {
            for script in arg.lines() {
                shell(script, running).status()?;
            }
        }
        "leave-behind" => drop(shell(arg, running).spawn()?),
        "twice" => {
            let request = Request::begin();
            if let Err(error) = again().acquire() {
                return Ok(json!({ "second": Envelope::of(&request, &error) }));
            }
        }
        "daemon" => {
            nix::unistd::daemon(true, true)?;
            std::fs::write(arg, std::process::id().to_string())?;
            while File::open(format!("{arg}.go")).is_err() {
                sleep(TICK);
            }
        }
        _ => exit(2),
    }
    Ok(Value::Null)
}

fn shell(script: &str, running: &Running) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .env("LOCK", running.path())
        .stdout(stderr());
    command
}

/// As the commands of `beadlock hold` do (`tests/race/stress/crowd`): the witness is a lock of its own on `inside`.
fn take_part(arg: &str) -> Result<(), Failure> {
    let (id, millis) = arg.split_once(' ').unwrap_or((arg, "0"));
    let millis = millis.parse()?;
    let mut log = File::options().append(true).create(true).open("log")?;
    let pid = std::process::id();
    let mut say = |what: &str| log.write_all(format!("{what} {id} {pid}\n").as_bytes());
    let alone = Flock::lock(File::create("inside")?, FlockArg::LockExclusiveNonblock);
    if alone.is_err() {
        say("overlap")?;
    }
    say("begin")?;
    sleep(Duration::from_millis(millis));
    say("end")?;
    Ok(())
}

fn sleep_on() {
    loop {
        sleep(Duration::from_secs(3600));
    }
}

/// A tool that prints for itself, and takes the lock twice, one after the other.
fn guard(first: CommandLock, again: impl Fn() -> CommandLock) -> ExitCode {
    let request = Request::begin();
    for lock in [first, again()] {
        match lock.acquire() {
            Ok(guard) => {
                println!("held {}", guard.path().exists());
                guard.release().expect("it can be released");
            }
            Err(error) => {
                println!(
                    "{}",
                    Envelope::of(&request, &error).with("tool", "embedded")
                );
                return error.exit_code();
            }
        }
    }
    ExitCode::SUCCESS
}

/// Goes on after a panic of the body.
fn caught(lock: CommandLock) -> ExitCode {
    let path = lock.path().expect("a path");
    let body = |_| -> Result<Value, Failure> { panic!("as told") };
    let panicked = catch_unwind(AssertUnwindSafe(|| lock.run(body)));
    println!("panicked {}, held {}", panicked.is_err(), path.exists());
    ExitCode::SUCCESS
}

fn asynchronous(kind: &str, lock: CommandLock, work: &str) -> ExitCode {
    let mut builder = match kind {
        "one" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        // Another task of the same executor, which shows that nobody blocks it.
        let ticking = tokio::spawn(async {
            let mut ticks = 0_u64;
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                ticks += 1;
                tell(&format!("tick {ticks}"));
            }
        });
        let code = match work {
            "give-up" => give_up(lock).await,
            "heed" => {
                let code = lock.run_async(heed).await;
                tell("went on");
                code
            }
            "spawned" => tokio::spawn(lock.run_async(answer))
                .await
                .expect("the task ends"),
            "hear" => {
                tokio::spawn(async {
                    let mut term =
                        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
                    term.as_mut().expect("a handler").recv().await;
                    tell("heard");
                });
                lock.run_async(async |running| forever(&running).await)
                    .await
            }
            _ => {
                lock.run_async(async |running| forever(&running).await)
                    .await
            }
        };
        ticking.abort();
        code
    })
}

async fn heed(running: Running) -> Result<Value, Failure> {
    while !running.is_ending() {
        tokio::time::sleep(TICK).await;
    }
    Ok(Value::Null)
}

async fn answer(running: Running) -> Result<Value, Failure> {
    tokio::time::sleep(Duration::from_millis(30)).await;
    running.still_held()?;
    Ok(json!({ "held": OsStr::new("work.lock") == running.path().file_name().unwrap_or_default() }))
}

fn forever(_: &Running) -> impl Future<Output = Result<Value, Failure>> + use<> {
    tell("begun");
    std::future::pending()
}

/// Stops to wait for the lock, and then has it for a while and lets go of it, each by dropping a future.
async fn give_up(lock: CommandLock) -> ExitCode {
    let soon = Duration::from_millis(200);
    let waited = tokio::time::timeout(soon, lock.clone().run_async(answer)).await;
    tell(&format!("given up: {}", waited.is_err()));
    let begun = tokio::sync::Notify::new();
    let work = async |running| {
        begun.notify_one();
        forever(&running).await
    };
    tokio::select! {
        code = lock.run_async(work) => return code,
        () = async { begun.notified().await; tokio::time::sleep(soon).await } => tell("let go"),
    }
    std::future::pending().await
}
