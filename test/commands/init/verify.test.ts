// Verification of single answers against local servers.

import { createServer } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { isPlatform, verifyMailbox, verifyModel, verifyPlatform } from "../../../src/commands/init/verify.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { startDovecot } from "../../support/email/dovecot.ts";
import { startTokenIssuer } from "../../support/email/servers.ts";
import { startSmtpPeer } from "../../support/email/smtp-server.ts";
import { bodyServer, freePort, listen, serve } from "../../support/machine/network.ts";
import { startPlatformOf } from "../../support/platform/platform.ts";

const io = { signal: new AbortController().signal, timing: standardTiming, cwd: tmpdir() };
const address = "support@bridge.test";

describe("a mailbox", () => {
  it("is verified with the grant of a sign-in, and a revoked grant is reported", async () => {
    const issuer = await startTokenIssuer(address);
    onTestFinished(() => issuer.close());
    const dovecot = await startDovecot({ users: [address], introspectionUrl: issuer.introspectionUrl });
    onTestFinished(() => dovecot.dispose());
    const smtp = await startSmtpPeer({ users: {}, token: (user, token) => issuer.good(user, token) });
    onTestFinished(() => smtp.close());
    const server = (port: number) => ({ host: "127.0.0.1", port, tls: "none" as const });
    const verify = (refreshToken: string) => {
      const login = { kind: "oauth" as const, issuer: issuer.tokenUrl, clientId: "client-1", refreshToken };
      const servers = { imap: server(dovecot.port), smtp: server(smtp.port) };
      return verifyMailbox({ address, user: address, login, servers }, io);
    };
    expect(await verify(issuer.refreshToken)).toMatchObject({ ok: true });
    expect(await verify("revoked")).toMatchObject({
      ok: false,
      wants: "login",
      reason: expect.stringContaining("invalid_grant"),
    });
  });

  it("of a server with a certificate of a private CA needs the CA", async () => {
    const dovecot = await startDovecot({ users: [address], ssl: true });
    onTestFinished(() => dovecot.dispose());
    const smtp = await startSmtpPeer({ users: { [address]: dovecot.password } });
    onTestFinished(() => smtp.close());
    const servers = {
      imap: { host: "localhost", port: dovecot.port, tls: null },
      smtp: { host: "127.0.0.1", port: smtp.port, tls: null },
    };
    const login = { kind: "password" as const, password: dovecot.password };
    const given = { address, user: address, login, servers };
    expect(await verifyMailbox(given, io)).toMatchObject({ ok: false });
    const result = await verifyMailbox({ ...given, ca: dovecot.ca ?? "" }, io);
    expect(result).toMatchObject({ ok: true, value: { imap: { tls: "starttls" }, smtp: { tls: "none" } } });
  });

  it("of a server that throttles the login keeps its servers", async () => {
    const imap = createTcpServer((socket) => {
      socket.on("error", () => undefined).write("* OK ready\r\n");
      createInterface({ input: socket }).on("line", (line) => {
        const [tag, command] = line.split(" ");
        const answer =
          command === "CAPABILITY" ? `* CAPABILITY IMAP4rev1\r\n${tag} OK done` : `${tag} NO [LIMIT] too many logins`;
        socket.write(`${answer}\r\n`);
      });
    });
    const port = Number(new URL(await listen(imap)).port);
    onTestFinished(() => void imap.close());
    const smtp = await startSmtpPeer({ users: { [address]: "p" } });
    onTestFinished(() => smtp.close());
    const server = (at: number) => ({ host: "127.0.0.1", port: at, tls: "none" as const });
    const servers = { imap: server(port), smtp: server(smtp.port) };
    const login = { kind: "password" as const, password: "p" };
    const result = await verifyMailbox({ address, user: address, login, servers }, io);
    expect(result).toMatchObject({ ok: false, remedy: expect.stringContaining("wait some minutes") });
    expect(result).not.toHaveProperty("wants");
  });
});

describe("a platform", () => {
  it("is recognized, and its key verified", async () => {
    const platform = await startPlatformOf("organization: { name: A }\nagents: { a: { key: agent-key-1 } }");
    onTestFinished(() => platform.close());
    expect(await isPlatform(platform.url, io)).toBe(true);
    expect(await verifyPlatform(platform.url, "agent-key-1", io)).toMatchObject({ ok: true });
    expect(await verifyPlatform(platform.url, "wrong-key-1", io)).toMatchObject({ wants: "key" });
    expect(await verifyPlatform("http://127.0.0.1:1", "k", io)).toMatchObject({
      ok: false,
      reason: expect.stringContaining("ECONNREFUSED"),
    });
  });

  it("is not what a gateway of models is that asks for a key everywhere", async () => {
    const url = await serve(createServer((_request, response) => void response.writeHead(401).end("{}")));
    expect(await isPlatform(url, io)).toBe(false);
    expect(await isPlatform(`${url}/v1`, io)).toBe(false);
  });
});

describe("a model", () => {
  const model = (handle: (body: Record<string, unknown>) => { status: number; body: object }) =>
    serve(
      bodyServer((text, response, request) => {
        const isAnswer = request.method === "POST";
        const listed = { status: 200, body: { data: [{ id: "only\u001b[31m" }] } };
        const { status, body } = isAnswer ? handle(JSON.parse(text) as Record<string, unknown>) : listed;
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
      }),
    );
  const answered = { status: 200, body: { choices: [{ message: { content: "ready" } }] } };

  it("is chosen when it is the only one, and control characters of its name are removed", async () => {
    const url = await model(() => answered);
    expect(await verifyModel({ url }, io)).toEqual({
      ok: true,
      value: { kind: "model", url, name: "only" },
    });
  });

  it("that rejects a temperature is asked without", async () => {
    const url = await model(({ temperature }) =>
      temperature === undefined ? answered : { status: 400, body: { error: { code: "unsupported_value" } } },
    );
    expect(await verifyModel({ url, name: "m" }, io)).toMatchObject({
      ok: true,
      value: { withoutTemperature: true },
    });
  });

  it.each([
    [429, "HTTP 429", "check the rate limit and the credit"],
    [404, "HTTP 404", "check model.url and model.name; it offers only"],
    [403, "HTTP 403", "check model.key"],
  ])("that answers %d is rejected with a remedy", async (status, reason, remedy) => {
    const url = await model(() => ({ status, body: {} }));
    expect(await verifyModel({ url, name: "m", key: "k" }, io)).toMatchObject({
      ok: false,
      reason: expect.stringContaining(reason),
      remedy: expect.stringContaining(remedy),
    });
  });

  it("that nothing serves is rejected", async () => {
    const url = `http://127.0.0.1:${await freePort()}/v1`;
    expect(await verifyModel({ url, name: "m" }, io)).toMatchObject({
      reason: `nothing answers at ${url}: ECONNREFUSED`,
    });
  });
});
