#!/bin/sh
# What docs/releasing.md asks for before a tag, each line of it, and a table at the end. What takes a network says so.
#
# scripts/release-check.sh          all of it; an hour and more
# scripts/release-check.sh words    what takes seconds: version, changelog, tag, address, the working tree
# The steps are called by way of try.
# shellcheck disable=SC2317
set -u
cd "$(dirname "$0")/.." || exit 1

size=${1:-all}
case $size in
all | words) ;;
*)
    echo 'usage: scripts/release-check.sh [words]' >&2
    exit 2
    ;;
esac

cargo=${CARGO:-cargo}
table=
status=0
row() { # RESULT WHAT
    table="$table$(printf '%-8s %s' "$1" "$2")
"
    [ "$1" != failed ] || status=1
}
try() { # WHAT COMMAND…
    what=$1
    shift
    echo "== $what" >&2
    if "$@" >&2; then row ok "$what"; else row failed "$what"; fi
}

version=$(scripts/version.sh 2>/dev/null)
tag=v$version

is_the_same() { scripts/version.sh; }
is_clean() {
    [ -z "$(git status --porcelain)" ] || git status --short
    [ -z "$(git status --porcelain)" ]
}
# Told with its date, and nothing that no release has yet.
is_told() {
    grep -Eq "^## $version - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md &&
        ! awk '/^## /{ ours = /Unreleased/; next } ours' CHANGELOG.md | grep . &&
        scripts/release-notes.sh "$version"
}
# The tag is not there yet, or is this commit.
is_free() {
    there=$(git rev-parse --quiet --verify "refs/tags/$tag^{commit}") || return 0
    [ "$there" = "$(git rev-parse HEAD)" ]
}
# OWNER and .invalid stand in until it is decided where the project lives.
has_an_address() {
    ! git grep -nw OWNER -- Cargo.toml flake.nix docs integration/ci integration/npm integration/packages integration/python ':!docs/releasing.md' &&
        ! grep -n '^module .*\.invalid/' integration/go/go.mod
}

try "the version is the same everywhere: $version" is_the_same
try 'the working tree is clean' is_clean
try "CHANGELOG.md has $version with its date, and nothing unreleased" is_told
try "the tag $tag is free, or this commit" is_free
try 'the address of the repository is filled in' has_an_address

if [ "$size" = all ]; then
    try 'bash .ci/run' bash .ci/run
    try 'make protocol-check' make protocol-check
    try 'make dist' make dist
    try 'make dist-check' make dist-check
    try 'the registry would take each crate (network)' "$cargo" publish --workspace --dry-run --no-verify --locked
    last=$(git describe --tags --abbrev=0 --match 'v*' 'HEAD^' 2>/dev/null)
    if [ -z "$last" ]; then
        row skipped 'the faces are compatible with the last release: there is no tag before this one'
    elif ! "$cargo" semver-checks --version >/dev/null 2>&1; then
        row skipped "the faces are compatible with $last: this needs cargo-semver-checks"
    else
        try "the faces are compatible with $last" "$cargo" semver-checks --package beadlock --package beadlock-checker --baseline-rev "$last"
    fi
fi

printf '\n%s' "$table"
exit "$status"
