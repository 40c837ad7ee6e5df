#!/bin/sh
# Builds integration/python into an environment below the target directory, as `pip install` does, and runs its tests there.
# Without what it takes: a line that says so, and 0; where CI is set, 1.
set -eu
cd "$(dirname "$0")/.."

lacking() {
    echo "skipped: the tests of integration/python need $1" >&2
    case "${CI:-}" in '' | 0 | false) exit 0 ;; *) exit 1 ;; esac
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || lacking 'Python 3.9 or later'
"$python" -c 'import ensurepip, venv' 2>/dev/null || lacking 'its venv (Debian: python3-venv)'

target=$(scripts/target-dir.sh)
environment=$target/python
pip() {
    "$environment/bin/python" -m pip --quiet --disable-pip-version-check "$@"
}
if ! "$environment/bin/python" -c '' 2>/dev/null; then
    # What venv empties must be an environment.
    scripts/own-dir.sh "$environment" pyvenv.cfg
    "$python" -m venv --clear "$environment"
fi
pip install --require-hashes --requirement integration/python/tests/requirements.txt ||
    lacking 'what integration/python/tests/requirements.txt names, from where pip takes its packages'

PATH=$environment/bin:$PATH
CARGO_TARGET_DIR=$target
MATURIN_PEP517_ARGS='--profile dev'
export PATH CARGO_TARGET_DIR MATURIN_PEP517_ARGS
pip install --no-build-isolation --no-deps --force-reinstall ./integration/python

export PYTHONDONTWRITEBYTECODE=1
# Builds the programs as the other tests do. Where BEADLOCK_TEST_BUILT is set, they are built and in use.
[ -n "${BEADLOCK_TEST_BUILT:-}" ] ||
    "${CARGO:-cargo}" build --locked --quiet --workspace --bin beadlock --bin beadlock-agent
export BEADLOCK_BIN="$target/debug"
# Else it looks through the whole checkout, and what other checkouts lie below the target directory.
[ "$#" -gt 0 ] || set -- integration/python/tests
exec "$environment/bin/python" -m pytest --config-file integration/python/pyproject.toml --quiet -rs "$@"
