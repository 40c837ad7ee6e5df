#!/usr/bin/env bash
# Writes one file with file-ops.sh, again and again: `sequential.sh LIBRARY locked|unlocked FILE`. Each line on standard
# input is a number of writes. The answer is the microseconds that they took together.
# shellcheck disable=SC2154 # the library sets what begins with _fo_
library="$1" way="$2" file="$3"
# shellcheck source=/dev/null
source "$library" || exit
if [[ "$way" == unlocked ]]; then
    # The functions through which a write takes its lock, and finds out whether it still has it.
    _file_ops_enter() {
        _fo_held=200
        _FILE_OPS_PATH[200]="$_fo_path" _FILE_OPS_OWNER[200]="$BASHPID"
    }
    _file_ops_is_held() { true; }
    _file_ops_end() { _file_ops_discard; }
fi
content='[{"id": 1, "done": false}, {"id": 2, "done": false}, {"id": 3, "done": true}]'
while read -r count; do
    begun="${EPOCHREALTIME/[.,]/}"
    for (( ; count > 0; count--)); do
        save_json "$file" "$content" || exit
    done
    echo "$((${EPOCHREALTIME/[.,]/} - begun))"
done
