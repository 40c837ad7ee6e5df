#!/bin/sh
# Installs the programs, the systemd units, the shell libraries, the Go module, the samples for CI and for daemons, the
# documents and the licences. With `uninstall` it removes exactly these. `make install` says where: $PREFIX, $UNITDIR, $DESTDIR in front of
# both, and $BEADLOCK_BIN, the directory with the programs.
set -eu
cd "$(dirname "$0")/.."
# Whatever is not an install removes files, so no other word may pass for one.
act=${1-}
case $act in
install) : "${BEADLOCK_BIN:?the directory with the programs; type: make install}" ;;
uninstall) ;;
*)
    echo "usage: scripts/install.sh install|uninstall" >&2
    exit 2
    ;;
esac
for path in "$PREFIX" "$UNITDIR"; do
    case $path in
    *[!A-Za-z0-9/._+~@-]*) wrong="only letters, digits and /._+~@- are no trouble in a unit" ;;
    /*) continue ;;
    *) wrong="name the whole path, from / on" ;;
    esac
    echo "make $act: $path: $wrong" >&2
    exit 2
done

there() { # FOLDER: makes what is missing on the way to it
    [ ! -d "$1" ] || return 0
    there "$(dirname "$1")"
    mkdir -m 755 "$1"
    echo "$1" >>"$made/folders"
}

# What was begun and not ended leaves nothing.
undo() {
    [ ! -e "$made/list" ] || while read -r _ place _; do rm -f "$DESTDIR$place.new-$$"; done <"$made/list"
    [ ! -e "$made/folders" ] || sort -r "$made/folders" | while read -r folder; do rmdir "$folder"; done
    rm -rf "$made"
}

made=.
if [ "$act" = install ]; then
    made=$(mktemp -d)
    trap 'set +e; undo' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
fi

# Units and pages name the programs and the libraries where the prefix has them.
with_prefix() {
    sed "s|/usr/local/|$PREFIX/|g" "$1"
}

# Links between pages hold among the installed ones too. Those to the sources' folders lead to the installed samples.
with_links() {
    with_prefix "$1" | sed -E \
        -e 's#\]\(((\.\./)*)integration/(shell|ci|cycle|git|go|prometheus)#](\1../../beadlock/\3#g' \
        -e 's#\]\(((\.\./)*)integration/systemd(/README\.md)?\)#](\1systemd.md)#g'
}

file() { # MODE SOURCE TARGET
    if [ "$act" = uninstall ]; then
        echo "uninstall $DESTDIR$3"
        rm -f "$DESTDIR$3"
        return
    fi
    # Pages, units and alerts are made anew. What stays as it is comes from its own place.
    new=$made/tree$3
    case $2 in
    *.service | */alerts*.yml) with_prefix "$2" | install -D /dev/stdin "$new" ;;
    *.md) with_links "$2" | install -D /dev/stdin "$new" ;;
    *) new=$2 ;;
    esac
    echo "$1 $3 $new" >>"$made/list"
}

folder() { # MODE TARGET SOURCE…: these files, into one folder
    mode=$1 into=$2
    shift 2
    for source in "$@"; do
        file "$mode" "$source" "$into/${source##*/}"
    done
}

share=$PREFIX/share/beadlock
doc=$PREFIX/share/doc/beadlock
for program in beadlock beadlock-agent; do
    file 755 "${BEADLOCK_BIN-}/$program" "$PREFIX/bin/$program"
done
# The programs make their manual pages and completions themselves.
man=$PREFIX/share/man
bash=$PREFIX/share/bash-completion/completions
zsh=$PREFIX/share/zsh/site-functions
fish=$PREFIX/share/fish/vendor_completions.d
if [ "$act" = install ]; then
    mkdir "$made/man"
    "$BEADLOCK_BIN/beadlock" man "$made/man"
    "$BEADLOCK_BIN/beadlock-agent" --man "$made/man"
    for shell in bash zsh fish; do
        "$BEADLOCK_BIN/beadlock" completions "$shell" >"$made/beadlock.$shell"
        "$BEADLOCK_BIN/beadlock-agent" --completions "$shell" >"$made/beadlock-agent.$shell"
    done
    for section in 1 5 8; do
        folder 644 "$man/man$section" "$made/man"/*."$section"
    done
else
    for page in "$DESTDIR$man/man1/beadlock.1" "$DESTDIR$man/man1/beadlock-"*.1 "$DESTDIR$man/man5/exclusive-lock.5" \
        "$DESTDIR$man/man5/fleet.toml.5" "$DESTDIR$man/man5/beadlock-agent.toml.5" "$DESTDIR$man/man8/beadlock-agent.8"; do
        echo "$act $page"
        rm -f "$page"
    done
fi
for program in beadlock beadlock-agent; do
    file 644 "$made/$program.bash" "$bash/$program"
    file 644 "$made/$program.zsh" "$zsh/_$program"
    file 644 "$made/$program.fish" "$fish/$program.fish"
done
file 644 integration/systemd/beadlock-agent@.service "$UNITDIR/system/beadlock-agent@.service"
file 644 integration/systemd/user/beadlock-agent.service "$UNITDIR/user/beadlock-agent.service"
folder 644 "$share/shell" integration/shell/claim.sh integration/shell/file-ops.sh
# A script may run this one as well as source it.
folder 755 "$share/shell" integration/shell/lock-manager.sh
folder 644 "$share/ci" integration/ci/*.yml
folder 644 "$share/cycle" integration/cycle/*.*
file 755 integration/git/pre-commit.sh "$share/git/pre-commit.sh"
# Without its tests.
for name in README.md go.mod check.go cycle.go doc.go judge.go record.go; do
    file 644 "integration/go/$name" "$share/go/$name"
done
file 644 integration/go/examples/daemon/main.go "$share/go/examples/daemon/main.go"
folder 644 "$share/prometheus" integration/prometheus/*.*
file 644 integration/systemd/agent.toml "$doc/agent.toml.example"
file 644 integration/systemd/README.md "$doc/systemd.md"
folder 644 "$doc" README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE-APACHE LICENSE-MIT
folder 644 "$doc/tests" tests/README.md
folder 644 "$doc/docs" docs/*.md
folder 644 "$doc/docs/coming-from" docs/coming-from/*.md
folder 644 "$doc/docs/guide" docs/guide/*.md
folder 644 "$doc/docs/performance" docs/performance/*.svg
folder 644 "$doc/docs/pictures" docs/pictures/*.*
folder 644 "$doc/docs/protocols" docs/protocols/*.md
folder 644 "$doc/examples/examples" examples/examples/*.rs

# Every file lies beside its place before the first one is moved there. What can fail has failed by then.
if [ "$act" = install ]; then
    while read -r mode place source; do
        there "$(dirname "$DESTDIR$place")"
        if [ -d "$DESTDIR$place" ]; then
            echo "make install: $DESTDIR$place is a directory" >&2
            exit 1
        fi
        install -m "$mode" "$source" "$DESTDIR$place.new-$$"
    done <"$made/list"
    rm -f "$made/folders"
    while read -r _ place _; do
        mv -f "$DESTDIR$place.new-$$" "$DESTDIR$place"
        echo "install $DESTDIR$place"
    done <"$made/list"
    exit 0
fi

# The folders that are beadlock's own, the deepest first. One with a file of somebody else's stays.
for folder in "$share/shell" "$share/ci" "$share/cycle" "$share/git" "$share/go/examples/daemon" "$share/go/examples" "$share/go" \
    "$share/prometheus" "$share" "$doc/docs/performance" "$doc/docs/protocols" \
    "$doc/docs/pictures" "$doc/docs/coming-from" "$doc/docs/guide" \
    "$doc/docs" "$doc/tests" "$doc/examples/examples" "$doc/examples" "$doc"; do
    [ ! -d "$DESTDIR$folder" ] || rmdir --ignore-fail-on-non-empty "$DESTDIR$folder"
done
