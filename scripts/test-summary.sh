#!/bin/sh
# What a run of tests comes to: each failure, each line `skipped: …` once, and at the end `N passed, N failed, N skipped`.
#
# scripts/test-summary.sh LOG [JUNIT]: what the runners have printed, and the report of cargo-nextest, which has what the
# tests that pass have said. A test that says `skipped: …` has passed for its runner, perhaps with a part of what it tries.
# Here it counts as skipped and not as passed. So does a suite that cannot run at all: `skipped: the tests of …`, `the scripts …`.
set -eu
log=$1
junit=${2:-/dev/null}
# Where the tests were not built there is none.
[ -e "$junit" ] || junit=/dev/null

grep -E '^(test .* \.\.\. FAILED|FAILED |ERROR | +(FAIL|TIMEOUT|SIG[A-Z]+|LEAK-FAIL|ABORT) \[|SKIPPED )' "$log" | sort -u
{
    sed -nE 's/^(test .* \.\.\. )?skipped: /skipped: /p' "$log"
    sed -nE 's/^(.*(>| \.\.\. ))?skipped: /skipped: /p' "$junit" | sed 's/&apos;/'"'"'/g; s/&quot;/"/g; s/&lt;/</g; s/&gt;/>/g; s/&amp;/\&/g'
} | sort -u

awk '
    # The number before this word in the line.
    function count(word,   words, at, found) {
        found = 0
        split($0, words, /[ ,;.()]+/)
        for (at = 2; at in words; at++) if (words[at] == word) found = words[at - 1] + 0
        return found
    }

    # The report of cargo-nextest.
    is_report && /<testcase / { says_skipped = has_failed = 0 }
    is_report && /(^|>| \.\.\. )skipped: / { says_skipped = 1 }
    is_report && /<(failure|error)[ >]/ { has_failed = 1 }
    is_report && /<\/testcase>/ && says_skipped && !has_failed { skipped++; passed-- }
    is_report { next }

    # cargo test, and the lines of its tests, which say their names. With RUST_TEST_THREADS=1 a line begins as libtest
    # has begun it. A test may give several reasons; another binary may have a test of the same name.
    /^test result: / { passed += count("passed"); failed += count("failed"); binary++ }
    sub(/^(test .* \.\.\. )?skipped: /, "") {
        if (/^the (tests of|scripts) /) skipped += !seen[$0]++
        else if (!seen[binary, $1]++) { skipped++; passed-- }
        next
    }

    # pytest.
    /^[0-9]+ (passed|failed|errors?|skipped).* in [0-9.]+s/ {
        passed += count("passed")
        failed += count("failed") + count("error") + count("errors")
        skipped += count("skipped")
    }

    # cargo-nextest: whatever has run and has not passed has failed. What it calls skipped was not asked for.
    /^ *Summary \[/ {
        sub(/^.*\] /, "")
        ran = $0 + 0
        sub(/^[0-9]+(\/[0-9]+)? tests? run: /, "")
        passed += $0 + 0
        failed += ran - $0
    }

    END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }
' "$log" is_report=1 "$junit"
