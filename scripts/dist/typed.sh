#!/bin/sh
# Prints the commands of the first block below a heading of docs/install.md, for a check to type them.
#
#   scripts/dist/typed.sh HEADING
set -eu
cd "$(dirname "$0")/../.."
awk -v heading="## ${1:?the heading}" '
    $0 == heading { found = 1; next }
    found && /^## / { exit }
    found && /^```/ { if (inside) exit; inside = 1; next }
    inside
' docs/install.md | grep . || {
    echo "scripts/dist/typed.sh: docs/install.md has no block below: $1" >&2
    exit 1
}
