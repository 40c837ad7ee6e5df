#!/usr/bin/env bats
# shellcheck disable=SC2016 # what is quoted is for another shell
# Many who add to one file at once, through integration/shell/file-ops.sh.

bats_require_minimum_version 1.5.0

setup() {
    LIBRARY="$BATS_TEST_DIRNAME/../../integration/shell/file-ops.sh"
    command -v flock >/dev/null || skip "needs flock"
    command -v jq >/dev/null || skip "needs jq"
    cd "$BATS_TEST_TMPDIR" || return
    echo '{"next": 1, "tasks": []}' >todo.json
}

# One todo more, with the next number, by $1; its number is printed. jq takes its time to start, so bash makes the text.
ADD='lock_file todo.json fd 200 || exit
  text=$(<todo.json) id=${text#*\"next\":} id=$((${id%%,*})) tasks=${text#*[} tasks=${tasks%]*}
  save_json todo.json "{\"next\": $((id + 1)), \"tasks\": [${tasks:+$tasks, }{\"id\": $id, \"by\": \"$1\"}]}" || exit
  unlock_file "$fd"
  echo "$id"'

@test "a hundred adds at once make a hundred unique ids, and lose none" {
    local i pids=()
    for i in {1..100}; do
        env -i PATH="$PATH" "$BASH" -c "source \"\$0\"; $ADD" "$LIBRARY" "$i" >"id.$i" 3>&- &
        pids+=("$!")
    done
    for i in "${pids[@]}"; do wait "$i"; done
    [ "$(cat id.* | sort -n | tr '\n' ' ')" = "$(seq 100 | tr '\n' ' ')" ]
    [ "$(jq -c '[.next, (.tasks | map(.id) | unique | length), (.tasks | map(.by) | unique | length)]' todo.json)" = "[101,100,100]" ]
    [ ! -e todo.json.tmp ]
}

@test "without the lock the same loses some" {
    local i pids=()
    for i in {1..20}; do
        env -i PATH="$PATH" "$BASH" -c "source \"\$0\"; lock_file() { fd=; }; $ADD" "$LIBRARY" "$i" >"id.$i" 3>&- &
        pids+=("$!")
    done
    for i in "${pids[@]}"; do wait "$i" || true; done
    [ "$(cat id.* | sort -un | wc -l)" -lt 20 ]
}

# The same in a script without `set -e` that goes on after a command that fails in the middle.
FAILING="${ADD/save_json/false
  save_json}"

# $1 adds at once, each by the script $2 after $3; how many numbers there were is in $unique.
adds() {
    local i pids=()
    for ((i = 1; i <= $1; i++)); do
        env -i PATH="$PATH" "$BASH" -c "source \"\$0\"; $3 $2" "$LIBRARY" "$i" >"id.$i" 3>&- &
        pids+=("$!")
    done
    for i in "${pids[@]}"; do wait "$i" || true; done
    unique=$(cat id.* | sort -un | wc -l)
}

@test "without set -e a command that fails under the lock loses no add" {
    [[ "$FAILING" == *$'\n  false\n  save_json'* ]]
    local unique
    adds 12 "$FAILING" ""
    [ "$unique" -eq 12 ]
    [ "$(jq -c '[.next, (.tasks | map(.by) | unique | length)]' todo.json)" = "[13,12]" ]
}

@test "a lock that ends with each command that fails, as the document words it, loses some" {
    local unique
    adds 12 "$FAILING" "trap 'unlock_file' ERR;"
    [ "$unique" -lt 12 ]
}
