#!/bin/bash
# Tries the wheel and the source distribution of DIST: what is in them, and the wheel in bare environments of the newest Python
# here and of Debian 11's, without a network.
# shellcheck disable=SC2317 # the functions are called by their names
set -euo pipefail
: "${DIST:?is set by scripts/dist-check.sh}" "${TOOLS:?}" "${VERSION:?}" "${REPOSITORY:?}"
cd "$(dirname "$0")/../../.."
set -a
checkout=$PWD
. scripts/dist/check/rows.sh

# `try` runs a function where `set -e` counts for nothing, so each has a shell of its own, with the variables of this one.
strictly() { # FUNCTION ARGUMENT…
    bash -euo pipefail -c "$(declare -f "$1")"'; "$@"' bash "$@"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
# Neither the user's settings nor other places with packages.
unset PIP_FIND_LINKS PIP_EXTRA_INDEX_URL PYTHONPATH PYTHONHOME
export PIP_CONFIG_FILE=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1

scripts/dist/tools.sh auditwheel==6.8.2 twine==7.0.0 pipx==1.18.4
python=$TOOLS/venv/bin/python
name=beadlock-$VERSION-cp39-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl
wheel=$DIST/$name
sdist=$DIST/beadlock-$VERSION.tar.gz
if [ ! -f "$wheel" ] || [ ! -f "$sdist" ]; then
    row failed 'wheel and source distribution' "no $name or no ${sdist##*/} in $DIST: scripts/dist.sh wheel"
    exit 1
fi

is_for_every_glibc() {
    "$TOOLS/venv/bin/auditwheel" show "$1" >"$work/audit"
    tr '\n' ' ' <"$work/audit" | tr -s ' ' >"$work/audit.line"
    # What it needs, and not what its name says.
    grep -o 'constrains the platform tag to "manylinux_2_17_x86_64"' "$work/audit.line" ||
        grep -o 'consistent with the following platform tag: "manylinux_2_17_x86_64"' "$work/audit.line"
}
try 'wheel: its tag is true (auditwheel)' strictly is_for_every_glibc "$wheel"
try 'wheel, source distribution: twine check --strict' "$TOOLS/venv/bin/twine" --no-color check --strict "$wheel" "$sdist"

has_what_it_says() {
    "$python" - "$wheel" "$sdist" "$DIST/programs" "$REPOSITORY" "$checkout" "${CARGO_HOME:-$HOME/.cargo}" <<'END'
import sys, tarfile, zipfile
from email.parser import Parser
from pathlib import Path

wheel, sdist, programs, repository, *places = sys.argv[1:]
packed = zipfile.ZipFile(wheel)
names = packed.namelist()
for program in ("beadlock", "beadlock-agent"):
    (name,) = [n for n in names if n.endswith(f".data/scripts/{program}")]
    assert packed.getinfo(name).external_attr >> 16 & 0o777 == 0o755, f"the mode of {name}"
    assert packed.read(name) == Path(programs, program).read_bytes(), f"{name} is another program"
for name in names:
    for place in places:
        assert place.encode() not in packed.read(name), f"{name} names {place}"
(name,) = [n for n in names if n.endswith(".dist-info/METADATA")]
about = Parser().parsestr(packed.read(name).decode())
assert f"Repository, {repository}" in about.get_all("Project-URL"), about
assert about["License-Expression"] == "MIT OR Apache-2.0", about
assert sorted(about.get_all("License-File")) == ["LICENSE-APACHE", "LICENSE-MIT"], about
assert "beadlock/py.typed" in names and "beadlock/_beadlock.pyi" in names, names

sources = tarfile.open(sdist)
for member in sources:
    assert ".data/" not in member.name, f"the source distribution has {member.name}"
print(f"{len(names)} files in the wheel, {len(sources.getnames())} in the source distribution")
END
}
try 'wheel: programs, stubs, licences, no path of here' strictly has_what_it_says

# Everything that it takes from other folders of the checkout is in it.
builds_from() {
    mkdir "$work/sdist"
    tar -C "$work/sdist" --strip-components=1 -xzf "$1"
    cargo metadata --locked --offline --format-version 1 --filter-platform x86_64-unknown-linux-gnu \
        --manifest-path "$work/sdist/integration/python/Cargo.toml" >"$work/metadata"
    echo "cargo resolves what it builds from"
}
try 'source distribution: complete' strictly builds_from "$sdist"

newest() {
    for minor in 19 18 17 16 15 14 13 12 11 10 9; do
        "python3.$minor" -c 'import ensurepip, venv' 2>/dev/null || continue
        echo "python3.$minor"
        return
    done
    echo python3
}

# What a user types first, in an environment with nothing else in it. In any shell.
cat >"$work/first.sh" <<'END'
is_installed() { # BIN
    set -eu
    here=$(mktemp -d)
    cd "$here"
    mkdir .beads
    "$1/python" -c "import beadlock, sys
assert beadlock.__version__ == '$VERSION', beadlock.__version__
with beadlock.Lock('.beads', holder='importer'):
    decision = beadlock.should_skip_database('.beads')
assert (decision.skip, decision.holder) == (True, 'importer'), decision
assert not beadlock.should_skip_database('.beads')
with beadlock.update_json('state.json', default={}) as state:
    state['done'] = 3"
    [ "$("$1/beadlock" -V)" = "beadlock $VERSION" ]
    [ "$("$1/beadlock-agent" -V)" = "beadlock-agent $VERSION" ]
    code=0
    PATH="$1:$PATH" beadlock hold -q -- sh -c 'beadlock check -q && exit 9; exit 3' || code=$?
    [ "$code" = 3 ] || { echo "hold ended with $code"; exit 1; }
    "$1/beadlock" check
    cd /
    rm -r "$here"
    "$1/python" -m pip uninstall --quiet --yes beadlock
    [ ! -e "$1/beadlock" ] || { echo "pip left $1/beadlock"; exit 1; }
    "$1/python" --version
}
END
in_bare_environment() {
    "$1" -m venv "$work/bare"
    "$work/bare/bin/python" -m pip --isolated --quiet install --no-index "$wheel"
    bash -c '. "$0"; is_installed "$1"' "$work/first.sh" "$work/bare/bin"
}
try 'wheel: a bare environment of the newest Python' strictly in_bare_environment "$(newest)"

code=0
root=$(scripts/dist/debian-python.sh) || code=$?
case $code in
0)
    # What a reader of the documents types.
    in_debian() {
        {
            echo "set -eu; VERSION=$VERSION"
            cat "$work/first.sh" scripts/dist/check/typed.sh
            scripts/dist/typed.sh Python
            # shellcheck disable=SC2016 # the inner shell's
            echo '(is_installed "$PWD/beadlock/bin")'
        } | scripts/dist/in-root.sh "$root" "$DIST"
    }
    try 'wheel: a bare environment of Debian 11' strictly in_debian
    ;;
3) lacking 'wheel: a bare environment of Debian 11' "$root" ;;
*) row failed 'wheel: a bare environment of Debian 11' "scripts/dist/debian-python.sh ended with $code" ;;
esac

# Without a network pipx takes its own pip from there, too.
runs_by_pipx() {
    mkdir "$work/links"
    cp "$wheel" "$work/links"
    "$python" -m pip --quiet download --no-deps --dest "$work/links" 'pip>=26.1'
    code=0
    PIP_NO_INDEX=1 PIP_FIND_LINKS=$work/links PIPX_HOME=$work/pipx PIPX_BIN_DIR=$work/bin \
        "$TOOLS/venv/bin/pipx" run beadlock hold -q lock:"$work/x" -- sh -c 'exit 3' || code=$?
    [ "$code" = 3 ]
    echo 'pipx run beadlock hold -- sh -c "exit 3" ended with 3'
}
try 'wheel: pipx run' strictly runs_by_pipx
exit "$status"
