#!/bin/sh
# The version, which stands in more than one file.
#
# scripts/version.sh            prints it; where two files differ, both lines, and the exit code is 1
# scripts/version.sh VERSION    writes it into all of them
set -eu
cd "$(dirname "$0")/.."

# `FILE PATTERN`: what stands before the version in that file, as a group.
places() {
    cat <<'EOF'
Cargo.toml ^(version = ")
Cargo.toml ^(beadlock[a-z-]* = \{.* version = "=?)
integration/python/Cargo.toml ^(version = ")
integration/npm/package.json ^(  "version": ")
integration/ci/github-actions.yml (integration/ci/github@v)
integration/ci/github/README.md (integration/ci/github@v)
docs/guide/ci.md (integration/ci/github@v)
docs/install.md (beadlock[_-]|beadlock-agent-|/download/v)
integration/packages/beadlock.rb (beadlock-|/download/v)
EOF
}
number='[0-9]+\.[0-9]+\.[0-9]+'

if [ $# = 1 ] && printf '%s\n' "$1" | grep -Eqx "$number"; then
    places | while read -r file pattern; do
        sed -Ei "s~$pattern$number~\\1$1~g" "$file"
    done
    for manifest in Cargo.toml integration/python/Cargo.toml fuzz/Cargo.toml; do
        "${CARGO:-cargo}" update --quiet --workspace --offline --manifest-path "$manifest"
    done
elif [ $# != 0 ]; then
    echo 'usage: scripts/version.sh [MAJOR.MINOR.PATCH]' >&2
    exit 2
fi

version=$(sed -nE "s/^version = \"($number)\"/\\1/p" Cargo.toml | head -n 1)
status=0
# In each place once at least, and nothing else.
found=$(places | while read -r file pattern; do
    grep -oE "$pattern$number" "$file" | grep -oE "$number\$" || echo none
done | sort -u)
if [ "$found" != "$version" ]; then
    status=1
    places | while read -r file pattern; do
        grep -EHn "$pattern$number" "$file" | grep -Fv "$version" || grep -Eq "$pattern$number" "$file" || echo "$file: no line like $pattern$number"
    done >&2
fi
printf '%s\n' "$version"
exit "$status"
