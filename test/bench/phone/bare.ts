// The baseline for texts and calls: a relay on node:http and ws that stores nothing. It checks Twilio's signature with
// node:crypto, answers, asks the platform and sends the answer. Arguments: one JSON object (BarePhoneOptions). Prints `ready`.

import { createHmac } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { Pool } from "undici";
import { WebSocketServer } from "ws";

export interface BarePhoneOptions {
  readonly port: number;
  /** The address over which requests are signed. */
  readonly publicUrl: string;
  readonly platform: string;
  readonly key: string;
  readonly twilio: string;
  readonly accountSid: string;
  readonly authToken: string;
  readonly number: string;
}

const options = JSON.parse(process.argv[2] ?? "") as BarePhoneOptions;
const { accountSid, authToken, number } = options;
const relay = `${options.publicUrl.replace("https", "wss")}/relay`;
const platform = new Pool(options.platform, { connections: 64 });
const twilio = new Pool(options.twilio, { connections: 64 });
const login = `Basic ${Buffer.from(`${accountSid}:${authToken}`).toString("base64")}`;

async function ask(path: string, body: object): Promise<Record<string, string>> {
  const response = await platform.request({
    method: "POST",
    path,
    headers: { "agent-secret-key": options.key, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (response.statusCode >= 300) throw new Error(`${path}: HTTP ${response.statusCode}`);
  return (await response.body.json()) as Record<string, string>;
}

const begin = async (channel: string, phoneNumber: string): Promise<string> =>
  (await ask("/external/conversations/start", { channel, firstName: "", lastName: "", phoneNumber }))[
    "conversationId"
  ] ?? "";
const put = async (conversation: string, message: string): Promise<string> =>
  (await ask(`/external/conversations/${conversation}/messages`, { message }))["message"] ?? "";

async function answerText(from: string, text: string): Promise<void> {
  const answer = await put(await begin("sms", from), text);
  const response = await twilio.request({
    method: "POST",
    path: `/2010-04-01/Accounts/${accountSid}/Messages.json`,
    headers: { authorization: login, "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ To: from, From: number, Body: answer }).toString(),
  });
  if (response.statusCode !== 201) throw new Error(`sending: HTTP ${response.statusCode}`);
  await response.body.dump();
}

function isSigned(request: IncomingMessage, url: string, form: Readonly<Record<string, string>>): boolean {
  const signed = Object.keys(form)
    .sort()
    .reduce((text, name) => text + name + form[name], url);
  return request.headers["x-twilio-signature"] === createHmac("sha1", authToken).update(signed).digest("base64");
}

const server = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk: Buffer) => (body += chunk.toString()));
  request.on("end", () => {
    const form = Object.fromEntries(new URLSearchParams(body));
    if (!isSigned(request, options.publicUrl + (request.url ?? ""), form)) {
      response.writeHead(403).end();
      return;
    }
    response.writeHead(200, { "content-type": "text/xml" });
    if (request.url === "/inbound") {
      response.end("<Response/>");
      answerText(form["From"] ?? "", form["Body"] ?? "").catch((error: unknown) => console.error(error));
      return;
    }
    response.end(
      `<Response><Connect><ConversationRelay url="${relay}"><Parameter name="token" value="none"/></ConversationRelay></Connect></Response>`,
    );
  });
});

const sockets = new WebSocketServer({ noServer: true });
server.on("upgrade", (request, socket, head) => {
  if (!isSigned(request, relay, {})) {
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
    return;
  }
  sockets.handleUpgrade(request, socket, head, (ws) => {
    let conversation: Promise<string> = Promise.resolve("");
    ws.on("message", (data: Buffer) => {
      const frame = JSON.parse(data.toString()) as { type: string; from: string; voicePrompt: string };
      if (frame.type === "setup") conversation = begin("voice", frame.from);
      if (frame.type !== "prompt") return;
      conversation
        .then((id) => put(id, frame.voicePrompt))
        .then((token) => ws.send(JSON.stringify({ type: "text", token, last: true })))
        .catch((error: unknown) => console.error(error));
    });
  });
});
server.keepAliveTimeout = 60_000;
server.listen(options.port, "127.0.0.1", () => process.stdout.write("ready\n"));
