#!/bin/sh
# Says what to install when rustfmt or clippy is not there, before cargo says it in its own way.
set -eu
status=0
for tool in fmt clippy; do
    if ! "${CARGO:-cargo}" "$tool" --version >/dev/null 2>&1; then
        case $tool in fmt) component=rustfmt ;; *) component=clippy ;; esac
        echo "cargo $tool is missing; type: rustup component add $component" >&2
        status=1
    fi
done
exit $status
