#!/usr/bin/env bash
# The functions of the tower-fleet lock manager, on top of `beadlock`: an old script changes one `source` line.
#
#   source /usr/local/share/beadlock/shell/lock-manager.sh   # where `make install` puts it
#   acquire_lock NAME REQUEST_ID INTENT INTENT_VERSION [true]   # true: take it also when it is stale
#   release_lock NAME REQUEST_ID
#   is_lock_stale LOCK_PATH                                     # 0: stale; 1: not, or not to be told
#   update_heartbeat LOCK_PATH                                  # 0: it is kept up; 1: it is not
#
#   ./lock-manager.sh check NAME                                # says `stale` (0) or `active` (1); what else it is: 1
#
# Words and return codes are the document's. What differs: acquire_lock leaves a process that keeps the heartbeat up for as
# long as this shell lives, and ends the lock with it, so update_heartbeat has only to look; checking and taking are
# one step; what cannot be read is held, and never stale. There is no create_lock_json: beadlock writes the record.
#
# LOCK_DIR is the document's directory for root; without root it is ~/.local/state/tower-fleet/locks, as for beadlock.
# LOCK_DIR and DEFAULT_TTL are heeded at each call. HEARTBEAT_INTERVAL is kept, and as in the document without effect:
# beadlock renews a lock at every third of its TTL, at most 30 s. BEADLOCK_BIN: the program, or its directory.

# As sourcing the old script did: a script may rely on being stopped by an acquire_lock that fails.
set -euo pipefail

# Where beadlock has named locks by default: the document's directory for root, else one of the user's.
_lock_manager_default_dir() {
    local state="${XDG_STATE_HOME:-}"
    [[ "$state" == /* ]] || state="${HOME:-}/.local/state"
    if [[ "$EUID" -eq 0 || "$state" == /.local/state ]]; then
        echo /root/tower-fleet/logs/locks
    else
        echo "$state/tower-fleet/locks"
    fi
}

# Exported with the functions, which need them.
export LOCK_DIR="${LOCK_DIR:-${BEADLOCK_LOCK_DIR:-$(_lock_manager_default_dir)}}"
export DEFAULT_TTL="${DEFAULT_TTL:-900}"
export HEARTBEAT_INTERVAL="${HEARTBEAT_INTERVAL:-30}"

acquire_lock() {
    local lock_name="$1" request_id="$2" intent="$3" intent_version="$4" force="${5:-false}"
    local lock_path="${LOCK_DIR}/${lock_name}.lock"
    local force_lock=() said code=0
    if [[ "$force" == "true" ]]; then
        force_lock=(--force-lock)
    fi
    # Its stdout, the names of the claim, is not needed: the request's id is known.
    said=$(_lock_manager_beadlock acquire "tower:${lock_name}" --lock-dir "$LOCK_DIR" --for "$$" --no-wait --quiet \
        --request-id "$request_id" --actor "${ACTOR:-unknown}" --intent-name "$intent" \
        --intent-version "$intent_version" --ttl "$DEFAULT_TTL" ${force_lock[@]+"${force_lock[@]}"} \
        2>&1 >/dev/null </dev/null) || code=$?

    if [[ "$code" -eq 0 ]]; then
        # A warning, if anything.
        _lock_manager_say "$said"
        echo "Lock acquired: $lock_name"
        return 0
    fi
    if [[ "$code" -ne 4 ]]; then
        _lock_manager_say "$said"
        return 1
    fi
    local verdict
    verdict=$(_lock_manager_verdict "$lock_path")
    case "$verdict" in
    held) echo "ERROR: Lock is held by active process." >&2 ;;
    stale)
        if [[ "$force" == "true" ]]; then
            # Not stale a moment ago, or somebody else was taking it.
            echo "ERROR: Failed to acquire lock (race condition)" >&2
            return 1
        fi
        echo "ERROR: Lock is stale. Use --force-lock to acquire." >&2
        ;;
    *)
        # Gone by now.
        echo "ERROR: Failed to acquire lock (race condition)" >&2
        return 1
        ;;
    esac
    # It may go at any moment.
    cat -- "$lock_path" >&2 || true
    return 1
}

release_lock() {
    local lock_name="$1" request_id="$2"
    local lock_path="${LOCK_DIR}/${lock_name}.lock"
    local said code=0
    if [[ ! -f "$lock_path" ]]; then
        echo "WARN: Lock file not found: $lock_path" >&2
        return 0
    fi
    said=$(_lock_manager_beadlock release "tower:${lock_name}" --lock-dir "$LOCK_DIR" --id "$request_id" --quiet \
        2>&1 >/dev/null </dev/null) || code=$?
    case "$code" in
    0)
        _lock_manager_say "$said"
        echo "Lock released: $lock_name"
        return 0
        ;;
    9)
        if [[ ! -e "$lock_path" ]]; then
            echo "WARN: Lock file not found: $lock_path" >&2
            return 0
        fi
        local record held_by=""
        record=$(cat -- "$lock_path" 2>/dev/null | tr -d '\0') || true
        # The first one: metadata, which may have a key of that name too, comes last.
        if [[ "$record" =~ \"request_id\"[[:space:]]*:[[:space:]]*\"([A-Za-z0-9._-]+)\" ]]; then
            held_by="${BASH_REMATCH[1]}"
        fi
        echo "ERROR: Lock held by different request: $held_by" >&2
        ;;
    *) _lock_manager_say "$said" ;;
    esac
    return 1
}

is_lock_stale() {
    local verdict
    verdict=$(_lock_manager_verdict "$1")
    [[ "$verdict" == "stale" ]]
}

# The process that acquire_lock has left renews the lock. A second writer would only be in its way.
update_heartbeat() {
    local verdict
    verdict=$(_lock_manager_verdict "$1")
    if [[ "$verdict" != "held" ]]; then
        echo "ERROR: No heartbeat: $1 is ${verdict:-unknown}" >&2
        return 1
    fi
}

# What beadlock makes of the lock file at $1: free, held, stale or unreadable; nothing where it cannot be asked.
_lock_manager_verdict() {
    local lock_path="$1" dir="." name answer
    if [[ "$lock_path" == */* ]]; then
        dir="${lock_path%/*}"
    fi
    name="${lock_path##*/}"
    # Its exit code says whether to go ahead; the words are wanted here. A check changes no lock of this kind.
    answer=$(_lock_manager_beadlock check "tower:${name%.lock}" --lock-dir "${dir:-/}" --json </dev/null) || true
    if [[ "$answer" =~ \"verdict\":[[:space:]]*\"([a-z]+)\" ]]; then
        echo "${BASH_REMATCH[1]}"
    fi
}

_lock_manager_say() {
    if [[ -n "$1" ]]; then
        printf '%s\n' "$1" >&2
    fi
}

_lock_manager_beadlock() {
    local program="${BEADLOCK_BIN:-beadlock}"
    if [[ -d "$program" ]]; then
        program="${program%/}/beadlock"
    fi
    "$program" "$@"
}

export -f acquire_lock release_lock is_lock_stale update_heartbeat
export -f _lock_manager_verdict _lock_manager_say _lock_manager_beadlock

# Run, not sourced.
if [[ "${BASH_SOURCE[0]:-}" == "$0" ]]; then
    if [[ "$#" -ne 2 || "$1" != "check" ]]; then
        echo "usage: lock-manager.sh check NAME" >&2
        exit 2
    fi
    verdict=$(_lock_manager_verdict "${LOCK_DIR}/$2.lock")
    case "$verdict" in
    stale) echo "stale" ;;
    held) echo "active" && exit 1 ;;
    free) echo "WARN: Lock file not found: ${LOCK_DIR}/$2.lock" >&2 && exit 1 ;;
    *) echo "ERROR: Lock cannot be read: ${LOCK_DIR}/$2.lock" >&2 && exit 1 ;;
    esac
fi
