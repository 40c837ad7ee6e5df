#!/bin/bash
# Tries the lists of what the programs are built from, and the checksums of DIST.
# shellcheck disable=SC2317 # the functions are called by their names
set -euo pipefail
: "${DIST:?is set by scripts/dist-check.sh}" "${TOOLS:?}" "${VERSION:?}"
cd "$(dirname "$0")/../../.."
set -a
checkout=$PWD
. scripts/dist/check/rows.sh

# `try` runs a function where `set -e` counts for nothing, so each has a shell of its own, with the variables of this one.
strictly() { # FUNCTION ARGUMENT…
    bash -euo pipefail -c "$(declare -f "$1")"'; "$@"' bash "$@"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Against what cargo itself says that the program is built from.
lists_all() { # PACKAGE PROGRAM
    "${CARGO:-cargo}" tree --locked --offline --package "$1" --edges normal,build --target x86_64-unknown-linux-gnu \
        --prefix none --format '{p}' | sed -n 's/^\([^ ]*\) v\([^ ]*\).*/\1 \2/p' | LC_ALL=C sort -u >"$work/tree"
    python3 - "$DIST/$2-$VERSION.cdx.json" "$1" "$VERSION" "$checkout" "$work/tree" <<'END'
import json, sys

path, package, version, checkout, tree = sys.argv[1:]
text = open(path).read()
assert checkout not in text, f"{path} names {checkout}"
bom = json.loads(text)
assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5"), path
top = bom["metadata"]["component"]
assert (top["name"], top["version"]) == (package, version), top
listed = {(c["name"], c["version"]) for c in bom["components"]}
used = {tuple(line.split()) for line in open(tree)} - {(package, version)}
missing = used - listed
assert not missing, f"{path} lacks {sorted(missing)}"
for c in bom["components"]:
    assert c.get("licenses"), f"{c['name']} has no licence"
print(f"{len(listed)} components")
END
}
try 'CycloneDX: beadlock' strictly lists_all beadlock-cli beadlock
try 'CycloneDX: beadlock-agent' strictly lists_all beadlock-agent beadlock-agent

has_all_sums() {
    cd "$DIST"
    sha256sum --check --strict --quiet SHA256SUMS
    sed 's/^[^ ]*  //' SHA256SUMS >"$work/summed"
    find . -maxdepth 1 -type f ! -name SHA256SUMS ! -name '.*' | sed 's|^\./||' | LC_ALL=C sort >"$work/there"
    diff "$work/summed" "$work/there"
    echo "$(wc -l <SHA256SUMS) files"
}
try 'SHA256SUMS: each file of DIST' strictly has_all_sums

twice_the_same() {
    mkdir "$work/again"
    DIST=$work/again scripts/dist/sbom.sh
    for file in "$work"/again/*.cdx.json; do cmp "$file" "$DIST/${file##*/}"; done
    echo 'written again, from another directory, byte for byte'
}
! is_of_this_commit 'CycloneDX: the same again' || try 'CycloneDX: the same again' strictly twice_the_same
exit "$status"
