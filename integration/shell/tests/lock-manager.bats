#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # what is quoted is for another shell; bats sets stderr
# lock-manager.sh on the real program: `bats integration/shell/tests`. $BEADLOCK_BIN is the directory of the program, or the
# program; else it is looked for in PATH. Each test has a lock directory of its own.

bats_require_minimum_version 1.5.0

setup() {
    SCRIPT="$BATS_TEST_DIRNAME/../lock-manager.sh"
    PROGRAM="${BEADLOCK_BIN:-$(command -v beadlock || true)}"
    if [ -d "$PROGRAM" ]; then PROGRAM="$PROGRAM/beadlock"; fi
    [ -x "$PROGRAM" ] || skip "needs beadlock"
    command -v jq >/dev/null || skip "needs jq"
    LOCKS="$BATS_TEST_TMPDIR/logs/locks"
    LOCK="$LOCKS/shop-prod.lock"
    mkdir -p "$LOCKS"
    chmod 700 "$LOCKS"
    STARTED=()
}

teardown() {
    local pid
    for pid in ${STARTED[@]+"${STARTED[@]}"}; do
        kill -KILL "$pid" 2>/dev/null || true
    done
}

# A command in an environment of its own.
alone() {
    env -i PATH="$PATH" HOME="$BATS_TEST_TMPDIR" BEADLOCK_BIN="$PROGRAM" LOCK_DIR="$LOCKS" ACTOR="ann" "$@"
}

# Runs $1 in a shell that has sourced the script; stdout is in $output, stderr in $stderr.
sourced() {
    run --separate-stderr alone bash -c "source '$SCRIPT'; $1"
}

# A lock of somebody else's: request id, seconds since its heartbeat, TTL.
put_lock() {
    local beat
    beat=$(date -u -d "-$2 seconds" +%Y-%m-%dT%H:%M:%SZ)
    jq -n --arg id "$1" --arg beat "$beat" --argjson ttl "$3" '{lock_version: "v1", lock_name: "shop-prod",
    request_id: $id, actor: "bob", intent: "deploy", intent_version: "1", host_id: "elsewhere", pid: 4242,
    created_at: $beat, last_heartbeat_at: $beat, ttl_seconds: $ttl, metadata: {}}' >"$LOCK"
}

field() {
    jq -r ".$1" "$LOCK"
}

# Waits, at most 30 s, until the words that follow are true.
until_true() {
    local deadline=$((SECONDS + 30))
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.05
    done
}

is_gone() { [ ! -e "$1" ]; }
is_there() { [ -e "$1" ]; }
differs() { [ "$(field "$1")" != "$2" ]; }

@test "acquire_lock: a free name is acquired" {
    sourced 'acquire_lock shop-prod req_1 deploy 1.2; cat "$LOCK_DIR/shop-prod.lock" >&2'
    [ "$status" -eq 0 ]
    [ "$output" = "Lock acquired: shop-prod" ]
    [ "$(jq -r .request_id <<<"$stderr")" = "req_1" ]
}

@test "acquire_lock: the record is the script's" {
    sourced 'echo $$; acquire_lock shop-prod req_1 deploy 1.2 >&2; jq -c . "$LOCK_DIR/shop-prod.lock"'
    [ "$status" -eq 0 ]
    local pid="${lines[0]}" record="${lines[1]}"
    [ "$(jq -r '[.lock_version, .lock_name, .request_id, .actor, .intent, .intent_version] | join(" ")' <<<"$record")" = \
        "v1 shop-prod req_1 ann deploy 1.2" ]
    [ "$(jq -r .host_id <<<"$record")" = "$(hostname)" ]
    [ "$(jq -r .pid <<<"$record")" = "$pid" ]
    [ "$(jq -c '[.ttl_seconds, .metadata]' <<<"$record")" = '[900,{}]' ]

    sourced 'unset ACTOR; DEFAULT_TTL=60; acquire_lock other req_2 deploy 1 >&2; jq -c "[.actor, .ttl_seconds]" "$LOCK_DIR/other.lock"'
    [ "$output" = '["unknown",60]' ]
}

@test "create_lock_json: there is none, and beadlock writes the record with its fields in its order" {
    sourced 'if declare -F create_lock_json >&2; then exit 3; fi; acquire_lock shop-prod req_1 deploy 1.2 >&2
    jq -c keys_unsorted "$LOCK_DIR/shop-prod.lock"; jq -c "[.created_at, .last_heartbeat_at]" "$LOCK_DIR/shop-prod.lock"'
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = '["lock_version","lock_name","request_id","actor","intent","intent_version","host_id","pid","created_at","last_heartbeat_at","ttl_seconds","metadata"]' ]
    local at='20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z'
    [[ "${lines[1]}" =~ ^\[\"($at)\",\"($at)\"\]$ ]]
    [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ]
}

@test "acquire_lock: the lock has heartbeats until the shell ends" {
    local shell="$BATS_TEST_TMPDIR/shell"
    alone bash -c "source '$SCRIPT'; DEFAULT_TTL=3; acquire_lock shop-prod req_1 deploy 1; echo \$\$ >'$shell'; exec sleep 1000" \
        >/dev/null 2>&1 3>&- &
    until_true test -s "$shell"
    shell=$(cat "$shell")
    STARTED+=("$shell")
    # Its first heartbeat may have come by now.
    local first
    first=$(field created_at)
    until_true differs last_heartbeat_at "$first"
    [ "$(field created_at)" = "$first" ]
    [ "$(field request_id)" = "req_1" ]
    kill -KILL "$shell"
    until_true is_gone "$LOCK"
}

@test "acquire_lock: a held lock is said, shown, and 1" {
    put_lock req_old 10 900
    local before
    before=$(cat "$LOCK")
    for force in "" false true; do
        sourced "acquire_lock shop-prod req_1 deploy 1 $force"
        [ "$status" -eq 1 ]
        [ "$output" = "" ]
        [ "$stderr" = "ERROR: Lock is held by active process."$'\n'"$before" ]
        [ "$(cat "$LOCK")" = "$before" ]
    done
}

@test "acquire_lock: a stale lock is said, shown, and 1" {
    put_lock req_old 1000 900
    local before
    before=$(cat "$LOCK")
    for force in "" false yes; do
        sourced "acquire_lock shop-prod req_1 deploy 1 $force"
        [ "$status" -eq 1 ]
        [ "$output" = "" ]
        [ "$stderr" = "ERROR: Lock is stale. Use --force-lock to acquire."$'\n'"$before" ]
        [ "$(cat "$LOCK")" = "$before" ]
    done
}

@test "acquire_lock: true steals a stale lock and nothing else does" {
    put_lock req_old 1000 900
    sourced 'acquire_lock shop-prod req_1 deploy 1 true; jq -r .request_id "$LOCK_DIR/shop-prod.lock"'
    [ "$status" -eq 0 ]
    [ "$output" = "Lock acquired: shop-prod"$'\n'"req_1" ]
    jq -es 'any(.event == "lock_stolen" and .previous_lock.request_id == "req_old")' "$LOCKS/../audit.jsonl"
}

@test "acquire_lock: a lost race is said, and 1" {
    # A program that was beaten to it by somebody who is through by now.
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\n[ "$1" = check ] && { echo %s; exit 0; }\nexit 4\n' "'{\"data\":[{\"verdict\":\"free\"}]}'" \
        >"$BATS_TEST_TMPDIR/bin/beadlock"
    chmod +x "$BATS_TEST_TMPDIR/bin/beadlock"
    PROGRAM="$BATS_TEST_TMPDIR/bin" sourced 'acquire_lock shop-prod req_1 deploy 1'
    [ "$status" -eq 1 ]
    [ "$output" = "" ]
    [ "$stderr" = "ERROR: Failed to acquire lock (race condition)" ]
}

@test "acquire_lock: what cannot be read is not taken" {
    echo '{' >"$LOCK"
    sourced 'acquire_lock shop-prod req_1 deploy 1 true'
    [ "$status" -eq 1 ]
    [ "$output" = "" ]
    [[ "$stderr" == *"shop-prod.lock"* ]]
    [ "$(cat "$LOCK")" = '{' ]
}

@test "acquire_lock: one that fails stops a script, one that is asked does not" {
    put_lock req_old 10 900
    sourced 'acquire_lock shop-prod req_1 deploy 1; echo went on'
    [ "$status" -eq 1 ]
    [ "$output" = "" ]
    sourced 'if acquire_lock shop-prod req_1 deploy 1; then echo has it; else echo has it not; fi'
    [ "$status" -eq 0 ]
    [ "$output" = "has it not" ]
}

@test "acquire_lock: reads nothing of the script's stdin" {
    sourced 'while read -r line; do acquire_lock "$line" req_1 deploy 1; done < <(printf "a\nb\n")'
    [ "$status" -eq 0 ]
    [ "$output" = "Lock acquired: a"$'\n'"Lock acquired: b" ]
}

@test "release_lock: our lock is released" {
    sourced 'acquire_lock shop-prod req_1 deploy 1; release_lock shop-prod req_1; ls "$LOCK_DIR"'
    [ "$status" -eq 0 ]
    [ "$output" = "Lock acquired: shop-prod"$'\n'"Lock released: shop-prod" ]
    [ "$stderr" = "" ]
}

@test "release_lock: a missing lock is a warning, and 0" {
    sourced 'release_lock shop-prod req_1'
    [ "$status" -eq 0 ]
    [ "$output" = "" ]
    [ "$stderr" = "WARN: Lock file not found: $LOCK" ]
}

@test "release_lock: another request's lock stays, and 1" {
    put_lock req_old 10 900
    local before
    before=$(cat "$LOCK")
    sourced 'release_lock shop-prod req_1'
    [ "$status" -eq 1 ]
    [ "$output" = "" ]
    [ "$stderr" = "ERROR: Lock held by different request: req_old" ]
    [ "$(cat "$LOCK")" = "$before" ]
}

@test "is_lock_stale: 0 is stale, 1 is active" {
    put_lock req_old 1000 900
    sourced 'is_lock_stale "$LOCK_DIR/shop-prod.lock"'
    [ "$status" -eq 0 ]
    [ "$output$stderr" = "" ]
    put_lock req_old 10 900
    sourced 'is_lock_stale "$LOCK_DIR/shop-prod.lock"'
    [ "$status" -eq 1 ]
    [ "$output$stderr" = "" ]
    is_there "$LOCK"
    rm "$LOCK"
    sourced 'cd "$LOCK_DIR"; is_lock_stale shop-prod.lock'
    [ "$status" -eq 1 ]
}

@test "update_heartbeat: 0 where the lock is kept up" {
    sourced 'acquire_lock shop-prod req_1 deploy 1; update_heartbeat "$LOCK_DIR/shop-prod.lock"'
    [ "$status" -eq 0 ]
    [ "$output" = "Lock acquired: shop-prod" ]
    until_true is_gone "$LOCK"
    put_lock req_old 1000 900
    sourced 'update_heartbeat "$LOCK_DIR/shop-prod.lock"'
    [ "$status" -eq 1 ]
    [ "$stderr" = "ERROR: No heartbeat: $LOCK is stale" ]
}

@test "the settings have the script's names and values" {
    run env -i PATH="$PATH" bash -c "source '$SCRIPT'; echo \"\$LOCK_DIR \$DEFAULT_TTL \$HEARTBEAT_INTERVAL\"; set +o | grep -E 'errexit|nounset|pipefail'"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "/root/tower-fleet/logs/locks 900 30" ]
    [ "${lines[1]} ${lines[2]} ${lines[3]}" = "set -o errexit set -o nounset set -o pipefail" ]
    run env -i PATH="$PATH" LOCK_DIR=/l DEFAULT_TTL=1 HEARTBEAT_INTERVAL=2 bash -c \
        "source '$SCRIPT'; echo \"\$LOCK_DIR \$DEFAULT_TTL \$HEARTBEAT_INTERVAL\""
    [ "$output" = "/l 1 2" ]
}

@test "LOCK_DIR without root is a directory of the user" {
    local as_user=()
    if [ "$(id -u)" -eq 0 ]; then
        command -v setpriv >/dev/null || skip "setpriv is needed"
        as_user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    fi
    # Not by its path, which that user may not reach.
    say() {
        ${as_user[@]+"${as_user[@]}"} env -i PATH="$PATH" "$@" bash -c 'source /dev/stdin; echo "$LOCK_DIR"' <"$SCRIPT"
    }
    [ "$(say HOME=/home/ann)" = /home/ann/.local/state/tower-fleet/locks ]
    [ "$(say HOME=/home/ann XDG_STATE_HOME=/s)" = /s/tower-fleet/locks ]
    [ "$(say HOME=/home/ann BEADLOCK_LOCK_DIR=/l)" = /l ]
}

@test "a child shell has the three functions" {
    sourced 'bash -c "acquire_lock shop-prod req_1 deploy 1 && ! is_lock_stale $LOCK_DIR/shop-prod.lock && release_lock shop-prod req_1"'
    [ "$status" -eq 0 ]
    [ "$output" = "Lock acquired: shop-prod"$'\n'"Lock released: shop-prod" ]
}

@test "lock-manager.sh check NAME: says stale or active" {
    put_lock req_old 1000 900
    run --separate-stderr alone "$SCRIPT" check shop-prod
    [ "$status $output" = "0 stale" ]
    put_lock req_old 10 900
    run --separate-stderr alone "$SCRIPT" check shop-prod
    [ "$status $output" = "1 active" ]
    rm "$LOCK"
    run --separate-stderr alone "$SCRIPT" check shop-prod
    [ "$status $output" = "1 " ]
    [ "$stderr" = "WARN: Lock file not found: $LOCK" ]
    run --separate-stderr alone "$SCRIPT" steal shop-prod
    [ "$status" -eq 2 ]
}
