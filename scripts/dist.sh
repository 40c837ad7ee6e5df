#!/bin/sh
# Builds the artefacts of a release, or the parts of it that are named.
#
#   scripts/dist.sh [PART…]     each part is scripts/dist/PART.sh, but for npm, which is scripts/npm.sh
set -eu
cd "$(dirname "$0")/.."
# The order counts: the others take the programs that the first part has built, and sbom writes the checksums of all that is
# there by then. The container is a directory.
parts='programs packages wheel npm sbom container'
all=
# shellcheck disable=SC2086 # a list of words
[ "$#" -gt 0 ] || { all=1 && set -- $parts; }
for part; do
    case " $parts " in
    *" $part "*) ;;
    *)
        echo "scripts/dist.sh: no part $part; the parts are: $parts" >&2
        exit 2
        ;;
    esac
done
. scripts/dist/environment.sh
mkdir -p "$TOOLS"
# One after the other: they have their places in common.
exec 8>"$TOOLS/dist.lock"
flock 8
scripts/own-dir.sh "$DIST"
# What another version has left is not to be summed.
[ -z "$all" ] || find "$DIST" -mindepth 1 -maxdepth 1 ! -name .made-by-beadlock -exec rm -rf {} +

for part; do
    echo "== $part"
    case $part in
    npm) scripts/npm.sh pack "$DIST/programs" "$DIST" ;;
    *) "scripts/dist/$part.sh" ;;
    esac || {
        echo "make dist: the part $part failed" >&2
        exit 1
    }
done
echo "== $DIST"
ls -l "$DIST"
