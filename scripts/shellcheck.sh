#!/bin/sh
# Every shell script here, those of tests too, through shellcheck. Without it: a line that says so, and 0; where CI is set, 1.
set -eu
cd "$(dirname "$0")/.."
if ! command -v shellcheck >/dev/null 2>&1; then
    echo 'skipped: the scripts need shellcheck' >&2
    case "${CI:-}" in '' | 0 | false) exit 0 ;; *) exit 1 ;; esac
fi
exec shellcheck .ci/run scripts/*.sh integration/shell/*.sh integration/src/cli/completion/*.bash integration/shell/tests/*.bats tests/unit/*.bats tests/integration/*.bats tests/benches/limits/*.sh
