#!/bin/sh
# The npm package.
#
# scripts/npm.sh pack PROGRAMS OUT   packs it with the programs of that directory, and prints the path of the tarball in OUT
# scripts/npm.sh check OUT           installs that tarball into an empty directory, without a network, and tests it there
set -eu

usage() {
    echo 'usage: scripts/npm.sh pack PROGRAMS OUT | check OUT' >&2
    exit 2
}
checkout=$(cd "$(dirname "$0")/.." && pwd)
act=${1-}
case $act:$# in
pack:3)
    programs=$(cd "$2" && pwd)
    out=$3
    ;;
check:2) out=$2 ;;
*) usage ;;
esac

code=0
node=$("$checkout/scripts/node.sh") || code=$?
if [ "$code" != 0 ]; then
    echo "npm.sh: this needs $node" >&2
    exit 1
fi
PATH=$node:$PATH
export PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
# Neither the user's settings nor a network.
export HOME="$work/home" npm_config_cache="$work/cache" npm_config_offline=true npm_config_update_notifier=false
mkdir "$HOME"

case $act in
pack)
    package=$work/package
    mkdir -p "$package/bin" "$out"
    out=$(cd "$out" && pwd)
    for name in package.json index.js index.d.ts; do
        install -m 644 "$checkout/integration/npm/$name" "$package/$name"
    done
    install -m 644 "$checkout/docs/guide/node.md" "$package/README.md"
    install -m 644 "$checkout/LICENSE-APACHE" "$checkout/LICENSE-MIT" "$package"
    install -m 755 "$programs/beadlock" "$programs/beadlock-agent" "$package/bin"
    name=$(cd "$package" && npm pack --silent --pack-destination "$out")
    printf '%s\n' "$out/$name"
    ;;
check)
    set -- "$out"/beadlock-*.tgz
    if [ "$#" != 1 ] || [ ! -f "$1" ]; then
        echo "npm.sh: $out has not exactly one beadlock-*.tgz" >&2
        exit 1
    fi
    tarball=$(cd "$(dirname "$1")" && pwd)/${1##*/}
    mkdir "$work/clean"
    cd "$work/clean"
    npm install --silent --no-audit --no-fund "$tarball"
    # Straight to the programs: nothing stands between them and signals.
    for name in beadlock beadlock-agent; do
        cmp "$(readlink -f "node_modules/.bin/$name")" "node_modules/beadlock/bin/$name"
        npm exec --no -- "$name" --version >&2
    done
    version=$(node -p "require('beadlock/package.json').version")
    [ "$(npm exec --no -- beadlock -V)" = "beadlock $version" ]
    cp -r "$checkout/integration/npm/tests" .
    env -u BEADLOCK_BIN BEADLOCK_NPM="$work/clean/node_modules/beadlock" node --test tests/
    ;;
esac
