#!/usr/bin/env bash
# The scene that beadlock is for, played in a temporary directory and checked: a remote, two clones with an
# agent each that commits, pulls and pushes, and in one of them a job that needs the database to itself for a
# while.
#
#   make demo                     the job claims the database: the agent skips it, then resumes at once
#   DEMO_NO_CLAIM=1 make demo     the job does not: its half-done work goes round, and the demo fails
# shellcheck disable=SC2317 # what a trap and await call
set -euo pipefail

bin=${BEADLOCK_BIN:?the directory with beadlock and beadlock-agent; type: make demo}
PATH=$bin:$PATH
scene=$(mktemp -d)
agents=()

cleanup() {
    for agent in "${agents[@]}"; do
        kill -TERM "$agent" 2>/dev/null || true
        wait "$agent" 2>/dev/null || true
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

# Prints what is new in both logs, without the headers, the dates, and the two lines of every cycle.
declare -A shown=([ann]=0 [bob]=0)
show_logs() {
    local who lines
    for who in ann bob; do
        [ -e $who/.beads/daemon.log ] || continue
        lines=$(wc -l <$who/.beads/daemon.log)
        [ "$lines" -gt "${shown[$who]}" ] || continue
        sed -n "$((shown[$who] + 1)),${lines}p" $who/.beads/daemon.log |
            sed -n "/Starting sync cycle\|Sync cycle complete/d; s/^\[[^]]*\] /            $who's agent: /p"
        shown[$who]=$lines
    done
}
# Waits until a command succeeds, at most half a minute.
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
has() { grep -qF "$2" "$1/.beads/issues.jsonl"; }
logged() { sed "1,$1d" ann/.beads/daemon.log | grep -F "$2"; }
heads() { for clone in ann bob remote.git; do git -C "$clone" rev-parse --verify main; done; }
is_everywhere() { [ "$(heads | uniq | wc -l)" -eq 1 ]; }

# Git with nobody's settings but these.
export HOME=$scene GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE BEADS_DIR BEADLOCK_TARGET BEADLOCK_HOLDER
git config --global user.name demo
git config --global user.email demo@localhost
git config --global init.defaultBranch main

cd "$scene"
git init --quiet --bare remote.git
git clone --quiet remote.git ann 2>/dev/null
mkdir ann/.beads
echo '{"id":"bd-1","title":"written before the agents"}' >ann/.beads/issues.jsonl
git -C ann add .beads
git -C ann commit --quiet --message 'a repository with a .beads directory'
git -C ann push --quiet origin main
git clone --quiet remote.git bob
say "a remote, and two clones of it: ann and bob"

for who in ann bob; do
    say "\$ beadlock-agent --db $who/.beads --interval 1s --fetch-interval 1s --action git"
    beadlock-agent --db $who/.beads --interval 1s --fetch-interval 1s --action git 2>/dev/null &
    agents+=($!)
done
echo '{"id":"bd-2","title":"written while nobody claims"}' >>ann/.beads/issues.jsonl
await has bob bd-2 || exit 1
say "what ann has written has arrived at bob's"

# The job changes ann's database in two steps, and nobody may see it between them.
cat >job <<'JOB'
git rev-parse HEAD >"$HOME/head-begins"
echo '{"id":"bd-3","title":"half of a release"}' >>.beads/issues.jsonl
sleep 3
echo '{"id":"bd-4","title":"the other half"}' >>.beads/issues.jsonl
git rev-parse HEAD >"$HOME/head-ends"
echo "${EPOCHREALTIME/[.,]/}" >"$HOME/job-ends"
JOB
before=$(wc -l <ann/.beads/daemon.log)
cd ann
if [ -n "${DEMO_NO_CLAIM:-}" ]; then
    say "ann\$ bash job          (DEMO_NO_CLAIM: without beadlock hold)"
    bash "$scene/job" &
else
    say "ann\$ beadlock hold -- bash job"
    beadlock hold -- bash "$scene/job" 2>&1 | sed -u 's/^/            hold:  /' &
fi
job=$!
cd ..
while kill -0 "$job" 2>/dev/null; do
    show_logs
    sleep 0.05
done
wait "$job" || fail "the job ended with $?"
say "the job is done"
await logged "$before" 'Committed' || exit 1
took=$((($(now) - $(cat job-ends)) / 1000))
await has bob bd-4 || exit 1
await is_everywhere || exit 1
say "\$ git -C remote.git log --oneline main"
git -C remote.git log --format='            %h %s' main

# The scene, checked.
skips=$(logged "$before" 'Skipping database (locked by bash)' | wc -l || true)
[ "$skips" -ge 1 ] || fail "ann's agent never said that it skips the claimed database"
cmp -s head-begins head-ends || fail "ann's agent committed while the job was at work"
[ "$took" -le 5000 ] || fail "ann's agent committed only $took ms after the job's end"
for commit in $(git -C remote.git rev-list --all); do
    case $(git -C remote.git show "$commit:.beads/issues.jsonl") in
    *'half of a release'*'the other half'*) whole=$commit ;;
    *'half of a release'*) fail "commit ${commit:0:7} of the remote has one half of the job's work" ;;
    esac
done
[ -n "${whole:-}" ] || fail "what the job wrote is not in the remote"
cmp -s ann/.beads/issues.jsonl bob/.beads/issues.jsonl || fail "ann and bob have different databases"
[ ! -e ann/.beads/.exclusive-lock ] || fail "the lock is still there"
if [ $failed -eq 0 ]; then
    say "checked: $skips skips and no commit during the job; committed $took ms after it, and bob has it whole"
fi
exit $failed
