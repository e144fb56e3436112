# The first stage builds the application's own environment, the second holds that, an unprivileged user, and nothing
# else. `make docker-check` runs these steps without an engine; none has built it yet.
FROM debian:bookworm-slim AS build
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends ca-certificates python3 python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements/ requirements/
RUN python3 -m venv /opt/tools \
 && /opt/tools/bin/python -m pip install -q --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/uv.txt
RUN python3 -m venv --without-pip /opt/corral \
 && /opt/tools/bin/uv pip sync -q --no-cache --python /opt/corral/bin/python --require-hashes --only-binary :all: requirements/service.txt
RUN python3 -m venv --without-pip /opt/build \
 && /opt/tools/bin/uv pip sync -q --no-cache --python /opt/build/bin/python --require-hashes --only-binary :all: requirements/build.txt
COPY . .
RUN /opt/build/bin/python -m hatchling build -t wheel -d /dist \
 && /opt/tools/bin/uv pip install -q --no-cache --offline --no-deps --compile-bytecode --python /opt/corral/bin/python /dist/*.whl

FROM debian:bookworm-slim
RUN apt-get update -q \
 && apt-get install -y -q --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --user-group --home-dir /var/lib/corral --shell /usr/sbin/nologin corral \
 && install -d -o corral -g corral -m 0700 /var/lib/corral
COPY --from=build /opt/corral /opt/corral
# The service listens on loopback until it is told how TLS ends: set CORRAL_LISTEN__HOST=0.0.0.0 together with
# listen.tls_cert and tls_key, or with trusted_proxies (deploy/compose.yaml shows the latter).
ENV PATH=/opt/corral/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/var/lib/corral \
    PYTHONUNBUFFERED=1 \
    CORRAL_DATA_DIR=/var/lib/corral
WORKDIR /var/lib/corral
USER corral
VOLUME /var/lib/corral
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["/opt/corral/bin/python", "-m", "service.cli.probe"]
ENTRYPOINT ["corral"]
CMD ["serve"]
