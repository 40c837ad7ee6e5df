# Sourced by scripts/dist.sh and scripts/dist-check.sh, from the checkout's root: what each part takes from the environment.
#
#   DIST               where the artefacts lie: BEADLOCK_DIST, else dist in the target directory
#   TOOLS              where the tools of the parts lie; TOOLS/venv is a Python environment (scripts/dist/tools.sh)
#   VERSION            the workspace's
#   REPOSITORY         its address, from Cargo.toml
#   SOURCE_DATE_EPOCH  the time of the commit, which every file in an artefact gets
#   BEADLOCK_REVISION  the commit and its day, which both programs name (agent/build.rs)
# shellcheck shell=sh

target=$(scripts/target-dir.sh) || exit 1
DIST=${BEADLOCK_DIST:-$target/dist}
case $DIST in
/*) ;;
*)
    echo "$0: BEADLOCK_DIST is $DIST; name the whole path, from / on" >&2
    exit 2
    ;;
esac
TOOLS=$target/dist-tools
# The first of each in Cargo.toml is that of [workspace.package].
VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
REPOSITORY=$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
if [ -z "$VERSION" ] || [ -z "$REPOSITORY" ]; then
    echo "$0: Cargo.toml has no version or no repository in [workspace.package]" >&2
    exit 1
fi
# A tree that was unpacked from an archive has no commit, and says the time itself; the tag stands for the commit.
revision=$(scripts/revision.sh) || revision=
if [ -z "${SOURCE_DATE_EPOCH-}" ]; then
    [ -n "$revision" ] || {
        echo "$0: not a git checkout; set SOURCE_DATE_EPOCH to the time of the sources, in seconds since 1970" >&2
        exit 1
    }
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
fi
BEADLOCK_REVISION=${BEADLOCK_REVISION:-${revision:-v$VERSION $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d)}}
# What is packed can be read by all, whoever packs it.
umask 022
export BEADLOCK_REVISION
export DIST TOOLS VERSION REPOSITORY SOURCE_DATE_EPOCH
