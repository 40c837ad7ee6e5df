#!/bin/sh
# The commit of this checkout and its day, `COMMIT YYYY-MM-DD`, as agent/build.rs takes them in BEADLOCK_REVISION; with -dirty where
# a file differs. Nothing, and 1, where this is no checkout of its own: the repository around it would be somebody else's.
set -eu
cd "$(dirname "$0")/.."

git() { command git --no-optional-locks -c log.showSignature=false "$@"; }
git ls-files --error-unmatch Cargo.toml >/dev/null 2>&1 || exit 1
revision=$(git describe --always --dirty --abbrev=12 --exclude='*')
printf '%s %s\n' "$revision" "$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%d)"
