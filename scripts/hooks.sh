#!/bin/sh
# `make hooks`: has git run `make check` before each commit. Again is as good as once. A hook that is not ours, and a
# directory of hooks that somebody has chosen, stay as they are: then it says what to do, and exits with 1.
set -eu
cd "$(dirname "$0")/.."

# Where a hook or an alias of git's starts it, git names another repository than the one that this file is in.
# shellcheck disable=SC2046 # a list of names
unset $(git rev-parse --local-env-vars)

directory=$(git config core.hooksPath || true)
if [ -n "$directory" ]; then
    echo "make hooks: core.hooksPath is $directory, which may serve other repositories too. Have its pre-commit run: scripts/pre-commit.sh" >&2
    exit 1
fi
# All worktrees of a clone have the hooks in common.
hook=$(git rev-parse --git-path hooks/pre-commit)
# shellcheck disable=SC2016 # the backquotes are the hook's
ours='#!/bin/sh
# Written by `make hooks`.
[ ! -x scripts/pre-commit.sh ] || exec scripts/pre-commit.sh'

if [ -e "$hook" ] || [ -L "$hook" ]; then
    if [ -f "$hook" ] && [ ! -L "$hook" ] && [ "$(cat "$hook")" = "$ours" ] && [ -x "$hook" ]; then
        echo "$hook is there already"
        exit 0
    fi
    echo "make hooks: $hook is not of make hooks, and stays as it is. Have it run: scripts/pre-commit.sh" >&2
    exit 1
fi
mkdir -p "$(dirname "$hook")"
made=$(mktemp "$hook.XXXXXX")
printf '%s\n' "$ours" >"$made"
chmod 755 "$made"
mv "$made" "$hook"
echo "$hook runs make check before each commit; git commit --no-verify goes without"
