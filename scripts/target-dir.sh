#!/bin/sh
# Prints the directory that cargo builds into: CARGO_TARGET_DIR, a configured one, or ./target.
set -eu
cd "$(dirname "$0")/.."
"${CARGO:-cargo}" metadata --locked --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
