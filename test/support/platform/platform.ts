// The embedded platform with two agents of one organization and one of another, a caller, a receiver of its webhooks, a
// model and documents.

import { type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { crc32, deflateRawSync, deflateSync } from "node:zlib";
import { onTestFinished } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import type { ModelDefinition } from "../../../src/platform/agents/definition.ts";
import { type Platform, type PlatformOptions, readAgents, startPlatform } from "../../../src/platform/index.ts";
import { openDatabase } from "../../../src/platform/store/store.ts";
import { bodyServer, type Fault, serve } from "../machine/network.ts";
import { silentLog } from "../resources.ts";

export const keys = { support: "support-key-1", sales: "sales-key-2", other: "other-key-3" };

const acme = `
organization: { name: Acme, key: acme-organization-key }
agents:
  support:
    public_name: Acme Support
    key: ${keys.support}
    description: Answers customers
    instructions: Be brief.
    skills:
      email:
        email: support@acme.test
        senderName: Ada from Acme
        emailSignature: "Ada\\nAcme"
        responseDelaySeconds: 5
      sms: { phoneNumber: "+15550100", smsSignature: { en: "- Ada" } }
    rules:
      - { when: "refund|money back", answer: "Refunds take five days." }
      - { when: "/order\\\\s+#?\\\\d+/", answer: "That order ships today." }
    knowledge:
      - { title: Opening hours, text: "The shop is open from nine to five on weekdays." }
      - { title: Shipping, text: "Parcels to Norway take four days and cost twelve euros." }
    default_answer: I do not know that.
  sales: { key: ${keys.sales} }
`;
const other = `
organization: { name: Other }
agents: { support: { key: ${keys.other} } }
`;

const quiet = () => {};

/** Makes the platform's file one of a newer version. */
export function newerPlatform(file: string): void {
  const db = openDatabase(file, "normal");
  db.pragma("user_version = 9999");
  db.close();
}

/** Starts the platform with the agents of a YAML text: in memory, on a free port, without a log and with a high rate. */
export const startPlatformOf = (agents: string, over: Partial<PlatformOptions> = {}): Promise<Platform> =>
  startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    agents: readAgents(agents, "agents.yaml"),
    clock: systemClock,
    log: silentLog,
    rate: { requests: 1_000_000, perSeconds: 60 },
    ...over,
  });

export function startTestPlatform(over: Partial<PlatformOptions> = {}): Promise<TestPlatform> {
  return startWith({
    agents: [...readAgents(acme, "acme.yaml"), ...readAgents(other, "other.yaml")],
    ...over,
  });
}

export interface TestPlatform {
  readonly platform: Platform;
  readonly errors: unknown[];
  /** One request under a key; `body` is sent as JSON, or as it is when it is a string. */
  readonly call: (method: string, path: string, body?: unknown, key?: string) => Promise<Answered>;
  /** Opens a conversation by e-mail and gives its id. */
  readonly open: (email?: string, key?: string) => Promise<string>;
}
interface Answered {
  readonly status: number;
  readonly headers: Headers;
  // Tests read properties of any response.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

export async function startWith(
  options: Partial<PlatformOptions> & Pick<PlatformOptions, "agents">,
): Promise<TestPlatform> {
  const errors: unknown[] = [];
  const note = (fields: object) => void errors.push({ ...fields });
  const platform = await startPlatform({
    file: ":memory:",
    listen: { host: "127.0.0.1", port: 0 },
    clock: systemClock,
    log: { debug: quiet, info: quiet, warn: note, error: note },
    rate: { requests: 100_000, perSeconds: 60 },
    ...options,
  });
  onTestFinished(() => platform.close());
  const call: TestPlatform["call"] = async (method, path, body, key = keys.support) => {
    const response = await fetch(`${platform.url}/external/${path}`, {
      method,
      headers: { ...(key ? { "Agent-Secret-Key": key } : {}), "content-type": "application/json" },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text && JSON.parse(text) };
  };
  return {
    platform,
    errors,
    call,
    async open(email = "jo@example.test", key = keys.support) {
      const answered = await call("POST", "conversations/start", startByEmail(email), key);
      return answered.body.conversationId as string;
    },
  };
}

export const startByEmail = (email: string, over: object = {}) => ({
  firstName: "Jo",
  lastName: "Doe",
  channel: "email",
  email,
  emailSubject: "A question",
  emailIntroduction: "Thank you for writing.",
  ...over,
});

// A webhook's receiver, over a real socket.

export interface Delivered {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // Tests read properties of any response.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** A webhook receiver with a scripted response, 204 by default. */
export async function receiver() {
  const got: Delivered[] = [];
  let status = 204;
  const server = bodyServer((text, response, request) => {
    got.push({ headers: request.headers, text, body: JSON.parse(text) });
    response.writeHead(status, { location: "/elsewhere" }).end();
  });
  const url = `${await serve(server)}/hook`;
  return { url, got, answer: (next: number) => void (status = next) };
}

// Requests that share no connection: a server that stood still for a while closes an idle one just as the next request
// goes out on it.

/** As fetch, on a connection of its own. */

export const fetchFresh = (url: string, init: RequestInit = {}): Promise<Response> => {
  const headers = new Headers(init.headers);
  headers.set("connection", "close");
  return fetch(url, { ...init, headers });
};

// An OpenAI-compatible server with scripted answers.

export interface ModelRequest {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly model: string;
  readonly temperature: number;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}
export type Say = (response: ServerResponse) => void;

export const saying =
  (content: unknown, status = 200): Say =>
  (response) => {
    const body = JSON.stringify({ choices: [{ message: { role: "assistant", content } }] });
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  };

export async function startModel(): Promise<{ url: string; asked: ModelRequest[]; say(next: Say): void }> {
  let say: Say = saying("Hello from the model.");
  const asked: ModelRequest[] = [];
  const server = bodyServer((body, response, request) => {
    const { authorization } = request.headers;
    asked.push({ path: request.url ?? "", authorization, ...JSON.parse(body) });
    say(response);
  });
  return {
    url: `${await serve(server)}/v1/`,
    asked,
    say: (next) => {
      say = next;
    },
  };
}

// What endpoints of models say, event by event, and how they fail at it.

export const event = (data: unknown) => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
export const word = (content: string | null) => event({ choices: [{ index: 0, delta: { content } }] });
export const finish = (reason = "stop") => event({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
const usage = event({ choices: [], usage: { total_tokens: 21 } });
export const done = event("[DONE]");
export const hello = word("Hel") + word("lo.") + finish() + usage + done;

/** A stream of exactly this, ended properly. */
export const streaming =
  (text: string): Fault =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
  };

/** The same, byte by byte: every piece of a character and of a line on its own. */
export const trickling =
  (text: string): Fault =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const byte of Buffer.from(text)) response.write(Buffer.of(byte));
    response.end();
  };

/** Sends this and then nothing more, without an end. */
export const fallingSilent =
  (text: string): Fault =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).write(text);
  };

/** Says this and cuts the line. */
export const cutting =
  (text: string): Fault =>
  (_request, response, socket) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(text, () => socket.destroy());
  };

/** A model at `url`, with the block's other keys. */
export function modelAt(url: string, more = ""): ModelDefinition {
  const text = `organization: { name: A }\nagents: { a: { key: some-key-1, model: { url: "${url}/v1", name: tiny, ${more} } } }`;
  const [agent] = readAgents(text, "a.yaml");
  if (!agent?.model) throw new Error("no model");
  return agent.model;
}

/** The machine's clock, but that waits of less than half a minute are only noted: not for limits below a minute. */
export function impatientClock(waited: number[] = []) {
  const sleep: typeof systemClock.sleep = (ms, signal) => {
    if (ms >= 30_000) return systemClock.sleep(ms, signal);
    waited.push(ms);
    return Promise.resolve();
  };
  return { ...systemClock, sleep };
}

// Documents as people upload them, made by hand: a PDF, a Word document, a page.

/** A PDF of one page with one line. */
export function pdfOf(line: string): Uint8Array<ArrayBuffer> {
  return pdfWith("", `BT /F1 12 Tf 72 720 Td (${line.replace(/[()\\]/g, "\\$&")}) Tj ET`);
}

/** A PDF of some 2 kB whose page shows a letter `letters` times: its content is compressed twice. */
export function pdfBomb(letters: number): Uint8Array<ArrayBuffer> {
  const shown = Buffer.alloc("(a) Tj ".length * letters, "(a) Tj ");
  const content = Buffer.concat([Buffer.from("BT /F1 12 Tf "), shown, Buffer.from(" ET")]);
  const packed = deflateSync(deflateSync(content, { level: 9 }), { level: 9 });
  return pdfWith("/Filter [/FlateDecode /FlateDecode] ", packed.toString("latin1"));
}

function pdfWith(filter: string, stream: string): Uint8Array<ArrayBuffer> {
  const objects = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
    `<< ${filter}/Length ${stream.length} >>\nstream\n${stream}\nendstream`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
  ];
  let text = "%PDF-1.4\n";
  const offsets = objects.map((object, index) => {
    const at = text.length;
    text += `${index + 1} 0 obj\n${object}\nendobj\n`;
    return at;
  });
  const start = text.length;
  const rows = offsets.map((at) => `${String(at).padStart(10, "0")} 00000 n \n`).join("");
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${rows}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`;
  return new Uint8Array(Buffer.from(text, "latin1"));
}

/** A Word document: a heading and one paragraph. */
export function docxOf(heading: string, paragraph: string): Uint8Array<ArrayBuffer> {
  return zipOf(wordMembers(heading, `<w:p><w:r><w:t>${paragraph}</w:t></w:r></w:p>`));
}

/** A Word document of so many paragraphs, compressed. `declared`: what its directory says that its text unpacks to. */
export function docxBomb(paragraphs: number, declared?: number): Uint8Array<ArrayBuffer> {
  const body = "<w:p><w:r><w:t>a</w:t></w:r></w:p>".repeat(paragraphs);
  return zipOf(wordMembers("Bomb", body), { deflate: true, declared });
}

function wordMembers(heading: string, body: string): { readonly [name: string]: string } {
  const main = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";
  const office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument";
  return {
    "[Content_Types].xml": `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`,
    "_rels/.rels": `<?xml version="1.0"?><Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="${office}" Target="word/document.xml"/></Relationships>`,
    "word/document.xml": `<?xml version="1.0"?><w:document xmlns:w="${main}"><w:body><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>${heading}</w:t></w:r></w:p>${body}</w:body></w:document>`,
  };
}

/** A ZIP archive (APPNOTE 4.3). `declared`: the unpacked size that it names for each member. */
function zipOf(
  members: { readonly [name: string]: string },
  { deflate = false, declared }: { deflate?: boolean; declared?: number | undefined } = {},
): Uint8Array<ArrayBuffer> {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const [name, text] of Object.entries(members)) {
    const plain = Buffer.from(text, "utf8");
    const data = deflate ? deflateRawSync(plain) : plain;
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(deflate ? 8 : 0, 4);
    common.writeUInt32LE(crc32(plain), 10);
    common.writeUInt32LE(data.length, 14);
    common.writeUInt32LE(declared ?? plain.length, 18);
    common.writeUInt16LE(name.length, 22);
    const local = Buffer.concat([Buffer.from("PK\u0003\u0004", "latin1"), common, Buffer.from(name), data]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(offset, 10);
    directory.push(
      Buffer.concat([Buffer.from("PK\u0001\u0002\u0014\u0000", "latin1"), common, rest, Buffer.from(name)]),
    );
    parts.push(local);
    offset += local.length;
  }
  const list = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\u0005\u0006", 0, "latin1");
  end.writeUInt16LE(directory.length, 8);
  end.writeUInt16LE(directory.length, 10);
  end.writeUInt32LE(list.length, 12);
  end.writeUInt32LE(offset, 16);
  return new Uint8Array(Buffer.concat([...parts, list, end]));
}
