# shellcheck shell=sh
# A claim over several commands of a script. Source this file; any POSIX shell will do.
#
#   . /usr/local/share/beadlock/shell/claim.sh   # where `make install` puts it
#   claim .beads --wait 1m || exit   # a target, and the options of `beadlock acquire`
#   bd import -i issues.jsonl       # bd 0.27.2
#   ./publish.sh                     # a `beadlock hold` in here is part of this claim
#   unclaim                          # or just end: the trap does it
#
# The claim is the shell's own: when it is killed, even by KILL, the next check finds its process gone and cleans up.
# A claim that was lost meanwhile is exit 9: of unclaim, and of a script that would have ended with 0.
#
# Traps that the script has set before are kept: its EXIT trap runs first, still under the claim, and its HUP, INT and
# TERM stay as they are. A script that sets a trap for EXIT later, or whose trap calls exit, calls unclaim itself.

claim() {
    # Not `eval "$(beadlock acquire)"`: its exit code would be the shell's.
    claimed=$(beadlock acquire --for "$$" "$@") || return
    eval "$claimed"
    _claim_traps
    # Signals become exits, and an exit releases; the exit code stays.
    _claim_kept=$_claim_EXIT
    _claim_own="_claim_end \$?"
    # The kept trap finds the script's exit code in $?, as ever. Where it fails, the release still comes.
    [ "$_claim_kept" = - ] || _claim_own="_claim_exit=\$?
set +e
(exit \$_claim_exit)
$_claim_kept
_claim_end \$_claim_exit"
    # shellcheck disable=SC2064 # as it is now
    trap "$_claim_own" EXIT
    [ "$_claim_HUP" != - ] || trap 'exit 129' HUP
    [ "$_claim_INT" != - ] || trap 'exit 130' INT
    [ "$_claim_TERM" != - ] || trap 'exit 143' TERM
}

unclaim() {
    # What is ours among the traps goes, and the script's own is put back.
    _claim_traps
    if [ "$_claim_EXIT" = "${_claim_own:--}" ] && [ "$_claim_EXIT" != - ]; then
        # shellcheck disable=SC2064
        trap "$_claim_kept" EXIT
    fi
    [ "$_claim_HUP" != 'exit 129' ] || trap - HUP
    [ "$_claim_INT" != 'exit 130' ] || trap - INT
    [ "$_claim_TERM" != 'exit 143' ] || trap - TERM
    _claim_release
}

_claim_release() {
    [ -n "${BEADLOCK_ID:-}" ] || return 0
    _claim_code=0
    beadlock release "$BEADLOCK_TARGET" --id "$BEADLOCK_ID" >/dev/null || _claim_code=$?
    unset BEADLOCK_TARGET BEADLOCK_ID BEADLOCK_PID BEADLOCK_UNTIL claimed
    return "$_claim_code"
}

# The end of a script that was to end with $1.
_claim_end() {
    _claim_release || [ "$1" -ne 0 ] || exit "$_claim_code"
}

# The script's traps: for each signal the command, or a dash. They are listed into a file, since a substitution is
# another shell, which in some has none of them.
_claim_traps() {
    _claim_EXIT=- _claim_HUP=- _claim_INT=- _claim_TERM=-
    # In a subshell bash lists the traps of its parent until one is changed.
    # shellcheck disable=SC3028 # where it is not bash's, there is none
    [ "${BASHPID:-$$}" = "$$" ] || trap - URG
    _claim_list=$(mktemp) || return 0
    trap >"$_claim_list"
    eval "$(sed 's/^trap -- /_claim_trap /' "$_claim_list")"
    rm -f "$_claim_list"
}

_claim_trap() {
    case $2 in
    EXIT | 0) _claim_EXIT=$1 ;;
    HUP | SIGHUP) _claim_HUP=$1 ;;
    INT | SIGINT) _claim_INT=$1 ;;
    TERM | SIGTERM) _claim_TERM=$1 ;;
    esac
}
