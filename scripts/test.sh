#!/bin/sh
# Every suite, each to its end even if another one fails, and one summary: what failed, and how many passed.
set -u
cd "$(dirname "$0")/.." || exit 1

target=$(scripts/target-dir.sh) || exit 1
mkdir -p "$target" || exit 1
log=$(mktemp "$target/test.log.XXXXXX") || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

failed=
# The output is shown as it comes and kept for the summary; the exit code is that of the suite, not of tee.
suite() {
    name=$1
    shift
    code=$({ { "$@" 2>&1 3>&-; echo $? >&3; } | tee -a "$log" >&4; } 3>&1) 4>&1
    [ "$code" = 0 ] || failed="$failed $name"
}

suite Rust "${CARGO:-cargo}" test --locked --workspace --no-fail-fast
suite Python scripts/python.sh

echo "== summary"
grep -E '^(test .* \.\.\. FAILED|FAILED |ERROR |skipped:)' "$log" | sort -u
sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed; \([0-9]*\) failed; .*/\1 \2/p
    s/^\([0-9]*\) passed.* in .*/\1 0/p
    s/^\([0-9]*\) failed, \([0-9]*\) passed.* in .*/\2 \1/p
    s/^\([0-9]*\) failed in .*/0 \1/p' "$log" |
    awk '{ passed += $1; failed += $2 } END { printf "%d passed, %d failed\n", passed, failed }'
[ -z "$failed" ] || { echo "make test: failed:$failed"; exit 1; }
