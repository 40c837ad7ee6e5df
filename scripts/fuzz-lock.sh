#!/bin/sh
# Whether fuzz/Cargo.lock has all that fuzz/ needs: it follows the dependencies of the whole workspace, and only `make fuzz` builds
# it. Builds nothing.
set -eu
cd "$(dirname "$0")/.."
"${CARGO:-cargo}" tree --quiet --locked --manifest-path fuzz/Cargo.toml >/dev/null || {
    echo "make lint: fuzz/Cargo.lock is out of date; type: cargo metadata --format-version 1 --manifest-path fuzz/Cargo.toml >/dev/null" >&2
    exit 1
}
