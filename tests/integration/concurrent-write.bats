#!/usr/bin/env bats
# shellcheck disable=SC2016 # what is quoted is for another shell
# Many who write one file at once, and who read it meanwhile.

bats_require_minimum_version 1.5.0

setup() {
    LIBRARY="$BATS_TEST_DIRNAME/../../integration/shell/file-ops.sh"
    command -v flock >/dev/null || skip "needs flock"
    command -v jq >/dev/null || skip "needs jq"
    cd "$BATS_TEST_TMPDIR" || return
}

@test "writes at once never leave half a file, to whoever reads without a lock" {
    local i pids=()
    echo '{"by": 0, "rest": []}' >todo.json
    for i in {1..8}; do
        env -i PATH="$PATH" "$BASH" -c 'source "$0"; for n in {1..5}; do
      jq -n -c --argjson by "$1" "{by: \$by, rest: [range(2000) | \$by]}" | FILE_OPS_TIMEOUT=60 atomic_write todo.json || exit; done' \
            "$LIBRARY" "$i" 3>&- &
        pids+=("$!")
    done
    (while [ ! -e over ]; do jq -e '.by as $by | .rest | all(. == $by)' todo.json >/dev/null || echo torn >>torn; done) 3>&- &
    local reader="$!"
    for i in "${pids[@]}"; do wait "$i"; done
    : >over
    wait "$reader"
    [ ! -e torn ]
    local names=(todo.json*)
    [ "${names[*]}" = "todo.json todo.json.1 todo.json.2 todo.json.3 todo.json.4 todo.json.5 todo.json.lock" ]
    for i in todo.json todo.json.[1-5]; do jq -e '.by > 0 and (.rest | length) == 2000' "$i" >/dev/null; done
}

@test "writes to different files do not wait for each other" {
    flock -x -o a.json.lock sleep 1000 3>&- &
    local holder="$!"
    until ! flock -n a.json.lock true; do sleep 0.02; done
    local i pids=() code=0
    for i in b c d e; do
        env -i PATH="$PATH" "$BASH" -c 'source "$0"; FILE_OPS_TIMEOUT=5 save_json "$1.json" "\"$1\""' "$LIBRARY" "$i" 3>&- &
        pids+=("$!")
    done
    for i in "${pids[@]}"; do wait "$i" || code="$?"; done
    pkill -KILL -P "$holder" sleep
    [ "$code" -eq 0 ]
    [ "$(cat b.json c.json d.json e.json | tr '\n' ' ')" = '"b" "c" "d" "e" ' ]
}
