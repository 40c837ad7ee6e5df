#!/bin/sh
# Git's pre-commit: refuses the commit while somebody else has the database, or one of the targets that are named. It
# changes nothing. A commit inside one's own claim passes: below `beadlock hold`, with the BEADLOCK_ID of `acquire`, or with
# its holder's name in BEADLOCK_HOLDER. So does a sync's own commit, which a running cycle covers.
#
#     cp pre-commit.sh .git/hooks/pre-commit
#
# For https://pre-commit.com it is the hook beadlock-free, and `args` are the targets.
set -u

# The ones of a claim are its own.
ids="${BEADLOCK_HELD_IDS:-${BEADLOCK_HELD_ID-}} ${BEADLOCK_ID-}"
# A claim of another target must not stand in for the database.
unset BEADLOCK_TARGET
export BEADLOCK_JSON=false BEADLOCK_QUIET=false

# Nothing to name is the nearest .beads.
[ "$#" -gt 0 ] || set -- ''
for target; do
    said=$(beadlock check --dry-run ${target:+"$target"} 2>&1) && continue
    code=$?
    # The whole line: a holder may be called so that a part of it is another's name.
    case ${BEADLOCK_HOLDER:+$said} in
    "Skipping (locked by ${BEADLOCK_HOLDER-})" | "Skipping database (locked by ${BEADLOCK_HOLDER-})") continue ;;
    esac
    for id in $ids; do
        beadlock status --id "${id%@*}" ${target:+"$target"} >/dev/null 2>&1 && continue 2
    done
    {
        printf 'pre-commit: %s\n' "$said"
        case $code in 4 | 5) beadlock status ${target:+"$target"} ;; esac
        echo 'to commit without this look: git commit --no-verify'
    } >&2
    exit $code
done
