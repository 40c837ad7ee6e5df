#!/bin/sh
# Makes the root of a Debian 11 (glibc 2.31) below TOOLS, once, and prints the path of its archive.
#
#   debian=$(scripts/dist/debian.sh)     3: it cannot be made; it has printed what that takes
set -eu
: "${TOOLS:?is set by scripts/dist-check.sh}"
cd "$(dirname "$0")/../.."
archive=$TOOLS/debian-11.tar

lacking() {
    printf '%s\n' "$1"
    exit 3
}

mkdir -p "$TOOLS/root"
exec 9>"$TOOLS/debian.lock"
flock 9
if [ ! -e "$archive" ]; then
    [ "$(id -u)" = 0 ] || lacking 'needs root'
    command -v debootstrap >&2 || { apt-get update -qq && scripts/apt-install.sh debootstrap; } >&2 || lacking 'needs debootstrap'
    unshare --mount true || lacking 'needs mount namespaces'
    # From where this machine takes its own packages.
    # shellcheck disable=SC2016 # the words are apt's
    mirror=$(apt-get indextargets 'Created-By: Packages' 'Component: main' --format '$(REPO_URI)' | head -n 1)
    [ -n "$mirror" ] || lacking 'needs a mirror of Debian in the sources of apt'
    # On a file system of its own, which ends with the namespace, however that ends.
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount --pid --fork --kill-child sh -euc '
        mount -t tmpfs -o mode=755 root "$1"
        debootstrap --variant=minbase --include=man-db,git,bash-completion bullseye "$1" "$2"
        # A machine has one, and claims name it.
        echo 0123456789abcdef0123456789abcdef >"$1/etc/machine-id"
        tar -C "$1" --exclude="./var/cache/apt/*" --exclude="./var/lib/apt/lists/*" --numeric-owner -cf "$3.new" .
    ' sh "$TOOLS/root" "$mirror" "$archive" >&2 || lacking 'debootstrap failed; its messages are above'
    mv -f "$archive.new" "$archive"
fi
printf '%s\n' "$archive"
