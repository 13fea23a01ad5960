# The index in one image: server, crawler, and what the crawler runs packages with.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin mcpindex-server --bin mcpindex

FROM debian:bookworm-slim
# Versions are Debian's of the day: an image that pins them misses its security updates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        bubblewrap ca-certificates nodejs npm python3 python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 mcpindex \
    && install -d -o mcpindex -g mcpindex -m 0700 /data
COPY --from=build /src/target/release/mcpindex-server /src/target/release/mcpindex /usr/local/bin/
USER 10001:10001
VOLUME /data
EXPOSE 8080
# Inside a container the port is published by whoever runs it, so the server listens on every address.
ENV MCPINDEX_DATA=/data MCPINDEX_LISTEN=0.0.0.0:8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
ENTRYPOINT ["mcpindex-server"]
CMD ["serve"]
