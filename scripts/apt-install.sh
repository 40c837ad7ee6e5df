#!/bin/sh
# Installs Debian packages, as root, so that none of their services starts: not now, and not at the next boot. The tests
# start their own etcd and Prometheus. A service that the machine had before stays as it is.
#
#   scripts/apt-install.sh PACKAGE…
set -eu

# One run after the other: each takes a policy of ours that it finds for one that was left behind.
exec 9</usr/sbin
flock 9

# The packages that bring a service, with its name.
service_of() {
    case $1 in
    etcd-server) echo etcd ;;
    prometheus) echo prometheus ;;
    esac
}
is_installed() {
    # shellcheck disable=SC2016 # the words are dpkg's
    case $(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null) in
    '' | not-installed | config-files) return 1 ;;
    esac
}
has_service() {
    [ -e "/etc/init.d/$1" ] || systemctl cat "$1.service" >/dev/null 2>&1
}

# The services that Debian would start, and those of them that nobody has set up before.
services=
new=
for package; do
    service=$(service_of "$package")
    if [ -n "$service" ] && ! is_installed "$package"; then
        services="$services $service"
        has_service "$service" || new="$new $service"
    fi
done

# Debian asks this program before it starts a service, under systemd and without it. One that is there is the machine's own
# and stays as it is, but for ours, which a run has left that was killed.
policy=/usr/sbin/policy-rc.d
mark='Put here by the tests of beadlock'
is_ours() {
    [ -f "$policy" ] && [ ! -L "$policy" ] && grep -q "^# $mark" "$policy"
}
if is_ours || { [ -n "$services" ] && [ ! -e "$policy" ] && [ ! -L "$policy" ]; }; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    rm -f "$policy"
    [ -z "$services" ] || install -m 755 /dev/stdin "$policy" <<END
#!/bin/sh
# $mark while they install packages, and removed afterwards. 101: do not start it.
for word; do
    for service in$services; do
        case \$word in "\$service" | "\$service.service") exit 101 ;; esac
    done
done
exit 0
END
fi

DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" 9<&-

for service in $new; do
    # A new package is enabled. Nothing runs to be stopped, unless the machine's own policy had it started.
    systemctl disable --now "$service" >/dev/null 2>&1 ||
        { update-rc.d "$service" disable && service "$service" stop; } >/dev/null 2>&1 ||
        echo "cannot disable the service $service, which a package has brought" >&2
done
