#!/bin/sh
# Runs the shell script on stdin in a fresh system, as root, with an empty environment and without a network. Nothing is left of
# it, however it ends: its files are in memory, and it has namespaces of its own for mounts and processes.
#
#   scripts/dist/in-root.sh ARCHIVE [DIRECTORY] <SCRIPT     ARCHIVE is the root; DIRECTORY is /artefacts there, to read
set -eu
: "${TOOLS:?is set by scripts/dist-check.sh}"
archive=${1:?the archive of a root}
artefacts=${2-}

# shellcheck disable=SC2016 # the inner shell's
exec unshare --mount --pid --net --fork --kill-child sh -euc '
    mount -t tmpfs -o mode=755 root "$1"
    tar -C "$1" --numeric-owner -xpf "$2"
    mount -t proc proc "$1/proc"
    if [ -n "$3" ]; then
        mkdir "$1/artefacts"
        mount --bind "$3" "$1/artefacts"
        mount -o remount,bind,ro "$1/artefacts"
    fi
    # Not exec: the first process collects the orphans.
    code=0
    chroot "$1" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        sh -s || code=$?
    exit $code
' sh "$TOOLS/root" "$archive" "$artefacts"
