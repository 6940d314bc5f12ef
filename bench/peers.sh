#!/bin/sh
# Installs the brokers that bench/ compares with, without starting their services: RabbitMQ and
# ActiveMQ from Debian, Artemis from Maven Central (ARTEMIS_VERSION, by default the one that the
# figures in docs/performance.md are of).
#
# The benchmark starts each broker itself, on a free port of 127.0.0.1 and with a data directory
# of its own; a service running beside it would take one of the cores that are measured.
set -eu

version=${ARTEMIS_VERSION:-2.44.0}
artemis=/opt/apache-artemis-$version

if [ "$(id -u)" -ne 0 ]; then
    echo "bench/peers.sh: apt-get needs root; run: sudo sh bench/peers.sh" >&2
    exit 2
fi
if ! command -v apt-get >/dev/null; then
    echo "bench/peers.sh: this machine has no apt-get; install rabbitmq-server, activemq and" \
        "Artemis (ARTEMIS_HOME) by hand, or measure with --targets floor,daybook" >&2
    exit 2
fi

# policy-rc.d answering 101 is Debian's way to say "install, but start no service".
policy=/usr/sbin/policy-rc.d
placed=no
fetched=
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    placed=yes
fi
clean_up() {
    if [ "$placed" = yes ]; then rm -f "$policy"; fi
    if [ -n "$fetched" ]; then rm -rf "$fetched"; fi
}
trap clean_up EXIT

apt-get update
# With libaio Artemis has its ASYNCIO journal. Debian 13 gave the package another name.
libaio=libaio1
if apt-cache show libaio1t64 >/dev/null 2>&1; then libaio=libaio1t64; fi
maven=
if ! command -v mvn >/dev/null; then maven=maven; fi
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
    rabbitmq-server activemq default-jre-headless "$libaio" $maven

# On a booted system the next start of the machine must not bring them up either.
if command -v systemctl >/dev/null && [ -d /run/systemd/system ]; then
    systemctl disable --now rabbitmq-server.service activemq.service || true
fi

if [ ! -x "$artemis/bin/artemis" ]; then
    fetched=$(mktemp -d)
    # Maven compares the checksum of what it fetches, and with -C refuses what differs.
    mvn --batch-mode --quiet -C dependency:copy \
        "-Dartifact=org.apache.activemq:apache-artemis:$version:tar.gz:bin" \
        "-DoutputDirectory=$fetched"
    tar -xzf "$fetched/apache-artemis-$version-bin.tar.gz" -C "$fetched"
    mv "$fetched/apache-artemis-$version" "$artemis"
    chown -R root:root "$artemis"
    chmod -R go+rX "$artemis"
fi
mkdir -p /usr/local/bin
ln -sf "$artemis/bin/artemis" /usr/local/bin/artemis
echo "installed: rabbitmq-server, activemq and $artemis; no service is running"
