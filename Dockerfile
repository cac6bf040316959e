# Image of Bridgehead: unprivileged, and works with a read-only root file system. docs/installation.md describes its use.
#
#   docker build -t bridgehead .

FROM node:24-slim AS build
WORKDIR /source
COPY . .
RUN npm ci --no-audit --no-fund
# The tarball that npm would publish, installed without the Node.js that it brings for machines with an older one.
RUN npm pack --pack-destination /tmp
RUN npm install --prefix /opt/bridgehead --omit=optional --ignore-scripts --no-audit --no-fund /tmp/bridgehead-*.tgz

FROM node:24-slim
COPY --from=build /opt/bridgehead /opt/bridgehead
RUN ln -s /opt/bridgehead/node_modules/.bin/bridgehead /usr/local/bin/bridgehead
RUN install -d -o node -g node -m 700 /var/lib/bridgehead
# As in systemd/bridgehead.service, which explains them.
ENV NODE_ENV=production
ENV NODE_OPTIONS="--max-semi-space-size=16 --v8-pool-size=1"
ENV MALLOC_ARENA_MAX=2
ENV MALLOC_MMAP_THRESHOLD_=1048576
USER node
WORKDIR /var/lib/bridgehead
VOLUME /var/lib/bridgehead
EXPOSE 8025
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["bridgehead", "health", "--quiet"]
# In exec form: SIGTERM reaches the daemon, which finishes running work within 20 seconds.
ENTRYPOINT ["bridgehead"]
CMD ["run"]
