#!/bin/sh
# scripts/release-notes.sh VERSION: what CHANGELOG.md says of that version, without its heading. 1 when it says nothing.
set -eu
cd "$(dirname "$0")/.."

version=${1:?usage: scripts/release-notes.sh VERSION}
awk -v heading="## $version " '
    index($0, "## ") == 1 { ours = index($0, heading) == 1; next }
    ours { print; said = said || /[^ ]/ }
    END { exit !said }
' CHANGELOG.md
