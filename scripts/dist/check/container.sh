#!/bin/sh
# Builds the image on a Debian 11 and uses it as its ordinary user: a claim in a mounted volume, and the health of an agent. Where
# no podman can run, the steps of the Dockerfile are done in a chroot.
set -eu
: "${DIST:?is set by scripts/dist-check.sh}" "${TOOLS:?}" "${VERSION:?}"
cd "$(dirname "$0")/../../.."
. scripts/dist/check/rows.sh
# In namespaces of its own for mounts and processes, so that neither is left, however this ends.
if [ "$(id -u)" != 0 ]; then
    lacking container 'needs root'
    exit "$status"
fi
[ -n "${BEADLOCK_DIST_APART-}" ] || BEADLOCK_DIST_APART=1 exec unshare --mount --pid --fork --kill-child --mount-proc \
    scripts/dist/check/container.sh

if [ ! -f "$DIST/container/Dockerfile" ]; then
    row failed container "$DIST/container is missing; type: make dist"
    exit 1
fi
code=0
debian=$(scripts/dist/debian.sh) || code=$?
if [ "$code" != 0 ]; then
    lacking container "$debian"
    exit "$status"
fi

work=$(mktemp -d)
agent=agent
# Layers on top of each other, where this file system lets them; else each is a copy, which takes minutes.
driver=vfs
mkdir "$work/lower" "$work/upper" "$work/work" "$work/merged"
! mount -t overlay overlay -o "lowerdir=$work/lower,upperdir=$work/upper,workdir=$work/work" "$work/merged" >&2 || driver=overlay
# Storage of its own, which goes with it. runc, since crun wants another layout of cgroups than some machines have.
podman() {
    command podman --root "$work/storage" --runroot "$work/run" --tmpdir "$work/tmp" --storage-driver "$driver" --runtime runc \
        --cgroup-manager cgroupfs --events-backend file "$@"
}
# shellcheck disable=SC2317 # the trap calls it
undo() {
    podman rm --force --time 1 "$agent" >&2 2>&1
    podman rmi --all --force >&2 2>&1
    awk -v under="$work/" 'index($2, under) == 1 { print $2 }' /proc/self/mounts | sort -r | xargs -r umount >&2
    rm -rf --one-file-system "$work"
}
trap 'set +e; undo' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

run() { # WORD…: with limits of its own, since a container that is root in another may not raise them
    podman run --pull=never --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --network=none --volume "$work/volume:/srv" "$@"
}

# Who the programs are there, a claim, and what it refuses to another.
install -d -m 755 "$work/volume"
chown 1000:1000 "$work/volume"
cat >"$work/volume/claim" <<'END'
set -e
[ "$(id -u)" = 1000 ]
mkdir .beads
beadlock hold -- sh -c 'beadlock status && ! beadlock check && sleep 0.1'
beadlock check
END

if { command -v podman && command -v runc; } >&2 ||
    { apt-get update -qq && scripts/apt-install.sh podman buildah runc && command -v podman; } >&2; then
    podman import "$debian" localhost/debian:11 >&2
    try 'podman build' podman build --layers=false --isolation chroot --format docker --pull=never --build-arg BASE=localhost/debian:11 \
        --build-arg PACKAGES= --tag localhost/beadlock "$DIST/container"
    [ "$status" = 0 ] || exit 1
    try 'podman: beadlock --version' run --rm --entrypoint beadlock localhost/beadlock --version
    try 'podman: hold as an ordinary user in a volume' run --rm --hostname shop --entrypoint sh localhost/beadlock claim
    run --detach --name "$agent" --hostname shop localhost/beadlock --db /srv/.beads --action none >&2 || true
    health() { podman healthcheck run "$agent"; }
    # The agent answers as soon as it listens.
    # shellcheck disable=SC2317 # try calls it
    answered() {
        for _ in $(seq 100); do
            health && return
            sleep 0.1
        done
        return 1
    }
    try 'podman: healthy' answered
    [ "$status" = 0 ] || exit 1
    podman exec "$agent" sh -c 'rm /run/beadlock/agent.sock' >&2 || true
    if health >&2; then
        row failed 'podman: ill without its socket' 'said to be healthy'
    else
        row ok 'podman: ill without its socket' ''
    fi
    exit "$status"
fi

# Without podman: what RUN, COPY, USER, ENV and HEALTHCHECK say, by hand.
dockerfile=$DIST/container/Dockerfile
{
    cat scripts/dist/check/rows.sh
    echo 'set -e; PACKAGES='
    sed -n 's/^RUN //p' "$dockerfile"
    sed -n 's/^COPY \(.*\) \(.*\)$/install -D -t \2 \1/p' "$dockerfile" | sed 's# \(beadlock\|LICENSE\)# /artefacts/container/\1#g'
    sed -n 's/^ENV /export /p' "$dockerfile"
    echo 'chown 1000:1000 /srv; cd /srv; set +e'
    echo "cat >claim <<'CLAIM'"
    cat "$work/volume/claim"
    echo CLAIM
    echo "cat >health <<'HEALTH'"
    sed -n 's/^HEALTHCHECK CMD //p' "$dockerfile"
    echo HEALTH
    cat <<'END'
user() { setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/home/beadlock "$@"; }
try 'chroot: beadlock --version' user beadlock --version
try 'chroot: hold as an ordinary user' user sh claim
user beadlock-agent --db /srv/.beads --action none >&2 &
answered() { for _ in $(seq 100); do user sh health && return; sleep 0.1; done; return 1; }
try 'chroot: healthy' answered
[ "$status" = 0 ] || exit 1
rm /run/beadlock/agent.sock
if user sh health >&2; then
    row failed 'chroot: ill without its socket' 'said to be healthy'
else
    row ok 'chroot: ill without its socket' ''
fi
kill $!
wait
exit $status
END
} | scripts/dist/in-root.sh "$debian" "$DIST" || status=1
exit "$status"
