#!/bin/sh
# Writes what each program is built from, in CycloneDX, and the checksums of all files of DIST.
#
# The same for the same sources: neither the time nor the place of the checkout is in it.
set -eu
: "${DIST:?is set by scripts/dist.sh}" "${TOOLS:?}" "${VERSION:?}" "${SOURCE_DATE_EPOCH:?}"
cd "$(dirname "$0")/../.."
cyclonedx=0.5.9

cargo=${CARGO:-cargo}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "$("$TOOLS/bin/cargo-cyclonedx" cyclonedx --version 2>/dev/null)" != "cargo-cyclonedx-cyclonedx $cyclonedx" ]; then
    "$cargo" install --quiet --locked --force "cargo-cyclonedx@$cyclonedx" --root "$TOOLS" --target-dir "$TOOLS/build" >&2
fi

# It writes a file beside the manifest of every member, so it gets a copy.
mkdir -p "$work/src" "$DIST"
find . \( -name .git -o -name target -o -name node_modules \) -prune -o \( -type f -o -type l \) -print0 |
    tar --null --files-from - -cf - | tar -C "$work/src" -xf -
(cd "$work/src" && "$TOOLS/bin/cargo-cyclonedx" cyclonedx --format json --spec-version 1.5 \
    --target x86_64-unknown-linux-gnu --quiet >&2)
for of in integration/cli:beadlock-cli:beadlock agent:beadlock-agent:beadlock-agent; do
    rest=${of#*:}
    # The names of ours are where they lie.
    sed "s|path+file://$work/src|path+file:///src|g" "$work/src/${of%%:*}/${rest%:*}.cdx.json" \
        >"$DIST/${rest#*:}-$VERSION.cdx.json"
done

cd "$DIST"
find . -maxdepth 1 -type f ! -name SHA256SUMS ! -name '*.new' ! -name '.*' | sed 's|^\./||' | LC_ALL=C sort |
    tr '\n' '\0' | xargs -0 sha256sum -- >SHA256SUMS.new
mv SHA256SUMS.new SHA256SUMS
