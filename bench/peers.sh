#!/bin/sh
# Installs the brokers that bench/ compares with, from Debian, without starting their services.
#
# The benchmark starts each broker itself, on a free port of 127.0.0.1 and with a data directory
# of its own; a service running beside it would take one of the cores that are measured.
set -eu

if [ "$(id -u)" -ne 0 ]; then
    echo "bench/peers.sh: apt-get needs root; run: sudo sh bench/peers.sh" >&2
    exit 2
fi
if ! command -v apt-get >/dev/null; then
    echo "bench/peers.sh: this machine has no apt-get; install rabbitmq-server and activemq" \
        "by hand, or measure with --targets floor,daybook" >&2
    exit 2
fi

# policy-rc.d answering 101 is Debian's way to say "install, but start no service".
policy=/usr/sbin/policy-rc.d
placed=no
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    placed=yes
fi
remove_policy() {
    if [ "$placed" = yes ]; then rm -f "$policy"; fi
}
trap remove_policy EXIT

apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    rabbitmq-server activemq

# On a booted system the next start of the machine must not bring them up either.
if command -v systemctl >/dev/null && [ -d /run/systemd/system ]; then
    systemctl disable --now rabbitmq-server.service activemq.service || true
fi
echo "installed: rabbitmq-server and activemq; their services are not running"
