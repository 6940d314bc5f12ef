# A broker in a container: built from this checkout with the hot modules compiled, run by a user of its
# own, with its data in a volume.
#
#   docker build -t daybook .
#   docker run --rm -p 61613:61613 -p 127.0.0.1:8161:8161 -v daybook:/var/lib/daybook --memory 1g --stop-timeout 60 daybook
#
# 61613 is STOMP; 8161 is /live, /ready and /metrics, for the monitoring system alone (docs/monitoring.md).
# `guest` may log in from within the container only: add a user first, as etc/compose.yaml does.
# EXTRAS=[sql] adds `journal sql` and the jobs of `daybook pipeline`, EXTRAS=[console] the console, which
# `--set console.listen=https://0.0.0.0:8443` starts with a certificate (docs/console.md). Dependencies are those of
# requirements.lock, each with its hash; a version that the registry does not have ends the build.

# The tag of the official image of Python. A tag can move: the image of a release is built with
# TAG@sha256:DIGEST (`make image BASE=...`, CONTRIBUTING.md#releasing).
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
ARG COMPILE=1
ARG EXTRAS=
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml requirements.lock ./
COPY release release
# One environment to build the wheel in, and the one that becomes the image.
RUN python -m release.lockfile broker compile >/tmp/build.txt \
    && python -m release.lockfile broker $(echo "${EXTRAS}" | tr '[,]' ' ') >/tmp/run.txt \
    && python -m venv /opt/build && python -m venv /opt/daybook \
    && /opt/build/bin/pip install --require-hashes --requirement /tmp/build.txt \
    && /opt/daybook/bin/pip install --require-hashes --requirement /tmp/run.txt
COPY . .
RUN DAYBOOK_COMPILE=${COMPILE} /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/daybook/bin/pip install --no-deps /wheels/daybook_broker-*.whl

FROM python:${PYTHON}
COPY --from=build /opt/daybook /opt/daybook
RUN groupadd --system --gid 10001 daybook \
    && useradd --system --uid 10001 --gid daybook --home-dir /var/lib/daybook --shell /usr/sbin/nologin daybook \
    && install --directory --owner daybook --group daybook --mode 0700 /var/lib/daybook
ENV PATH=/opt/daybook/bin:$PATH DAYBOOK_DATA=/var/lib/daybook/data
USER daybook
WORKDIR /var/lib/daybook
VOLUME /var/lib/daybook
EXPOSE 61613 8161
STOPSIGNAL SIGTERM
# The times are those of the probes in docs/monitoring.md.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30m --retries=6 CMD ["daybook", "health"]
ENTRYPOINT ["daybook"]
# Whoever publishes the port decides who can reach it; docs/security.md#tls says how to add TLS.
CMD ["serve", "--listen", "stomp://0.0.0.0:61613?allow-cleartext=true", "--listen", "http://0.0.0.0:8161?allow-cleartext=true"]
