#!/bin/sh
# Every suite, each to its end even if another one fails, and one summary: what failed, what was skipped, how many passed.
#
# With cargo-nextest the Rust tests of all targets are one pool, and the Python tests, which mostly wait, run beside it;
# without it cargo test runs one target after the other.
# SEED repeats the dice of a run, roughly: the kernel's are its own.
set -u
cd "$(dirname "$0")/.." || exit 1

# As root, some tests start the programs as another user, who cannot reach a build in root's own directory.
is_open() {
    dir=$1
    until [ -e "$dir" ]; do dir=$(dirname "$dir"); done
    while case $(stat -Lc %A "$dir") in *[xt]) ;; *) return 1 ;; esac && [ "$dir" != / ]; do dir=$(dirname "$dir"); done
}
target=$(scripts/target-dir.sh) || exit 1
if [ "$(id -u)" = 0 ] && ! is_open "$target"; then
    target=/var/tmp/beadlock-target-$(pwd | cksum | cut -d ' ' -f 1)
    mkdir -p "$target" || exit 1
    if [ ! -O "$target" ] || [ -L "$target" ]; then
        echo "$target belongs to another user" >&2
        exit 1
    fi
    echo "other users cannot reach this directory, so the tests are built in $target"
    export CARGO_TARGET_DIR="$target"
fi
mkdir -p "$target" || exit 1
log=$(mktemp "$target/test.log.XXXXXX") || exit 1
python=
# Interrupted, it says what the Python tests have said so far, and ends them and all that they have started.
end() {
    if [ -n "$python" ]; then
        cat "$log.Python"
        kill -- "-$python" 2>/dev/null
    fi
    rm -f "$log" "$log.Python"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

seed=${SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
echo "make test SEED=$seed"
export SYSCALL_SEED="${SYSCALL_SEED:-$seed}" STRESS_SEED="${STRESS_SEED:-$seed}" SOAK_SEED="${SOAK_SEED:-$seed}"
export ROWS_SEED="${ROWS_SEED:-$seed}"

cargo=${CARGO:-cargo}
failed=
# The output is shown as it comes and kept for the summary; the exit code is that of the suite, not of tee.
suite() {
    name=$1
    shift
    code=$({ { "$@" 2>&1 3>&-; echo $? >&3; } | tee -a "$log" >&4; } 3>&1) 4>&1
    [ "$code" = 0 ] || failed="$failed $name"
}

# This build leaves a beadlock with the feature in debug/. So it comes first, and the next build replaces that program.
# Beyond the dependencies it builds beadlock alone: about 15 seconds.
suite schema "$cargo" test --locked --workspace --features beadlock/validate-schema --test schema

if "$cargo" nextest --version >/dev/null 2>&1; then
    said=$target/nextest/default/junit.xml
    rm -f "$said"
    suite build "$cargo" build --locked --workspace --bins --examples
    # Built above: else the process of each test would ask cargo.
    export BEADLOCK_TEST_BUILT="$target/debug"
    suite tests "$cargo" nextest run --locked --workspace --no-run
    setsid scripts/python.sh >"$log.Python" 2>&1 &
    python=$!
    suite Rust "$cargo" nextest run --locked --workspace
    suite documentation "$cargo" test --locked --workspace --doc --no-fail-fast
    wait "$python"
    code=$?
    python=
    said_by_python() {
        cat "$log.Python"
        return "$1"
    }
    suite Python said_by_python "$code"
else
    said=/dev/null
    suite Rust "$cargo" test --locked --workspace --no-fail-fast
    suite Python scripts/python.sh
fi

echo "== summary"
grep -E '^(test .* \.\.\. FAILED|FAILED |ERROR | +(FAIL|TIMEOUT|SIG[A-Z]+|LEAK-FAIL|ABORT) \[|skipped:)' "$log" | sort -u
sed 's/&apos;/'"'"'/g; s/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g' "$said" | grep -o 'skipped: .*' | sort -u
# One line `PASSED FAILED` for each suite.
sed -n 's/^test result: [a-zA-Z]*\. \([0-9]*\) passed; \([0-9]*\) failed; .*/\1 \2/p
    s/^ *Summary \[.*\] \([0-9]*\) tests\{0,1\} run: \([0-9]*\) passed.*/\2 \1-\2/p
    s/^\([0-9]*\) passed.* in .*/\1 0/p
    s/^\([0-9]*\) failed, \([0-9]*\) passed.* in .*/\2 \1/p
    s/^\([0-9]*\) failed in .*/0 \1/p' "$log" |
    awk '{ split($2, all, "-"); passed += $1; failed += all[1] - all[2] }
        END { printf "%d passed, %d failed\n", passed, failed }'
[ -z "$failed" ] || { echo "make test: failed:$failed (make test SEED=$seed)"; exit 1; }
