#!/bin/sh
# Every shell script here, those of tests too, through shellcheck. Without it: a line that says so, and 0.
set -eu
cd "$(dirname "$0")/.."
if ! command -v shellcheck >/dev/null 2>&1; then
    echo 'skipped: needs shellcheck' >&2
    exit 0
fi
exec shellcheck .ci/run scripts/*.sh integration/shell/*.sh integration/src/cli/completion/*.bash integration/shell/tests/*.bats tests/unit/*.bats tests/integration/*.bats tests/benches/limits/*.sh
