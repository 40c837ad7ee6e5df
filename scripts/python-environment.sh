#!/bin/sh
# Makes the Python environment below the target directory, with what integration/python/tests/requirements.txt names, and
# prints its directory. Again is as good as once.
#
#   environment=$(scripts/python-environment.sh)     3: there is none; it has printed what that takes
set -eu
cd "$(dirname "$0")/.."

lacking() {
    printf '%s\n' "$1"
    exit 3
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || lacking 'Python 3.9 or later'
"$python" -c 'import ensurepip, venv' 2>/dev/null || lacking 'its venv (Debian: python3-venv)'

environment=$(scripts/target-dir.sh)/python
if ! "$environment/bin/python" -c '' 2>/dev/null; then
    # What venv empties must be an environment.
    scripts/own-dir.sh "$environment" pyvenv.cfg
    "$python" -m venv --clear "$environment" >&2
fi
"$environment/bin/python" -m pip --quiet --disable-pip-version-check install \
    --require-hashes --requirement integration/python/tests/requirements.txt >&2 ||
    lacking 'what integration/python/tests/requirements.txt names, from where pip takes its packages'
printf '%s\n' "$environment"
