#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # what is quoted is for another shell; bats sets stderr
# shellcheck disable=SC2030,SC2031 # each test has its own STARTED
# integration/shell/file-ops.sh by itself: `bats tests/unit`. Each test has a directory of its own.

bats_require_minimum_version 1.5.0

setup() {
    LIBRARY="$BATS_TEST_DIRNAME/../../integration/shell/file-ops.sh"
    command -v flock >/dev/null || skip "needs flock"
    command -v jq >/dev/null || skip "needs jq"
    command -v setsid >/dev/null || skip "needs setsid"
    DIR="$BATS_TEST_TMPDIR/work"
    FILE="$DIR/todo.json"
    LOCK="$FILE.lock"
    mkdir "$DIR"
    STARTED=()
    # Whoever starts us in the background may have us ignore some signals, which bash then could not trap.
    CLEAN=(env -i)
    if env --default-signal true 2>/dev/null; then CLEAN+=(--default-signal); fi
    # A child in the background that outlives its shell, and keeps none of what bats waits for: its PID is $child.
    LINGER='linger() { "$@" sleep 1000 </dev/null >/dev/null 2>&1 3>&- & child=$!; echo "$child" >>'"'$BATS_TEST_TMPDIR/children'; }"
}

teardown() {
    local pid
    # For those that wait for it.
    : >"$DIR/go"
    for pid in ${STARTED[@]+"${STARTED[@]}"} $(cat "$BATS_TEST_TMPDIR/children" 2>/dev/null); do
        kill -KILL "$pid" 2>/dev/null || true
    done
}

# A command in an environment of its own, in the directory.
alone() {
    (cd "$DIR" && exec "${CLEAN[@]}" PATH="${ONLY:-$PATH}" HOME="$DIR" "$@")
}

# Runs $1 in a shell that has sourced the library; stdout is in $output, stderr in $stderr.
sourced() {
    run --separate-stderr alone "$BASH" -c "$LINGER; source '$LIBRARY'; $1" script
}

# The same in the background, its PID in $PID.
start() {
    (cd "$DIR" && exec "${CLEAN[@]}" PATH="$PATH" HOME="$DIR" "$BASH" -c "$LINGER; source '$LIBRARY'; $1" script) >"$DIR/said" 2>&1 3>&- &
    PID="$!"
    STARTED+=("$PID")
}

# The same, until it calls go: that says so by a file, and waits for one.
background() {
    rm -f "$DIR/ready" "$DIR/go"
    start "go() { : >ready; until [ -e go ]; do sleep 0.02; done; }; $1"
    until_true test -e "$DIR/ready"
}

# Waits, at most 30 s, until the words that follow are true.
until_true() {
    local deadline=$((SECONDS + 30))
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || return 1
        sleep 0.02
    done
}

# flock(1) has it, until the test ends: in the process that is killed then, not above it.
hold() {
    flock -x -F "$LOCK" sleep 1000 3>&- &
    STARTED+=("$!")
    until_true is_held
}

is_free() { flock -n "$LOCK" true; }
is_held() { ! is_free; }
is_gone() { [ ! -e "$1" ]; }
# Somebody is blocked in flock.
is_not_awaited() { ! is_awaited; }
is_awaited() { grep -q -- "-> FLOCK .*:$(stat -c %i "$LOCK") " /proc/locks; }

# A PATH with the programs named, and nothing else.
only() {
    local program
    ONLY="$BATS_TEST_TMPDIR/only"
    mkdir -p "$ONLY"
    for program in bash env readlink flock cat mv rm ln cp chmod stat sync iconv cmp "$@"; do
        ln -sf "$(type -P "$program")" "$ONLY/$program"
    done
}

# Puts the script $2 there in place of program $1.
stub() {
    rm -f "$ONLY/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$ONLY/$1"
    chmod +x "$ONLY/$1"
}

@test "lock_file: others are kept out until unlock_file" {
    background 'lock_file todo.json fd && go; unlock_file "$fd"; rm go ready; go'
    is_held
    touch "$DIR/go"
    until_true is_gone "$DIR/go"
    until_true test -e "$DIR/ready"
    is_free
}

@test "lock_file: the descriptor is named, and LOCK_FD" {
    sourced 'lock_file todo.json fd; echo "$? $fd $LOCK_FD"; [[ todo.json.lock -ef /dev/fd/$fd ]] && echo open'
    [ "$output" = $'0 200 200\nopen' ]
    [ "$stderr" = "" ]
}

@test "lock_file: the lock file is made, empty, and stays" {
    sourced 'lock_file todo.json fd; unlock_file "$fd"'
    [ "$status" -eq 0 ]
    [ "$(ls "$DIR")" = "todo.json.lock" ]
    [ ! -s "$LOCK" ]
    echo text >"$LOCK"
    sourced 'lock_file todo.json fd && save_json todo.json 1; unlock_file "$fd"'
    [ "$(cat "$LOCK")" = "text" ]
}

@test "lock_file: a time-out is 8, and says for how long and who has it" {
    hold
    local began="$SECONDS"
    sourced 'lock_file todo.json fd 2; echo "$? $E_LOCK_FAILED ${fd-unset} $LOCK_FD"'
    [ "$((SECONDS - began))" -ge 2 ]
    [ "$((SECONDS - began))" -le 5 ]
    [ "$output" = "8 8 unset " ]
    [[ "$stderr" == "Failed to acquire lock (timeout after 2s)"$'\n'"Cannot acquire lock on $FILE (another process may be active): held by PID "*"; wait for it, or allow more time" ]]
    [[ "$stderr" == *"held by PID ${STARTED[0]} "*"sleep)"* ]]
}

@test "lock_file: a wait is never shorter than it says, wherever in a second it begins" {
    [[ -n "${EPOCHREALTIME-}" ]] || skip "needs bash 5"
    hold
    only sleep
    stub flock "case \" \$* \" in *' -n '*) sleep 1.1; exit 1 ;; esac; exec '$(type -P flock)' \"\$@\""
    # At the end of a second: after 1.1 s the clock has gone from one whole second to the next but one.
    sourced 'until [[ "$EPOCHREALTIME" == *[.,]9[0-5]* ]]; do :; done
        begun=${EPOCHREALTIME/[.,]/}; lock_file todo.json fd 2; echo "$? $((${EPOCHREALTIME/[.,]/} - begun))"'
    [ "${output% *}" = 8 ]
    [ "${output#* }" -ge 2000000 ]
}

@test "lock_file: without a time-out it is 30 s, and it can be another" {
    only
    stub flock 'exit 1'
    # A clock that has run out by the second look.
    local clock='now=0; _file_ops_clock() { printf -v "$1" %s "$now"; }; _file_ops_is_inside() { now=1000000000; return 1; };'
    local wait
    for wait in "" 7; do
        sourced "${clock} lock_file todo.json fd $wait"
        [ "$status" -eq 8 ]
        [[ "$stderr" == "Failed to acquire lock (timeout after ${wait:-30}s)"* ]]
    done
    sourced "${clock} FILE_OPS_TIMEOUT=9 save_json todo.json 1"
    [ "$status" -eq 8 ]
    [[ "$stderr" == "Failed to acquire lock (timeout after 9s)"* ]]
}

@test "lock_file: with no time at all it does not wait" {
    background 'lock_file todo.json fd; go'
    sourced 'lock_file todo.json fd 0'
    [ "$status" -eq 8 ]
    [[ "$stderr" == "Failed to acquire lock (timeout after 0s)"* ]]
    [[ "$stderr" == *"held by PID $PID (bash)"* ]]
}

@test "lock_file: who waits gets it as soon as it is free" {
    background 'lock_file todo.json fd; go; unlock_file'
    start 'lock_file todo.json fd 20 && echo got >got'
    until_true is_awaited
    is_gone "$DIR/got"
    touch "$DIR/go"
    wait "$PID"
    [ -e "$DIR/got" ]
}

@test "lock_file: of many at once one has it at a time" {
    local i
    for i in 1 2 3 4 5 6 7 8; do
        start 'for i in 1 2 3 4 5; do lock_file todo.json fd && mkdir inside && rmdir inside && echo x >>times; unlock_file; done'
    done
    for i in 1 2 3 4 5 6 7 8; do
        wait "${STARTED[i - 1]}"
    done
    [ "$(wc -l <"$DIR/times")" -eq 40 ]
}

@test "lock_file: one after the other has the same descriptor" {
    sourced 'for i in {1..25}; do lock_file todo.json fd 1 || exit 1; echo "$fd"; unlock_file "$fd"; done'
    [ "$status" -eq 0 ]
    [ "$(sort -u <<<"$output")" = "200" ]
    [ "${#lines[@]}" -eq 25 ]
}

@test "lock_file: a trap of the script's own runs within a second or two of the wait" {
    hold
    background 'trap "echo trapped; exit 3" TERM; : >ready; lock_file todo.json fd 600'
    until_true is_awaited
    kill -TERM "$PID"
    local began="$SECONDS" code=0
    wait "$PID" || code=$?
    [ "$code" -eq 3 ]
    [ "$((SECONDS - began))" -le 4 ]
    [ "$(cat "$DIR/said")" = "trapped" ]
}

@test "lock_file: Ctrl-C in an interactive shell leaves no descriptor behind" {
    hold
    mkfifo "$BATS_TEST_TMPDIR/typed"
    # A group of its own, as a terminal's Ctrl-C finds one.
    (cd "$DIR" && exec "${CLEAN[@]}" PATH="$PATH" HOME="$DIR" setsid "$BASH" --norc --noprofile -i) <"$BATS_TEST_TMPDIR/typed" >"$DIR/said" 2>&1 3>&- &
    STARTED+=("$!")
    exec 5>"$BATS_TEST_TMPDIR/typed"
    echo "source '$LIBRARY'; echo \"\$\$\" >pid" >&5
    until_true test -s "$DIR/pid"
    local i
    for i in 1 2 3; do
        echo 'lock_file todo.json fd 60' >&5
        until_true is_awaited
        kill -INT -- "-$(cat "$DIR/pid")"
        until_true is_not_awaited
    done
    echo 'lock_file other.json fd; echo "$fd" >fd; exit' >&5
    exec 5>&-
    until_true test -s "$DIR/fd"
    [ "$(cat "$DIR/fd")" = "200" ]
}

@test "lock_file: in a trap of the script's own during a wait for another, and on its exit" {
    hold
    background "trap 'lock_file other.json other; echo \"\$? \$other\"; unlock_file; (exit 3)' USR1; trap : TERM
    : >ready; lock_file todo.json fd 60; echo \"\$fd\"; go"
    until_true is_awaited
    kill -USR1 "$PID"
    until_true test -s "$DIR/said"
    kill -KILL "${STARTED[0]}"
    until_true grep -qx 200 "$DIR/said"
    [ "$(grep -v Killed "$DIR/said")" = $'0 201\n200' ]
    touch "$DIR/go"

    sourced 'trap '\''lock_file todo.json fd && save_json todo.json "$fd" && save_json other.json 1; echo "$?"'\'' EXIT; exit 3'
    [ "$status $output $stderr $(cat "$FILE")" = "3 0  200" ]
}

@test "lock_file: the same file twice is an error at once, by any name of it" {
    mkdir "$DIR/sub"
    ln -s todo.json "$DIR/link.json"
    ln -s . "$DIR/here"
    local name
    for name in todo.json ./todo.json sub/../todo.json link.json here/todo.json "$FILE"; do
        sourced "lock_file todo.json fd; lock_file $name again 600; echo \"\$? \${again-unset} \$LOCK_FD\""
        [ "$output" = "8 unset 200" ]
        [ "$stderr" = "Cannot acquire lock on $FILE (this shell has it already, on descriptor 200; unlock_file 200 first)" ]
    done
    ln "$LOCK" "$DIR/other.json.lock"
    sourced 'lock_file todo.json fd; lock_file other.json again 600'
    [ "$status" -eq 8 ]
}

@test "lock_file: a link and its file are one lock" {
    ln -s "$FILE" "$BATS_TEST_TMPDIR/link.json"
    background "lock_file ../link.json fd; go"
    is_held
    is_gone "$BATS_TEST_TMPDIR/link.json.lock"
}

@test "lock_file: a file has one name, however its directory was entered, and whatever PWD says" {
    mkdir "$DIR/real"
    ln -s real "$DIR/dir"
    local there
    for there in 'cd dir' 'cd -P dir' 'cd dir; PWD=/' 'cd dir; PWD=..' 'cd dir; unset PWD' 'cd dir; PWD="$PWD/../real"'; do
        sourced "$there; lock_file todo.json fd; lock_file ../real/todo.json again; echo \"\$?\""
        [ "$output" = 8 ]
        [ "$stderr" = "Cannot acquire lock on $DIR/real/todo.json (this shell has it already, on descriptor 200; unlock_file 200 first)" ]
    done
    [ "$(cd "$DIR/real" && echo *)" = "todo.json.lock" ]
}

@test "lock_file: one file does not block another, nor its directory" {
    background 'lock_file todo.json fd; go'
    sourced 'lock_file todo-log.jsonl fd 0 && echo "{}" | FILE_OPS_TIMEOUT=0 atomic_write other.json && echo done'
    [ "$output" = "done" ]
}

@test "lock_file: eleven at once, on 200 to 210, and not twelve" {
    sourced 'for i in {1..12}; do lock_file "$i.json" fd 1; echo "$? $fd"; done; for fd in {200..210}; do unlock_file "$fd"; done; lock_file 12.json fd; echo "$? $fd"'
    local i expected=""
    for i in {200..210}; do expected+="0 $i"$'\n'; done
    [ "$output" = "${expected}8 210"$'\n'"0 200" ]
    [ "$stderr" = "File descriptor 210 already in use (as 200 to 209 are; unlock a file first)" ]
}

@test "lock_file: a descriptor that the script has open is left alone" {
    sourced 'exec 200>mine 202</dev/null; for i in 1 2 3; do lock_file "$i" fd; echo "$fd"; done
    for fd in 200 201 202 203 204; do unlock_file "$fd"; done; echo still >&200; cat mine; true <&202 && echo open'
    [ "$output" = $'201\n203\n204\nstill\nopen' ]
}

@test "lock_file: too low a limit of descriptors is said" {
    sourced 'ulimit -S -n 64; lock_file todo.json fd 1'
    [ "$status" -eq 8 ]
    [ "$stderr" = "Cannot acquire lock on $FILE ($LOCK: descriptor 200 cannot be opened: ulimit -n is 64, and 211 is needed)" ]
    sourced 'ulimit -S -n 202; for i in 1 2 3; do lock_file "$i" fd 1; echo "$? $fd"; done'
    [ "$output" = $'0 200\n0 201\n8 201' ]
}

@test "lock_file: what has been replaced meanwhile is locked again, by its name" {
    background 'lock_file todo.json fd; go'
    start 'lock_file todo.json fd 20 && echo got >got && exec sleep 1000'
    until_true is_awaited
    rm "$LOCK"
    touch "$DIR/go"
    until_true test -e "$DIR/got"
    is_held
}

@test "lock_file: what is no regular file is no lock file" {
    mkfifo "$LOCK"
    sourced 'lock_file todo.json fd 1'
    [ "$status $stderr" = "8 Cannot acquire lock on $FILE ($LOCK: it is no regular file)" ]
    rm "$LOCK"
    ln -s elsewhere "$LOCK"
    sourced 'lock_file todo.json fd 1'
    [ "$status" -eq 8 ]
    is_gone "$DIR/elsewhere"
    rm "$LOCK"
    mkdir "$LOCK"
    sourced 'lock_file todo.json fd 1'
    [ "$status" -eq 8 ]
}

@test "lock_file: a wrong call is 8, and says so" {
    local call
    for call in '' 'todo.json' 'todo.json 1fd' 'todo.json "a[0]"' 'todo.json fd x' 'todo.json fd -1' 'todo.json fd 1.5' \
        'todo.json _file_ops_fd' '"" fd' '. fd' 'none/todo.json fd' 'todo.json/ fd' 'a b c d'; do
        sourced "lock_file $call"
        [ "$status" -eq 8 ]
        [ -n "$stderr" ]
    done
    sourced 'readonly fd=1; lock_file todo.json fd'
    [ "$status" -ne 0 ]
    is_free
}

@test "a lock file is never a data file" {
    echo 1 >"$FILE"
    touch "$LOCK"
    sourced 'echo x | atomic_write todo.json.lock'
    [ "$status" -eq 1 ]
    [ "$stderr" = "Cannot acquire lock on todo.json.lock (it is the lock file of $FILE, and never has any content)" ]
    sourced 'lock_file todo.json.lock fd'
    [ "$status" -eq 8 ]
    [ ! -s "$LOCK" ]
    # A file may be called so.
    sourced 'echo x | atomic_write Cargo.lock && cat Cargo.lock'
    [ "$status $output" = "0 x" ]
}

@test "lock_file: without flock it is 8, and says where it is from" {
    only
    rm "$ONLY/flock"
    sourced 'lock_file todo.json fd'
    [ "$status $stderr" = "8 Cannot acquire lock on $FILE (there is no flock here; it is part of util-linux)" ]
}

# As somebody else: $2 in a shell that has sourced the library, in directory $1, which he can get to; those of bats are 0700.
nobody() {
    chmod 755 "$1"
    cp "$LIBRARY" "$1/file-ops.sh"
    run --separate-stderr env -i PATH="$PATH" setpriv --reuid 65534 --regid 65534 --clear-groups \
        "$BASH" -c "cd \"\$1\"; source ./file-ops.sh; $2" script "$1"
}

@test "lock_file: a lock file that cannot be written is locked all the same" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    touch "$LOCK"
    chmod 644 "$LOCK"
    local open
    open=$(mktemp -d "${TMPDIR:-/tmp}/file-locking.XXXXXX")
    cp -p "$LOCK" "$open"
    nobody "$open" 'lock_file todo.json fd 1; echo "$? $fd"; lock_file new.json fd 1'
    rm -r "$open"
    [ "$status $output" = "8 0 200" ]
    [[ "$stderr" == *"new.json.lock: Permission denied)" ]]
}

@test "lock_file: inside a hold that is another user's it is an error at once, too" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    local open
    open=$(mktemp -d "${TMPDIR:-/tmp}/file-locking.XXXXXX")
    LOCK="$open/todo.json.lock"
    touch "$LOCK"
    chmod 644 "$LOCK"
    hold
    nobody "$open" "export BEADLOCK_HELD_ID='$(stat -c %d:%i "$LOCK"):${STARTED[0]}'; lock_file todo.json fd 1"
    rm -r "$open"
    [ "$status $stderr" = "8 Cannot acquire lock on $open/todo.json (the beadlock hold that this runs in has it; in there: beadlock write)" ]
}

@test "lock_file: works under set -eu, posix mode and noclobber" {
    touch "$LOCK"
    local options
    for options in 'set -eu -o pipefail' 'set -o posix' 'set -C' 'set -f; IFS=0123456789/' 'shopt -s failglob' 'set -E; trap "echo oops" ERR'; do
        sourced "$options; lock_file todo.json fd 1; echo \"\$fd\"; unlock_file; echo '[1]' | atomic_write todo.json; save_json todo.json 2; echo fine"
        [ "$status" -eq 0 ]
        [ "$output" = $'200\nfine' ]
        [ "$stderr" = "" ]
        [ "$(cat "$FILE")" = "2" ]
    done
}

@test "unlock_file: twice, and without a lock, it does nothing" {
    sourced 'set -eu; unlock_file; unlock_file 200; unlock_file ""; unlock_file 1; unlock_file nonsense
    lock_file todo.json fd; unlock_file "$fd"; unlock_file "$fd"; unlock_file; echo "fine $LOCK_FD"'
    [ "$status" -eq 0 ]
    [ "$output" = "fine " ]
    [ "$stderr" = "" ]
}

@test "unlock_file: without a word it is LOCK_FD, and no older lock" {
    sourced 'lock_file a.json a; lock_file b.json b; unlock_file; unlock_file
    flock -n b.json.lock true && echo b free; flock -n a.json.lock true || echo a held; unlock_file "$a"; flock -n a.json.lock true && echo a free'
    [ "$output" = $'b free\na held\na free' ]
}

@test "unlock_file: the descriptor is closed" {
    sourced 'lock_file todo.json fd; unlock_file "$fd"; { true >&200; } 2>/dev/null || echo closed'
    [ "$output" = "closed" ]
}

@test "unlock_file: ends it for a child in the background too" {
    sourced 'lock_file todo.json fd; linger; unlock_file; flock -n todo.json.lock true && echo free; kill "$child"'
    [ "$output" = "free" ]
}

@test "unlock_file: a lock file that was deleted while it was held is said" {
    sourced 'lock_file todo.json fd; rm todo.json.lock; unlock_file; echo "$?"'
    [ "$output" = "0" ]
    [ "$stderr" = "file-ops: the lock on $FILE was lost: $LOCK was deleted or replaced while it was held" ]
}

@test "unlock_file: what the script has put into its place stays open" {
    sourced 'lock_file todo.json fd; exec 200>mine; unlock_file 200; echo still >&200; cat mine'
    [ "$output" = "still" ]
}

@test "a lock ends with its shell, also by set -e" {
    sourced 'lock_file todo.json fd; linger; echo "$child"; exit 5'
    [ "$status" -eq 5 ]
    is_free
    kill "$output"
    sourced 'set -e; lock_file todo.json fd; linger; echo "$child"; false; echo not here'
    [ "$status" -eq 1 ]
    is_free
    kill "$output"
}

@test "a lock ends with HUP, INT and TERM, and the shell by them" {
    local signal
    for signal in HUP INT TERM; do
        sourced "lock_file todo.json fd; trap -p $signal"
        [[ "$output" == *"_file_ops_signalled $signal"* ]]
        sourced "lock_file todo.json fd; linger; echo \$child; kill -$signal \$\$; echo not here"
        [ "$status" -eq "$((128 + $(kill -l "$signal")))" ]
        is_free
        kill "$output"
    done
}

@test "a lock ends with KILL" {
    background 'lock_file todo.json fd; go'
    is_held
    kill -KILL "$PID"
    wait "$PID" || true
    # The child that slept for it has its descriptor until it wakes.
    until_true is_free
}

@test "an ERR trap with unlock_file releases on the error" {
    sourced 'lock_file todo.json fd; trap "unlock_file \"\$fd\"" ERR; false; flock -n todo.json.lock true && echo free'
    [ "$output" = "free" ]
}

@test "without set -e a failed command leaves the lock to the script that goes on" {
    sourced 'lock_file todo.json fd; false; flock -n todo.json.lock true || echo held'
    [ "$output" = "held" ]
}

@test "traps: the script's own for EXIT runs, under the lock, and sees its exit code" {
    sourced 'trap "echo \"own \$?\"; flock -n todo.json.lock true || echo held # comment" EXIT; lock_file todo.json fd; linger; echo "$child"; exit 3'
    [ "$status" -eq 3 ]
    [ "${lines[1]} ${lines[2]}" = "own 3 held" ]
    is_free
    kill "${lines[0]}"
}

@test "traps: the script's own for INT, TERM and ERR stay, and say whether it goes on" {
    sourced 'trap "echo int" INT; trap "echo term; exit 4" TERM; trap "echo err" ERR; lock_file todo.json fd
    kill -INT $$; flock -n todo.json.lock true || echo held; trap -p ERR; kill -TERM $$; echo not here'
    [ "$status" -eq 4 ]
    [ "$output" = $'int\nerr\nheld\ntrap -- \'echo err\' ERR\nterm' ] || [ "$output" = $'int\nheld\ntrap -- \'echo err\' ERR\nterm' ]
    is_free
}

@test "traps: ours are gone after the last lock, and the script's are as they were" {
    sourced 'trap - ERR; trap -p; lock_file a fd; lock_file b other; unlock_file "$fd"; [[ -n $(trap -p EXIT) ]] && echo there; unlock_file "$other"; trap -p'
    [ "$output" = "there" ]
    sourced $'trap \'echo "it\'"\'"\'s"\' EXIT; trap "" INT; trap "echo t" TERM; before=$(trap -p); lock_file a fd; save_json a 1; unlock_file; [[ "$before" == "$(trap -p)" ]] && echo same'
    [ "$output" = $'same\nit\'s' ]
    # Words that look like more traps, in one.
    sourced $'trap \'echo "a\ntrap -- b SIGINT\n$(echo c)" *\' EXIT; before=$(trap -p); lock_file a fd; unlock_file; [[ "$before" == "$(trap -p)" ]] && echo same; rm *'
    [ "$output" = $'same\na\ntrap -- b SIGINT\nc *' ]
}

# $1, then the library, then $2, in a shell of its own.
around() {
    run --separate-stderr alone "$BASH" -c "$LINGER; $1; source '$LIBRARY'; $2" script
}

@test "traps: the script's own for ERR runs once, with the exit code, whenever it was set" {
    local own='trap '\''echo "own $?" # comment'\'' ERR' fail='linger; echo "$child"; set +e; (exit 7); echo "$?"; flock -n todo.json.lock true || echo held; set -e; (exit 8); echo not here'
    local options
    for options in ':' 'set -e' 'set -E' 'set -eE' 'set -eu -o pipefail; IFS='; do
        around "$options; $own" "lock_file todo.json fd; $fail"
        [ "$status ${output#*$'\n'} $stderr" = $'8 own 7\n7\nheld\nown 8 ' ]
        kill "${lines[0]}"
        is_free
        around "$options" "$own; lock_file todo.json fd; $fail"
        [ "$status ${output#*$'\n'} $stderr" = $'8 own 7\n7\nheld\nown 8 ' ]
        kill "${lines[0]}"
        around "$options" "lock_file todo.json fd; $own; $fail"
        [ "$status ${output#*$'\n'} $stderr" = $'8 own 7\n7\nheld\nown 8 ' ]
        kill "${lines[0]}"
        around "$options" "lock_file todo.json fd; $fail"
        [ "$status ${output#*$'\n'} $stderr" = $'8 7\nheld ' ]
        kill "${lines[0]}"
    done
}

@test "traps: an error that ends the shell ends its locks, behind a trap for EXIT of the script's own" {
    local exit='linger; trap '\''echo "$? $child"; flock -n todo.json.lock true || echo held'\'' EXIT'
    # Set later than ours, and in its place.
    local work
    for work in "trap ERRED ERR; source '$LIBRARY'; lock_file todo.json fd; $exit; set -e; (exit 7)" \
        "source '$LIBRARY'; lock_file todo.json fd; $exit; set -e; (exit 7)" \
        "source '$LIBRARY'; work() { lock_file todo.json fd; $exit; set -e; (exit 7); }; set -E; work" \
        "set -E; source '$LIBRARY'; trap ERRED ERR; work() { lock_file todo.json fd; $exit; set -e; inner; }; inner() { (exit 7); }; work" \
        "load() { source '$LIBRARY'; }; set -E; load; lock_file todo.json fd; $exit; set -e; (exit 7)" \
        "source '$LIBRARY'; set -E; (lock_file todo.json fd; $exit; set -e; (exit 7))"; do
        run --separate-stderr alone "$BASH" -c "$LINGER; ERRED() { :; }; $work" script
        [ "$status" -ne 0 ]
        [ "${lines[0]%% *} ${lines[1]}" = "$status held" ]
        is_free
        kill "${lines[0]#* }"
    done
}

@test "traps: in posix mode, where those that are not set are printed too" {
    local signal
    for signal in INT TERM; do
        around 'set -o posix' "lock_file todo.json fd; linger; echo \$child; kill -$signal \$\$; echo not here"
        [ "$status $stderr" = "$((128 + $(kill -l "$signal"))) " ]
        is_free
        kill "$output"
    done
    around 'set -o posix' 'lock_file todo.json fd; (exit 7); linger; echo "$child"; exit 3'
    [ "$status $stderr" = "3 " ]
    is_free
    kill "$output"
    around 'set -o posix' 'before=$(trap -p); lock_file todo.json fd; unlock_file; [[ "$(trap -p)" == "$before" ]] && echo same'
    [ "$output" = "same" ]
}

@test "traps: no function puts the script's own for ERR away, nor sets one behind its back" {
    local work
    for work in 'work() { lock_file todo.json fd; unlock_file; save_json todo.json 1; }' 'work() { set -E; lock_file todo.json fd; set +E; }' \
        "work() { source '$LIBRARY'; lock_file todo.json fd; }" 'work() { work() { lock_file todo.json fd; }; work; }'; do
        sourced "trap 'echo own' ERR; $work; work; trap -p ERR; false"
        [ "$output" = $'trap -- \'echo own\' ERR\nown' ]
        sourced "trap - ERR; $work; work; trap -p ERR"
        [ "$output" = "" ]
    done
    around "f() { source '$LIBRARY'; }; trap 'echo own' ERR; f" "source '$LIBRARY'; false"
    [ "$output" = "own" ]
}

@test "traps: an error in a subshell ends no lock of the shell around it" {
    local options
    for options in : 'set -E' 'set -E; trap : ERR'; do
        sourced "$options; lock_file todo.json fd; (false); (set -e; false); x=\$(set -e; false); false | true; flock -n todo.json.lock true || echo held; trap -p EXIT"
        [ "$output" = $'held\ntrap -- \'_file_ops_release_all\' EXIT' ]
    done
}

@test "traps: unlock_file in traps of the script's own, as its document has it" {
    local set
    for set in "$(printf 'trap %q EXIT ERR INT TERM; lock_file todo.json fd' 'echo own; unlock_file "$fd"')" \
        "$(printf 'lock_file todo.json fd; trap %q EXIT ERR INT TERM' 'echo own; unlock_file "$fd"')"; do
        sourced "$set; linger; echo \"\$child\"; exit 3"
        [ "$status ${lines[1]} ${#lines[@]}" = "3 own 2" ]
        is_free
        kill "${lines[0]}"
        sourced "$set; linger; echo \"\$child\"; false; flock -n todo.json.lock true && echo free; trap - EXIT"
        [ "${lines[1]} ${lines[2]}" = "own free" ]
        kill "${lines[0]}"
    done
}

@test "traps: a subshell does not run the script's own for EXIT" {
    sourced 'trap "echo own" EXIT; (lock_file todo.json fd; echo in); echo out'
    [ "$output" = $'in\nout\nown' ]
    is_free
}

@test "subshell: it does not end the lock of the shell around it" {
    sourced 'lock_file todo.json fd; (unlock_file "$fd"); (exit 1); ( : ); flock -n todo.json.lock true || echo held'
    [ "$output" = "held" ]
}

@test "subshell: a lock of the shell around it keeps it out" {
    sourced 'lock_file todo.json fd; (lock_file todo.json mine 1)'
    [ "$status" -eq 8 ]
    [[ "$stderr" == *"held by PID "*" (bash); wait"* ]]
}

@test "without_locks: what it starts does not keep the lock" {
    background 'lock_file todo.json fd; linger without_locks; echo $child >child; go; kill -KILL $$'
    touch "$DIR/go"
    wait "$PID" || true
    is_free
    # In its shell, or in its place.
    pkill -KILL -P "$(cat "$DIR/child")" || true
    kill -KILL "$(cat "$DIR/child")" 2>/dev/null || true
}

@test "flock(1) and lock_file keep each other out" {
    sourced 'lock_file todo.json fd; flock -n todo.json.lock true || echo "flock waits"'
    [ "$output" = "flock waits" ]
    sourced 'flock todo.json.lock bash -c "source '"'$LIBRARY'"'; lock_file todo.json fd 0 2>/dev/null || echo ours waits"'
    [ "$output" = "ours waits" ]
}

# The program, for `alone "$PROGRAM"`.
needs_beadlock() {
    PROGRAM="${BEADLOCK_BIN:-$(type -P beadlock || true)}"
    if [ -d "$PROGRAM" ]; then PROGRAM="$PROGRAM/beadlock"; fi
    [ -x "$PROGRAM" ] || skip "needs beadlock"
}

@test "beadlock and lock_file keep each other out, and say who has it" {
    needs_beadlock
    background 'lock_file todo.json fd; go'
    run --separate-stderr alone "$PROGRAM" hold --no-wait file:todo.json -- echo not here
    [ "$status $output" = "8 " ]
    [[ "$stderr" == *"Cannot acquire lock on todo.json (another process may be active)"*"PID $PID ("* ]]
    touch "$DIR/go"
    wait "$PID"

    rm "$DIR/go"
    alone "$PROGRAM" hold -q file:todo.json -- sh -c ': >held; until [ -e go ]; do sleep 0.02; done' 3>&- &
    STARTED+=("$!")
    until_true test -e "$DIR/held"
    sourced 'lock_file todo.json fd 0'
    [ "$status" -eq 8 ]
    [[ "$stderr" == *": held by PID "*" (beadlock)"* ]]
    touch "$DIR/go"
    wait "${STARTED[1]}"
    sourced 'lock_file todo.json fd 0'
    [ "$status" -eq 0 ]
}

@test "beadlock: inside a hold of the file it is an error at once, not a wait" {
    needs_beadlock
    run --separate-stderr alone "$PROGRAM" hold -q file:todo.json -- "$BASH" -c "source '$LIBRARY'; lock_file todo.json fd 600; echo \$?; lock_file other.json fd 600; echo \$?"
    [ "$status" -eq 0 ]
    [ "$output" = $'8\n0' ]
    [ "$stderr" = "Cannot acquire lock on $FILE (the beadlock hold that this runs in has it; in there: beadlock write)" ]
    # The outer one of two.
    run --separate-stderr alone "$PROGRAM" hold -q file:todo.json -- "$PROGRAM" hold -q file:other.json -- "$BASH" -c "IFS=\$'\\n\\t'; source '$LIBRARY'; lock_file todo.json fd 2"
    [[ "$status $stderr" == "8 Cannot acquire lock on $FILE (the beadlock hold that this runs in has it"* ]]
}

@test "beadlock: inside the filter of an update of the file it is an error at once, not a wait" {
    needs_beadlock
    echo '{}' >"$FILE"
    run --separate-stderr alone "$PROGRAM" update -q file:todo.json -- "$BASH" -c "source '$LIBRARY'; lock_file todo.json fd 600 || echo \$?"
    [ "$status" -eq 0 ]
    [ "$(cat "$FILE")" = 8 ]
    [ "$stderr" = "Cannot acquire lock on $FILE (the beadlock update that this runs in has it; what its filter prints becomes the file)" ]
}

@test "atomic_write: the file is what came on stdin, whole" {
    head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/bytes"
    run alone "$BASH" -c "source '$LIBRARY'; atomic_write data" <"$BATS_TEST_TMPDIR/bytes"
    [ "$status" -eq 0 ]
    cmp "$DIR/data" "$BATS_TEST_TMPDIR/bytes"
    [ "$(cd "$DIR" && echo *)" = "data data.lock" ]
}

@test "atomic_write: it is written to FILE.tmp and renamed" {
    background 'save_json todo.json "[1]"; ls -i todo.json >inode; { : >ready; until [ -e go ]; do sleep 0.02; done; echo "[2]"; } | atomic_write todo.json; : >done'
    until_true test -e "$FILE.tmp"
    is_held
    local inode
    inode=$(stat -c %i "$FILE.tmp")
    [ "$(cat "$FILE")" = "[1]" ]
    [ "$(stat -c %a "$FILE.tmp")" = "600" ]
    touch "$DIR/go"
    wait "$PID"
    [ "$(cat "$FILE")" = "[2]" ]
    [ "$(stat -c %i "$FILE")" = "$inode" ]
    is_gone "$FILE.tmp"
    is_free
}

@test "atomic_write: content is synced before the rename, and the directory after it" {
    only sleep
    local program
    for program in sync mv ln; do
        stub "$program" "echo \"$program \$*\" >>'$DIR/steps'; exec '$(type -P "$program")' \"\$@\""
    done
    echo 1 >"$DIR/data"
    sourced 'echo 2 | atomic_write data'
    [ "$status" -eq 0 ]
    [ "$(cat "$DIR/steps")" = "sync $DIR/data.tmp"$'\n'"ln -- $DIR/data $DIR/data.tmp1"$'\n'"mv -f -- $DIR/data.tmp $DIR/data"$'\n'"mv -f -- $DIR/data.tmp1 $DIR/data.1"$'\n'"sync $DIR/" ]
}

@test "atomic_write: what is not valid changes nothing and leaves nothing" {
    echo '{"a": 1}' >"$FILE"
    local inode text
    inode=$(stat -c %i "$FILE")
    for text in '' '{' '[1,]' '1 2' 'NaN' '[-Infinity]' '{} x' '"\xff"' "{'a': 1}" '{}\n\0' '{}\0{' '\xef\xbb\xbf{}'; do
        run --separate-stderr alone "$BASH" -c "source '$LIBRARY'; printf '%b' \"\$1\" | atomic_write todo.json" script "$text"
        [ "$status" -eq 1 ]
        [[ "$stderr" == "file-ops: $FILE is unchanged: this is no valid JSON: "?* ]]
        [ "$(stat -c %i "$FILE") $(cat "$FILE")" = "$inode {\"a\": 1}" ]
        [ "$(cd "$DIR" && echo *)" = "todo.json todo.json.lock" ]
        is_free
    done
}

@test "atomic_write: a format goes by the name, or is said" {
    sourced 'printf "{\"a\":1}\n[2]\n" | atomic_write log.jsonl && printf "1\n2\n" | FILE_OPS_FORMAT=jsonl atomic_write log && echo x | atomic_write text && echo x | FILE_OPS_FORMAT=any atomic_write text.json'
    [ "$status" -eq 0 ]
    for text in '1\n{\n' '1\n\n2\n' '1 2\n' 'NaN\n' '\n' '1\n\n' '1\n\0' '\xef\xbb\xbf1\n'; do
        run --separate-stderr alone "$BASH" -c "source '$LIBRARY'; printf '$text' | atomic_write log.jsonl"
        [ "$status" -eq 1 ]
        [[ "$stderr" == *"no valid JSONL: "* ]]
    done
    sourced ': | atomic_write text'
    [ "$status $stderr" = "1 file-ops: $DIR/text is unchanged: there is nothing on stdin" ]
    sourced 'echo 1 | FILE_OPS_FORMAT=xml atomic_write text'
    [ "$status" -eq 2 ]
}

@test "atomic_write: without jq python3 looks at it, and without both it is refused" {
    command -v python3 >/dev/null || skip "needs python3"
    only
    sourced 'save_json todo.json "[1]"'
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"it cannot be told without jq and iconv, or python3" ]]
    is_gone "$FILE"
    stub python3 "PATH='$PATH' exec '$(type -P python3)' \"\$@\""
    sourced 'save_json todo.json "[1]"'
    [ "$status" -eq 0 ]
    # Nor by jq, without what finds broken UTF-8.
    ln -s "$(type -P jq)" "$ONLY/jq"
    rm "$ONLY/iconv"
    sourced 'save_json todo.json "[1]"'
    [ "$status" -eq 0 ]
    for text in '{' '[1,]' '1 2' NaN '"\xff"' '' '{}\n\0' '\xef\xbb\xbf{}'; do
        run --separate-stderr alone "$BASH" -c "source '$LIBRARY'; printf '%b' '$text' | save_json todo.json"
        [ "$status" -eq 1 ]
        [[ "$stderr" == "file-ops: $FILE is unchanged: this is no valid JSON: "?* ]]
    done
    sourced 'printf "1\n[]\n" | atomic_write a.jsonl; printf "1\n[\n" | atomic_write a.jsonl'
    [ "$status" -eq 1 ]
    [ "$(cat "$DIR/a.jsonl")" = $'1\n[]' ]
}

@test "atomic_write: the last five are kept, the newest is FILE.1, and a link" {
    local i
    echo 0 >"$FILE"
    local inode
    inode=$(stat -c %i "$FILE")
    sourced 'save_json todo.json 1'
    [ "$(stat -c %i "$FILE.1")" = "$inode" ]
    for i in 2 3 4 5 6 7; do
        sourced "save_json todo.json $i"
        [ "$status" -eq 0 ]
    done
    [ "$(cd "$DIR" && cat todo.json todo.json.1 todo.json.2 todo.json.3 todo.json.4 todo.json.5 | tr '\n' ' ')" = "7 6 5 4 3 2 " ]
    is_gone "$FILE.6"
}

@test "atomic_write: as many backups as are asked for, and no gap is shifted over" {
    echo 0 >"$FILE"
    sourced 'FILE_OPS_BACKUPS=0 save_json todo.json 1'
    [ "$(cd "$DIR" && echo *)" = "todo.json todo.json.lock" ]
    sourced 'for i in 2 3 4; do FILE_OPS_BACKUPS=1 save_json todo.json "$i"; done'
    [ "$(cat "$FILE" "$FILE.1" | tr '\n' ' ')" = "4 3 " ]
    is_gone "$FILE.2"
    sourced 'for i in 5 6 7; do save_json todo.json "$i"; done; rm todo.json.2; save_json todo.json 8'
    [ "$(cat "$FILE" "$FILE".[1234] | tr '\n' ' ')" = "8 7 6 4 3 " ]
    sourced 'FILE_OPS_BACKUPS=x save_json todo.json 9'
    [ "$status $(cat "$FILE")" = "2 8" ]
}

@test "atomic_write: a backup made by somebody who was killed then is not made twice" {
    echo 0 >"$FILE"
    ln "$FILE" "$FILE.1"
    sourced 'save_json todo.json 1'
    [ "$(cat "$FILE" "$FILE.1" | tr '\n' ' ')" = "1 0 " ]
    is_gone "$FILE.2"
}

# A file with five backups, and what can be told of them.
with_backups() {
    local i
    echo '"now"' >"$FILE"
    : >"$LOCK"
    for i in 1 2 3 4 5; do echo "\"$i\"" >"$FILE.$i"; done
}
told() { (cd "$DIR" && cat todo.json todo.json.[1-9] | tr '\n' ' ' && echo *); }
NAMES='todo.json todo.json.1 todo.json.2 todo.json.3 todo.json.4 todo.json.5 todo.json.lock'

@test "atomic_write: six that fail move no backup, with hard links and without" {
    with_backups
    only jq seq
    stub mv "for last; do :; done; case \"\$last\" in */todo.json) exit 1 ;; esac; exec '$(type -P mv)' \"\$@\""
    local links
    for links in yes no; do
        if [ "$links" = no ]; then
            stub ln 'exit 1'
            rm "$ONLY/cmp"
            ln -s "$(type -P sha256sum)" "$ONLY/sha256sum"
        fi
        sourced 'for i in $(seq 6); do save_json todo.json "$i" || echo "$?"; done'
        [ "$output" = $'1\n1\n1\n1\n1\n1' ]
        [ "$(told)" = "\"now\" \"1\" \"2\" \"3\" \"4\" \"5\" $NAMES" ]
    done
}

@test "atomic_write: a mount point, and a file that may not change, are called what they are" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    unshare -m true || skip "needs mount"
    with_backups
    run --separate-stderr alone unshare -m "$BASH" -c "cp todo.json other; mount --bind other todo.json || exit 99; rm other
    source '$LIBRARY'; for i in {1..6}; do save_json todo.json \$i || echo \$?; done"
    [ "$status" -ne 99 ] || skip "needs mount"
    [ "$output" = $'1\n1\n1\n1\n1\n1' ]
    [[ "$stderr" == *"file-ops: $FILE is unchanged: todo.json is a mount point of its own (docker -v file:file); mount its directory instead" ]]
    [ "$(told)" = "\"now\" \"1\" \"2\" \"3\" \"4\" \"5\" $NAMES" ]
    chattr +i "$FILE" || skip "needs chattr +i"
    sourced 'for i in {1..6}; do save_json todo.json "$i" || echo "$?"; done'
    chattr -i "$FILE"
    [ "$output" = $'1\n1\n1\n1\n1\n1' ]
    [[ "$stderr" == *"file-ops: $FILE is unchanged: todo.json is immutable (chattr +i); chattr -i lets it be written again" ]]
    [ "$(told)" = "\"now\" \"1\" \"2\" \"3\" \"4\" \"5\" $NAMES" ]
}

@test "atomic_write: killed at each step, with hard links and without, the backups lose none but the oldest" {
    only jq setsid sleep rm
    local program links signal step is_new writer
    for program in ln mv cp; do
        stub "$program" "for last; do :; done
      case \"\$last\" in \"$DIR/\$(cat '$BATS_TEST_TMPDIR/step')\") : >'$BATS_TEST_TMPDIR/stopped'; sleep 1000 ;; esac
      exec '$(type -P "$program")' \"\$@\""
    done
    for links in yes no; do
        [ "$links" = yes ] || stub ln 'exit 1'
        for signal in KILL TERM; do
            for step in todo.json.tmp1 todo.json todo.json.5 todo.json.3 todo.json.1; do
                rm -f "$DIR"/* "$BATS_TEST_TMPDIR/stopped"
                with_backups
                echo "$step" >"$BATS_TEST_TMPDIR/step"
                alone setsid "$BASH" -c 'echo "$$" >../pid; source "$0"; save_json todo.json "\"new\""' "$LIBRARY" 2>/dev/null 3>&- &
                writer="$!"
                STARTED+=("$writer")
                until_true test -e "$BATS_TEST_TMPDIR/stopped"
                # This step does not happen any more; one like it in a trap does.
                echo none >"$BATS_TEST_TMPDIR/step"
                kill -s "$signal" -- "-$(cat "$BATS_TEST_TMPDIR/pid")"
                wait "$writer" || true
                until_true is_free
                is_new=yes
                case "$step" in todo.json.tmp1 | todo.json) is_new=no ;; esac
                if [ "$signal $is_new" = "TERM no" ]; then
                    [ "$(told)" = "\"now\" \"1\" \"2\" \"3\" \"4\" \"5\" $NAMES" ]
                elif [ "$signal" = TERM ]; then
                    [ "$(told)" = "\"new\" \"now\" \"1\" \"2\" \"3\" \"4\" $NAMES" ]
                fi
                sourced 'save_json todo.json "\"next\""'
                [ "$status" -eq 0 ]
                if [ "$is_new" = yes ]; then
                    [ "$(told)" = "\"next\" \"new\" \"now\" \"1\" \"2\" \"3\" $NAMES" ]
                else
                    [ "$(told)" = "\"next\" \"now\" \"1\" \"2\" \"3\" \"4\" $NAMES" ]
                fi
            done
        done
    done
}

@test "atomic_write: under one lock of their shell nobody begins while the backups of another move" {
    only jq sleep seq
    # Each step of it takes its time.
    stub mv "case \"\$*\" in *.json.*.json.[1-9]) sleep 0.2 ;; esac; exec '$(type -P mv)' \"\$@\""
    echo 0 >"$FILE"
    sourced 'lock_file todo.json fd; for i in $(seq 4); do FILE_OPS_BACKUPS=9 save_json todo.json "$i" & done; wait; unlock_file'
    [ "$status $stderr" = "0 " ]
    [ "$(cd "$DIR" && cat todo.json todo.json.[0-9] | sort | tr '\n' ' ')" = "0 1 2 3 4 " ]
    is_gone "$FILE.tmp"
    is_gone "$FILE.tmp1"
}

@test "atomic_write: who comes while the backups of another move waits for their end, and needs no program but flock for it" {
    only jq sleep
    stub mv "case \"\$*\" in *.json.*.json.[1-9]) sleep 0.5 ;; esac; exec '$(type -P mv)' \"\$@\""
    echo 0 >"$FILE"
    sourced 'save_json todo.json 1; lock_file todo.json fd; save_json todo.json 2 & until [ "$(<todo.json)" = 2 ]; do sleep 0.01; done; save_json todo.json 3; wait; unlock_file'
    [ "$status $stderr" = "0 " ]
    [ "$(cd "$DIR" && cat todo.json todo.json.[0-9] | tr '\n' ' ')" = "3 2 1 0 " ]
}

@test "atomic_write: mode and owner stay, and a new file has those of any new file" {
    echo 0 >"$FILE"
    chmod 640 "$FILE"
    if [ "$(id -u)" -eq 0 ]; then chown 65534:65534 "$FILE"; fi
    local before
    before=$(stat -c '%a %u %g' "$FILE")
    sourced 'save_json todo.json 1; umask 027; save_json new.json 1'
    [ "$(stat -c '%a %u %g' "$FILE")" = "$before" ]
    [ "$(stat -c %a "$DIR/new.json")" = "640" ]
}

@test "atomic_write: who cannot keep the owner changes nothing" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    local open
    open=$(mktemp -d "${TMPDIR:-/tmp}/file-locking.XXXXXX")
    mkdir "$open/shared"
    chmod 777 "$open/shared"
    echo 0 >"$open/shared/todo.json"
    nobody "$open" 'save_json shared/todo.json 1; cat shared/todo.json; cd shared; echo *; save_json own.json 1 && save_json own.json 2 && cat own.json'
    rm -r "$open"
    [ "$status $output" = $'0 0\ntodo.json todo.json.lock\n2' ]
    [ "$stderr" = "file-ops: $open/shared/todo.json is unchanged: its owner and group cannot be kept" ]
}

@test "atomic_write: through a link the file behind it is replaced" {
    mkdir "$DIR/real"
    echo 0 >"$DIR/real/data.json"
    ln -s real/data.json "$FILE"
    sourced 'save_json todo.json 1'
    [ -L "$FILE" ]
    [ "$(cat "$DIR/real/data.json")" = "1" ]
    [ "$(cd "$DIR/real" && echo *)" = "data.json data.json.1 data.json.lock" ]
    is_gone "$LOCK"
}

@test "atomic_write: what was left over is replaced" {
    echo 0 >"$FILE"
    ln "$FILE" "$FILE.tmp"
    sourced 'save_json todo.json 1'
    [ "$(cat "$FILE" "$FILE.1" | tr '\n' ' ')" = "1 0 " ]
    ln -s "$DIR/victim" "$FILE.tmp"
    sourced 'save_json todo.json 2'
    [ "$status $(cat "$FILE")" = "0 2" ]
    is_gone "$DIR/victim"
    is_gone "$FILE.tmp"
}

@test "atomic_write: a time-out is 8, and changes nothing" {
    background 'lock_file todo.json fd; go'
    echo 0 >"$FILE"
    sourced 'FILE_OPS_TIMEOUT=1 save_json todo.json 1; echo "$?"; echo 2 | FILE_OPS_TIMEOUT=1 atomic_write todo.json'
    [ "$status $output $(cat "$FILE")" = "8 8 0" ]
    is_gone "$FILE.tmp"
}

@test "atomic_write: a full disk changes nothing and leaves nothing" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    mkdir "$DIR/small"
    mount -t tmpfs -o size=64k none "$DIR/small" || skip "needs mount"
    run --separate-stderr alone "$BASH" -c "source '$LIBRARY'; cd small; echo 0 >data; head -c 200000 /dev/zero | atomic_write data; echo \$?; cat data; echo *
    text=\$(head -c 200000 /dev/zero | tr '\\0' 1); save_json data \"\$text\"; echo \$?; cat data; echo *"
    umount "$DIR/small"
    [ "$output" = $'1\n0\ndata data.lock\n1\n0\ndata data.lock' ]
    [[ "$stderr" == *"file-ops: $DIR/small/data is unchanged: not all of it could be written to $DIR/small/data.tmp" ]]
}

@test "atomic_write: when a step fails nothing is changed, nothing is left, and the lock is free" {
    echo '{"a": 1}' >"$FILE"
    local program
    for program in cat cp sync ln mv; do
        only jq
        stub "$program" 'exit 1'
        # What would do instead.
        case "$program" in
        cp) stub chmod 'exit 1' ;;
        ln) stub cp 'case "$1" in -p) exit 1 ;; esac; PATH=/bin:/usr/bin exec cp "$@"' ;;
        esac
        sourced 'echo 2 | save_json todo.json'
        [ "$status" -eq 1 ]
        [[ "$stderr" == *"file-ops: $FILE is unchanged: "* ]]
        [ "$(cat "$FILE")" = '{"a": 1}' ]
        [ "$(cd "$DIR" && echo *)" = "todo.json todo.json.lock" ]
        is_free
        rm -rf "$ONLY"
    done
}

@test "atomic_write: INT and TERM change nothing and leave nothing" {
    echo 0 >"$FILE"
    local signal
    for signal in INT TERM QUIT HUP; do
        # A group of its own, as a terminal's Ctrl-C finds one.
        run --separate-stderr alone setsid -w "$BASH" -c "source '$LIBRARY'
      { until [ -e todo.json.tmp ]; do sleep 0.02; done; kill -$signal -- -\$\$; sleep 5; echo 1; } | atomic_write todo.json" script
        [ "$status" -ne 0 ]
        until_true is_gone "$FILE.tmp"
        [ "$(cat "$FILE")" = "0" ]
        until_true is_free
    done
}

@test "atomic_write: a lock that was lost meanwhile changes nothing" {
    echo 0 >"$FILE"
    sourced '{ until [ -e todo.json.tmp ]; do sleep 0.02; done; rm todo.json.lock; echo 1; } | atomic_write todo.json'
    [ "$status" -eq 1 ]
    [[ "$stderr" == "file-ops: $FILE is unchanged: its lock was lost: $LOCK was deleted, replaced or let go"* ]]
    [ "$(cat "$FILE")" = "0" ]
    is_gone "$FILE.tmp"
}

@test "atomic_write: where /proc does not tell whether it is still locked, flock does" {
    echo 0 >"$FILE"
    sourced '_file_ops_has_flock() { return 1; }; save_json todo.json 1 && lock_file todo.json fd && save_json todo.json 2 && flock -n todo.json.lock true || echo held'
    [ "$status $output $stderr" = "0 held " ]
    [ "$(cat "$FILE" "$FILE.1" | tr '\n' ' ')" = "2 1 " ]
}

@test "atomic_write: text in UTF-8 that is not ASCII" {
    sourced 'save_json todo.json "[\"ä€😀\"]" && cat todo.json'
    [ "$status $output" = '0 ["ä€😀"]' ]
    # Cut off in the middle of a character, too long a form, and half of a pair.
    local text
    for text in '"\xc3"' '"\xe2\x82"' '"\xc0\xaf"' '"\xed\xa0\x80"'; do
        run --separate-stderr alone "$BASH" -c "source '$LIBRARY'; printf '%b' \"\$1\" | save_json todo.json" script "$text"
        [ "$status $(cat "$FILE")" = '1 ["ä€😀"]' ]
    done
}

@test "atomic_write: what cannot be a file is refused" {
    mkdir "$DIR/dir"
    mkfifo "$DIR/fifo"
    local name
    for name in dir fifo none/file dir/ '""'; do
        sourced "echo 1 | atomic_write $name"
        [ "$status" -eq 1 ]
        [ -n "$stderr" ]
    done
    sourced 'echo 1 | atomic_write; echo "${PIPESTATUS[1]}"; echo 1 | atomic_write a b'
    [ "$status $output" = "2 2" ]
    mkdir "$FILE.1"
    echo 0 >"$FILE"
    sourced 'save_json todo.json 1'
    [ "$status $(cat "$FILE")" = "1 0" ]
}

@test "atomic_write: under this shell's own lock it runs under that" {
    echo '{"n": 1}' >"$FILE"
    sourced 'set -e -o pipefail; lock_file todo.json fd
    jq ".n += 1" todo.json | atomic_write todo.json; save_json todo.json "$(jq ".n += 1" todo.json)"; atomic_write link.json < <(jq ".n += 1" todo.json)
    flock -n todo.json.lock true || echo held; unlock_file; flock -n todo.json.lock true && echo free'
    [ "$status" -eq 0 ]
    [ "$output" = $'held\nfree' ]
    [ "$(jq .n "$FILE")" = "3" ]
    [ "$(jq .n "$DIR/link.json")" = "4" ]
    is_gone "$FILE.tmp"
}

@test "atomic_write: several under one lock of their shell have it in turn" {
    echo '[]' >"$FILE"
    sourced 'lock_file todo.json fd; for i in {1..6}; do { printf "[%s" "$i"; sleep 0.1; echo "]"; } | FILE_OPS_BACKUPS=9 atomic_write todo.json & done; wait; unlock_file; cat todo.json todo.json.?'
    [ "$(sort <<<"$output" | tr '\n' ' ')" = "[1] [2] [3] [4] [5] [6] [] " ]
    [ "$stderr" = "" ]
    is_gone "$FILE.tmp"
    # Left by one of them that was killed.
    sourced 'lock_file todo.json fd; echo "{" >todo.json.tmp; save_json todo.json 7; cat todo.json'
    [ "$output" = "7" ]
}

@test "atomic_write: not under a lock that its shell has given back" {
    sourced 'lock_file todo.json fd; { until [ -e go ]; do sleep 0.02; done; save_json todo.json 1; echo "$?" >code; exec sleep 1000; } </dev/null >/dev/null 2>&1 3>&- &
    unlock_file; : >go; until [ -e code ]; do sleep 0.02; done; cat code todo.json; flock -n todo.json.lock true && echo free; kill $!'
    [ "$output" = $'0\n1\nfree' ]
}

@test "save_json: it is the word, or stdin, whatever FILE is called" {
    sourced 'save_json todo.json "{\"a\": 1}" && echo "[2]" | save_json other && save_json third "" ; echo "$?"; cat todo.json other'
    [ "$output" = $'1\n{"a": 1}\n[2]' ]
    is_gone "$DIR/third"
    sourced 'save_json'
    [ "$status" -eq 2 ]
    # More than fits into a pipe, or on a command line.
    sourced 'big=$(head -c 3000000 /dev/zero | tr "\0" 1); save_json big.json "\"$big\"" && wc -c <big.json'
    [ "$output" = "3000003" ]
}

@test "save_json: a word is checked beside the wait for the lock, and once" {
    only jq
    stub jq "echo >>'$DIR/checked'; exec '$(type -P jq)' \"\$@\""
    hold
    start "PATH='$ONLY'; save_json todo.json '[2]'"
    until_true is_awaited
    until_true test -e "$DIR/checked"
    is_gone "$FILE"
    kill -KILL "${STARTED[0]}"
    wait "$PID"
    [ "$(
        cat "$FILE"
        wc -l <"$DIR/checked"
    )" = $'[2]\n1' ]
}

@test "save_json: a word that is not ASCII, and one that is no JSON" {
    sourced 'save_json todo.json "\"é\""; echo "$?"; save_json todo.json $'"'"'"\xff"'"'"'; echo "$?"; save_json todo.json "1 2"; echo "$?"; cat todo.json'
    [ "$output" = $'0\n1\n1\n"é"' ]
}

@test "names: blanks, newlines, dashes and stars" {
    local name
    for name in 'a b' '-n' 'a*' $'a\nb\n' "it's" '$(id)' 'ä'; do
        run --separate-stderr alone "$BASH" -c "source '$LIBRARY'; lock_file \"\$1\" fd && save_json \"\$1\" 1 && unlock_file && save_json \"\$1\" 2 && cat -- \"./\$1\" && ls -A | wc -l; rm -- ./*" script "$name"
        [ "$status" -eq 0 ]
        [ "${lines[0]}" = "2" ]
        [ "$stderr" = "" ]
    done
}

@test "sourced twice, or in a function, it forgets no lock" {
    sourced "lock_file todo.json fd; source '$LIBRARY'; f() { source '$LIBRARY'; }; f; lock_file todo.json again; echo \$?; unlock_file \$fd; flock -n todo.json.lock true && echo free"
    [ "$output" = $'8\nfree' ]
    run alone "$BASH" -c "f() { source '$LIBRARY'; }; f; lock_file todo.json fd && unlock_file; { true >&200; } 2>/dev/null || echo closed"
    [ "$output" = "closed" ]
}

@test "sourced where its variables are exported, a script below has no lock of its parent's" {
    run --separate-stderr alone "$BASH" -ac "source '$LIBRARY'; lock_file todo.json fd; bash -uc 'source \"\$0\"; echo \"<\$LOCK_FD>\"; lock_file todo.json mine 0' '$LIBRARY'; echo \"\$? \$LOCK_FD\""
    [ "$output" = $'<>\n8 200' ]
}

@test "names: whatever the script calls its own, read-only or not" {
    sourced 'for name in fd path tmp staged mask backups format held why last each wait began left code id file owner now holders entry pid found signal mode; do readonly "$name=5"; done; readonly name
    lock_file todo.json lock; echo "$lock"; save_json todo.json 1; unlock_file; save_json todo.json 2 && lock_file todo.json lock && flock -n todo.json.lock true || echo held'
    [ "$output $stderr" = $'200\nheld ' ]
    [ "$(cat "$FILE" "$FILE.1" | tr '\n' ' ')" = "2 1 " ]
    sourced 'declare -i tmp path; declare -u format; declare -A held; save_json todo.json 3; cat todo.json'
    [ "$output $stderr" = "3 " ]
    sourced 'for name in cat sync stat flock iconv jq python3 mv rm ln cp chmod readlink; do eval "$name() { echo \"not $name\" >&2; return 1; }"; done
    lock_file todo.json lock 0 && save_json todo.json 4 && unlock_file && save_json todo.json 5'
    [ "$status $(cat "$FILE") $stderr" = "0 5 " ]
}

@test "names: files that differ in case are two" {
    sourced 'shopt -s nocasematch; lock_file a.json fd && lock_file A.json other && save_json A.json 1 && echo x | atomic_write text.JSON; echo "$?"'
    [ "$output $stderr" = "0 " ]
}

@test "codes: they are the document's" {
    sourced 'echo "$E_SUCCESS $E_LOCK_FAILED"'
    [ "$output" = "0 8" ]
    run --separate-stderr alone "$BASH" -ec "readonly E_SUCCESS=0 E_LOCK_FAILED=8; source '$LIBRARY'; lock_file todo.json fd; echo \$E_LOCK_FAILED"
    [ "$output $stderr" = "8 " ]
    run alone E_LOCK_FAILED=0 "$BASH" -c "source '$LIBRARY'; echo \$E_LOCK_FAILED"
    [ "$output" = "8" ]
}

# Ten writes one after the other, in a shell where $1 has run: the microseconds that they take are in $took.
ten_writes() {
    sourced "$1; begun=\${EPOCHREALTIME/[.,]/}; for i in {1..10}; do save_json todo.json \"[\$i]\" || exit 1; done; echo \$((\${EPOCHREALTIME/[.,]/} - begun))"
    [ "$status $stderr $(cat "$FILE")" = "0  [10]" ]
    took="$output"
}

# The control: the same writes, by the same functions, without the lock.
UNLOCKED='_file_ops_enter() { _fo_held=200; _FILE_OPS_PATH[200]="$_fo_path" _FILE_OPS_OWNER[200]="$BASHPID"; }; _file_ops_is_held() { true; }
  _file_ops_end() { _file_ops_discard; }'

@test "speed: ten locked writes one after the other take less than 5 s" {
    local round took locked unlocked
    for round in 1 2 3 4 5; do
        ten_writes :
        locked="$took"
        ten_writes "$UNLOCKED"
        unlocked="$took"
        echo "round $round: $locked us, without the lock $unlocked us"
        # One round is enough. On a machine so busy that the control takes almost as long, the 5 s say nothing about the lock.
        if ((locked < 5000000 || unlocked * 3 / 2 >= 5000000)) && ((locked < unlocked * 3 / 2)); then
            return 0
        fi
    done
    false
}

@test "speed: a write starts twelve programs at most, one of them for its lock" {
    only jq
    with_backups
    local program
    for program in "$ONLY"/*; do
        program="${program##*/}"
        case "$program" in bash | env) continue ;; esac
        stub "$program" "echo $program >>'$DIR/started'; exec '$(type -P "$program")' \"\$@\""
    done
    sourced 'save_json todo.json "\"new\""'
    [ "$status $stderr" = "0 " ]
    # jq beside flock, the others in turn.
    [ "$(head -n 2 "$DIR/started" | sort | tr '\n' ' ')" = "flock jq " ]
    [ "$(tail -n +3 "$DIR/started" | tr '\n' ' ')" = "cp sync ln mv mv mv mv mv mv sync " ]
}

@test "speed: a free lock is acquired in less than 100 ms" {
    local round
    # One round is enough: another one is for a machine that stood still.
    for round in 1 2 3 4 5; do
        sourced 'for i in {1..9}; do a=${EPOCHREALTIME/[.,]/}; lock_file todo.json fd || exit 1; echo $((${EPOCHREALTIME/[.,]/} - a)); unlock_file; done'
        [ "${#lines[@]}" -eq 9 ]
        echo "round $round: $output"
        # The median of nine.
        [ "$(sort -n <<<"$output" | sed -n 5p)" -ge 100000 ] || return 0
    done
    false
}
