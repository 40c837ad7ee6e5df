#!/bin/sh
# Tries the tarball with both programs: which glibc they want, what their bytes name, and what they do in a Debian 11.
set -eu
: "${DIST:?is set by scripts/dist-check.sh}" "${TOOLS:?}" "${VERSION:?}" "${REPOSITORY:?}"
cd "$(dirname "$0")/../../.."
checkout=$PWD
. scripts/dist/check/rows.sh

name=beadlock-$VERSION-x86_64-unknown-linux-gnu
if [ ! -f "$DIST/$name.tar.gz" ]; then
    row failed tarball "$DIST/$name.tar.gz is missing; type: make dist"
    exit 1
fi

# Everything is below one directory, and belongs to nobody of this machine.
others=$(tar --numeric-owner -tvzf "$DIST/$name.tar.gz" | grep -Ev "^[dl-][rwx-]{9} 0/0 .* $name/" | head -n 1) || true
if [ -z "$others" ]; then
    row ok tarball "$(tar -tzf "$DIST/$name.tar.gz" | grep -vc '/$') files, $(($(wc -c <"$DIST/$name.tar.gz") / 1000)) kB"
else
    row failed tarball "$others"
fi

for program in beadlock beadlock-agent; do
    if ! command -v objdump >/dev/null; then
        lacking "$program: glibc" 'needs objdump (Debian: binutils)'
    else
        wanted=$(objdump -T "$DIST/programs/$program" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
        newest=$(printf '%s\n' "$wanted" GLIBC_2.17 | sort -V | tail -n 1)
        case $newest in
        GLIBC_2.17) row ok "$program: glibc" "wants $wanted, at most" ;;
        *) row failed "$program: glibc" "wants $wanted, more than GLIBC_2.17" ;;
        esac
    fi
    # A path of this machine would make another machine's build differ.
    for path in "$checkout" "${CARGO_HOME:-$HOME/.cargo}" "$(dirname "$TOOLS")"; do
        if grep -aqF "$path/" "$DIST/programs/$program"; then
            row failed "$program: paths" "names $path"
            continue 2
        fi
    done
    row ok "$program: paths" 'names none of this machine'
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Homebrew and Nix are not here. What they would do is done with stand-ins for their words.
if got ruby; then
    mkdir "$work/brew"
    try 'Homebrew formula, by a stand-in' ruby scripts/dist/check/formula.rb "$DIST/beadlock.rb" "$DIST/$name.tar.gz" "$work/brew"
else
    lacking 'Homebrew formula' 'needs ruby'
fi
if got nix-instantiate nix-bin; then
    # Its answer is a script, as a JSON string.
    nix-instantiate --store dummy:// --eval --strict --json --argstr flake "$checkout/flake.nix" scripts/dist/check/flake.nix |
        "${PYTHON:-python3}" -c 'import json, sys; print(json.load(sys.stdin))' >"$work/flake" || true
    cat >>"$work/flake" <<'END'
runHook() { :; }
patchShebangs() { :; }
[ "$version $homepage" = "$VERSION $REPOSITORY" ]
install
[ "$("$out/bin/beadlock" -V) $("$out/bin/beadlock-agent" -V)" = "beadlock $version beadlock-agent $version" ]
echo "$(find "$out" -type f | wc -l) files"
END
    try 'flake.nix, by a stand-in' env out="$work/nix" releaseDir="$DIST/programs" sh -e "$work/flake"
else
    lacking 'flake.nix' 'needs nix-instantiate (Debian: nix-bin)'
fi

musl=beadlock-$VERSION-x86_64-unknown-linux-musl.tar.gz
if [ -f "$DIST/$musl" ]; then
    mkdir -p "$TOOLS/root"
    try 'musl tarball' env -i "$DIST/programs-musl/beadlock" --version
else
    row skipped 'musl tarball' 'not built: rustup target add x86_64-unknown-linux-musl'
fi

code=0
debian=$(scripts/dist/debian.sh) || code=$?
if [ "$code" != 0 ]; then
    lacking 'tarball in a Debian 11' "$debian"
    exit "$status"
fi
# What a reader of the documents types: a page without it fails here, and not in the pipe.
install=$(scripts/dist/typed.sh Tarball)
# The first session of the README. Its first command goes on in the background.
session=$(awk '/^<!-- session -->/ { on = 1 } on && /^\$ / { print substr($0, 3) } on && /^```$/ && n++ { exit }' README.md | grep .)
{
    cat scripts/dist/check/rows.sh scripts/dist/check/typed.sh
    printf "cat >install <<'TYPED'\n%s\nTYPED\n" "$install"
    printf "cat >session <<'TYPED'\n%s\nwait\nTYPED\n" "$session"
    cat <<'END'
try 'Debian 11: tar of docs/install.md' sh -e install
try 'Debian 11: beadlock --version' beadlock --version
try 'Debian 11: beadlock-agent --version' beadlock-agent --version

mkdir .beads
try 'Debian 11: hold, with status and check inside' \
    beadlock hold -- sh -c 'beadlock status && ! beadlock check'
try 'Debian 11: check, afterwards' beadlock check
try 'Debian 11: doctor' beadlock doctor
try 'Debian 11: the first session of the README' sh -e session
try 'Debian 11: man beadlock' sh -c 'man beadlock | grep -m 1 "hold"'
try 'Debian 11: man beadlock-agent' sh -c 'man beadlock-agent | grep -m 1 "cycle"'
exit $status
END
} | scripts/dist/in-root.sh "$debian" "$DIST" || status=1
exit "$status"
