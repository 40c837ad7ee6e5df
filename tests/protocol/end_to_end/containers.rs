//! docs/guide/containers.md: what its manifest and its Dockerfile start is started in namespaces, as a pod has them, and
//! what its table says about the locks of the dead.

use std::fs;
use std::os::unix::fs::chown;

use beadlock_tests::skip::{checkout, has_program, root};
use beadlock_tests::{Ended, Running, Scene, children, run, wait::PATIENCE, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const CONTAINER: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

fn page() -> String {
    fs::read_to_string(checkout().join("docs/guide/containers.md")).expect("the page")
}

/// The commands of the manifest, in their order.
fn commands(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().map(str::trim_start);
    let lists = lines.filter_map(|line| line.strip_prefix("command: "));
    lists
        .map(|list| serde_json::from_str(list).unwrap_or_else(|error| panic!("{list}: {error}")))
        .collect()
}

/// Words for `sh`, each in quotes.
fn quoted(words: &[String]) -> String {
    let words = words
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    words.collect::<Vec<_>>().join(" ")
}

/// `PATH`, `REMOTE` and a command for each container are set before it. Every step says its exit code.
const POD: &str = r#"
says() { name=$1; shift; code=0; "$@" >>out 2>&1 || code=$?; echo "$name $code"; }
as_user() { setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/ "$@"; }
until_it() { until "$@" >/dev/null 2>&1; do sleep 0.05; done; }
health() { as_user sh -c "$HEALTH"; }
fares() { probe --exit-code; }
mount -t tmpfs -o mode=0777 volume /srv

as_user mkdir -p /srv/open/.beads
once() { as_user beadlock-agent --db /srv/open/.beads --once --action none; }
says 'the agent on an emptyDir' once
chgrp 1000 /srv; chmod 2775 /srv
says 'the agent with fsGroup' once
says 'the agent with the waiver' as_user beadlock-agent --db /srv/open/.beads --once --action none --allow-foreign-owner
chown 0:0 /srv; chmod 0777 /srv

says rights rights
says 'the agent on what is its own' once
says clone clone
says 'clone again' clone
says 'a probe before the start' probe
agent & agent=$!
until_it probe
says probe probe
as_user sh -c 'echo "{\"id\":\"1\"}" >/srv/shop/.beads/issues.jsonl'
until_it sh -c 'git --git-dir="$REMOTE" cat-file -e main:.beads/issues.jsonl'
says health health
says 'how it fares' fares

unshare --mount sh -c 'mount --bind /srv /mnt && cd /mnt/shop && exec setpriv --reuid 1000 --regid 1000 --clear-groups \
    beadlock hold .beads -- sh -c "echo \$\$ >/mnt/job; exec sleep 300"' >>out 2>&1 & job=$!
until_it grep -q Skipping /srv/shop/.beads/daemon.log
until_it sh -c 'beadlock status --agent unix:/srv/agent.sock --json | grep -q skipped'
says 'health while it is claimed' health
says 'how it fares while it is claimed' fares
says 'a probe while it is claimed' probe
kill -9 $job $(cat /srv/job)
until_it grep -q 'Removed stale lock (sh)' /srv/shop/.beads/daemon.log

kill $(pgrep -x beadlock-agent)
says 'the agent' wait $agent
says 'a probe of nobody' probe
says 'health of nobody' health
says 'how nobody fares' fares
"#;

#[test]
fn what_the_manifest_and_the_dockerfile_start_works_in_a_pod() {
    if !root() || !has_program("setpriv") || !has_program("git") {
        return;
    }
    let page = page();
    let commands = commands(&page);
    let [rights, clone, agent, startup, liveness] = &commands[..] else {
        panic!("{commands:?}");
    };
    assert_eq!(startup, liveness);
    let after = |word: &str| {
        page.lines()
            .find_map(|line| line.strip_prefix(word))
            .unwrap_or_else(|| panic!("no {word}"))
    };
    let entrypoint: Vec<String> =
        serde_json::from_str(after("ENTRYPOINT ")).expect("a list of words");
    assert_eq!(&entrypoint, agent);

    let scene = Scene::new();
    let programs = scene.open_to_others();
    let remote = scene.file("remote.git");
    let script = "
        set -e
        git init -q --bare -b main remote.git
        git clone -q remote.git first 2>/dev/null
        cd first
        git symbolic-ref HEAD refs/heads/main
        mkdir .beads
        echo '{\"id\":\"0\"}' >.beads/issues.jsonl
        git add . && git -c user.name=x -c user.email=x@example.org commit -q -m one
        git push -q origin main
        chown -R 1000:1000 ../remote.git";
    let ended = Ended::from(run(scene.shell(script)));
    assert_eq!(ended.code, 0, "{ended:?}");
    chown(scene.path(), Some(1000), Some(1000)).expect("the user's");
    let script = format!(
        "set -eu\nexport PATH='{}':$PATH REMOTE='{}' HEALTH='{}'\n\
         rights() {{ {}; }}\nclone() {{ as_user {}; }}\nagent() {{ as_user {}; }}\nprobe() {{ as_user {} \"$@\"; }}\n{POD}",
        programs.display(),
        remote.display(),
        after("HEALTHCHECK CMD ").replace('\'', r"'\''"),
        quoted(rights),
        quoted(clone),
        quoted(agent),
        quoted(startup),
    );
    let Some(command) = scene.in_namespaces(&CONTAINER, &script) else {
        return;
    };
    let ended = Ended::from(run(command));
    let expected = "the agent on an emptyDir 1\nthe agent with fsGroup 1\nthe agent with the waiver 0\nrights 0\n\
                    the agent on what is its own 0\nclone 0\nclone again 0\na probe before the start 1\nprobe 0\n\
                    health 0\nhow it fares 0\nhealth while it is claimed 0\nhow it fares while it is claimed 4\n\
                    a probe while it is claimed 0\nthe agent 0\na probe of nobody 1\nhealth of nobody 1\n\
                    how nobody fares 5\n";
    assert_eq!(ended.out, expected, "{ended:?}\n{}", scene.read("out"));
    assert_eq!(ended.code, 0, "{ended:?}");
}

/// A holder of a container that has gone, and the same container after a restart: each row of the table that is not about
/// the node. Of those are `beadlock-cli tests/program explain::elsewhere::a_container_that_lives_and_one_that_is_gone` and
/// `a_container_with_a_name_of_its_own`.
const DEAD: &str = r#"
until_it() { until "$@" >/dev/null 2>&1; do sleep 0.05; done; }
says() { name=$1; shift; "$@" >answer 2>&1 && code=0 || code=$?
    echo "$name $code $(sed -n 's/.*"reason": *"\([a-z_]*\)".*/\1/p' answer)"; }
check() { "$BEADLOCK" check .beads --json; }

unshare --mount sh -c "$HOLD" >>out 2>&1 & job=$!
until_it test -s pid
says 'beside it' check
kill -9 $job $(cat pid)
until_it sh -c '! kill -0 $(cat pid)'
says 'once it is dead' check

unshare --pid --fork --kill-child --mount-proc "$BEADLOCK" cycle .beads -- sh -c "echo >up; sleep 300" >>out 2>&1 & job=$!
until_it test -s up
claim() { "$BEADLOCK" hold .beads --drain 500ms -- true; }
says 'a claim beside a cycle of another container' claim
kill -9 $job
wait $job || true
until_it claim

unshare --pid --fork --kill-child --mount-proc sh -c "$HOLD" >>out 2>&1 & job=$!
rm pid
until_it test -s pid
says 'another container' check
# Held open, so that the kernel gives its number to no later one: a lock with that number would be proved dead there.
exec 9<"/proc/$job/ns/pid_for_children"
kill -9 $job
wait $job || true
says 'that container, gone' check
says 'after a restart' unshare --pid --fork --kill-child --mount-proc "$BEADLOCK" check .beads --json
says 'from another pod' unshare --uts sh -c 'hostname another; exec "$BEADLOCK" check .beads --json'
"$BEADLOCK" status .beads >status || true
sed -n 's/.*\(beadlock break .beads --id [^ ]* --even-if-live\).*/\1/p' status | sed 's/^beadlock/"$BEADLOCK"/' >typed
says 'what status says' sh typed
says 'and now' check
"#;

#[test]
fn what_can_be_proved_dead_from_where() {
    let scene = Scene::new();
    let hold =
        r#"exec "$BEADLOCK" hold .beads --holder job -- sh -c 'echo $$ >pid; exec sleep 300'"#;
    let script = format!(
        "set -eu\nexport HOLD='{}'\n{DEAD}",
        hold.replace('\'', r"'\''")
    );
    let Some(command) = scene.in_namespaces(&CONTAINER, &script) else {
        return;
    };
    let ended = Ended::from(run(command));
    let expected = "beside it 4 pid_alive\nonce it is dead 0 pid_gone\n\
                    a claim beside a cycle of another container 4 \nanother container 4 other_pid_namespace\n\
                    that container, gone 4 other_pid_namespace\nafter a restart 4 other_pid_namespace\n\
                    from another pod 4 other_host\nwhat status says 0 \nand now 0 no_lock\n";
    assert_eq!(ended.out, expected, "{ended:?}\n{}", scene.read("status"));
}

/// As `docker stop` and the end of a pod do.
#[test]
fn a_hold_as_the_first_process_releases_on_sigterm() {
    let scene = Scene::new();
    let hold = r#"exec "$BEADLOCK" hold .beads -- sh -c 'touch up; exec sleep 300'"#;
    let Some(command) = scene.in_namespaces(&CONTAINER, hold) else {
        return;
    };
    let running = Running::start(command);
    wait_until(PATIENCE, "a claim", || scene.file("up").exists());
    kill(Pid::from_raw(children(running.pid())[0]), Signal::SIGTERM).expect("it runs");
    running.end().expect(143, &[]);
    assert!(!scene.lock().exists());
}
