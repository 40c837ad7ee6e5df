#!/bin/bash
# Tries the crates as a registry would have them: cargo packs each of them and compiles what is in the package, and the
# examples, which use what is public, compile against the packages. Minutes; asks no registry.
set -euo pipefail
: "${TOOLS:?is set by scripts/dist-check.sh}"
cd "$(dirname "$0")/../../.."
. scripts/dist/check/rows.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# What is compiled stays for the next run.
target=$TOOLS/crates
cargo=${CARGO:-cargo}
mkdir -p "$target"
# A crate that is not published says so: `publish = []`.
"$cargo" metadata --locked --offline --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(*(p["name"] for p in json.load(sys.stdin)["packages"] if p["publish"] is None))' >"$work/names"
read -ra names <"$work/names"
packages=()
for name in "${names[@]}"; do packages+=(--package "$name"); done

rm -f "$target"/package/*.crate
try "cargo package: ${#names[@]} crates, each compiled" "$cargo" package --offline --locked --target-dir "$target" "${packages[@]}"
# These are not published, but packed they name what they take as any user does.
try 'the examples are packed' "$cargo" package --offline --locked --no-verify --target-dir "$target" \
    --package beadlock-examples "${packages[@]}"

mkdir "$work/crates" "$work/user"
for crate in "$target"/package/*.crate; do tar -C "$work/crates" -xzf "$crate"; done
mv "$work"/crates/beadlock-examples-* "$work/user/examples"
cp Cargo.lock "$work/user"
{
    printf '[workspace]\nresolver = "3"\nmembers = ["examples"]\n\n[patch.crates-io]\n'
    for name in "${names[@]}"; do
        printf '%s = { path = "%s" }\n' "$name" "$(echo "$work/crates/$name"-[0-9]*)"
    done
} >"$work/user/Cargo.toml"
# Of the lock file the versions of all others; ours come from elsewhere now.
try 'the examples compile against the packages' "$cargo" build --offline --quiet --examples \
    --manifest-path "$work/user/Cargo.toml" --target-dir "$target"
try 'an example runs' "$target/debug/examples/deploy_tool" --help
exit "$status"
