// A Dovecot with TLS, an SMTP server that delivers to it, and a model endpoint with a key and two models.

import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import PostalMime from "postal-mime";
import { expect, onTestFinished } from "vitest";
import { type Delivered, type MailServer, startMailServer } from "../../../src/sandbox/mail-server.ts";
import { bodyServer, listen, serve } from "../machine/network.ts";
import { startModel } from "../platform/platform.ts";
import { newFolder } from "../resources.ts";
import { type Dovecot, startDovecot } from "./dovecot.ts";
import { type SmtpPeer, startSmtpPeer } from "./smtp-server.ts";

export const address = "support@bridge.test";
export const modelKey = "model-key-12345";

export interface Servers {
  readonly dovecot: Dovecot;
  readonly smtp: SmtpPeer;
  /** Base URL of the model, without /v1. */
  readonly model: string;
  /** Questions to the model. */
  readonly asked: string[];
  readonly folder: string;
  /** The CA of Dovecot's certificate, which the system trusts. */
  readonly env: { readonly NODE_EXTRA_CA_CERTS: string };
  /** Options that replace the discovery. */
  readonly servers: readonly string[];
}

export async function startServers(): Promise<Servers> {
  const folder = newFolder();
  const dovecot = await startDovecot({ users: [address], ssl: true });
  onTestFinished(() => dovecot.dispose());
  const smtp = await startSmtpPeer({
    users: { [address]: dovecot.password },
    deliver: async ({ to, raw }) => {
      if (to.includes(address)) await dovecot.deliver(address, raw);
    },
  });
  onTestFinished(() => smtp.close());
  const asked: string[] = [];
  const server = bodyServer((body, response, request) => {
    const answer = (status: number, content: object) => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(content));
    };
    if (!request.url?.startsWith("/v1/")) return answer(404, {});
    if (request.headers.authorization !== `Bearer ${modelKey}`) return answer(401, {});
    if (request.url === "/v1/models") return answer(200, { data: [{ id: "tiny" }, { id: "large" }] });
    const { model, messages } = JSON.parse(body) as { model: string; messages: { content: string }[] };
    if (model !== "tiny") return answer(404, {});
    asked.push(messages.at(-1)?.content ?? "");
    answer(200, { choices: [{ message: { role: "assistant", content: "We sell lamps." } }] });
  });
  const model = await serve(server);
  writeFileSync(join(folder, "ca.pem"), dovecot.ca ?? "");
  writeFileSync(join(folder, "password"), `${dovecot.password}\n`, { mode: 0o600 });
  writeFileSync(join(folder, "model-key"), `${modelKey}\n`, { mode: 0o600 });
  return {
    dovecot,
    smtp,
    model,
    asked,
    folder,
    env: { NODE_EXTRA_CA_CERTS: join(folder, "ca.pem") },
    servers: ["--imap", `localhost:${dovecot.tlsPort}`, "--smtp", `127.0.0.1:${smtp.port}`],
  };
}

// A mailbox on loopback, a model server, and the customers who write to the mailbox.

const password = "mailbox-password";

export interface Mailbox {
  readonly server: MailServer;
  readonly model: Awaited<ReturnType<typeof startModel>>;
  readonly folder: string;
  /** A mail of a customer arrives. */
  receive(from: string, subject: string, text: string): void;
  /** Everything that was sent to other addresses, as subject and text. */
  sent(to: string): Promise<{ readonly subject: string; readonly text: string }[]>;
  /** Writes a configuration with the model, and returns its path. */
  configure(changes?: { readonly platform?: string; readonly agent?: string; readonly more?: string }): string;
}

export async function startMailbox(): Promise<Mailbox> {
  const folder = newFolder();
  const out: Delivered[] = [];
  const server = await startMailServer({ address, password, others: (mail) => out.push(mail) });
  onTestFinished(() => server.close());
  const model = await startModel();
  let count = 0;
  writeFileSync(join(folder, "password"), `${password}\n`, { mode: 0o600 });
  writeFileSync(join(folder, "model-key"), "model-key-12345\n", { mode: 0o600 });
  return {
    server,
    model,
    folder,
    receive(from, subject, text) {
      count += 1;
      const date = new Date().toUTCString().replace("GMT", "+0000");
      const head = `From: ${from}\r\nTo: ${address}\r\nSubject: ${subject}\r\nDate: ${date}\r\n`;
      server.deliver(`${head}Message-ID: <m${count}@customer.test>\r\n\r\n${text}\r\n`);
    },
    async sent(to) {
      const theirs = out.filter((mail) => mail.to.includes(to));
      return Promise.all(
        theirs.map(async ({ raw }) => {
          const { subject = "", text = "" } = await PostalMime.parse(Buffer.from(raw, "latin1"));
          return { subject, text };
        }),
      );
    },
    configure({ platform = "embedded", agent = "{}", more = "" } = {}) {
      const login = `tls: none, user: ${address}, password: "\${file:password}"`;
      const file = join(folder, "bridgehead.yaml");
      writeFileSync(
        file,
        `
platform: ${platform}
model: { url: "${model.url}", key: "\${file:model-key}", name: some-model }
agents: { support: ${agent} }
channels:
  support-mail:
    adapter: email
    agent: support
    imap: { host: 127.0.0.1, port: ${server.imapPort}, ${login} }
    smtp: { host: 127.0.0.1, port: ${server.smtpPort}, ${login} }
    first_start: { history: 1h }
http: { listen: "127.0.0.1:0" }
store: sqlite:bridgehead.db
log: { format: json }
${more}`,
      );
      return file;
    },
  };
}

/** Resolves when `count` mails were sent to the address. */
export async function answers(mailbox: Mailbox, to: string, count: number): Promise<string[]> {
  await expect.poll(async () => (await mailbox.sent(to)).length).toBe(count);
  return (await mailbox.sent(to)).map(({ text }) => text);
}

// An OAuth2 issuer: a token endpoint, and the introspection that a mail server asks (RFC 6749, RFC 7662).

export interface TokenIssuer {
  readonly tokenUrl: string;
  readonly introspectionUrl: string;
  /** Refresh requests so far. */
  readonly requests: readonly URLSearchParams[];
  /** Is this access token good now? */
  good(user: string, token: string): boolean;
  /** Seconds that new tokens live. */
  lifetime(seconds: number): void;
  /** All tokens given out so far end now. */
  revokeTokens(): void;
  /** Every refresh answers with another refresh token, and voids the one it was asked with. */
  rotate(on: boolean): void;
  /** The only refresh token that is good now. */
  readonly refreshToken: string;
  /** The token endpoint answers with this error from now on; null ends it. */
  fail(error: { readonly status: number; readonly code: string } | null): void;
  close(): Promise<void>;
}

/** Tokens are for `user`. */
export async function startTokenIssuer(user: string): Promise<TokenIssuer> {
  const requests: URLSearchParams[] = [];
  const tokens = new Map<string, number>();
  let seconds = 3600;
  let rotating = false;
  let current = "refresh";
  let failure: { status: number; code: string } | null = null;
  const good = (name: string, token: string) => name === user && (tokens.get(token) ?? 0) > Date.now();

  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (data) => (body += data));
    request.on("end", () => {
      const form = new URLSearchParams(body);
      const answer = (status: number, content: object) => {
        response.writeHead(status, { "content-type": "application/json" });
        response.end(JSON.stringify(content));
      };
      if (request.url?.startsWith("/introspect")) {
        const token = form.get("token") ?? "";
        return answer(200, { active: good(user, token), username: user });
      }
      requests.push(form);
      if (failure !== null) return answer(failure.status, { error: failure.code });
      const isApp = form.get("grant_type") === "client_credentials";
      if (isApp && form.get("client_secret") !== "app secret") return answer(401, { error: "invalid_client" });
      if (!isApp && form.get("refresh_token") !== current) return answer(400, { error: "invalid_grant" });
      if (rotating) current = `refresh-${requests.length}`;
      const token = `token-${requests.length}-${Math.random().toString(36).slice(2)}`;
      tokens.set(token, Date.now() + seconds * 1000);
      answer(200, {
        access_token: token,
        expires_in: seconds,
        token_type: "Bearer",
        ...(rotating && { refresh_token: current }),
      });
    });
  });
  const base = await listen(server);
  return {
    tokenUrl: `${base}/token`,
    introspectionUrl: `${base}/introspect`,
    requests,
    good,
    lifetime: (value) => {
      seconds = value;
    },
    revokeTokens: () => tokens.clear(),
    rotate: (on) => {
      rotating = on;
      current = "refresh";
    },
    get refreshToken() {
      return current;
    },
    fail: (error) => {
      failure = error;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
