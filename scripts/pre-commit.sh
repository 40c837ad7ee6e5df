#!/bin/sh
# Git's pre-commit hook, once `make hooks` has installed it: `make check`, of the files as they lie there, staged or not.
set -eu
cd "$(dirname "$0")/.."

# The end of a merge, a rebase or a cherry-pick is not held up. What it has made is checked by the next commit.
for file in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do
    if [ -e "$(git rev-parse --git-path "$file")" ]; then
        echo "pre-commit: this ends a merge, a rebase or a pick ($file), so make check is left to you" >&2
        exit 0
    fi
done

# Git names to a hook the repository and the index of the commit. The tests use git in others.
# shellcheck disable=SC2046 # a list of names
unset $(git rev-parse --local-env-vars)
exec make check
