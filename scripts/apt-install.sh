#!/bin/sh
# Installs Debian packages, as root, so that none of their services starts: not now, and not at the next boot. The tests
# start their own etcd and Prometheus.
#
#   scripts/apt-install.sh PACKAGE…
set -eu

# The services that Debian would start.
services=
for package; do
    case $package in
    etcd-server) services="$services etcd" ;;
    prometheus) services="$services prometheus" ;;
    esac
done

# Debian asks this program before it starts a service, under systemd and without it. One that is there is the machine's own
# and stays as it is.
policy=/usr/sbin/policy-rc.d
if [ -n "$services" ] && [ ! -e "$policy" ] && [ ! -L "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    install -m 755 /dev/stdin "$policy" <<'END'
#!/bin/sh
# Put here by the tests of beadlock while they install packages, and removed afterwards. 101: do not start it.
for word; do
    case $word in etcd | etcd.service | prometheus | prometheus.service) exit 101 ;; esac
done
exit 0
END
fi

DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"

for service in $services; do
    # A new package is enabled. Nothing runs to be stopped, unless the machine's own policy had it started.
    systemctl disable --now "$service" >/dev/null 2>&1 ||
        { update-rc.d "$service" disable && service "$service" stop; } >/dev/null 2>&1 ||
        echo "cannot disable the service $service, which a package has brought" >&2
done
