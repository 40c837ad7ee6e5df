#!/bin/sh
# Lays out DIST/container, the directory to build the image from: integration/packages/Dockerfile and what it copies. Which
# system the image stands on is its builder's choice, so no image is built here.
set -eu
: "${DIST:?is set by scripts/dist.sh}"
cd "$(dirname "$0")/../.."
[ -x "$DIST/programs/beadlock" ] || {
    echo "scripts/dist/container.sh: $DIST/programs has no programs; type: make dist" >&2
    exit 1
}
rm -rf "$DIST/container"
install -d -m 755 "$DIST/container"
install -m 644 integration/packages/Dockerfile LICENSE-APACHE LICENSE-MIT "$DIST/container"
install -m 755 "$DIST/programs/beadlock" "$DIST/programs/beadlock-agent" "$DIST/container"
