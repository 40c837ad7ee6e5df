#!/bin/sh
# Makes the directory $1 for a script that will remove what is in it, and marks it with the file $2. A directory that is
# there, not empty and without the mark was made by somebody else: it is refused, and left as it is.
set -eu
dir=${1:?the directory}
mark=$dir/${2:-.made-by-beadlock}

if [ ! -e "$mark" ]; then
    if [ -L "$dir" ] || { [ -e "$dir" ] && [ -n "$(ls -A "$dir")" ]; }; then
        quoted=$(printf '%s\n' "$dir" | sed "s/'/'\\\\''/g; s/^/'/; s/\$/'/")
        echo "$dir was not made by this script, or has lost its mark $mark; look into it, and remove it yourself: rm -r $quoted" >&2
        exit 1
    fi
    mkdir -p "$dir"
fi
: >"$mark"
