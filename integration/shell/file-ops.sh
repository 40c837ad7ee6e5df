#!/usr/bin/env bash
# Locks on files, and writes that are whole or not there, for scripts in bash 4 and later. Alone with flock(1), and one with
# `beadlock … file:PATH`: the same lock file, the same temporary file, the same backups.
#
#   source file-ops.sh
#   save_json FILE [JSON]               # JSON, or what is on stdin, becomes FILE
#   atomic_write FILE                   # what is on stdin becomes FILE
#   lock_file FILE FD_VAR [SECONDS]     # the lock on FILE; its descriptor goes into FD_VAR and into LOCK_FD
#   unlock_file [FD]                    # FD, else LOCK_FD; without a lock, or twice, it does nothing
#   without_locks CMD [ARG…]            # for what is to outlive the lock: CMD does not get its descriptor
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
# Limits. A lock ends with the shell: on its exit, on `set -e`, on a signal. It goes on where a trap of the script's own for INT
# or TERM does, and where a command fails and the script goes on. There is no ERR trap: a function that sets one replaces the
# script's, which it cannot see; `trap 'unlock_file "$fd"' ERR` does it. bash cannot close a descriptor on exec:
# what a script leaves in the background keeps the lock when the script is killed with KILL, unless it was started by without_locks.

if [[ -z "${BASH_VERSINFO[0]-}" || "${BASH_VERSINFO[0]}" -lt 4 ]]; then
  echo "file-ops: needs bash 4 or later" >&2
  # shellcheck disable=SC2317 # run instead of sourced
  return 1 2>/dev/null || exit 1
fi

# Sourced twice, it forgets no lock.
if [[ -z "${_FILE_OPS_LOADED-}" ]]; then
  _FILE_OPS_LOADED="$$"
  # By descriptor: the file that it locks, and the process that did.
  _FILE_OPS_PATH=()
  _FILE_OPS_OWNER=()
  LOCK_FD=""
  # The codes are the document's, and are not settings.
  # shellcheck disable=SC2034 # for scripts
  E_SUCCESS=0 E_LOCK_FAILED=8
fi

lock_file() {
  if [[ "$#" -lt 2 || "$#" -gt 3 || ! "$2" =~ ^[A-Za-z_][A-Za-z0-9_]*$ || "$2" == _file_ops_* ]]; then
    echo "file-ops: usage: lock_file FILE FD_VAR [SECONDS]" >&2
    return 8
  fi
  # No name here may be that of the caller's variable.
  local _file_ops_path _file_ops_fd _file_ops_wait="${3:-${FILE_OPS_TIMEOUT:-30}}"
  if ! _file_ops_resolve "$1" || ! _file_ops_acquire "$_file_ops_path" "$_file_ops_wait"; then
    return 8
  fi
  if ! printf -v "$2" '%s' "$_file_ops_fd"; then
    unlock_file "$_file_ops_fd"
    return 8
  fi
  LOCK_FD="$_file_ops_fd"
}

unlock_file() {
  local fd="${1-}"
  if [[ "$#" -eq 0 ]]; then
    fd="${LOCK_FD-}"
  fi
  if [[ ! "$fd" =~ ^2(0[0-9]|10)$ || -z "${_FILE_OPS_PATH[fd]-}" ]]; then
    return 0
  fi
  if [[ "${LOCK_FD-}" == "$fd" ]]; then
    LOCK_FD=""
  fi
  _file_ops_release "$fd"
  _file_ops_untrap
}

save_json() {
  if [[ "$#" -lt 1 || "$#" -gt 2 ]]; then
    echo "file-ops: usage: save_json FILE [JSON]" >&2
    return 2
  fi
  if [[ "$#" -eq 1 ]]; then
    FILE_OPS_FORMAT=json atomic_write "$1"
  else
    printf '%s\n' "$2" 2>/dev/null | FILE_OPS_FORMAT=json atomic_write "$1"
  fi
}

# In a subshell: its traps and options are its own, and whatever happens in it, its lock ends with it.
atomic_write() {
  (_file_ops_write "$@")
}

without_locks() {
  local fd
  # In the background the process around CMD is a copy of this shell. Its own locks it keeps.
  for ((fd = 200; fd <= 210; fd++)); do
    if [[ -n "${_FILE_OPS_PATH[fd]-}" && "${_FILE_OPS_OWNER[fd]}" != "$BASHPID" ]]; then
      unlock_file "$fd"
    fi
  done
  _file_ops_apart "$@"
}

# Runs these words without the descriptors of any lock.
_file_ops_apart() (
  for ((fd = 200; fd <= 210; fd++)); do
    if [[ -n "${_FILE_OPS_PATH[fd]-}" ]]; then
      _file_ops_close "$fd"
    fi
  done
  if [[ "$(type -t -- "${1-}")" == file ]]; then
    exec "$@"
  fi
  "$@"
)

# --- Writing. Every step of it may end the subshell.

_file_ops_write() {
  set +e +u +f
  IFS=$' \t\n'
  trap - ERR DEBUG RETURN
  if [[ "$#" -ne 1 ]]; then
    echo "file-ops: usage: atomic_write FILE" >&2
    exit 2
  fi
  _file_ops_resolve "$1" || exit 1
  path="$_file_ops_path" tmp="$_file_ops_path.tmp" staged="" mask=$(umask)
  [[ ! -e "$path" || -f "$path" ]] || _file_ops_fail "it is no regular file"
  backups="${FILE_OPS_BACKUPS:-5}" format="${FILE_OPS_FORMAT:-}"
  if [[ -z "$format" ]]; then
    case "$path" in
      *.json) format=json ;;
      *.jsonl | *.ndjson) format=jsonl ;;
      *) format=any ;;
    esac
  fi
  if [[ ! "$backups" =~ ^[0-9]{1,3}$ || ! "$format" =~ ^(json|jsonl|any)$ ]]; then
    echo "file-ops: FILE_OPS_BACKUPS is a number, FILE_OPS_FORMAT is json, jsonl or any" >&2
    exit 2
  fi

  # Before that of the lock, which is put behind it: the temporary file goes while the lock is there.
  trap _file_ops_discard EXIT
  _file_ops_enter "${FILE_OPS_TIMEOUT:-30}" || exit 8
  trap '_file_ops_interrupted INT' INT
  trap '_file_ops_interrupted TERM' TERM
  _file_ops_stage
  _file_ops_validate
  _file_ops_attributes
  sync "$tmp" || _file_ops_fail "$tmp could not be synced"
  _file_ops_is_held "$held" "$path.lock" || _file_ops_fail "its lock was lost: $path.lock was deleted, replaced or let go"
  _file_ops_backup
  # It has the lock's descriptor: should this shell be killed now, nobody else begins before it has ended.
  command mv -f -- "$tmp" "$path" || _file_ops_fail "$tmp could not be renamed"
  staged=""
  if ! sync "${path%/*}/"; then
    echo "file-ops: $path is written, but its directory could not be synced" >&2
    exit 1
  fi
}

# The lock within $1 seconds, in `held`. Under a lock of the shell around this one: that, and a turn among its other children.
_file_ops_enter() {
  local fd
  for ((fd = 200; fd <= 210; fd++)); do
    if [[ "${_FILE_OPS_PATH[fd]-}" == "$path" && "$path.lock" -ef "/dev/fd/$fd" ]]; then
      # Somebody has it; and by this descriptor, which is still locked then.
      if ! flock -x -n "$path.lock" true && flock -x -n "$fd"; then
        held="$fd"
        umask 077
        _file_ops_flock "$tmp" "$tmp" "$1"
        return
      fi
    fi
  done
  _file_ops_acquire "$path" "$1" || return 8
  held="$_file_ops_fd"
}

_file_ops_fail() {
  echo "file-ops: $path is unchanged: $1" >&2
  exit 1
}

_file_ops_discard() {
  if [[ -n "$staged" ]]; then
    command rm -f -- "$tmp"
  fi
}

_file_ops_interrupted() {
  _file_ops_discard
  trap - EXIT
  _file_ops_signalled "$1"
}

# Standard input, whole, in the temporary file, which nobody else may read as yet.
_file_ops_stage() {
  umask 077
  if [[ "${_FILE_OPS_PATH[held]-}" == "$path" && "${_FILE_OPS_OWNER[held]-}" == "$BASHPID" ]]; then
    # Left by somebody who was killed.
    command rm -f -- "$tmp"
    set -C
    : 2>/dev/null >"$tmp" || _file_ops_fail "$tmp cannot be made"
    staged=1
    set +C
  else
    # Made, or found, when it was our turn.
    staged=1
    command chmod 600 "$tmp"
    : >|"$tmp"
  fi
  # What it comes from may hang, or outlive us: it is not to keep the lock.
  _file_ops_apart cat >>"$tmp" || _file_ops_fail "not all of it could be written to $tmp"
}

_file_ops_validate() {
  local why
  case "$format" in
    any)
      # What a command before a pipe that has failed leaves.
      [[ -s "$tmp" ]] || _file_ops_fail "there is nothing on stdin"
      ;;
    *)
      why=$("_file_ops_$format" 2>&1 >/dev/null) || _file_ops_fail "this is no valid ${format^^}: ${why:-not one value}"
      ;;
  esac
}

# One JSON value in UTF-8, of numbers that JSON has.
_file_ops_json() {
  if type -P jq >/dev/null; then
    iconv -f UTF-8 -t UTF-8 "$tmp" && jq -es 'length == 1 and ([.. | numbers | isnan or isinfinite] | any | not)' "$tmp"
  else
    _file_ops_python 'json.loads(text, parse_constant=int)'
  fi
}

# One such value in each line.
_file_ops_jsonl() {
  if type -P jq >/dev/null; then
    # In one piece: for a line of many jq 1.6 has no exit code.
    iconv -f UTF-8 -t UTF-8 "$tmp" && jq -esR 'rtrimstr("\n") | split("\n")
      | map(if test("\\S") then fromjson else error("an empty line") end)
      | if [.. | numbers | isnan or isinfinite] | any then error("no number") else true end' "$tmp"
  else
    _file_ops_python '[json.loads(line, parse_constant=int) for line in text.removesuffix("\n").split("\n") if text]'
  fi
}

_file_ops_python() {
  if ! type -P python3 >/dev/null; then
    echo "it cannot be told without jq or python3" >&2
    return 1
  fi
  python3 -c 'import json, sys
try:
    text = open(sys.argv[1], encoding="utf-8", newline="\n").read()
    '"$1"'
except ValueError as e:
    sys.exit(str(e))' "$tmp"
}

# Mode and owner of the file that it replaces; those of any new file where there is none.
_file_ops_attributes() {
  if [[ ! -e "$path" ]]; then
    umask "$mask"
    # Without a who, it heeds the umask.
    command chmod =rw "$tmp" || _file_ops_fail "the mode of $tmp cannot be set"
    return
  fi
  if ! command cp --attributes-only --preserve=mode,ownership -- "$path" "$tmp" 2>/dev/null; then
    # Not GNU's.
    command chmod "$(stat -f %Lp "$path")" "$tmp" || _file_ops_fail "its mode cannot be kept"
  fi
  # Whoever may not give files away has made his own, and says nothing.
  [[ "$(_file_ops_owner "$path")" == "$(_file_ops_owner "$tmp")" ]] || _file_ops_fail "its owner and group cannot be kept"
}

_file_ops_owner() {
  stat -c %u:%g "$1" 2>/dev/null || stat -f %u:%g "$1"
}

# The file as it is becomes $path.1, and what was that $path.2, up to the first that is missing.
_file_ops_backup() {
  local last each
  # The last one, too: whoever made it was killed before he renamed.
  if [[ "$backups" -eq 0 || ! -e "$path" || "$path" -ef "$path.1" ]]; then
    return 0
  fi
  for ((last = 1; last < backups; last++)); do
    [[ -e "$path.$last" || -L "$path.$last" ]] || break
  done
  for ((each = last; each > 0; each--)); do
    [[ ! -d "$path.$each" ]] || _file_ops_fail "$path.$each is a directory, and no backup"
  done
  for ((each = last; each > 1; each--)); do
    command mv -f -- "$path.$((each - 1))" "$path.$each" || _file_ops_fail "$path.$((each - 1)) cannot be moved"
  done
  # A link, which cannot be half there; a copy only where links are refused.
  command ln -f -- "$path" "$path.1" 2>/dev/null ||
    { command cp -p -- "$path" "$path.1.tmp" && command mv -f -- "$path.1.tmp" "$path.1"; } ||
    _file_ops_fail "$path.1 cannot be made"
}

# Descriptor $1 is still that of the file named $2, and still locked.
_file_ops_is_held() {
  [[ "$2" -ef "/dev/fd/$1" ]] && flock -x -n "$1"
}

# --- The lock.

# Sets _file_ops_path to the one name of file $1: absolute, without symbolic links. Its directory has to be there.
_file_ops_resolve() {
  # A name may end in a newline, which a substitution would cut off.
  _file_ops_path=$(command readlink -f -- "$1" && printf x) || _file_ops_path=""
  _file_ops_path="${_file_ops_path%$'\n'x}"
  if [[ -z "$_file_ops_path" || -d "$_file_ops_path" || "$1" == */ ]]; then
    echo "Cannot acquire lock on $1 (no file can be there: a directory, or there is none to put it into)" >&2
    return 1
  fi
  if [[ "$_file_ops_path" == *?.lock && -f "${_file_ops_path%.lock}" ]]; then
    echo "Cannot acquire lock on $1 (it is the lock file of ${_file_ops_path%.lock}, and never has any content)" >&2
    return 1
  fi
}

# The lock on $1, a resolved name, within $2 seconds: its descriptor is in _file_ops_fd.
_file_ops_acquire() {
  local fd
  for ((fd = 200; fd <= 210; fd++)); do
    if [[ "${_FILE_OPS_OWNER[fd]-}" == "$BASHPID" ]] &&
      [[ "${_FILE_OPS_PATH[fd]}" == "$1" || "$1.lock" -ef "/dev/fd/$fd" ]]; then
      echo "Cannot acquire lock on $1 (this shell has it already, on descriptor $fd; unlock_file $fd first)" >&2
      return 8
    fi
  done
  _file_ops_flock "$1.lock" "$1" "$2" || return 8
  _file_ops_trap
}

# An flock on file $1, made when it is missing, for $2 as it is called and entered, within $3 seconds.
_file_ops_flock() {
  local name="$1" path="$2" wait="$3" began="$SECONDS" left fd code why
  if [[ ! "$wait" =~ ^[0-9]{1,9}$ ]]; then
    echo "Cannot acquire lock on $path (a timeout is whole seconds, and not $wait)" >&2
    return 8
  fi
  wait=$((10#$wait))
  if ! type -P flock >/dev/null; then
    echo "Cannot acquire lock on $path (there is no flock here; it is part of util-linux)" >&2
    return 8
  fi
  for ((fd = 200; fd <= 210; fd++)); do
    # Whoever has opened it: somebody else's is never closed.
    if ! { true >&"$fd"; } 2>/dev/null; then
      break
    fi
  done
  if [[ "$fd" -gt 210 ]]; then
    echo "File descriptor 210 already in use (as 200 to 209 are; unlock a file first)" >&2
    return 8
  fi

  while true; do
    if ! _file_ops_open "$fd" "$name" 2>/dev/null; then
      # Once more, for its words.
      why=$(_file_ops_open "$fd" "$name" 2>&1) || true
      why="${why%%$'\n'*}" why="${why##*: }"
      if [[ "$(ulimit -n)" != unlimited && "$(ulimit -n)" -le "$fd" ]]; then
        why="descriptor $fd cannot be opened: ulimit -n is $(ulimit -n), and 211 is needed"
      fi
      echo "Cannot acquire lock on $path ($name: $why)" >&2
      return 8
    fi
    code=0
    flock -x -n "$fd" || code=$?
    if [[ "$code" -eq 1 ]] && _file_ops_is_inside "$name"; then
      _file_ops_close "$fd"
      echo "Cannot acquire lock on $path (the beadlock hold that this runs in has it; in there: beadlock write)" >&2
      return 8
    fi
    while [[ "$code" -eq 1 ]]; do
      left=$((wait - (SECONDS - began)))
      if [[ "$left" -le 0 ]]; then
        _file_ops_say_held "$name" "$path" "$wait"
        _file_ops_close "$fd"
        return 8
      fi
      # bash runs a trap when the command in front of it has ended: within a second. Else it waits in one piece, in its turn.
      if [[ -n "$(trap -p HUP INT QUIT TERM)" ]]; then
        left=1
      fi
      code=0
      flock -x -w "$left" "$fd" || code=$?
    done
    if [[ "$code" -ne 0 ]]; then
      _file_ops_close "$fd"
      echo "Cannot acquire lock on $path (flock has failed, exit $code)" >&2
      return 8
    fi
    if [[ "$name" -ef "/dev/fd/$fd" ]]; then
      break
    fi
    # Somebody has deleted or replaced it meanwhile: what is locked now is nobody's any more.
    _file_ops_close "$fd"
  done
  _FILE_OPS_PATH[fd]="$path"
  _FILE_OPS_OWNER[fd]="$BASHPID"
  _file_ops_fd="$fd"
}

# Lock file $1 is held by a `beadlock hold` that this shell runs in, and would wait for itself.
_file_ops_is_inside() {
  local id file
  if [[ -z "${BEADLOCK_HELD_ID-}" ]] || ! file=$(stat -c %d:%i "$1" 2>/dev/null); then
    return 1
  fi
  for id in "${BEADLOCK_HELD_ID}" ${BEADLOCK_HELD_IDS-}; do
    if [[ "${id%:*}" == "$file" ]] && kill -0 "${id##*:}" 2>/dev/null; then
      return 0
    fi
  done
  return 1
}

# Opens $2 as descriptor $1, for reading where it cannot be written.
_file_ops_open() {
  if [[ -L "$2" || ( -e "$2" && ! -f "$2" ) ]]; then
    echo "it is no regular file" >&2
    return 1
  fi
  eval "command exec $1<>\"\$2\"" || eval "command exec $1<\"\$2\""
}

_file_ops_close() {
  eval "command exec $1>&-"
}

# Lets go of descriptor $1. A lock of the shell around this subshell stays; only the copy of its descriptor goes.
_file_ops_release() {
  local fd="$1" path="${_FILE_OPS_PATH[$1]}" owner="${_FILE_OPS_OWNER[$1]}" now
  unset "_FILE_OPS_PATH[$fd]" "_FILE_OPS_OWNER[$fd]"
  if ! { true >&"$fd"; } 2>/dev/null; then
    return 0
  fi
  if [[ "$owner" == "$BASHPID" && ! "$path.lock" -ef "/dev/fd/$fd" ]]; then
    # The script may have closed it, and opened something of its own there.
    now=$(command readlink "/proc/self/fd/$fd" 2>/dev/null) || now=""
    now="${now##*/}"
    if [[ -n "$now" && "${now% (deleted)}" != "${path##*/}.lock" ]]; then
      return 0
    fi
    echo "file-ops: the lock on $path was lost: $path.lock was deleted or replaced while it was held" >&2
  fi
  if [[ "$owner" == "$BASHPID" ]]; then
    # Not by closing alone: a child in the background has the descriptor too.
    flock -u "$fd" 2>/dev/null || true
  fi
  _file_ops_close "$fd"
}

_file_ops_release_all() {
  local fd
  for ((fd = 200; fd <= 210; fd++)); do
    if [[ "${_FILE_OPS_OWNER[fd]-}" == "$BASHPID" ]]; then
      _file_ops_release "$fd"
    fi
  done
}

# File $1 is locked, for $2 as it is called; $3 seconds were waited.
_file_ops_say_held() {
  local holders
  holders=$(_file_ops_holders "$1" "$BASHPID") || true
  {
    echo "Failed to acquire lock (timeout after ${3}s)"
    echo "Cannot acquire lock on $2 (another process may be active)${holders:+: held by $holders};" \
      "wait for it, allow more time, or look for a stuck process: lsof +D ${2%/*}/"
  } >&2
}

# Who has an flock on $1, where /proc shows it: at most three. In a substitution, whose process, and $2, have only inherited it.
_file_ops_holders() {
  local entry pid name found=()
  set +e +u +f
  shopt -s nullglob
  for entry in /proc/[0-9]*/fd/*; do
    pid="${entry#/proc/}" pid="${pid%%/*}"
    if [[ "$entry" -ef "$1" && "$pid" != "$2" && "$pid" != "$BASHPID" ]] &&
      [[ "$(cat "/proc/$pid/fdinfo/${entry##*/}" 2>/dev/null)" == *FLOCK* ]]; then
      read -r name 2>/dev/null <"/proc/$pid/comm"
      found+=("PID $pid (${name//[^[:print:]]/?})")
    fi
    [[ "${#found[@]}" -lt 3 ]] || break
  done
  printf -v name ', %s' "${found[@]}"
  [[ "${#found[@]}" -eq 0 ]] || echo "${name#, }"
}

# --- Traps: the script's own stay, and run first.

# Sets _file_ops_trap to what is to run on $1. False where nothing is.
_file_ops_trap_of() {
  # No effect but one: a subshell has only shown its parent's traps until now, and shows its own from here on.
  trap - KILL
  eval "set -- $(trap -p "$1")"
  _file_ops_trap="${3-}"
  [[ "$#" -gt 0 ]]
}

_file_ops_trap() {
  local _file_ops_trap signal
  _file_ops_trap_of EXIT || true
  if [[ "$_file_ops_trap" != *_file_ops_release_all ]]; then
    trap -- "${_file_ops_trap:+$_file_ops_trap$'\n'}_file_ops_release_all" EXIT
  fi
  # Where the script has one, it says whether the shell goes on, and then so does the lock.
  for signal in INT TERM; do
    if ! _file_ops_trap_of "$signal"; then
      # shellcheck disable=SC2064 # now is when the name is known
      trap "_file_ops_signalled $signal" "$signal"
    fi
  done
}

# With the last lock of this shell, ours go.
_file_ops_untrap() {
  local fd _file_ops_trap signal
  for ((fd = 200; fd <= 210; fd++)); do
    if [[ "${_FILE_OPS_OWNER[fd]-}" == "$BASHPID" ]]; then
      return 0
    fi
  done
  if _file_ops_trap_of EXIT; then
    case "$_file_ops_trap" in
      _file_ops_release_all) trap - EXIT ;;
      *$'\n'_file_ops_release_all) trap -- "${_file_ops_trap%$'\n'_file_ops_release_all}" EXIT ;;
    esac
  fi
  for signal in INT TERM; do
    if _file_ops_trap_of "$signal" && [[ "$_file_ops_trap" == "_file_ops_signalled $signal" ]]; then
      trap - "$signal"
    fi
  done
}

_file_ops_signalled() {
  _file_ops_release_all
  trap - "$1"
  kill -s "$1" "$BASHPID"
}
