#!/bin/sh
# Tries the artefacts that scripts/dist.sh has built, each in a clean place, and ends with one table.
#
#   scripts/dist-check.sh [PART…]   each part is scripts/dist/check/PART.sh: it prints a row for each thing that it tried,
#                                   ok|skipped|failed TAB what TAB detail, and fails when one failed
set -eu
cd "$(dirname "$0")/.."
# The last two compile the crates as they are packed, and the programs a second time: minutes each.
parts='programs packages wheel npm sbom container crates reproducible'
# shellcheck disable=SC2086 # a list of words
[ "$#" -gt 0 ] || set -- $parts
for part; do
    case " $parts " in
    *" $part "*) ;;
    *)
        echo "scripts/dist-check.sh: no part $part; the parts are: $parts" >&2
        exit 2
        ;;
    esac
done
. scripts/dist/environment.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

failed=0
for part; do
    echo "== $part" >&2
    code=0
    case $part in
    npm) scripts/npm.sh check "$DIST" >&2 && printf 'ok\tnpm package\tinstalled without a network, its tests passed\n' ;;
    *) "scripts/dist/check/$part.sh" ;;
    esac >"$work/rows" || code=$?
    # A part that ends without a row of its own was cut short.
    if [ "$code" != 0 ] && ! grep -q '^failed' "$work/rows"; then
        printf 'failed\t%s\tended with %s; its messages are above\n' "$part" "$code" >>"$work/rows"
    fi
    [ -s "$work/rows" ] || printf 'failed\t%s\tprinted no row\n' "$part" >"$work/rows"
    ! grep -q '^failed' "$work/rows" || failed=1
    sed "s/^/$part	/" "$work/rows" >>"$work/table"
done

echo
awk -F '\t' '{ printf "%-12s %-8s %-50s %s\n", $1, $2, $3, $4 }' "$work/table"
awk -F '\t' '{ n[$2]++ } END { printf "%d passed, %d failed, %d skipped\n", n["ok"], n["failed"], n["skipped"] }' "$work/table"
exit $failed
