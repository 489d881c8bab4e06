# Builds the service, and a small runtime image: the service, the C library, the certificates of public authorities; not root.

FROM rust:1.95-bookworm AS build
WORKDIR /build
COPY . .
# Shown by /healthz.
ARG COUNTERSIGN_COMMIT=unknown
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin countersign \
    && install -D target/release/countersign /out/countersign \
    && install -d -m 0700 /out/data

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin countersign
COPY --from=build /out/countersign /usr/local/bin/countersign
# For SQLite; Postgres needs no volume.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532
WORKDIR /data
ENV COUNTERSIGN_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["countersign", "healthcheck"]
ENTRYPOINT ["countersign"]
CMD ["serve"]
