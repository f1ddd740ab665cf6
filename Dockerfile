# The image of tgbridge: one static binary and nothing else, as a user without
# rights. Members in containers meet in the state directory: mount one volume
# there in all of them (docker-compose.yml).
#
#	docker build --build-arg VERSION=v0.1.0 --build-arg COMMIT=$(git rev-parse HEAD) -t tgbridge .
#	docker run -e TELEGRAM_BOT_TOKEN -e TGBRIDGE_ALLOW_ALL=true -v tgbridge:/var/lib/tgbridge tgbridge
#
# Commands for "tgbridge exec" need an image of their own that has them:
#
#	FROM debian:stable-slim
#	COPY --from=tgbridge /tgbridge /usr/local/bin/

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
ARG COMMIT=
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
	-ldflags "-s -w -X main.releaseVersion=${VERSION} -X main.releaseCommit=${COMMIT}" \
	-o /out/tgbridge ./cmd/tgbridge
# A new volume gets the owner and the mode of the directory that it covers.
RUN mkdir -p -m 0700 /out/lib/tgbridge

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chown=65532:65532 /out/lib/ /var/lib/
COPY --from=build /out/tgbridge /tgbridge
ENV TGBRIDGE_STATE_DIR=/var/lib/tgbridge
USER 65532:65532
# The exec form: tgbridge is pid 1, and the signals of "docker stop" reach it.
ENTRYPOINT ["/tgbridge"]
CMD ["echo"]
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["/tgbridge", "health"]
