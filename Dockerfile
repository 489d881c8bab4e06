# Builds the service, and a runtime image with nothing in it but the service, the C library and the certificates of
# public authorities: no shell, no package manager, not root.

FROM rust:1.95-bookworm AS build
WORKDIR /build
COPY . .
# Shown by /healthz.
ARG COUNTERSIGN_COMMIT=unknown
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/build/target \
    cargo build --release --locked --bin countersign \
    && install -D target/release/countersign /out/countersign \
    && install -d -m 0700 /out/data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/countersign /usr/local/bin/countersign
# For SQLite; Postgres needs no volume.
COPY --from=build --chown=nonroot:nonroot /out/data /data
WORKDIR /data
ENV COUNTERSIGN_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["countersign", "healthcheck"]
ENTRYPOINT ["countersign"]
CMD ["serve"]
