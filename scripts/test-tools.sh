#!/bin/sh
# Installs from Debian what tests start and is not there, when it may (root, and an apt-get); else names it.
# One line a program: its name, its Debian package.
set -eu

missing=
packages=
while read -r program package; do
    command -v "$program" >/dev/null 2>&1 && continue
    missing="$missing $program"
    case " $packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
done <<'LIST'
bindfs bindfs
bash bash
bats bats
chattr e2fsprogs
chromedriver chromium-driver
chromium chromium
etcd etcd-server
etcdctl etcd-client
fish fish
flock util-linux
git git
gzip gzip
hostname hostname
jq jq
lexgrog man-db
mandoc mandoc
mount mount
openssl openssl
prometheus prometheus
promtool prometheus
python3 python3
setpriv util-linux
setsid util-linux
shellcheck shellcheck
strace strace
tmux tmux
unshare util-linux
zsh zsh
LIST
# Not a program: the reference reader of OpenMetrics, for Debian's own Python.
if ! /usr/bin/python3 -c 'import prometheus_client' 2>/dev/null; then
    missing="$missing prometheus_client"
    packages="$packages python3-prometheus-client"
fi
# Nor this: Debian has Python without what makes its environments.
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    missing="$missing python3-venv"
    packages="$packages python3-venv"
fi

[ -n "$missing" ] || exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "make test: installing$packages" >&2
    # shellcheck disable=SC2086 # a list of package names
    if apt-get update -qq && "$(dirname "$0")/apt-install.sh" $packages; then
        exit 0
    fi
    echo "make test: apt-get could not install them; their tests are skipped:$missing" >&2
else
    echo "make test: missing:$missing; their tests are skipped (as root: apt-get install$packages)" >&2
fi
