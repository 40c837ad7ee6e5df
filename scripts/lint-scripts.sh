#!/bin/sh
# Every script here, those of tests too: shell through shellcheck and shfmt, Python through ruff.
#
# scripts/lint-scripts.sh            what is missing is said in a line, and the exit code is 0; where CI is set, 1
# scripts/lint-scripts.sh --if-there what is missing is for make test-more
set -eu
cd "$(dirname "$0")/.."

status=0
lacks() {
    if [ "$1" = --if-there ]; then
        echo "no $2 here: make test-more runs it" >&2
        return
    fi
    echo "skipped: the scripts need $2 ($3)" >&2
    case "${CI:-}" in '' | 0 | false) ;; *) status=1 ;; esac
}

shell=".ci/run scripts/*.sh scripts/dist/*.sh scripts/dist/check/*.sh integration/git/*.sh integration/shell/*.sh integration/cli/src/completion/*.bash integration/shell/tests/*.bats
    tests/unit/*.bats tests/integration/*.bats tests/benches/limits/*.sh"
# shellcheck disable=SC2086 # a list of patterns
set -- "${1:-}" $shell
mode=$1
shift
if command -v shellcheck >/dev/null 2>&1; then
    shellcheck "$@" || status=1
else
    lacks "$mode" shellcheck 'Debian: shellcheck'
fi
# By .editorconfig.
if command -v shfmt >/dev/null 2>&1; then
    shfmt -d "$@" || status=1
else
    lacks "$mode" shfmt 'Debian: shfmt'
fi

# The one that integration/python/tests/requirements.txt names comes first: another release may lay out differently.
PATH=$(scripts/target-dir.sh)/python/bin:$PATH
code=0
needs=
if [ "$mode" != --if-there ] && ! command -v ruff >/dev/null 2>&1; then
    needs=$(scripts/python-environment.sh) || code=$?
fi
if command -v ruff >/dev/null 2>&1; then
    ruff check --no-cache --quiet . || status=1
    ruff format --no-cache --quiet --diff . || status=1
elif [ $code = 0 ] || [ $code = 3 ]; then
    lacks "$mode" ruff "which takes $needs"
else
    status=1
fi

exit $status
