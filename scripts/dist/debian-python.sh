#!/bin/sh
# Adds Debian's Python, which is 3.9, with venv and pip to the root of scripts/dist/debian.sh, once, and prints the path of the
# archive.
#
#   root=$(scripts/dist/debian-python.sh)     3: it cannot be made; it has printed what that takes
set -eu
: "${TOOLS:?is set by scripts/dist-check.sh}"
cd "$(dirname "$0")/../.."
archive=$TOOLS/debian-11-python.tar
debian=$(scripts/dist/debian.sh) || {
    code=$?
    printf '%s\n' "$debian"
    exit "$code"
}
exec 9>"$TOOLS/debian-python.lock"
flock 9
if [ ! -e "$archive" ]; then
    # On a file system of its own, which ends with the namespace, however that ends.
    # shellcheck disable=SC2016 # the inner shell's
    unshare --mount --pid --fork --kill-child sh -euc '
        mount -t tmpfs -o mode=755 root "$1"
        tar -C "$1" --numeric-owner -xpf "$2"
        mount -t proc proc "$1/proc"
        cp -L /etc/resolv.conf "$1/etc/resolv.conf"
        install() {
            chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
                sh -euc "apt-get -q update && apt-get -q install -y --no-install-recommends python3-venv python3-pip"
        }
        install "$1"
        umount "$1/proc"
        rm "$1/etc/resolv.conf"
        tar -C "$1" --exclude="./var/cache/apt/*" --exclude="./var/lib/apt/lists/*" --numeric-owner -cf "$3.new" .
    ' sh "$TOOLS/root" "$debian" "$archive" >&2 || {
        echo 'apt-get in the root of Debian 11 failed; its messages are above'
        exit 3
    }
    mv -f "$archive.new" "$archive"
fi
printf '%s\n' "$archive"
