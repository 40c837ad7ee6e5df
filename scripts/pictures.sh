#!/usr/bin/env bash
# Makes docs/pictures anew: `beadlock top` as SVG and the page of `beadlock log --html` as PNG, each in light and dark, of an
# agent that really runs for a minute and a half. Needs git, tmux, python3 and chromium; and BEADLOCK_BIN, the directory of
# the programs.
#
#   cargo build --locked --workspace --bins && BEADLOCK_BIN=target/debug scripts/pictures.sh
# shellcheck disable=SC2317 # what a trap calls
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$(cd "${BEADLOCK_BIN:?the directory with beadlock and beadlock-agent}" && pwd)
PATH=$bin:$PATH
here=$PWD
out=$here/docs/pictures
# The paths are in the picture.
scene=$(mktemp -d /tmp/ann.XXX)

cleanup() {
    tmux -S "$scene/tmux" kill-server 2>/dev/null || true
    # The agent, and the jobs that still claim.
    jobs -p | xargs -r kill 2>/dev/null || true
    wait
    rm -rf "$scene"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

export HOME=$scene GIT_CONFIG_NOSYSTEM=1 TERM=xterm-256color LC_ALL=C.UTF-8
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE BEADS_DIR BEADLOCK_TARGET BEADLOCK_HOLDER NO_COLOR TMUX
git config --global user.name ann
git config --global user.email ann@localhost
git config --global init.defaultBranch main

cd "$scene"
for name in shop billing search docs; do
    git init --quiet --bare "$name.git"
    git clone --quiet "$name.git" "$name" 2>/dev/null
    mkdir "$name/.beads"
    echo '{"id":"bd-1","title":"first"}' >"$name/.beads/issues.jsonl"
    git -C "$name" add .beads
    git -C "$name" commit --quiet --message 'a database'
    git -C "$name" push --quiet origin main
done
cat >agent.toml <<'END'
interval = "1s"
fetch-interval = "2s"
listen = "unix:agent.sock"
[[database]]
dir = "shop/.beads"
[[database]]
dir = "billing/.beads"
[[database]]
dir = "search/.beads"
[[database]]
dir = "docs/.beads"
END
beadlock-agent --config agent.toml 2>/dev/null &

n=1
change() {
    n=$((n + 1))
    echo "{\"id\":\"bd-$n\",\"title\":\"more\"}" >>"$1/.beads/issues.jsonl"
}
# Claims database $1 for $2 seconds in the name of $3. What is in the background is typed out, so that its process is known.
job() { beadlock hold --quiet --holder "$3" "$1/.beads" -- sleep "$2"; }

sleep 5
job shop 3 deploy
change shop
beadlock hold --quiet --holder nightly-import search/.beads -- sleep 9 &
sleep 6
job shop 14 release
change shop
change search
sleep 4
# The remote of one cannot be reached for a while.
mv billing.git away.git
change billing
sleep 14
mv away.git billing.git
sleep 5
echo '{' >shop/.beads/.exclusive-lock
sleep 6
rm shop/.beads/.exclusive-lock
sleep 6
printf '#!/bin/sh\nexit 1\n' >docs/.git/hooks/pre-commit
chmod +x docs/.git/hooks/pre-commit
change docs
mv billing.git away.git
change billing
beadlock hold --quiet --holder nightly-import search/.beads -- sleep 60 &
sleep 14
beadlock hold --quiet --holder release shop/.beads -- sleep 30 &
sleep 8

tmux -S tmux -f /dev/null new-session -d -x 100 -y 16 "beadlock top --interval 500ms unix:agent.sock"
sleep 4
tmux -S tmux capture-pane -e -p >screen
mkdir -p "$out"
for look in light dark; do
    python3 "$here/scripts/terminal_svg.py" "$look" 'beadlock top: four databases, the worst first' <screen >"$out/top-$look.svg"
done
tmux -S tmux resize-window -x 160 -y 24
sleep 2
tmux -S tmux capture-pane -p >"$scene/wide"

beadlock log --html shop/.beads/daemon.log >timeline.html
# 0 is dark.
for look in light=1 dark=0; do
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-background-networking \
        --user-data-dir="$scene/profile" --window-size=1000,760 --virtual-time-budget=3000 \
        --blink-settings="preferredColorScheme=${look#*=}" --screenshot="$out/timeline-${look%=*}.png" \
        "file://$scene/timeline.html" 2>/dev/null
done
[ -z "${PICTURES_KEEP:-}" ] || cp screen wide timeline.html "$PICTURES_KEEP"
ls -l "$out"
