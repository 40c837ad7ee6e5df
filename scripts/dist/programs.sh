#!/bin/sh
# Builds both programs for each glibc since 2.17, and packs them with all that `make install` installs.
#
# DIST/programs has the programs alone, for the other parts. Zig is the linker and has the symbols of that glibc. No path of
# this machine is in them: another checkout gives the same bytes with the same compiler.
set -eu
: "${DIST:?is set by scripts/dist.sh}" "${TOOLS:?}" "${VERSION:?}" "${SOURCE_DATE_EPOCH:?}" "${BEADLOCK_REVISION:?}"
cd "$(dirname "$0")/../.."
checkout=$PWD
scripts/dist/tools.sh cargo-zigbuild==0.24.1 ziglang==0.17.1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# The separator of cargo's encoded flags, so that a path may have spaces in it.
unit=$(printf '\037')
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# The last prefix that fits counts, and the target directory may lie in the checkout.
remapped() {
    printf '%s' "--remap-path-prefix=$cargo_home/registry/src=/cargo$unit--remap-path-prefix=$checkout=/src" \
        "$unit--remap-path-prefix=$target=/target"
}

build() { # TARGET ARGUMENT-OF-ZIGBUILD DIRECTORY
    CARGO_TARGET_DIR=$target CARGO_ENCODED_RUSTFLAGS=$(remapped) PATH="$TOOLS/venv/bin:$PATH" \
        "${CARGO:-cargo}" zigbuild --locked --release --target "$2" \
        --package beadlock-cli --package beadlock-agent --bins >&2
    mkdir -p "$3"
    for program in beadlock beadlock-agent; do
        install -m 755 "$target/$1/release/$program" "$3/$program"
    done
}

# A directory with one directory in it, as a tarball that depends on names and bytes alone.
pack() { # DIRECTORY NAME
    find "$1/$2" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    # By numbers, so that no name of an owner is in it.
    tar -C "$1" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner -cf - "$2" | gzip -9n >"$DIST/$2.tar.gz.new"
    mv -f "$DIST/$2.tar.gz.new" "$DIST/$2.tar.gz"
}

tarball() { # TARGET PROGRAMS
    name=beadlock-$VERSION-$1
    PREFIX=/usr/local UNITDIR=/usr/local/lib/systemd DESTDIR=$work/$name BEADLOCK_BIN=$2 scripts/install.sh install >"$work/list"
    # `tar -C /usr/local --strip-components=1` puts it where the units look for it. The licences are among the documents.
    mv "$work/$name/usr/local" "$work/local"
    rmdir "$work/$name/usr" "$work/$name"
    mv "$work/local" "$work/$name"
    pack "$work" "$name"
}

target=$(scripts/target-dir.sh) || exit 1
mkdir -p "$DIST"
build x86_64-unknown-linux-gnu x86_64-unknown-linux-gnu.2.17 "$DIST/programs"
tarball x86_64-unknown-linux-gnu "$DIST/programs"
# Of what all this is: another build of it can be compared.
echo "$BEADLOCK_REVISION $SOURCE_DATE_EPOCH" >"$DIST/programs/revision"

# Homebrew's formula, with the checksum that is known only now.
checksum=$(sha256sum "$DIST/beadlock-$VERSION-x86_64-unknown-linux-gnu.tar.gz" | cut -d ' ' -f 1)
sed "s/^  sha256 .*/  sha256 \"$checksum\"/" integration/packages/beadlock.rb >"$DIST/beadlock.rb"

# Statically linked, where the toolchain has that target: rustup target add x86_64-unknown-linux-musl
musl=x86_64-unknown-linux-musl
if [ -d "$(rustc --print sysroot)/lib/rustlib/$musl/lib" ]; then
    build "$musl" "$musl" "$DIST/programs-musl"
    tarball "$musl" "$DIST/programs-musl"
else
    echo "scripts/dist/programs.sh: no $musl in this toolchain, so no tarball for it" >&2
fi
