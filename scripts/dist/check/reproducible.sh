#!/bin/sh
# Builds the tarball and the packages a second time, from a copy of the tracked files in another directory, with another CARGO_HOME
# and another target directory, and compares each byte. It takes as long as the first build.
set -eu
: "${DIST:?is set by scripts/dist-check.sh}" "${TOOLS:?}" "${VERSION:?}" "${SOURCE_DATE_EPOCH:?}" "${BEADLOCK_REVISION:?}"
cd "$(dirname "$0")/../../.."
. scripts/dist/check/rows.sh

is_of_this_commit 'the same twice' || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

mkdir -p "$work/another checkout" "$work/cargo/registry" "$work/dist"
if ! git ls-files -z >"$work/files"; then
    lacking 'the same twice' 'needs a git checkout, which names the files'
    exit "$status"
fi
tar --null -T "$work/files" -cf - | tar -C "$work/another checkout" -xf -
# What was downloaded, and not what was unpacked of it.
for part in index cache; do
    [ ! -e "${CARGO_HOME:-$HOME/.cargo}/registry/$part" ] ||
        ln -s "$(cd "${CARGO_HOME:-$HOME/.cargo}" && pwd)/registry/$part" "$work/cargo/registry/$part"
done
[ ! -f "${CARGO_HOME:-$HOME/.cargo}/config.toml" ] || cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$work/cargo"

first=$DIST
export DIST="$work/dist" CARGO_HOME="$work/cargo" CARGO_TARGET_DIR="$work/another target"
for part in programs packages; do
    "$work/another checkout/scripts/dist/$part.sh" >&2 || {
        row failed 'the same twice' "the second build of $part failed; its messages are above"
        exit 1
    }
done
for name in programs/beadlock programs/beadlock-agent "beadlock-$VERSION-x86_64-unknown-linux-gnu.tar.gz" \
    "beadlock_$VERSION-1_amd64.deb" "beadlock-$VERSION-1.x86_64.rpm"; do
    try "the same twice: $name" cmp "$first/$name" "$DIST/$name"
done
exit "$status"
