#!/usr/bin/env bash
# The scene that beadlock is for, played in a temporary directory and checked: an agent that commits a
# database's changes every second, and a job that needs the database to itself for a while.
#
#   make demo                     the job claims the database: the agent skips it, then resumes at once
#   DEMO_NO_CLAIM=1 make demo     the job does not: the agent commits its half-done work, and the demo fails
set -euo pipefail

bin=${BEADLOCK_BIN:?the directory with beadlock and beadlock-agent; type: make demo}
PATH=$bin:$PATH
scene=$(mktemp -d)
agent=

cleanup() {
    if [ -n "$agent" ]; then
        kill -TERM "$agent" 2>/dev/null || true
        wait "$agent" 2>/dev/null || true
    fi
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
fail() { say "FAILED: $*"; failed=1; }

# Prints daemon.log as it grows, without its header and dates.
shown=0
show_log() {
    local lines
    [ -e .beads/daemon.log ] || return 0
    lines=$(wc -l <.beads/daemon.log)
    [ "$lines" -gt "$shown" ] || return 0
    sed -n "$((shown + 1)),${lines}p" .beads/daemon.log | sed -n 's/^\[[^]]*\] /            agent: /p'
    shown=$lines
}
# Waits until a command succeeds, at most ten seconds.
await() {
    local bound=$(($(now) + 10000000))
    until "$@" >/dev/null 2>&1; do
        show_log
        [ "$(now)" -lt "$bound" ] || { fail "waited in vain for: $*"; return 1; }
        sleep 0.05
    done
    show_log
}
commits() { git rev-list --count HEAD; }
at_least() { [ "$("$1")" -ge "$2" ]; }
cycles() { wc -l <"$scene/cycles"; }
cycle_since() { awk -v t="$1" '$1 >= t { found = 1 } END { exit !found }' "$scene/cycles"; }

# Git with nobody's settings but these.
export HOME=$scene GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE BEADS_DIR BEADLOCK_TARGET BEADLOCK_HOLDER
git config --global user.name demo
git config --global user.email demo@localhost
git config --global init.defaultBranch main

mkdir "$scene/repository"
cd "$scene/repository"
git init --quiet
mkdir .beads
printf 'daemon.log*\n.exclusive-lock*\n' >.beads/.gitignore
echo '{"id":"bd-1","title":"written before the job"}' >.beads/issues.jsonl
git add .beads
git commit --quiet --message 'a repository with a .beads directory'
say "a git repository with a .beads directory, one commit"

# What the agent runs in every cycle; its first line notes when.
: >"$scene/cycles"
cat >"$scene/sync" <<'SYNC'
echo "${EPOCHREALTIME/[.,]/}" >>"$HOME/cycles"
git add .beads
git diff --cached --quiet || git commit --quiet --message 'sync'
SYNC
say "\$ beadlock-agent --db .beads --interval 1s --exec '…git add and git commit…'"
beadlock-agent --db .beads --interval 1s --exec "bash '$scene/sync'" 2>/dev/null &
agent=$!
await at_least cycles 1 || exit 1
echo '{"id":"bd-2","title":"written while nobody claims"}' >>.beads/issues.jsonl
await at_least commits 2 || exit 1
say "a change was committed by the agent: $(commits) commits"

# The job changes the database in two steps, and nobody may see it between them.
cat >"$scene/job" <<'JOB'
echo "${EPOCHREALTIME/[.,]/}" >"$HOME/job-begins"
echo '{"id":"bd-3","title":"half of a release"}' >>.beads/issues.jsonl
sleep 4
echo '{"id":"bd-4","title":"the other half"}' >>.beads/issues.jsonl
echo "${EPOCHREALTIME/[.,]/}" >"$HOME/job-ends"
JOB
before=$(wc -l <.beads/daemon.log)
if [ -n "${DEMO_NO_CLAIM:-}" ]; then
    say "\$ bash job          (DEMO_NO_CLAIM: without beadlock hold)"
    bash "$scene/job" &
else
    say "\$ beadlock hold -- bash job"
    beadlock hold -- bash "$scene/job" 2>&1 | sed -u 's/^/            hold:  /' &
fi
job=$!
while kill -0 "$job" 2>/dev/null; do
    show_log
    sleep 0.1
done
wait "$job" || fail "the job ended with $?"
job_begins=$(cat "$scene/job-begins")
job_ends=$(cat "$scene/job-ends")
say "the job is done"
await cycle_since "$job_ends" || exit 1
resumed=$(awk -v t="$job_ends" '$1 >= t { print $1; exit }' "$scene/cycles")
await git diff --quiet HEAD -- .beads || true
say "\$ git log --oneline"
git log --format='            %s: %h'

# The scene, checked.
between=$(awk -v a="$job_begins" -v b="$job_ends" '$1 >= a && $1 < b' "$scene/cycles" | wc -l)
skips=$(sed -n "$((before + 1)),\$p" .beads/daemon.log | grep -cF 'Skipping database (locked by bash)' || true)
took=$(((resumed - job_ends) / 1000))
torn=$(git log --format=%h --diff-filter=M -S'half of a release' -- .beads/issues.jsonl | tail -n 1)
[ "$skips" -ge 1 ] || fail "the agent never said that it skips the claimed database"
[ "$between" -eq 0 ] || fail "$between cycles ran while the job was at work"
[ "$took" -le 1000 ] || fail "the next cycle began $took ms after the job's end"
if [ -z "$torn" ]; then
    fail "what the job wrote was not committed"
elif ! git show "$torn:.beads/issues.jsonl" | grep -qF 'the other half'; then
    fail "commit $torn has one half of the job's work"
fi
[ ! -e .beads/.exclusive-lock ] || fail "the lock is still there"
if [ $failed -eq 0 ]; then
    say "checked: $skips skips and no cycle during the job; the next cycle $took ms after it; its work in one commit"
fi
exit $failed
