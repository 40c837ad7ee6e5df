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

# One todo more, with the next number, by $1; its number is printed.
ADD='lock_file todo.json fd 200 || exit
  id=$(jq .next todo.json)
  save_json todo.json "$(jq -c --arg by "$1" ".tasks += [{id: .next, by: \$by}] | .next += 1" todo.json)" || exit
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
