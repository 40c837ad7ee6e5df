#!/bin/sh
# Installs both programs, the systemd units and the documents, or with `uninstall` removes exactly these.
# `make install` says where: $PREFIX, $UNITDIR, $DESTDIR in front of both, and $BEADLOCK_BIN, the directory
# with the programs.
set -eu
cd "$(dirname "$0")/.."
act=${1:?install or uninstall}
for path in "$PREFIX" "$UNITDIR"; do
    case $path in
    *[!A-Za-z0-9/._+~@-]*) wrong="only letters, digits and /._+~@- are no trouble in a unit" ;;
    /*) continue ;;
    *) wrong="name the whole path, from / on" ;;
    esac
    echo "make $act: $path: $wrong" >&2
    exit 2
done

file() { # MODE SOURCE TARGET
    target=$DESTDIR$3
    echo "$act $target"
    [ "$act" = install ] || { rm -f "$target" && return; }
    case $2 in
    # The units name the program where the prefix has it.
    *.service) sed "s|/usr/local/|$PREFIX/|g" "$2" | install -D -m "$1" /dev/stdin "$target" ;;
    *) install -D -m "$1" "$2" "$target" ;;
    esac
}

doc=$PREFIX/share/doc/beadlock
for program in beadlock beadlock-agent; do
    file 755 "${BEADLOCK_BIN-}/$program" "$PREFIX/bin/$program"
done
file 644 integration/systemd/beadlock-agent@.service "$UNITDIR/system/beadlock-agent@.service"
file 644 integration/systemd/user/beadlock-agent.service "$UNITDIR/user/beadlock-agent.service"
file 644 integration/systemd/agent.toml "$doc/agent.toml.example"
file 644 integration/systemd/README.md "$doc/systemd.md"
for text in README.md LICENSE-APACHE LICENSE-MIT; do
    file 644 "$text" "$doc/$text"
done
[ "$act" = install ] || [ ! -d "$DESTDIR$doc" ] || rmdir --ignore-fail-on-non-empty "$DESTDIR$doc"
