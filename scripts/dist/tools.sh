#!/bin/sh
# Installs Python packages with the tools of `make dist` into TOOLS/venv, those that are missing. Prints nothing on stdout.
#
#   scripts/dist/tools.sh NAME==VERSION…
set -eu
: "${TOOLS:?is set by scripts/dist.sh and scripts/dist-check.sh}"
checkout=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}

mkdir -p "$TOOLS"
# Parts that run at once install one after the other.
exec 9>"$TOOLS/lock"
flock 9
if ! "$TOOLS/venv/bin/python" -c '' 2>/dev/null; then
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        { [ "$(id -u)" = 0 ] && apt-get update -qq && "$checkout/scripts/apt-install.sh" python3-venv; } >&2 || {
        echo "scripts/dist/tools.sh: $python has no venv (Debian: python3-venv)" >&2
        exit 1
    }
    # What venv empties must be an environment.
    "$checkout/scripts/own-dir.sh" "$TOOLS/venv" pyvenv.cfg
    "$python" -m venv --clear "$TOOLS/venv" >&2
fi
for requirement; do
    "$TOOLS/venv/bin/python" - "$requirement" <<'END' && continue
import sys
from importlib.metadata import PackageNotFoundError, version
name, wanted = sys.argv[1].split("==")
try:
    sys.exit(version(name) != wanted)
except PackageNotFoundError:
    sys.exit(1)
END
    "$TOOLS/venv/bin/python" -m pip --quiet --disable-pip-version-check install "$requirement" >&2
done
