#!/usr/bin/env bash
# Locks on files, and writes that are whole or not there, for scripts in bash 4 and later. Alone with flock(1), and one with
# `beadlock … file:PATH`: the same lock file, the same temporary file, the same backups.
#
#   source /usr/local/share/beadlock/shell/file-ops.sh   # where `make install` puts it
#   save_json FILE [JSON]               # JSON, or what is on stdin, becomes FILE
#   atomic_write FILE                   # what is on stdin becomes FILE
#   lock_file FILE FD_VAR [SECONDS]     # the lock on FILE; its descriptor goes into FD_VAR and into LOCK_FD
#   unlock_file [FD]                    # FD, else LOCK_FD; without a lock, or twice, it does nothing
#   without_locks CMD [ARG…]            # for what is to outlive the lock: CMD does not get its descriptor
#
# A write that fails changes neither FILE nor its backups.
#
# All return 0, or 8 (E_LOCK_FAILED) where the lock was not to be had. The two that write return 1 for any other failure,
# with FILE as it was, and 2 for what makes no sense. A FILE that is a symbolic link is the file behind it.
#
# Settings, heeded at each call: FILE_OPS_TIMEOUT (30, seconds), FILE_OPS_BACKUPS (5; 0 is none) and FILE_OPS_FORMAT (json,
# jsonl or any; else json for *.json, jsonl for *.jsonl and *.ndjson, and any other FILE may be anything but empty). JSON is read
# by jq, else by python3; without either it is refused.
#
# What is written under a lock that this shell has runs under it: lock_file, read, save_json, unlock_file. The same in a
# pipeline or another subshell, for which the shell then has to wait before it unlocks.
#
# Traps for EXIT, ERR, HUP, INT and TERM, behind the script's own, see to it that a lock ends with its shell. It goes on where the
# shell does: after a trap of the script's own for one of these signals, and after a command that fails without `set -e`, because a script that
# goes on relies on its lock; `trap 'unlock_file "$fd"' ERR` is for one that does not. The ERR trap is set by `source`, and does
# nothing without a lock. One that the script sets later takes its place; under `set -E` lock_file puts ours behind that.
#
# Limits. bash cannot close a descriptor on exec: what a script leaves in the background keeps the lock when the script is killed
# with KILL, or ends by `exit` in its own EXIT trap, unless it was started by without_locks. Names that begin with _file_ops_,
# _fo_ or _FILE_OPS_ are ours.

if [[ -z "${BASH_VERSINFO[0]-}" || "${BASH_VERSINFO[0]}" -lt 4 ]]; then
    echo "file-ops: needs bash 4 or later" >&2
    # shellcheck disable=SC2317 # run instead of sourced
    return 1 2>/dev/null || exit 1
fi

# Sourced twice, it forgets no lock. A script that this one starts has none of them, whatever is exported.
if [[ "${_FILE_OPS_LOADED-}" != "$$" ]]; then
    _FILE_OPS_LOADED="$$"
    # By descriptor: the file that it locks, and the process that did.
    _FILE_OPS_PATH=()
    _FILE_OPS_OWNER=()
    # And the lock file of a wait that has not ended.
    _FILE_OPS_OPENED=()
    LOCK_FD=""
    # The codes are the document's, and are not settings; the script may have made them readonly.
    # shellcheck disable=SC2034 # for scripts
    [[ "${E_SUCCESS-}" == 0 ]] || E_SUCCESS=0
    [[ "${E_LOCK_FAILED-}" == 8 ]] || E_LOCK_FAILED=8
    # For all subshells at once, which then need not look for it.
    hash flock 2>/dev/null || true
fi

lock_file() {
    if [[ "$#" -lt 2 || "$#" -gt 3 || ! "$2" =~ ^[A-Za-z_][A-Za-z0-9_]*$ || "$2" == _file_ops_* ]]; then
        echo "file-ops: usage: lock_file FILE FD_VAR [SECONDS]" >&2
        return 8
    fi
    local _file_ops_path _file_ops_fd _file_ops_wait="${3:-${FILE_OPS_TIMEOUT:-30}}"
    if ! _file_ops_resolve "$1" || ! _file_ops_acquire "$_file_ops_path" "$_file_ops_wait"; then
        return 8
    fi
    # A readonly one is an error to newer bash alone.
    if ! printf -v "$2" '%s' "$_file_ops_fd" || [[ "${!2}" != "$_file_ops_fd" ]]; then
        unlock_file "$_file_ops_fd"
        return 8
    fi
    LOCK_FD="$_file_ops_fd"
}

unlock_file() {
    local _fo_fd="${1-}"
    if [[ "$#" -eq 0 ]]; then
        _fo_fd="${LOCK_FD-}"
    fi
    if [[ ! "$_fo_fd" =~ ^2(0[0-9]|10)$ || -z "${_FILE_OPS_PATH[_fo_fd]-}" ]]; then
        return 0
    fi
    if [[ "${LOCK_FD-}" == "$_fo_fd" ]]; then
        LOCK_FD=""
    fi
    _file_ops_release "$_fo_fd"
    _file_ops_untrap
}

save_json() {
    if [[ "$#" -lt 1 || "$#" -gt 2 ]]; then
        echo "file-ops: usage: save_json FILE [JSON]" >&2
        return 2
    fi
    # In front of a call it would outlive the call, in the posix mode of older bash.
    local FILE_OPS_FORMAT=json
    (_file_ops_write "$@")
}

# In a subshell: its traps and options are its own, and whatever happens in it, its lock ends with it.
atomic_write() {
    if [[ "$#" -ne 1 ]]; then
        echo "file-ops: usage: atomic_write FILE" >&2
        return 2
    fi
    (_file_ops_write "$1")
}

without_locks() {
    local _fo_fd
    # In the background the process around CMD is a copy of this shell. Its own locks it keeps.
    for ((_fo_fd = 200; _fo_fd <= 210; _fo_fd++)); do
        if [[ -n "${_FILE_OPS_PATH[_fo_fd]-}" && "${_FILE_OPS_OWNER[_fo_fd]}" != "$BASHPID" ]]; then
            unlock_file "$_fo_fd"
        fi
    done
    _file_ops_apart "$@"
}

# Runs these words without the descriptors of any lock.
_file_ops_apart() (
    _file_ops_close_all
    if [[ "$(type -t -- "${1-}")" == file ]]; then
        exec "$@"
    fi
    "$@"
)

# In a subshell, which then has the descriptor of no lock.
_file_ops_close_all() {
    local _fo_fd
    for ((_fo_fd = 200; _fo_fd <= 210; _fo_fd++)); do
        if [[ -n "${_FILE_OPS_PATH[_fo_fd]-}" ]]; then
            _file_ops_close "$_fo_fd"
        fi
    done
}

# --- Writing. Every step of it may end the subshell. A program that is started costs about a millisecond, and so does a
# substitution: no step uses one where bash can do the work.

# What is on stdin, or the text $2 and a newline, becomes file $1.
_file_ops_write() {
    set +e +u +f
    shopt -u nocasematch
    IFS=$' \t\n'
    trap - ERR DEBUG RETURN
    _file_ops_resolve "$1" || exit 1
    _fo_path="$_file_ops_path" _fo_tmp="$_file_ops_path.tmp" _fo_was="$_file_ops_path.tmp1"
    _fo_staged="" _fo_kept="" _fo_held=""
    [[ ! -e "$_fo_path" || -f "$_fo_path" ]] || _file_ops_fail "it is no regular file"
    _fo_backups="${FILE_OPS_BACKUPS:-5}" _fo_format="${FILE_OPS_FORMAT:-}"
    if [[ -z "$_fo_format" ]]; then
        case "$_fo_path" in
        *.json) _fo_format=json ;;
        *.jsonl | *.ndjson) _fo_format=jsonl ;;
        *) _fo_format=any ;;
        esac
    fi
    if [[ ! "$_fo_backups" =~ ^[0-9]{1,3}$ || ! "$_fo_format" =~ ^(json|jsonl|any)$ ]]; then
        echo "file-ops: FILE_OPS_BACKUPS is a number, FILE_OPS_FORMAT is json, jsonl or any" >&2
        exit 2
    fi

    _fo_check=""
    trap _file_ops_end EXIT
    # Only save_json has a text. What comes on stdin is not there yet.
    if [[ "$#" -eq 2 ]]; then
        _file_ops_check_text "$2" >/dev/null 2>&1 &
        _fo_check="$!"
    fi
    _file_ops_enter "${FILE_OPS_TIMEOUT:-30}" || exit 8
    # bash runs the one for EXIT on none of them for certain.
    trap '_file_ops_interrupted HUP' HUP
    trap '_file_ops_interrupted INT' INT
    trap '_file_ops_interrupted TERM' TERM
    trap '_file_ops_interrupted QUIT' QUIT
    _file_ops_finish || _file_ops_fail "what a write that was killed has left cannot be put in its place: $_fo_was"
    _file_ops_stage "${@:2}"
    _file_ops_validate
    _file_ops_attributes
    command sync "$_fo_tmp" || _file_ops_fail "$_fo_tmp could not be synced"
    _file_ops_is_held "$_fo_held" "$_fo_path.lock" || _file_ops_fail "its lock was lost: $_fo_path.lock was deleted, replaced or let go"
    _file_ops_keep
    # It has the lock's descriptor: should this shell be killed now, nobody else begins before it has ended.
    command mv -f -- "$_fo_tmp" "$_fo_path" || _file_ops_fail "$(_file_ops_obstacle || echo "$_fo_tmp could not be renamed")"
    _fo_staged=""
    if [[ -n "$_fo_kept" ]]; then
        _file_ops_rotate "$_fo_kept" || _file_ops_warn "its backups could not be moved; the next write does it"
        _fo_kept=""
    fi
    command sync "${_fo_path%/*}/" || _file_ops_warn "its directory could not be synced"
}

# The lock within $1 seconds, in `held`. Under a lock of the shell around this one: that, and a turn among its other children.
_file_ops_enter() {
    local _fo_fd
    for _fo_fd in "${!_FILE_OPS_PATH[@]}"; do
        if [[ "${_FILE_OPS_PATH[_fo_fd]-}" == "$_fo_path" && "$_fo_path.lock" -ef "/dev/fd/$_fo_fd" ]]; then
            # Somebody has it; and by this descriptor, which is still locked then.
            if _file_ops_has_flock "$_fo_fd" ||
                { ! command flock -x -n 9 9<"$_fo_path.lock" && command flock -x -n "$_fo_fd"; } 2>/dev/null; then
                _fo_held="$_fo_fd"
                _fo_mask=$(umask)
                umask 077
                _file_ops_flock "$_fo_tmp" "$_fo_tmp" "$1" || return 8
                umask "$_fo_mask"
                # The turn before this one ended with the rename of that file. While its backups move, its shell has the lock on it still.
                # By a descriptor: no other program is needed for that, and no file is made.
                if [[ -e "$_fo_was" && -f "$_fo_path" ]] && ! command flock -x -w "$1" 9 9<"$_fo_path"; then
                    _file_ops_say_held "$_fo_path" "$_fo_path" "$1"
                    return 8
                fi
                return 0
            fi
        fi
    done
    # No lock of this subshell's own can be there yet, and its traps are those of this write.
    _file_ops_flock "$_fo_path.lock" "$_fo_path" "$1" || return 8
    _fo_held="$_file_ops_fd"
}

# The lock is this write's own, and not one of the shell around it.
_file_ops_is_own() {
    [[ -n "$_fo_held" && "${_FILE_OPS_OWNER[_fo_held]-}" == "$BASHPID" ]]
}

# The temporary file goes while the lock is there, which ends with this subshell: it has left nothing in the background.
_file_ops_end() {
    _file_ops_discard
    if _file_ops_is_own && [[ ! "$_fo_path.lock" -ef "/dev/fd/$_fo_held" ]]; then
        _file_ops_say_lost "$_fo_path"
    fi
}

_file_ops_fail() {
    echo "file-ops: $_fo_path is unchanged: $1" >&2
    exit 1
}

_file_ops_warn() {
    echo "file-ops: $_fo_path is written, but $1" >&2
    exit 1
}

_file_ops_discard() {
    # In posix mode, waiting for it twice is an error.
    [[ -z "$_fo_check" ]] || wait "$_fo_check" 2>/dev/null
    if [[ -n "$_fo_staged" ]]; then
        command rm -f -- "$_fo_tmp"
    fi
    # Renamed or not, which a signal may have left open.
    if [[ -n "$_fo_kept" ]]; then
        _file_ops_finish
    fi
}

_file_ops_interrupted() {
    _file_ops_discard
    trap - EXIT
    _file_ops_signalled "$1"
}

# Standard input, or text $1 where there is one, whole, in the temporary file, which nobody else may read as yet.
_file_ops_stage() {
    local _fo_code=0 _fo_is_made=""
    if ! _file_ops_is_own; then
        # Made, or found, when it was our turn.
        _fo_is_made=1
        command chmod 600 "$_fo_tmp"
        true >|"$_fo_tmp"
    elif [[ -e "$_fo_tmp" || -L "$_fo_tmp" ]]; then
        # Left by somebody who was killed.
        command rm -f -- "$_fo_tmp"
    fi
    _fo_staged=1
    _file_ops_fill "$@" || _fo_code="$?"
    if [[ "$_fo_code" -eq 3 ]]; then
        _fo_staged=""
        _file_ops_fail "$_fo_tmp cannot be made"
    fi
    [[ "$_fo_code" -eq 0 ]] || _file_ops_fail "not all of it could be written to $_fo_tmp"
}

# In a subshell without the lock: what the content comes from may hang, or outlive us. Exit 3: there was no file to fill.
_file_ops_fill() (
    if [[ -z "$_fo_is_made" ]]; then
        umask 077
        set -C
        true 2>/dev/null >"$_fo_tmp" || exit 3
        set +C
    fi
    _file_ops_close_all
    if [[ "$#" -gt 0 ]]; then
        printf '%s\n' "$1" 2>/dev/null >>"$_fo_tmp"
    else
        exec cat >>"$_fo_tmp"
    fi
)

_file_ops_validate() {
    local _fo_why
    case "$_fo_format" in
    any)
        # What a command before a pipe that has failed leaves.
        [[ -s "$_fo_tmp" ]] || _file_ops_fail "there is nothing on stdin"
        ;;
    *)
        if { [[ -z "$_fo_check" ]] || ! wait "$_fo_check"; } && ! "_file_ops_$_fo_format" >/dev/null 2>&1; then
            # Once more, for its words.
            _fo_why=$("_file_ops_$_fo_format" 2>&1 >/dev/null)
            _file_ops_fail "this is no valid ${_fo_format^^}: ${_fo_why:-not one value}"
        fi
        ;;
    esac
}

# One JSON value in UTF-8, of numbers that JSON has.
_file_ops_json() {
    if _file_ops_has_jq; then
        _file_ops_is_text && _file_ops_jq_json "$_fo_tmp"
    else
        _file_ops_python 'json.loads(text, parse_constant=int)'
    fi
}

_file_ops_jq_json() {
    command jq -es 'length == 1 and ([.. | numbers | isnan or isinfinite] | any | not)' "$@"
}

# The same of text $1, beside the wait for the lock: others then wait for a rename, and not for a jq. False also where the
# file itself has to be read for that.
_file_ops_check_text() {
    local LC_ALL=C
    [[ "$1" != *[![:ascii:]]* ]] && _file_ops_has_jq && printf '%s\n' "$1" | _file_ops_jq_json
}

# One such value in each line.
_file_ops_jsonl() {
    if _file_ops_has_jq; then
        # In one piece: for a line of many jq 1.6 has no exit code.
        _file_ops_is_text && command jq -esR 'if . == "" then [] else (rtrimstr("\n") + "\n" | split("\n") | .[:-1]) end
      | map(if test("\\S") then fromjson else error("an empty line") end)
      | if [.. | numbers | isnan or isinfinite] | any then error("no number") else true end' "$_fo_tmp"
    else
        _file_ops_python '[json.loads(line, parse_constant=int) for line in text[:-1 if text[-1:] == "\n" else None].split("\n") if text]'
    fi
}

_file_ops_has_jq() {
    type -P jq >/dev/null && type -P iconv >/dev/null
}

# What jq would mend, skip or take for the end.
_file_ops_is_text() {
    local LC_ALL=C _fo_text
    if IFS= read -r -d '' _fo_text <"$_fo_tmp"; then
        echo "there is a NUL in it" >&2
        return 1
    fi
    if [[ "$_fo_text" == $'\xef\xbb\xbf'* ]]; then
        echo "it begins with a byte order mark" >&2
        return 1
    fi
    [[ "$_fo_text" != *[![:ascii:]]* ]] || command iconv -f UTF-8 -t UTF-8 "$_fo_tmp"
}

_file_ops_python() {
    if ! type -P python3 >/dev/null; then
        echo "it cannot be told without jq and iconv, or python3" >&2
        return 1
    fi
    command python3 -c 'import json, sys
try:
    text = open(sys.argv[1], encoding="utf-8", newline="\n").read()
    '"$1"'
except ValueError as e:
    sys.exit(str(e))' "$_fo_tmp"
}

# Mode and owner of the file that it replaces; those of any new file where there is none.
_file_ops_attributes() {
    if [[ ! -e "$_fo_path" ]]; then
        # Without a who, it heeds the umask.
        command chmod =rw "$_fo_tmp" || _file_ops_fail "the mode of $_fo_tmp cannot be set"
        return 0
    fi
    if ! command cp --attributes-only --preserve=mode,ownership -- "$_fo_path" "$_fo_tmp" 2>/dev/null; then
        # Not GNU's.
        command chmod "$(command stat -f %Lp "$_fo_path")" "$_fo_tmp" || _file_ops_fail "its mode cannot be kept"
    fi
    # Whoever may not give files away has made his own, and says nothing.
    if [[ -O "$_fo_path" && -O "$_fo_tmp" && -G "$_fo_path" && -G "$_fo_tmp" ]]; then
        return 0
    fi
    [[ "$(_file_ops_owner "$_fo_path")" == "$(_file_ops_owner "$_fo_tmp")" ]] || _file_ops_fail "its owner and group cannot be kept"
}

_file_ops_owner() {
    command stat -c %u:%g "$1" 2>/dev/null || command stat -f %u:%g "$1"
}

# The file as it is gets a second name, $_fo_was, until the new content is in its place. The backups move after that: a write that
# fails touches none. Sets _fo_kept to the number of the backup that goes, or is missing.
_file_ops_keep() {
    local _fo_last _fo_each _fo_why
    # The last one, too: an older one of these was killed before its rename.
    if [[ "$_fo_backups" -eq 0 || ! -e "$_fo_path" || "$_fo_path" -ef "$_fo_path.1" ]]; then
        return 0
    fi
    for ((_fo_last = 1; _fo_last < _fo_backups; _fo_last++)); do
        [[ -e "$_fo_path.$_fo_last" || -L "$_fo_path.$_fo_last" ]] || break
    done
    for ((_fo_each = _fo_last; _fo_each > 0; _fo_each--)); do
        [[ ! -d "$_fo_path.$_fo_each" ]] || _file_ops_fail "$_fo_path.$_fo_each is a directory, and no backup"
    done
    _fo_kept="$_fo_last"
    # A link, which cannot be half there; a copy only where links are refused.
    if ! command ln -- "$_fo_path" "$_fo_was" 2>/dev/null; then
        _fo_why=$(_file_ops_obstacle) && _file_ops_fail "$_fo_why"
        { command cp -p -- "$_fo_path" "$_fo_path.1.tmp" && command mv -f -- "$_fo_path.1.tmp" "$_fo_was"; } ||
            _file_ops_fail "$_fo_was cannot be made"
    fi
}

# What was the file becomes $_fo_path.1, and what was that $_fo_path.2, up to number $1.
_file_ops_rotate() {
    local _fo_each
    for ((_fo_each = $1; _fo_each > 1; _fo_each--)); do
        command mv -f -- "$_fo_path.$((_fo_each - 1))" "$_fo_path.$_fo_each" || return 1
    done
    command mv -f -- "$_fo_was" "$_fo_path.1"
}

# Ends what a write that was killed has left: of $_fo_was, what the file still is goes, and what it was becomes a backup.
_file_ops_finish() {
    local _fo_count="$_fo_backups" _fo_missing
    if [[ -e "$_fo_path.1.tmp" || -L "$_fo_path.1.tmp" ]]; then
        command rm -f -- "$_fo_path.1.tmp"
    fi
    [[ -e "$_fo_was" || -L "$_fo_was" ]] || return 0
    [[ -f "$_fo_was" && ! -L "$_fo_was" ]] || return 1
    if [[ "$_fo_path" -ef "$_fo_was" || "$_fo_path.1" -ef "$_fo_was" ]] || _file_ops_is_equal "$_fo_path" "$_fo_was"; then
        command rm -f -- "$_fo_was"
        return
    fi
    # Who keeps none takes none away.
    [[ "$_fo_count" -gt 0 ]] || _fo_count=5
    for ((_fo_missing = 1; ; _fo_missing++)); do
        [[ -e "$_fo_path.$_fo_missing" || -L "$_fo_path.$_fo_missing" ]] || break
        [[ ! -d "$_fo_path.$_fo_missing" ]] || return 1
    done
    # Whose number it was is not known: of a longer row the last one goes.
    _file_ops_rotate "$((_fo_missing <= _fo_count ? _fo_missing : _fo_missing - 1))"
}

# Files $1 and $2 have the same content.
_file_ops_is_equal() {
    local _fo_one
    if type -P cmp >/dev/null; then
        command cmp -s -- "$1" "$2"
    else
        _fo_one=$(command sha256sum <"$1") 2>/dev/null && [[ "$_fo_one" == "$(command sha256sum <"$2")" ]]
    fi
}

# Why nothing can take the file's place, where that can be told.
_file_ops_obstacle() {
    local _fo_flags _fo_point _fo_escaped="${_fo_path//\\/\\134}"
    _fo_escaped="${_fo_escaped// /\\040}" _fo_escaped="${_fo_escaped//$'\t'/\\011}" _fo_escaped="${_fo_escaped//$'\n'/\\012}"
    while read -r _ _ _ _ _fo_point _; do
        if [[ "$_fo_point" == "$_fo_escaped" ]]; then
            echo "${_fo_path##*/} is a mount point of its own (docker -v file:file); mount its directory instead"
            return 0
        fi
    done 2>/dev/null </proc/self/mountinfo
    _fo_flags=$(command lsattr -d -- "$_fo_path" 2>/dev/null) || return 1
    case "${_fo_flags%%[[:space:]]*}" in
    *i*) echo "${_fo_path##*/} is immutable (chattr +i); chattr -i lets it be written again" ;;
    *a*) echo "${_fo_path##*/} is append-only (chattr +a); beadlock append adds lines to it" ;;
    *) return 1 ;;
    esac
}

# Descriptor $1 is still that of the file named $2, and still locked.
_file_ops_is_held() {
    [[ "$2" -ef "/dev/fd/$1" ]] && { _file_ops_has_flock "$1" || command flock -x -n "$1"; }
}

# Descriptor $1 has the flock, and /proc says so. False where that cannot be told.
_file_ops_has_flock() {
    local _fo_text="" _fo_info="/proc/self/fdinfo/$1"
    [[ -r "$_fo_info" ]] || return 1
    # All of it in one go, to its end, which is no NUL.
    IFS= read -r -d '' _fo_text <"$_fo_info"
    [[ "$_fo_text" == *$'\nlock:'*FLOCK*WRITE* ]]
}

# --- The lock.

# Sets _file_ops_path to the one name of file $1: absolute, without symbolic links. Its directory has to be there.
_file_ops_resolve() {
    if ! _file_ops_is_straight "$1"; then
        # A name may end in a newline, which a substitution would cut off.
        _file_ops_path=$(command readlink -f -- "$1" && printf x) || _file_ops_path=""
        _file_ops_path="${_file_ops_path%$'\n'x}"
    fi
    if [[ -z "$_file_ops_path" || -d "$_file_ops_path" || "$1" == */ ]]; then
        echo "Cannot acquire lock on $1 (no file can be there: a directory, or there is none to put it into)" >&2
        return 1
    fi
    if [[ "$_file_ops_path" == *?.lock && -f "${_file_ops_path%.lock}" ]]; then
        echo "Cannot acquire lock on $1 (it is the lock file of ${_file_ops_path%.lock}, and never has any content)" >&2
        return 1
    fi
}

# Name $1 leads through no link, `.` or `..`, so that there is nothing to resolve; it is in _file_ops_path then.
_file_ops_is_straight() {
    local _fo_each="$1"
    if [[ "$1" != /* ]]; then
        [[ "${PWD-}" == /* && "$PWD" -ef . ]] || return 1
        _fo_each="${PWD%/}/$1"
    fi
    _file_ops_path="$_fo_each"
    if [[ "$_fo_each/" == *//* || "$_fo_each/" == */./* || "$_fo_each/" == */../* || ! -d "${_fo_each%/*}/" ]]; then
        return 1
    fi
    while [[ -n "$_fo_each" ]]; do
        if [[ -L "$_fo_each" ]]; then
            return 1
        fi
        _fo_each="${_fo_each%/*}"
    done
}

# The lock on $1, a resolved name, within $2 seconds: its descriptor is in _file_ops_fd.
_file_ops_acquire() {
    local _fo_fd
    for ((_fo_fd = 200; _fo_fd <= 210; _fo_fd++)); do
        if [[ "${_FILE_OPS_OWNER[_fo_fd]-}" == "$BASHPID" ]] &&
            { [ "${_FILE_OPS_PATH[_fo_fd]}" = "$1" ] || [[ "$1.lock" -ef "/dev/fd/$_fo_fd" ]]; }; then
            echo "Cannot acquire lock on $1 (this shell has it already, on descriptor $_fo_fd; unlock_file $_fo_fd first)" >&2
            return 8
        fi
    done
    _file_ops_flock "$1.lock" "$1" "$2" || return 8
    _file_ops_trap
}

# An flock on file $1, made when it is missing, for $2 as it is called and entered, within $3 seconds.
_file_ops_flock() {
    local _fo_name="$1" _fo_path="$2" _fo_wait="$3" _fo_began _fo_now _fo_left _fo_fd _fo_code _fo_why
    _file_ops_clock _fo_began
    # Those of the waits whose traps this is in.
    local _fo_opened="${_fo_opened-} "
    if [[ "$_fo_wait" != [0-9]* || "$_fo_wait" == *[!0-9]* || "${#_fo_wait}" -gt 9 ]]; then
        echo "Cannot acquire lock on $_fo_path (a timeout is whole seconds, and not $_fo_wait)" >&2
        return 8
    fi
    _fo_wait=$((10#$_fo_wait))
    if [[ ! -x "${BASH_CMDS[flock]-}" ]] && ! type -P flock >/dev/null; then
        echo "Cannot acquire lock on $_fo_path (there is no flock here; it is part of util-linux)" >&2
        return 8
    fi
    for ((_fo_fd = 200; _fo_fd <= 210; _fo_fd++)); do
        # Left by Ctrl-C in an interactive shell, which ends its functions where they are.
        if [[ -n "${_FILE_OPS_OPENED[_fo_fd]-}" && "$_fo_opened" != *" $_fo_fd "* ]] &&
            [[ "${_FILE_OPS_OPENED[_fo_fd]}" -ef "/dev/fd/$_fo_fd" ]]; then
            _file_ops_close "$_fo_fd"
        fi
        # Whoever has opened it: somebody else's is never closed.
        if ! _file_ops_is_open "$_fo_fd"; then
            break
        fi
    done
    if [[ "$_fo_fd" -gt 210 ]]; then
        echo "File descriptor 210 already in use (as 200 to 209 are; unlock a file first)" >&2
        return 8
    fi

    _fo_opened+="$_fo_fd "
    while true; do
        _FILE_OPS_OPENED[_fo_fd]="$_fo_name"
        if ! _file_ops_open "$_fo_fd" "$_fo_name" 2>/dev/null; then
            unset "_FILE_OPS_OPENED[$_fo_fd]"
            # Once more, for its words.
            _fo_why=$(_file_ops_open "$_fo_fd" "$_fo_name" 2>&1) || true
            _fo_why="${_fo_why%%$'\n'*}" _fo_why="${_fo_why##*: }"
            if [[ "$(ulimit -n)" != unlimited && "$(ulimit -n)" -le "$_fo_fd" ]]; then
                _fo_why="descriptor $_fo_fd cannot be opened: ulimit -n is $(ulimit -n), and 211 is needed"
            fi
            echo "Cannot acquire lock on $_fo_path ($_fo_name: $_fo_why)" >&2
            return 8
        fi
        _fo_code=0 _fo_why=""
        command flock -x -n "$_fo_fd" || _fo_code=$?
        if [[ "$_fo_code" -eq 1 ]] && _file_ops_is_inside "$_fo_name" "${BEADLOCK_UPDATE_IDS-}"; then
            _fo_why="the beadlock update that this runs in has it; what its filter prints becomes the file"
        elif [[ "$_fo_code" -eq 1 && -n "${BEADLOCK_HELD_ID-}" ]] &&
            _file_ops_is_inside "$_fo_name" "$BEADLOCK_HELD_ID ${BEADLOCK_HELD_IDS-}"; then
            _fo_why="the beadlock hold that this runs in has it; in there: beadlock write"
        fi
        if [[ -n "$_fo_why" ]]; then
            _file_ops_close "$_fo_fd"
            echo "Cannot acquire lock on $_fo_path ($_fo_why)" >&2
            return 8
        fi
        while [[ "$_fo_code" -eq 1 ]]; do
            _file_ops_clock _fo_now
            _fo_left=$((_fo_wait * 1000000 - (_fo_now - _fo_began)))
            if [[ "$_fo_left" -le 0 ]]; then
                _file_ops_say_held "$_fo_name" "$_fo_path" "$_fo_wait"
                _file_ops_close "$_fo_fd"
                return 8
            fi
            # bash runs a trap when the command in front of it has ended: within a second. Else it waits in one piece, in its turn.
            if [[ "$_fo_left" -gt 1000000 && "$(trap -p HUP INT QUIT TERM)" == *"trap -- '"* ]]; then
                _fo_left=1000000
            fi
            printf -v _fo_left '%d.%06d' $((_fo_left / 1000000)) $((_fo_left % 1000000))
            _fo_code=0
            command flock -x -w "${_fo_left%.000000}" "$_fo_fd" || _fo_code=$?
        done
        if [[ "$_fo_code" -ne 0 ]]; then
            _file_ops_close "$_fo_fd"
            echo "Cannot acquire lock on $_fo_path (flock has failed, exit $_fo_code)" >&2
            return 8
        fi
        if [[ "$_fo_name" -ef "/dev/fd/$_fo_fd" ]]; then
            break
        fi
        # Somebody has deleted or replaced it meanwhile: what is locked now is nobody's any more.
        _file_ops_close "$_fo_fd"
    done
    _FILE_OPS_PATH[_fo_fd]="$_fo_path"
    _FILE_OPS_OWNER[_fo_fd]="$BASHPID"
    unset "_FILE_OPS_OPENED[$_fo_fd]"
    _file_ops_fd="$_fo_fd"
}

# The time of day in microseconds, into variable $1. In whole seconds, which bash before 5 alone has, a wait would be up to
# one second shorter than it says.
_file_ops_clock() {
    if [[ "${EPOCHREALTIME-}" == [0-9]* ]]; then
        printf -v "$1" %s "${EPOCHREALTIME/[.,]/}"
    else
        printf -v "$1" %s "${SECONDS}000000"
    fi
}

# Lock file $1 is held by a `beadlock` that this shell runs in, by one of the ids $2, and would wait for itself.
_file_ops_is_inside() {
    local _fo_id _fo_file IFS=' '
    if [[ -z "$2" ]] || ! _fo_file=$(command stat -c %d:%i "$1" 2>/dev/null); then
        return 1
    fi
    for _fo_id in $2; do
        if [[ "${_fo_id%:*}" == "$_fo_file" ]] && { [[ -d "/proc/${_fo_id##*:}" ]] || kill -0 "${_fo_id##*:}" 2>/dev/null; }; then
            return 0
        fi
    done
    return 1
}

# Opens $2 as descriptor $1, for reading where it cannot be written.
_file_ops_open() {
    if [[ -L "$2" || (! -f "$2" && -e "$2") ]]; then
        echo "it is no regular file" >&2
        return 1
    fi
    local _fo_how
    for _fo_how in '<>' '<'; do
        # In posix mode an exec that fails ends the shell. (Not by `command`; but by that bash 4.0 forgets what its functions were
        # called with.)
        if ! shopt -qo posix || (eval "exec $1$_fo_how\"\$2\""); then
            eval "exec $1$_fo_how\"\$2\"" && return 0
        fi
    done
    return 1
}

# Descriptor $1 is open; told by its name, where descriptors have names, and else by its use.
_file_ops_is_open() {
    if [[ -d /proc/self/fd ]]; then
        [[ -L "/proc/self/fd/$1" ]]
    else
        { true >&"$1"; } 2>/dev/null
    fi
}

_file_ops_close() {
    unset "_FILE_OPS_OPENED[$1]"
    eval "exec $1>&-"
}

# Lets go of descriptor $1. A lock of the shell around this subshell stays; only the copy of its descriptor goes.
_file_ops_release() {
    local _fo_fd="$1" _fo_path="${_FILE_OPS_PATH[$1]}" _fo_owner="${_FILE_OPS_OWNER[$1]}" _fo_now
    unset "_FILE_OPS_PATH[$_fo_fd]" "_FILE_OPS_OWNER[$_fo_fd]"
    if ! _file_ops_is_open "$_fo_fd"; then
        return 0
    fi
    if [[ "$_fo_owner" == "$BASHPID" && ! "$_fo_path.lock" -ef "/dev/fd/$_fo_fd" ]]; then
        # The script may have closed it, and opened something of its own there.
        _fo_now=$(command readlink "/proc/self/fd/$_fo_fd" 2>/dev/null) || _fo_now=""
        _fo_now="${_fo_now##*/}"
        if [[ -n "$_fo_now" && "${_fo_now% (deleted)}" != "${_fo_path##*/}.lock" ]]; then
            return 0
        fi
        _file_ops_say_lost "$_fo_path"
    fi
    if [[ "$_fo_owner" == "$BASHPID" ]]; then
        # Not by closing alone: a child in the background has the descriptor too.
        command flock -u "$_fo_fd" 2>/dev/null || true
    fi
    _file_ops_close "$_fo_fd"
}

_file_ops_say_lost() {
    echo "file-ops: the lock on $1 was lost: $1.lock was deleted or replaced while it was held" >&2
}

_file_ops_release_all() {
    local _fo_fd
    for ((_fo_fd = 200; _fo_fd <= 210; _fo_fd++)); do
        if [[ "${_FILE_OPS_OWNER[_fo_fd]-}" == "$BASHPID" ]]; then
            _file_ops_release "$_fo_fd"
        fi
    done
}

# File $1 is locked, for $2 as it is called; $3 seconds were waited.
_file_ops_say_held() {
    local _fo_holders
    _fo_holders=$(_file_ops_holders "$1" "$BASHPID") || true
    # A holder that is known need not be looked for.
    local _fo_else=", or look for a stuck process: lsof +D ${2%/*}/"
    [[ -z "$_fo_holders" ]] || _fo_else=""
    {
        echo "Failed to acquire lock (timeout after ${3}s)"
        echo "Cannot acquire lock on $2 (another process may be active)${_fo_holders:+: held by $_fo_holders};" \
            "wait for it, or allow more time$_fo_else"
    } >&2
}

# Who has an flock on $1, where /proc shows it: at most three. In a substitution, whose process, and $2, have only inherited it.
_file_ops_holders() {
    local _fo_entry _fo_pid _fo_name _fo_found=()
    set +e +u +f
    shopt -s nullglob
    for _fo_entry in /proc/[0-9]*/fd/*; do
        _fo_pid="${_fo_entry#/proc/}" _fo_pid="${_fo_pid%%/*}"
        if [[ "$_fo_entry" -ef "$1" && "$_fo_pid" != "$2" && "$_fo_pid" != "$BASHPID" ]] &&
            [[ "$(command cat "/proc/$_fo_pid/fdinfo/${_fo_entry##*/}" 2>/dev/null)" == *FLOCK* ]]; then
            read -r _fo_name 2>/dev/null <"/proc/$_fo_pid/comm"
            _fo_found+=("PID $_fo_pid (${_fo_name//[^[:print:]]/?})")
        fi
        [[ "${#_fo_found[@]}" -lt 3 ]] || break
    done
    printf -v _fo_name ', %s' "${_fo_found[@]}"
    [[ "${#_fo_found[@]}" -eq 0 ]] || echo "${_fo_name#, }"
}

# --- Traps: the script's own stay, and run first.

# Sets _file_ops_trap to what runs by signal $1, of the traps that `trap -p` has printed as $2. False where there is none,
# which is printed as - in posix mode.
_file_ops_trap_in() {
    local _fo_words=() _fo_each
    # As words, of which each trap has four: in a list, the newlines between them are blanks.
    eval "_fo_words=($2)"
    for ((_fo_each = 0; _fo_each < ${#_fo_words[@]}; _fo_each += 4)); do
        if [[ "${_fo_words[_fo_each + 3]#SIG}" == "$1" && "${_fo_words[_fo_each + 2]}" != - ]]; then
            _file_ops_trap="${_fo_words[_fo_each + 2]}"
            return 0
        fi
    done
    _file_ops_trap=""
    return 1
}

# Sets _file_ops_traps to what `trap -p` prints of these signals.
_file_ops_traps_of() {
    local _fo_err=""
    if [[ "$BASH_SUBSHELL" -gt 0 && "$-" == *E* ]]; then
        _fo_err=$(trap -p ERR)
    fi
    # No effect but one: a subshell has only shown its parent's traps until now, and shows its own from here on.
    trap - KILL
    # Which then has lost the one that it has from its parent, in bash 4.2 and 4.3.
    eval "$_fo_err"
    _file_ops_traps=$(trap -p "$@")
}

# Puts $1 behind what is in _file_ops_trap, once.
_file_ops_behind() {
    if [[ "$_file_ops_trap" != *"$1" ]]; then
        _file_ops_trap="${_file_ops_trap:+$_file_ops_trap$'\n'}$1"
    fi
}

_file_ops_trap() {
    local _file_ops_trap _file_ops_traps _fo_signal
    _file_ops_traps_of EXIT HUP INT TERM ERR
    _file_ops_trap_in EXIT "$_file_ops_traps" || true
    _file_ops_behind _file_ops_release_all
    trap -- "$_file_ops_trap" EXIT
    # Where the script has one, it says whether the shell goes on, and then so does the lock.
    for _fo_signal in HUP INT TERM; do
        if ! _file_ops_trap_in "$_fo_signal" "$_file_ops_traps"; then
            # shellcheck disable=SC2064 # now is when the name is known
            trap "_file_ops_signalled $_fo_signal" "$_fo_signal"
        fi
    done
    # One that the script has set after ours is seen here under errtrace. Without, nothing is, and one set here would replace it.
    if [[ "$-" == *E* ]] && _file_ops_trap_in ERR "$_file_ops_traps"; then
        _file_ops_behind _file_ops_failed
        trap -- "$_file_ops_trap" ERR
    fi
}

# With the last lock of this shell, ours go.
_file_ops_untrap() {
    local _fo_fd _file_ops_trap _file_ops_traps _fo_signal
    for ((_fo_fd = 200; _fo_fd <= 210; _fo_fd++)); do
        if [[ "${_FILE_OPS_OWNER[_fo_fd]-}" == "$BASHPID" ]]; then
            return 0
        fi
    done
    _file_ops_traps_of EXIT HUP INT TERM
    if _file_ops_trap_in EXIT "$_file_ops_traps"; then
        case "$_file_ops_trap" in
        _file_ops_release_all) trap - EXIT ;;
        *$'\n'_file_ops_release_all) trap -- "${_file_ops_trap%$'\n'_file_ops_release_all}" EXIT ;;
        esac
    fi
    for _fo_signal in HUP INT TERM; do
        if _file_ops_trap_in "$_fo_signal" "$_file_ops_traps" && [[ "$_file_ops_trap" == "_file_ops_signalled $_fo_signal" ]]; then
            trap - "$_fo_signal"
        fi
    done
}

_file_ops_signalled() {
    _file_ops_release_all
    trap - "$1"
    kill -s "$1" "$BASHPID"
}

# A command has failed. Where that ends the shell it ends its locks, on its exit, also if the script has set a trap of its own for
# that after lock_file. Where the script goes on, it does so with the locks that it relies on.
_file_ops_failed() {
    local _fo_fd
    for ((_fo_fd = 200; _fo_fd <= 210; _fo_fd++)); do
        if [[ "${_FILE_OPS_OWNER[_fo_fd]-}" == "$BASHPID" ]]; then
            _file_ops_trap
            return 0
        fi
    done
}

# Set here, outside of any function, where the script's own is seen. In a function that sources this it is not, but under errtrace.
# shellcheck disable=SC2168 # which fails outside of a function
if [[ "$-" == *E* ]] || ! local _fo_none 2>/dev/null; then
    trap - KILL
    # In bash 4.0 and 4.1 a script with a trap for ERR has no PIPESTATUS: there only behind one of its own.
    if _file_ops_trap_in ERR "$(trap -p ERR)" || [[ "${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}" != 4.[01] ]]; then
        _file_ops_behind _file_ops_failed
        trap -- "$_file_ops_trap" ERR
    fi
fi
