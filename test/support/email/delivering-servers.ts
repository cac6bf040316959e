// A Dovecot with TLS, an SMTP server that delivers to it, and a model endpoint with a key and two models.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { listen } from "../client/fault-server.ts";
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
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-init-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
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
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += String(chunk)));
    request.on("end", () => {
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
  });
  await listen(server);
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  writeFileSync(join(folder, "ca.pem"), dovecot.ca ?? "");
  writeFileSync(join(folder, "password"), `${dovecot.password}\n`, { mode: 0o600 });
  writeFileSync(join(folder, "model-key"), `${modelKey}\n`, { mode: 0o600 });
  return {
    dovecot,
    smtp,
    model: `http://127.0.0.1:${port}`,
    asked,
    folder,
    env: { NODE_EXTRA_CA_CERTS: join(folder, "ca.pem") },
    servers: ["--imap", `localhost:${dovecot.tlsPort}`, "--smtp", `127.0.0.1:${smtp.port}`],
  };
}
