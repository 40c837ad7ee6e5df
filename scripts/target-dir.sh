#!/bin/sh
# Prints the directory that cargo builds into: CARGO_TARGET_DIR, a configured one, or ./target. Where it cannot be told,
# prints a message and nothing else, and exits with 1: a caller must stop, since with an empty name "$target/site" is /site.
#
#   target=$(scripts/target-dir.sh) || exit 1     (`set -e` alone does not stop at: TARGET="$(scripts/target-dir.sh)" command)
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "scripts/target-dir.sh: $1" >&2
    exit 1
}

metadata=$("${CARGO:-cargo}" metadata --locked --no-deps --format-version 1) ||
    fail "cargo metadata failed, so the target directory is not known"
# A JSON string up to its end. Its backslashes stand for other characters, so no path may have them.
target=$(printf '%s\n' "$metadata" | sed -nE 's/.*"target_directory":"(([^"\\]|\\.)*)".*/\1/p')
case $target in
'') fail "cargo metadata names no target directory" ;;
*\\*) fail "the target directory has a quote, a backslash or a control character in its name: $target" ;;
/*[!/]*) printf '%s\n' "$target" ;;
*) fail "the target directory is not one below /: $target" ;;
esac
