#!/bin/sh
# Builds the Python package: a wheel with both programs in it, for Python 3.9 and later and each glibc since 2.17, and the source
# distribution, which has the package alone.
#
# The programs are those of DIST/programs. No path of this machine is in the wheel. In another directory the module has other
# bytes all the same: cargo names its dependencies, which lie outside its workspace, by their absolute paths, and so orders its
# symbols. The source distribution is the same everywhere.
set -eu
: "${DIST:?is set by scripts/dist.sh}" "${TOOLS:?}" "${SOURCE_DATE_EPOCH:?}"
cd "$(dirname "$0")/../.."
checkout=$PWD
for program in beadlock beadlock-agent; do
    [ -x "$DIST/programs/$program" ] || {
        echo "scripts/dist/wheel.sh: no $DIST/programs/$program; build it first: scripts/dist.sh programs" >&2
        exit 1
    }
done
scripts/dist/tools.sh maturin==1.16.0 ziglang==0.17.1

# maturin puts what lies here into the wheel, and pip into `bin`. Git and the source distribution leave it out (.gitignore).
data=integration/python/beadlock._beadlock.data
work=$(mktemp -d)
trap 'rm -rf "$work" "$data"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p "$data/scripts"
install -m 755 "$DIST/programs/beadlock" "$DIST/programs/beadlock-agent" "$data/scripts"

target=$(scripts/target-dir.sh) || exit 1
# The separator of cargo's encoded flags, so that a path may have spaces in it. The last prefix that fits counts.
unit=$(printf '\037')
flags=--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/cargo
flags=$flags$unit--remap-path-prefix=$checkout=/src$unit--remap-path-prefix=$target=/target
maturin() {
    CARGO_TARGET_DIR=$target PATH="$TOOLS/venv/bin:$PATH" \
        "$TOOLS/venv/bin/maturin" "$@" --manifest-path integration/python/Cargo.toml --out "$work" >&2
}
maturin sdist
CARGO_ENCODED_RUSTFLAGS=$flags maturin build --release --locked --zig --compatibility manylinux2014
mkdir -p "$DIST"
rm -f "$DIST"/beadlock-*.whl "$DIST"/beadlock-"${VERSION:?}".tar.gz
mv -f "$work"/beadlock-*.whl "$work/beadlock-$VERSION.tar.gz" "$DIST"
