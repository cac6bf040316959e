// HTTP server of the fake REST API: the requests to api.twilio.com/2010-04-01 that a bridge makes, with
// responses, errors and faults.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock } from "bridgehead/contract";
import { errorJson, type Faults, type SmsFault } from "./sms-faults.ts";
import {
  callJson,
  checkCall,
  checkMessage,
  type FakeCall,
  mediaJson,
  messageFrom,
  messageJson,
  newSid,
  page,
  type SmsMessage,
} from "./sms-records.ts";

/** One request to create a message. */
export interface Create {
  readonly at: number;
  readonly form: Readonly<Record<string, string>>;
  /** Media URLs in order; a form may contain several. */
  readonly media: readonly string[];
  /** SID of the message if it was accepted, whatever the response was. */
  readonly sid: string | null;
  /** Status of the response; null when none was sent. */
  readonly status: number | null;
}

interface ServerOptions {
  readonly accountSid: string;
  readonly authToken: string;
  readonly apiKey?: { readonly sid: string; readonly secret: string };
  readonly clock: Clock;
  readonly faults: Faults;
  readonly inbound: readonly SmsMessage[];
  /** Our number, and the URL that texts to it are posted to. */
  readonly number: string;
  webhook(): string | undefined;
  changed(): void;
  /** Called after the response (if any) when a text was accepted. */
  taken(message: SmsMessage, fails: { readonly code: number; readonly as: string } | null): void;
}

export interface ApiServer {
  readonly url: string;
  readonly creates: readonly Create[];
  readonly sent: readonly SmsMessage[];
  readonly calls: readonly FakeCall[];
  readonly lists: readonly string[];
  readonly fetched: readonly { readonly sid: string; readonly authorization: boolean }[];
  /** Called when a webhook response contains text, which the provider then sends. */
  replied(to: SmsMessage, body: string): void;
  down(): Promise<void>;
  up(): Promise<void>;
  close(): Promise<void>;
}

export async function serveApi(options: ServerOptions): Promise<ApiServer> {
  const { accountSid, clock, faults, inbound } = options;
  const creates: Create[] = [];
  const sent: SmsMessage[] = [];
  const calls: FakeCall[] = [];
  const lists: string[] = [];
  const fetched: { sid: string; authorization: boolean }[] = [];
  const base = `/2010-04-01/Accounts/${accountSid}`;

  async function api(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://sandbox");
    if (!authorized(request, options)) return fail({ code: 20003 }, request, response);
    const path = url.pathname.startsWith(base) ? url.pathname.slice(base.length) : "";
    const post = request.method === "POST";
    if (path === "/Messages.json") return post ? create(request, response) : list(url, request, response);
    if (path === "/Calls.json") return post ? call(request, response) : listCalls(url, response);
    const [, listed = ""] = /^\/Messages\/(\w+)\/Media\.json$/.exec(path) ?? [];
    const owner = [...inbound, ...sent].find((one) => one.sid === listed);
    if (owner) return answer(response, 200, mediaJson(accountSid, owner));
    const [, sid = "", media = ""] = /^\/Messages\/(\w+)(?:\/Media\/(\w+))?(?:\.json)?$/.exec(path) ?? [];
    const message = [...inbound, ...sent].find((one) => one.sid === sid);
    if (message && media !== "") return redirect(message, media, response, request);
    const fault = faults.due("read");
    if (fault) return fail(fault, request, response);
    if (message) return answer(response, 200, messageJson(accountSid, message));
    const found = calls.find((one) => path === `/Calls/${one.sid}.json`);
    if (found) return answer(response, 200, callJson(accountSid, found));
    if (path === "/IncomingPhoneNumbers.json") return numbers(url, response);
    if (path === ".json") return answer(response, 200, { sid: accountSid, status: "active", type: "Full" });
    fail({ code: 20404 }, request, response);
  }

  function numbers(url: URL, response: ServerResponse): void {
    const wanted = url.searchParams.get("PhoneNumber");
    const own = { phone_number: options.number, sms_url: options.webhook() ?? "", sms_application_sid: "" };
    const found = wanted === null || wanted === options.number ? [own] : [];
    answer(response, 200, { incoming_phone_numbers: found });
  }

  async function create(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (faults.unread("create")) return void request.socket.resetAndDestroy();
    const form = await formOf(request);
    const fault = faults.due("create", form);
    const note = (sid: string | null, status: number | null) => {
      creates.push({
        at: clock.now(),
        form: Object.fromEntries(form),
        media: form.getAll("MediaUrl"),
        sid,
        status,
      });
      options.changed();
    };
    const wrong = checkMessage(form);
    const refusal = fault !== null && !takes(fault) ? fault : wrong === null ? null : { code: wrong };
    if (refusal !== null) {
      note(null, statusOf(refusal));
      return fail(refusal, request, response);
    }
    const message = messageFrom(form, clock.now());
    sent.push(message);
    note(message.sid, fault === "cut-stored" || fault === "hang-stored" ? null : 201);
    await finish(fault, messageJson(accountSid, message), request, response);
    options.taken(message, failure(fault));
  }

  /** Sends the response for an accepted request, unless a fault suppresses it. */
  async function finish(
    fault: SmsFault | null,
    json: Record<string, unknown>,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    if (typeof fault === "object" && fault !== null && "slow" in fault) await clock.sleep(fault.slow);
    if (fault === "cut-stored") request.socket.resetAndDestroy();
    else if (fault !== "hang-stored") answer(response, 201, json);
  }

  async function call(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const form = await formOf(request);
    const fault = faults.due("call", form);
    if (fault !== null && !takes(fault)) return fail(fault, request, response);
    const wrong = checkCall(form);
    if (wrong !== null) return fail({ code: wrong }, request, response);
    const record: FakeCall = {
      sid: newSid("CA"),
      from: form.get("From") ?? "",
      to: form.get("To") ?? "",
      url: form.get("Url") ?? "",
      method: form.get("Method") ?? "POST",
      statusCallback: form.get("StatusCallback"),
      createdAt: clock.now(),
      status: "queued",
    };
    calls.push(record);
    await finish(fault, callJson(accountSid, record), request, response);
    options.changed();
  }

  function list(url: URL, request: IncomingMessage, response: ServerResponse): void {
    lists.push(decodeURIComponent(url.search));
    options.changed();
    const fault = faults.due("list");
    if (fault) return fail(fault, request, response);
    const all = [...inbound, ...sent].sort((a, b) => a.createdAt - b.createdAt);
    answer(
      response,
      200,
      page(all, url, "messages", (one) => messageJson(accountSid, one)),
    );
  }

  const listCalls = (url: URL, response: ServerResponse): void =>
    answer(
      response,
      200,
      page(calls, url, "calls", (one) => callJson(accountSid, one)),
    );

  function redirect(
    message: SmsMessage,
    sid: string,
    response: ServerResponse,
    request: IncomingMessage,
  ): void {
    const fault = faults.due("media");
    if (fault) return fail(fault, request, response);
    const media = message.media.find((one) => one.sid === sid);
    if (!media) return fail({ code: 20404 }, request, response);
    const location = media.location ?? `${originOf(cdnServer)}/cdn/${message.sid}/${sid}?signed=1`;
    response.writeHead(307, { location }).end();
  }

  /** Like an object store, requires no credentials beside the signed URL. */
  function cdn(request: IncomingMessage, response: ServerResponse): void {
    const [, sid = ""] = /^\/cdn\/\w+\/(\w+)\?signed=1$/.exec(request.url ?? "") ?? [];
    const media = inbound.flatMap((one) => one.media).find((one) => one.sid === sid);
    const authorization = request.headers.authorization !== undefined;
    if (media) fetched.push({ sid, authorization });
    options.changed();
    if (!media || authorization) return void response.writeHead(media ? 400 : 404).end();
    response
      .writeHead(200, { "content-type": media.type, "content-length": media.bytes.length })
      .end(media.bytes);
  }

  const apiServer = createServer((request, response) => {
    api(request, response).catch(() => request.socket.destroy());
  });
  const cdnServer = createServer(cdn);
  // Keeps idle connections open for longer than any client, like providers do: a request on a connection
  // that is being closed has an unknown outcome, and a loaded machine may pause for longer than the usual
  // timeout.
  for (const server of [apiServer, cdnServer]) server.keepAliveTimeout = 120_000;
  await Promise.all([listen(apiServer, 0), listen(cdnServer, 0)]);
  const url = originOf(apiServer);
  return {
    url,
    creates,
    sent,
    calls,
    lists,
    fetched,
    replied: (to, body) =>
      void sent.push({
        ...to,
        sid: newSid("SM"),
        direction: "outbound-reply",
        from: to.to,
        to: to.from ?? "",
        body,
        media: [],
      }),
    down: () => shut(apiServer),
    up: () => listen(apiServer, Number(new URL(url).port)),
    close: async () => void (await Promise.all([shut(apiServer), shut(cdnServer)])),
  };
}

function authorized({ headers }: IncomingMessage, options: ServerOptions): boolean {
  const logins = [`${options.accountSid}:${options.authToken}`];
  if (options.apiKey) logins.push(`${options.apiKey.sid}:${options.apiKey.secret}`);
  return logins.some((login) => headers.authorization === `Basic ${Buffer.from(login).toString("base64")}`);
}

/** Returns whether the request takes effect despite the fault. */
const takes = (fault: SmsFault): boolean =>
  typeof fault === "object"
    ? "slow" in fault || "fails" in fault
    : fault === "cut-stored" || fault === "hang-stored";

const failure = (fault: SmsFault | null): { code: number; as: string } | null =>
  typeof fault === "object" && fault !== null && "fails" in fault
    ? { code: fault.fails, as: fault.as ?? "undelivered" }
    : null;

const usual: Readonly<Record<number, number>> = { 20003: 401, 20404: 404, 20429: 429, 20500: 500 };

/** Returns the HTTP status for a fault; null when no response is sent. */
function statusOf(fault: SmsFault): number | null {
  if (typeof fault !== "object" || "slow" in fault || "fails" in fault) return null;
  return fault.status ?? ("code" in fault ? (usual[fault.code] ?? 400) : null);
}

function fail(fault: SmsFault, request: IncomingMessage, response: ServerResponse): void {
  const status = statusOf(fault);
  if (status === null || typeof fault !== "object" || "slow" in fault || "fails" in fault) {
    // A hanging request stays silent; every other fault without a response aborts the connection.
    if (fault !== "hang" && fault !== "hang-stored") request.socket.resetAndDestroy();
    return;
  }
  const headers = fault.retryAfter === undefined ? {} : { "retry-after": String(fault.retryAfter) };
  if ("code" in fault) answer(response, status, errorJson(fault.code, status), headers);
  else response.writeHead(status, { "content-type": "text/html", ...headers }).end("<html>not now</html>");
}

// Minimal HTTP server functions for the sandbox: listen, read a form, respond with JSON, close.

const listen = (server: Server, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve());
  });

/** Closes the server and aborts all connections. */
const shut = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });

const originOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function formOf(request: IncomingMessage): Promise<URLSearchParams> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return new URLSearchParams(Buffer.concat(chunks).toString("utf8"));
}

function answer(
  response: ServerResponse,
  status: number,
  json: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  response
    .writeHead(status, { "content-type": "application/json; charset=utf-8", ...headers })
    .end(JSON.stringify(json));
}
