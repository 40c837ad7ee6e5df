#!/bin/sh
# Installs from Debian what tests start and is not there, when it may (root, and an apt-get); else names it.
#
# scripts/test-tools.sh test        what make test needs
# scripts/test-tools.sh test more   and what make test-more needs besides
set -eu

# One line a program: its name, its Debian package.
programs() {
    case $1 in
    test)
        cat <<'LIST'
bindfs bindfs
bash bash
bats bats
chattr e2fsprogs
etcd etcd-server
etcdctl etcd-client
flock util-linux
git git
git-lfs git-lfs
gzip gzip
hostname hostname
jq jq
mount mount
openssl openssl
pkill procps
ps procps
python3 python3
restic restic
script bsdutils
setpriv util-linux
setsid util-linux
strace strace
unshare util-linux
LIST
        ;;
    more)
        cat <<'LIST'
chromedriver chromium-driver
chromium chromium
dpkg-deb dpkg
fish fish
lexgrog man-db
mandoc mandoc
prometheus prometheus
promtool prometheus
rpm rpm
shellcheck shellcheck
shfmt shfmt
strip binutils
tmux tmux
zsh zsh
LIST
        ;;
    *)
        echo "$1 is neither test nor more" >&2
        return 2
        ;;
    esac
}

missing=
packages=
for size in "$@"; do
    list=$(programs "$size")
    while read -r program package; do
        command -v "$program" >/dev/null 2>&1 && continue
        missing="$missing $program"
        case " $packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
    done <<LIST
$list
LIST
    case $size in
    # Not a program: Debian has Python without what makes its environments.
    test)
        name='make test'
        if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
            missing="$missing python3-venv"
            packages="$packages python3-venv"
        fi
        ;;
    # Nor this: the reference reader of OpenMetrics, for Debian's own Python.
    more)
        name='make test-more'
        if ! /usr/bin/python3 -c 'import prometheus_client' 2>/dev/null; then
            missing="$missing prometheus_client"
            packages="$packages python3-prometheus-client"
        fi
        ;;
    esac
done

[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "$name: installing$packages" >&2
    # shellcheck disable=SC2086 # a list of package names
    if apt-get update -qq && "$(dirname "$0")/apt-install.sh" $packages; then
        exit 0
    fi
    echo "$name: apt-get could not install them; their tests are skipped:$missing" >&2
else
    echo "$name: missing:$missing; their tests are skipped (as root: apt-get install$packages)" >&2
fi
