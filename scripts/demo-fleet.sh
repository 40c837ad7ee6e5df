#!/usr/bin/env bash
# Claims across machines, played in a temporary directory and checked: an etcd of three nodes, a remote, and three clones
# with an agent each, as three machines would have them. In one clone a job claims the database in the fleet. In its middle
# the leader of the etcd is killed. The agents' own logs say how many cycles ran during the claim.
#
#   make demo-fleet                     0 cycles during the claim
#   DEMO_NO_CLAIM=1 make demo-fleet     the job does not claim: cycles run during it, and the demo fails
# shellcheck disable=SC2317 # what a trap and await call
set -euo pipefail

bin=${BEADLOCK_BIN:?the directory with beadlock and beadlock-agent; type: make demo-fleet}
for tool in etcd etcdctl; do
    command -v "$tool" >/dev/null || {
        echo "demo-fleet: needs $tool (Debian: apt-get install etcd-server etcd-client)" >&2
        exit 1
    }
done
PATH=$bin:$PATH
scene=$(mktemp -d)
agents=()
nodes=()

cleanup() {
    for process in "${agents[@]}"; do
        kill -TERM "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    for process in "${nodes[@]}"; do
        kill -KILL "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf "$scene"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Microseconds, as one whole number.
now() { echo "${EPOCHREALTIME/[.,]/}"; }
begun=$(now)
say() { printf '[%5.1f s] %s\n' "$(($(now) - begun))e-6" "$*"; }
failed=0
fail() {
    say "FAILED: $*"
    failed=1
}

# Prints what is new in the logs, without the headers, the dates, the two lines of every cycle, and the one of every skip: their
# first is followed by "Held since", and their last by "Resumed after".
who=(ann bob cyd)
declare -A shown=([ann]=0 [bob]=0 [cyd]=0)
show_logs() {
    local name lines
    for name in "${who[@]}"; do
        [ -e "$name/.beads/daemon.log" ] || continue
        lines=$(wc -l <"$name/.beads/daemon.log")
        [ "$lines" -gt "${shown[$name]}" ] || continue
        sed -n "$((shown[$name] + 1)),${lines}p" "$name/.beads/daemon.log" |
            sed -n "/Starting sync cycle\|Sync cycle complete\|Skipping database\|State: /d; s/^\[[^]]*\] /            $name's agent: /p"
        shown[$name]=$lines
    done
}
# Waits until a command succeeds, at most thirty seconds.
await() {
    local bound=$(($(now) + 30000000))
    until "$@" >/dev/null 2>&1; do
        show_logs
        [ "$(now)" -lt "$bound" ] || {
            fail "waited in vain for: $*"
            return 1
        }
        sleep 0.05
    done
    show_logs
}
begins() { grep -c 'Starting sync cycle' "$1/.beads/daemon.log" || true; }
completes() { grep -c 'Sync cycle complete' "$1/.beads/daemon.log" || true; }
has_begun() { [ "$(begins "$1")" -gt "$2" ]; }
is_whole() { for name in "${who[@]}"; do [ "$(begins "$name")" -eq "$(completes "$name")" ] || return 1; done; }

# Git and beadlock with nobody's settings but these.
export HOME=$scene GIT_CONFIG_NOSYSTEM=1 BEADLOCK_FLEET_CONFIG=$scene/fleet.toml
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE BEADS_DIR BEADLOCK_TARGET BEADLOCK_HOLDER ETCDCTL_ENDPOINTS
git config --global user.name demo
git config --global user.email demo@localhost
git config --global init.defaultBranch main
cd "$scene"

# Three nodes, each on a loopback address that nobody else has.
network=127.$((1 + RANDOM % 250)).$((1 + RANDOM % 250))
cluster=n1=http://$network.1:2380,n2=http://$network.2:2380,n3=http://$network.3:2380
for node in 1 2 3; do
    etcd --name "n$node" --data-dir "$scene/n$node" --initial-cluster "$cluster" --initial-cluster-token "$network" \
        --listen-client-urls "http://$network.$node:2379" --advertise-client-urls "http://$network.$node:2379" \
        --listen-peer-urls "http://$network.$node:2380" --initial-advertise-peer-urls "http://$network.$node:2380" \
        --auto-compaction-mode periodic --auto-compaction-retention 1h >"$scene/n$node.log" 2>&1 &
    nodes+=($!)
done
endpoints=$network.1:2379,$network.2:2379,$network.3:2379
etcd_says() { ETCDCTL_API=3 etcdctl --endpoints "$1" "${@:2}" 2>/dev/null; }
await etcd_says "$endpoints" endpoint health || exit 1
say "an etcd of three nodes: $endpoints"

say "\$ beadlock fleet create etcd://$endpoints/beads"
beadlock fleet create "etcd://$endpoints/beads" 2>&1 | sed 's/^/            /'

git init --quiet --bare remote.git
git clone --quiet remote.git ann 2>/dev/null
mkdir ann/.beads
echo '{"id":"bd-1","title":"written before the agents"}' >ann/.beads/issues.jsonl
git -C ann add .beads
git -C ann commit --quiet --message 'a repository with a .beads directory'
git -C ann push --quiet origin main
for name in bob cyd; do git clone --quiet remote.git "$name"; done
say "a remote, and three clones of it: ${who[*]}"
for name in "${who[@]}"; do
    say "$name\$ beadlock fleet join acme/tracker"
    (cd "$name" && beadlock fleet join acme/tracker 2>&1) | sed 's/^/            /'
done
for name in "${who[@]}"; do
    beadlock-agent --db "$name/.beads" --interval 200ms --fetch-interval 1s --action git 2>/dev/null &
    agents+=($!)
done
say "an agent in each, with a cycle every 200 ms"
for name in "${who[@]}"; do await has_begun "$name" 5 || exit 1; done

# The job counts the cycles in the three logs when it begins and when it ends. At its beginning every cycle that has begun is over.
cat >job <<'JOB'
cd "$HOME"
count() { for name in ann bob cyd; do grep -c "$1" "$name/.beads/daemon.log"; done | tr '\n' ' '; }
for try in $(seq 40); do
    [ "$(count 'Starting sync cycle')" = "$(count 'Sync cycle complete')" ] && break
    sleep 0.05
done
count 'Starting sync cycle' >begin
echo "token ${BEADLOCK_FENCING_TOKEN:-none}" >token
sleep 8
count 'Starting sync cycle' >end
JOB
cd ann
if [ -n "${DEMO_NO_CLAIM:-}" ]; then
    say "ann\$ bash job          (DEMO_NO_CLAIM: without beadlock hold)"
    bash "$scene/job" &
else
    say "ann\$ beadlock hold --holder release-job -- bash job"
    beadlock hold --holder release-job -- bash "$scene/job" 2>&1 | sed -u 's/^/            hold: /' &
fi
job=$!
cd ..
await test -e token || exit 1
sleep 2

# The leader is the node whose own status names it.
status() { etcd_says "$network.$1:2379" endpoint status --write-out fields | sed -n "s/^\"$2\" : //p"; }
for node in 1 2 3; do
    [ "$(status "$node" MemberID)" = "$(status "$node" Leader)" ] && leader=$node
done
[ -n "${leader:-}" ] || {
    fail "no node says that it is the leader"
    exit 1
}
say "\$ kill -9 ${nodes[leader - 1]}          (n$leader, the leader of the etcd)"
kill -KILL "${nodes[leader - 1]}"
wait "${nodes[leader - 1]}" 2>/dev/null || true

while kill -0 "$job" 2>/dev/null; do
    show_logs
    sleep 0.05
done
wait "$job" || fail "the job ended with $?"
ended=$(now)
say "the job is done"
[ -s end ] || {
    fail "the job was ended before its end"
    exit 1
}
read -r -a before <begin || true
read -r -a after <end || true
for i in 0 1 2; do await has_begun "${who[i]}" "${after[i]}" || exit 1; done
say "cycles run again on all three, $((($(now) - ended) / 1000)) ms after the claim"

# The scene, checked.
during=0
for i in 0 1 2; do during=$((during + after[i] - before[i])); done
[ "$during" -eq 0 ] || fail "$during cycles ran during the job"
for name in "${who[@]}"; do
    grep -q 'Skipping database (locked by release-job)' "$name/.beads/daemon.log" || fail "$name's agent never said that it skips"
done
[ ! -e ann/.beads/.exclusive-lock ] || fail "the lock is still there"
if [ $failed -eq 0 ]; then
    say "checked: $during cycles during the claim, by the logs of three agents; $(cat token)"
    say "$during cycles during the claim"
fi
exit $failed
