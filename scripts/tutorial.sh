#!/bin/sh
# Does what docs/adding-a-protocol.md says, to the letter, in a copy of the checkout's tracked files: adds a toy protocol, builds
# it, and runs its tests. Prints a summary; the exit code is 1 when a block does not apply or a test fails.
#
#   make tutorial                    in tutorial/ below the target directory, which keeps its build for the next run
#   scripts/tutorial.sh --apply DIR  makes the copy in DIR, applies the page, and prints how many lines it adds to which file
set -eu
cd "$(dirname "$0")/.."
page=${TUTORIAL_PAGE:-docs/adding-a-protocol.md}

# Nobody's settings of git, and never the repository around a copy.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

# Prints LINE KIND FILE for each block of code: KIND is new for a whole file, and diff for a patch. The text of each is in
# BLOCKS/LINE.
blocks() {
    awk -v blocks="$1" '
        function fail(why) { printf "%s:%d: %s\n", FILENAME, FNR, why >"/dev/stderr"; failed = 1; exit 1 }
        /^```/ && !inside {
            inside = 1
            text = ""
            if ($0 == "```rust" && file == "") fail("no line \"New file `PATH`:\" stands before this block")
            if ($0 == "```rust" || $0 == "```diff") {
                text = blocks "/" FNR
                printf "" >text
                print FNR, ($0 == "```diff" ? "diff -" : "new " file)
            }
            next
        }
        /^```/ { inside = 0; file = ""; if (text != "") close(text); next }
        inside { if (text != "") print >text; next }
        /^New file `[^` ]+`:$/ { file = $0; sub(/^New file `/, "", file); sub(/`:$/, "", file); next }
        NF { file = "" }
        END { if (inside && !failed) { printf "%s: the last block has no end\n", FILENAME >"/dev/stderr"; exit 1 } }
    ' "$page"
}

# The lines of code in what is read. Blank lines and comments are not counted.
count() {
    grep -cvE '^[[:space:]]*(//.*)?$' || true
}

# Copies the tracked files into the empty directory $1 and applies the page to them. Prints LINES FILE for each file that it
# touches: the lines of code that it adds.
apply() {
    copy=$1
    # A file that is deleted and not committed yet is not there to be copied.
    git -c 'safe.directory=*' ls-files -z >"$work/files" || {
        echo "scripts/tutorial.sh: needs a checkout of git" >&2
        return 1
    }
    tar --create --null --ignore-failed-read --files-from "$work/files" 2>/dev/null | tar --extract --directory "$copy"
    mkdir "$work/blocks"
    blocks "$work/blocks" >"$work/list" || return 1
    while read -r line kind file; do
        block=$work/blocks/$line
        case $kind in
        new)
            [ ! -e "$copy/$file" ] || {
                echo "$page:$line: $file is there already" >&2
                return 1
            }
            mkdir -p "$copy/$(dirname "$file")"
            cp "$block" "$copy/$file"
            echo "$(count <"$block") $file"
            ;;
        diff)
            touched=$(cd "$copy" && GIT_CEILING_DIRECTORIES=$(dirname "$PWD") git apply --apply --numstat "$block") || {
                echo "$page:$line: this block does not apply" >&2
                return 1
            }
            [ "$(echo "$touched" | wc -l)" = 1 ] || {
                echo "$page:$line: one file a block" >&2
                return 1
            }
            echo "$(sed -n '/^+++/d; s/^+//p' "$block" | count) $(echo "$touched" | cut -f 3)"
            ;;
        esac
    done <"$work/list"
}

# Brings the directory $2 to the content of $1. What is the same keeps its time, so that cargo builds what has changed.
bring() {
    mkdir -p "$2"
    (cd "$2" && find . -type f) | while read -r file; do
        [ -e "$1/$file" ] || rm "$2/$file"
    done
    (cd "$1" && find . -type f) | while read -r file; do
        cmp -s "$1/$file" "$2/$file" || { mkdir -p "$2/$(dirname "$file")" && cp "$1/$file" "$2/$file"; }
    done
}

work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "${1:-}" = --apply ]; then
    work=$(mktemp -d)
    mkdir -p "$2"
    apply "$(cd "$2" && pwd)"
    exit
fi

begun=$(date +%s)
top=$(scripts/target-dir.sh)/tutorial
# A file of its checkout that is not in the copy is removed.
scripts/own-dir.sh "$top"
# One run at a time: all share the copy. No command below inherits the lock.
exec 9>"$top/lock"
flock 9
work=$(mktemp -d "$top/work.XXXXXX")
mkdir "$work/copy"
apply "$work/copy" >"$work/touched"
bring "$work/copy" "$top/checkout"
cd "$top/checkout"

# What the tests of this checkout were told is not for those of the copy.
unset BEADLOCK_TEST_BUILT BEADLOCK_BIN
export CARGO_TARGET_DIR="$top/target"
cargo=${CARGO:-cargo}
failed=
# Every suite runs to its end, whatever fails.
suite() {
    name=$1
    shift
    echo "== $name"
    if "$@" 9>&-; then answer=passed; else answer=FAILED failed=1; fi
    echo "$name: $answer" >>"$work/suites"
}

suite 'format' "$cargo" fmt --all --check
suite 'clippy' "$cargo" clippy --locked --quiet --package beadlock-core --package beadlock-claim --package beadlock-explain --package beadlock-cli --lib -- --deny warnings
suite 'unit tests of the checker' "$cargo" test --locked --quiet --package beadlock-core --lib -- record:: target::
suite 'unit tests of the protocols' "$cargo" test --locked --quiet --package beadlock-claim --package beadlock-explain --package beadlock-cli --lib
suite 'conformance of the toy' "$cargo" test --locked --quiet --package beadlock-tests --test conformance toy::

echo "== summary of $page"
awk '{ sum += $1; printf "%4d lines of code in %s\n", $1, $2 } END { printf "%4d in all\n", sum }' "$work/touched"
cat "$work/suites"
echo "took $(($(date +%s) - begun)) s; the copy is in $top/checkout"
[ -z "$failed" ] || {
    echo "make tutorial: failed" >&2
    exit 1
}
