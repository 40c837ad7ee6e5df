# Put in front of what a check runs in a clean place, in a directory of its own: what docs/install.md takes for granted. A copy
# stands in the place of a download.
# shellcheck shell=sh
cd "$(mktemp -d)" || exit 1
mkdir bin
PATH=$PWD/bin:$PATH
cat >bin/curl <<'END'
#!/bin/sh
for last; do :; done
cp "/artefacts/${last##*/}" .
END
cat >bin/sudo <<'END'
#!/bin/sh
exec "$@"
END
chmod 755 bin/*
