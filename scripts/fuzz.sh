#!/bin/sh
# Every target of fuzz/ for FUZZ_SECONDS; where cargo-fuzz or what it needs is missing, the same properties with
# PROPTEST_CASES random documents each.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

at_random() {
    echo "make fuzz: $1; trying ${PROPTEST_CASES:=1000000} random documents for each instead" >&2
    export PROPTEST_CASES
    exec "$cargo" test --locked --release --package beadlock-tests --test hostile -- --nocapture
}

"$cargo" fuzz --version >/dev/null 2>&1 || at_random "no cargo-fuzz here (cargo install cargo-fuzz)"

# A stable compiler takes a nightly's options when it is told to.
export RUSTC_BOOTSTRAP=1
"$cargo" fuzz build || at_random "this compiler does not build them"

# A list that fails inside the loop's head would fuzz nothing, and pass.
targets=$("$cargo" fuzz list)
[ -n "$targets" ] || {
    echo "make fuzz: cargo fuzz list names no target" >&2
    exit 1
}
for target in $targets; do
    # A lock file is read up to 64 KiB, and so is a line of a log.
    "$cargo" fuzz run "$target" -- -max_total_time="${FUZZ_SECONDS:-30}" -max_len=4096 -timeout=10 -rss_limit_mb=1024
done
