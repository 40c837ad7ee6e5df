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

claim() {
    # Not `eval "$(beadlock acquire)"` alone: that would go on when there is no claim.
    claimed=$(beadlock acquire --for "$$" "$@") || return
    eval "$claimed"
    export BEADLOCK_TARGET BEADLOCK_ID
    # Signals become exits, and an exit releases; the exit code stays.
    trap unclaim EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

unclaim() {
    trap - EXIT HUP INT TERM
    [ -n "${BEADLOCK_ID:-}" ] || return 0
    beadlock release "$BEADLOCK_TARGET" --id "$BEADLOCK_ID"
    unset BEADLOCK_TARGET BEADLOCK_ID BEADLOCK_PID claimed
}
