#!/usr/bin/env bats
# shellcheck disable=SC2016 # what is quoted is for another shell
# Writers that are killed at any moment.

bats_require_minimum_version 1.5.0

setup() {
    LIBRARY="$BATS_TEST_DIRNAME/../../integration/shell/file-ops.sh"
    command -v flock >/dev/null || skip "needs flock"
    command -v jq >/dev/null || skip "needs jq"
    command -v setsid >/dev/null || skip "needs setsid"
    cd "$BATS_TEST_TMPDIR" || return
    WRITE='source "$0"; for n in {1..1000}; do jq -n -c --argjson n "$n" "[range(5000) | \$n]" | save_json todo.json; done'
}

# Of files, that each is one of those that were written, whole.
whole() {
    jq -es --argjson files "$#" 'length == $files and all(length == 5000 and (unique | length) == 1)' "$@" >/dev/null
}

interrupted() {
    local signal="$1" i writer names
    jq -n -c '[range(5000) | 0]' >todo.json
    for i in {1..8}; do
        # A group of its own, so that its jq and cat go with it.
        env -i PATH="$PATH" setsid "$BASH" -c "$WRITE" "$LIBRARY" >/dev/null 2>&1 3>&- &
        writer="$!"
        # 40 ms to 320 ms: the writes begin at once, and take some 50 ms each.
        sleep "0.$(printf '%02d' "$((i * 4))")"
        kill -s "$signal" -- "-$writer" 2>/dev/null || kill -s "$signal" "$writer"
        wait "$writer" || true
        # A mv that it has started holds the lock until it is over, and moves what is looked at now.
        flock -w 30 todo.json.lock true
        names=()
        for name in todo.json.[0-9]; do
            [ ! -e "$name" ] || names+=("$name")
        done
        whole todo.json ${names[@]+"${names[@]}"}
        # Nobody has it, and the next one finds nothing in its way.
        env -i PATH="$PATH" "$BASH" -c 'source "$0"; FILE_OPS_TIMEOUT=10 save_json todo.json' "$LIBRARY" <todo.json.keep 3>&-
        [ ! -e todo.json.tmp ]
        whole todo.json
    done
}

@test "KILL at any moment: the file is whole, and the next write goes through" {
    jq -n -c '[range(5000) | -1]' >todo.json.keep
    interrupted KILL
}

@test "TERM at any moment: the file is whole, and nothing is left over" {
    jq -n -c '[range(5000) | -1]' >todo.json.keep
    interrupted TERM
}

@test "KILL to the shell alone: its rename in flight is over before anybody else begins" {
    # A mv that takes its time, as on a slow disk.
    mkdir bin
    printf '#!/bin/sh\nfor last; do :; done\ncase "$last" in */todo.json) : >moving; sleep 1;; esac\nexec /bin/mv "$@"\n' >bin/mv
    chmod +x bin/mv
    echo 0 >todo.json
    env -i PATH="$PWD/bin:$PATH" setsid "$BASH" -c 'source "$0"; echo "$$" >pid; save_json todo.json 1' "$LIBRARY" 3>&- &
    local writer="$!"
    until [ -e moving ]; do sleep 0.02; done
    # It and its subshells, not its mv.
    pkill -KILL -g "$(cat pid)" -x bash
    wait "$writer" || true
    env -i PATH="$PATH" "$BASH" -c 'source "$0"; FILE_OPS_TIMEOUT=10 save_json todo.json 2' "$LIBRARY" 3>&-
    [ "$(cat todo.json todo.json.1 todo.json.2 | tr '\n' ' ')" = "2 1 0 " ]
}
