#!/bin/sh
# Makes a Python environment below the target directory, with what a file of requirements names, and prints its directory.
# Again is as good as once.
#
#   environment=$(scripts/python-environment.sh [NAME REQUIREMENTS])   3: there is none; it has printed what that takes
set -eu
cd "$(dirname "$0")/.."
name=${1:-python} requirements=${2:-integration/python/tests/requirements.txt}

lacking() {
    printf '%s\n' "$1"
    exit 3
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || lacking 'Python 3.9 or later'
"$python" -c 'import ensurepip, venv' 2>/dev/null || lacking 'its venv (Debian: python3-venv)'

environment=$(scripts/target-dir.sh)/$name
if ! "$environment/bin/python" -c '' 2>/dev/null; then
    # What venv empties must be an environment.
    scripts/own-dir.sh "$environment" pyvenv.cfg
    "$python" -m venv --clear "$environment" >&2
fi
"$environment/bin/python" -m pip --quiet --disable-pip-version-check install \
    --require-hashes --requirement "$requirements" >&2 ||
    lacking "what $requirements names, from where pip takes its packages"
printf '%s\n' "$environment"
