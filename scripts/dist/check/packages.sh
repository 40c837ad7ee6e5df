#!/bin/sh
# Tries the .deb and the .rpm: lintian and rpm read them, both are installed in a Debian 11, used and removed again.
set -eu
: "${DIST:?is set by scripts/dist-check.sh}" "${TOOLS:?}" "${VERSION:?}"
cd "$(dirname "$0")/../../.."
. scripts/dist/check/rows.sh

deb=beadlock_$VERSION-1_amd64.deb
rpm=beadlock-$VERSION-1.x86_64.rpm
for package in "$deb" "$rpm"; do
    [ -f "$DIST/$package" ] || row failed "$package" "$DIST/$package is missing; type: make dist"
done
[ "$status" = 0 ] || exit 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Links between the pages of a package lead to its files.
dead_links() { # TREE
    find "$1" -name '*.md' | while read -r page; do
        grep -oE '\]\([^)# ]+' "$page" | cut -c 3- | grep -v '://' | sort -u | while read -r link; do
            [ -e "$(dirname "$page")/$link" ] || echo "${page#"$1"}: $link"
        done
    done
}

pages() { # WHAT TREE
    dead=$(dead_links "$2")
    if [ -z "$dead" ]; then
        row ok "$1: links of its pages" "$(find "$2" -name '*.md' | wc -l) pages"
    else
        printf '%s\n' "$dead" >&2
        row failed "$1: links of its pages" "$(printf '%s\n' "$dead" | head -n 1)"
    fi
}

if ! got lintian; then
    lacking 'deb: lintian' 'needs lintian'
elif TMPDIR="$work" lintian --allow-root --fail-on error "$DIST/$deb" >"$work/lintian" 2>&1; then
    row ok 'deb: lintian' "no errors, $(grep -c '^W:' "$work/lintian") warnings"
else
    cat "$work/lintian" >&2
    row failed 'deb: lintian' "$(grep -m 1 '^E:' "$work/lintian")"
fi
if command -v dpkg-deb >/dev/null; then
    dpkg-deb -x "$DIST/$deb" "$work/deb"
    pages deb "$work/deb"
else
    lacking 'deb: links of its pages' 'needs dpkg-deb'
fi

# rpm writes into a root of its own, with a database of its own. That root has no package of glibc, hence --nodeps.
if ! got rpm; then
    lacking rpm 'needs rpm'
elif [ "$(id -u)" != 0 ]; then
    lacking rpm 'needs root'
else
    try 'rpm -K' rpm -K "$DIST/$rpm"
    wants=$(rpm -qp --requires "$DIST/$rpm" | grep -v '^rpmlib' | tr '\n' ' ')
    case $wants in
    'glibc >= 2.17 ') row ok 'rpm: requires' "$wants" ;;
    *) row failed 'rpm: requires' "$wants" ;;
    esac
    root=$work/rpm
    mkdir "$root" "$work/here"
    {
        cat <<'END'
# A copy in the place of a download, and our root in the place of the machine's.
curl() { for last; do :; done; cp "$DIST/${last##*/}" .; }
sudo() { shift; rpm --root "$root" --nodeps "$@"; }
END
        scripts/dist/typed.sh 'Fedora, RHEL, openSUSE'
    } >"$work/typed"
    rpm --root "$root" --initdb
    try 'rpm -i of docs/install.md' env -C "$work/here" DIST="$DIST" root="$root" sh -e "$work/typed"
    try 'rpm: beadlock --version' "$root/usr/bin/beadlock" --version
    try 'rpm -V' rpm --root "$root" -V --nodeps beadlock
    pages rpm "$root"
    try 'rpm -e' rpm --root "$root" -e beadlock
    # The folders that all packages share belong to none of them in this root, and stay.
    left=$(find "$root/etc" "$root/usr" \( ! -type d -o -name '*beadlock*' \) 2>&1 | head -n 1)
    if [ -z "$left" ]; then row ok 'rpm -e leaves nothing' ''; else row failed 'rpm -e leaves nothing' "$left"; fi
fi

code=0
debian=$(scripts/dist/debian.sh) || code=$?
if [ "$code" != 0 ]; then
    lacking 'deb in a Debian 11' "$debian"
    exit "$status"
fi
{
    cat scripts/dist/check/rows.sh scripts/dist/check/typed.sh
    echo "cat >install <<'TYPED'"
    scripts/dist/typed.sh 'Debian and Ubuntu'
    echo TYPED
    cat <<'END'
# What dpkg and the caches of others write is theirs.
there() { find / -xdev \( -path /proc -o -path /artefacts -o -path /tmp -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune -o -print | sort; }
there >before
try 'Debian 11: dpkg -i of docs/install.md' sh -e install
try 'Debian 11: dpkg -V' dpkg -V beadlock

mkdir .beads
try 'Debian 11: hold, with status and check inside' \
    beadlock hold -- sh -c 'beadlock status && ! beadlock check'
try 'Debian 11: check, afterwards' beadlock check
try 'Debian 11: beadlock-agent --version' beadlock-agent --version
try 'Debian 11: man beadlock-hold' sh -c 'man beadlock-hold | grep -m 1 "hold"'
try 'Debian 11: man 5 exclusive-lock' sh -c 'man 5 exclusive-lock | grep -m 1 -i "lock"'
# As bash loads them at the first key.
completed() {
    bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader '"$1"'; complete -p '"$1"
}
try 'Debian 11: bash completes beadlock' completed beadlock
try 'Debian 11: bash completes beadlock-agent' completed beadlock-agent
try 'Debian 11: completions of zsh and fish' ls /usr/share/zsh/vendor-completions/_beadlock \
    /usr/share/fish/vendor_completions.d/beadlock.fish
try 'Debian 11: the shell library' bash -c '. /usr/share/beadlock/shell/claim.sh'
try 'Debian 11: the units name /usr/bin' grep -h '^ExecStart=/usr/bin/beadlock-agent' \
    '/usr/lib/systemd/system/beadlock-agent@.service' /usr/lib/systemd/user/beadlock-agent.service
try 'Debian 11: dpkg -P' dpkg -P beadlock
there >after
try 'Debian 11: dpkg -P leaves nothing' diff before after
exit $status
END
} | scripts/dist/in-root.sh "$debian" "$DIST" || status=1
exit "$status"
