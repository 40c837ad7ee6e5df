#!/bin/sh
# Builds integration/python into an environment below the target directory, as `pip install` does, and runs its tests there.
# Without what it takes: a line that says so, and 0; where CI is set, 1.
set -eu
cd "$(dirname "$0")/.."

lacking() {
    echo "skipped: the tests of integration/python need $1" >&2
    case "${CI:-}" in '' | 0 | false) exit 0 ;; *) exit 1 ;; esac
}

code=0
said=$(scripts/python-environment.sh) || code=$?
case $code in
0) environment=$said ;;
3) lacking "$said" ;;
*) exit "$code" ;;
esac
target=$(scripts/target-dir.sh)

PATH=$environment/bin:$PATH
CARGO_TARGET_DIR=$target
MATURIN_PEP517_ARGS='--profile dev'
export PATH CARGO_TARGET_DIR MATURIN_PEP517_ARGS
"$environment/bin/python" -m pip --quiet --disable-pip-version-check install \
    --no-build-isolation --no-deps --force-reinstall ./integration/python

export PYTHONDONTWRITEBYTECODE=1
# Builds the programs as the other tests do. Where BEADLOCK_TEST_BUILT is set, they are built and in use.
[ -n "${BEADLOCK_TEST_BUILT:-}" ] ||
    "${CARGO:-cargo}" build --locked --quiet --workspace --bin beadlock --bin beadlock-agent
export BEADLOCK_BIN="$target/debug"
# Else it looks through the whole checkout, and what other checkouts lie below the target directory.
[ "$#" -gt 0 ] || set -- integration/python/tests
exec "$environment/bin/python" -m pytest --config-file integration/python/pyproject.toml --quiet -rs "$@"
