# The index in one image: the server with its crawler in-process, and the package clients that the crawler asks.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin mcpindex-server --bin mcpindex

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates nodejs npm python3 python3-pip python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 mcpindex \
    && install -d -o mcpindex -g mcpindex -m 0700 /data
COPY --from=build /src/target/release/mcpindex-server /src/target/release/mcpindex /usr/local/bin/
USER mcpindex
VOLUME /data
EXPOSE 8080
# Inside a container the port is published by whoever runs it, so the server listens on every address.
ENV MCPINDEX_DATA=/data MCPINDEX_LISTEN=0.0.0.0:8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
ENTRYPOINT ["mcpindex-server"]
CMD ["serve"]
