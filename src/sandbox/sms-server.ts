// HTTP server of the fake REST API: the requests to api.twilio.com/2010-04-01 that a bridge makes, with
// responses, errors and faults.

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
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
  /** SID of the message if it was accepted, independently of the response. */
  readonly sid: string | null;
  /** Status of the response; null when none was sent. */
  readonly status: number | null;
}

export interface ServerOptions {
  readonly accountSid: string;
  readonly authToken: string;
  /** A second credential, like a Twilio API key. */
  readonly apiKey?: { readonly sid: string; readonly secret: string };
  /** Our number: the default `to` of texts from customers. */
  readonly number: string;
  readonly clock: Clock;
  readonly faults: Faults;
  readonly inbound: readonly SmsMessage[];
  /** The URL that texts to our number are posted to. */
  readonly webhook: () => string | undefined;
  readonly changed: () => void;
  /** Called after the response (if any) when a text was accepted. */
  readonly taken: (message: SmsMessage, fails: { readonly code: number; readonly as: string } | null) => void;
}

export class ApiServer {
  readonly creates: Create[] = [];
  readonly sent: SmsMessage[] = [];
  readonly calls: FakeCall[] = [];
  readonly lists: string[] = [];
  readonly fetched: { readonly sid: string; readonly authorization: boolean }[] = [];
  readonly #options: ServerOptions;
  readonly #api = createServer((request, response) => {
    response.setHeader("date", new Date(this.#options.clock.now()).toUTCString());
    this.#serve({ request, response }).catch(() => request.socket.destroy());
  });
  readonly #cdn = createServer((request, response) => this.#download(request, response));
  #url = "";

  constructor(options: ServerOptions) {
    this.#options = options;
    // Keeps idle connections open for longer than any client, like providers do: a request on a connection that is
    // being closed has an unknown outcome, and a loaded machine may pause for longer than the usual timeout.
    for (const one of [this.#api, this.#cdn]) one.keepAliveTimeout = 120_000;
  }

  /** Listens on free ports of 127.0.0.1. */
  async listen(): Promise<void> {
    await Promise.all([listen(this.#api, 0), listen(this.#cdn, 0)]);
    this.#url = originOf(this.#api);
  }

  get url(): string {
    return this.#url;
  }

  /** Called when a webhook response contains text, which the provider then sends. */
  replied(to: SmsMessage, body: string): void {
    const parties = { from: to.to, to: to.from ?? "" };
    const [sid, direction] = [newSid("SM"), "outbound-reply"] as const;
    this.sent.push({ ...to, sid, direction, ...parties, body, media: [] });
  }

  down(): Promise<void> {
    return shut(this.#api);
  }

  async up(): Promise<void> {
    await listen(this.#api, Number(new URL(this.#url).port));
  }

  async close(): Promise<void> {
    await Promise.all([shut(this.#api), shut(this.#cdn)]);
  }

  get #messages(): readonly SmsMessage[] {
    return [...this.#options.inbound, ...this.sent];
  }

  async #serve(exchange: ApiExchange): Promise<void> {
    const { request, response } = exchange;
    const { accountSid, faults } = this.#options;
    const base = `/2010-04-01/Accounts/${accountSid}`;
    const url = new URL(request.url ?? "/", "http://sandbox");
    if (!authorized(request, this.#options)) return fail({ code: 20003 }, exchange);
    const path = url.pathname.startsWith(base) ? url.pathname.slice(base.length) : "";
    const post = request.method === "POST";
    if (path === "/Messages.json") return post ? this.#create(exchange) : this.#list(url, exchange);
    if (path === "/Calls.json")
      return post
        ? this.#call(exchange)
        : answer(
            response,
            200,
            page(this.calls, url, "calls", (one) => callJson(accountSid, one)),
          );
    const [, listed = ""] = /^\/Messages\/(\w+)\/Media\.json$/.exec(path) ?? [];
    const owner = this.#messages.find((one) => one.sid === listed);
    if (owner) return answer(response, 200, mediaJson(accountSid, owner));
    const [, sid = "", media = ""] = /^\/Messages\/(\w+)(?:\/Media\/(\w+))?(?:\.json)?$/.exec(path) ?? [];
    const message = this.#messages.find((one) => one.sid === sid);
    if (message && media !== "") return this.#redirect(message, media, exchange);
    const fault = faults.due("read");
    if (fault) return fail(fault, exchange);
    if (message) return answer(response, 200, messageJson(accountSid, message));
    const found = this.calls.find((one) => path === `/Calls/${one.sid}.json`);
    if (found) return answer(response, 200, callJson(accountSid, found));
    if (path === "/IncomingPhoneNumbers.json") return this.#numbers(url, response);
    if (path === ".json") return answer(response, 200, { sid: accountSid, status: "active", type: "Full" });
    fail({ code: 20404 }, exchange);
  }

  #numbers(url: URL, response: ServerResponse): void {
    const { number, webhook } = this.#options;
    const wanted = url.searchParams.get("PhoneNumber");
    const own = { phone_number: number, sms_url: webhook() ?? "", sms_application_sid: "" };
    answer(response, 200, { incoming_phone_numbers: wanted === null || wanted === number ? [own] : [] });
  }

  async #create(exchange: ApiExchange): Promise<void> {
    const { accountSid, clock, faults, changed, taken } = this.#options;
    const { request } = exchange;
    if (faults.unread("create")) return void request.socket.resetAndDestroy();
    const form = await formOf(request);
    const fault = faults.due("create", form);
    const note = (sid: string | null, status: number | null) => {
      const media = form.getAll("MediaUrl");
      this.creates.push({ at: clock.now(), form: Object.fromEntries(form), media, sid, status });
      changed();
    };
    const wrong = checkMessage(form);
    const refusal = fault !== null && !takes(fault) ? fault : wrong === null ? null : { code: wrong };
    if (refusal !== null) {
      note(null, statusOf(refusal));
      return fail(refusal, exchange);
    }
    const message = messageFrom(form, clock.now());
    this.sent.push(message);
    note(message.sid, fault === "cut-stored" || fault === "hang-stored" ? null : 201);
    await this.#finish(fault, messageJson(accountSid, message), exchange);
    taken(message, failure(fault));
  }

  /** Sends the response for an accepted request, unless a fault suppresses it. */
  async #finish(
    fault: SmsFault | null,
    json: Record<string, unknown>,
    { request, response }: ApiExchange,
  ): Promise<void> {
    if (typeof fault === "object" && fault !== null && "slow" in fault) await this.#options.clock.sleep(fault.slow);
    if (fault === "cut-stored") request.socket.resetAndDestroy();
    else if (fault !== "hang-stored") answer(response, 201, json);
  }

  async #call(exchange: ApiExchange): Promise<void> {
    const { accountSid, clock, faults, changed } = this.#options;
    const form = await formOf(exchange.request);
    const fault = faults.due("call", form);
    if (fault !== null && !takes(fault)) return fail(fault, exchange);
    const wrong = checkCall(form);
    if (wrong !== null) return fail({ code: wrong }, exchange);
    const record: FakeCall = {
      sid: newSid("CA"),
      from: form.get("From") ?? "",
      to: form.get("To") ?? "",
      url: form.get("Url") ?? "",
      method: form.get("Method") ?? "POST",
      statusCallback: form.get("StatusCallback"),
      machineDetection: form.get("MachineDetection"),
      createdAt: clock.now(),
      status: "queued",
    };
    this.calls.push(record);
    await this.#finish(fault, callJson(accountSid, record), exchange);
    changed();
  }

  #list(url: URL, exchange: ApiExchange): void {
    const { accountSid, faults, changed } = this.#options;
    this.lists.push(decodeURIComponent(url.search));
    changed();
    const fault = faults.due("list");
    if (fault) return fail(fault, exchange);
    const all = this.#messages.toSorted((a, b) => a.createdAt - b.createdAt);
    answer(
      exchange.response,
      200,
      page(all, url, "messages", (one) => messageJson(accountSid, one)),
    );
  }

  #redirect(message: SmsMessage, sid: string, exchange: ApiExchange): void {
    const fault = this.#options.faults.due("media");
    if (fault) return fail(fault, exchange);
    const media = message.media.find((one) => one.sid === sid);
    if (!media) return fail({ code: 20404 }, exchange);
    const location = media.location ?? `${originOf(this.#cdn)}/cdn/${message.sid}/${sid}?signed=1`;
    exchange.response.writeHead(307, { location }).end();
  }

  /** Like an object store, requires no credentials besides the signed URL. */
  #download(request: IncomingMessage, response: ServerResponse): void {
    const [, sid = ""] = /^\/cdn\/\w+\/(\w+)\?signed=1$/.exec(request.url ?? "") ?? [];
    const media = this.#options.inbound.flatMap((one) => one.media).find((one) => one.sid === sid);
    const authorization = request.headers.authorization !== undefined;
    if (media) this.fetched.push({ sid, authorization });
    this.#options.changed();
    if (!media || authorization) return void response.writeHead(media ? 400 : 404).end();
    const { type, bytes } = media;
    response.writeHead(200, { "content-type": type, "content-length": bytes.length }).end(bytes);
  }
}

interface ApiExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

function authorized({ headers }: IncomingMessage, options: ServerOptions): boolean {
  const logins = [`${options.accountSid}:${options.authToken}`];
  if (options.apiKey) logins.push(`${options.apiKey.sid}:${options.apiKey.secret}`);
  return logins.some((login) => headers.authorization === `Basic ${Buffer.from(login).toString("base64")}`);
}

/** Returns whether the request takes effect despite the fault. */
const takes = (fault: SmsFault): boolean =>
  typeof fault === "object" ? "slow" in fault || "fails" in fault : fault === "cut-stored" || fault === "hang-stored";

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

function fail(fault: SmsFault, { request, response }: ApiExchange): void {
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

/** Rejects when the port is not free. */
const listen = (server: Server, port: number): Promise<unknown> => once(server.listen(port, "127.0.0.1"), "listening");

/** Closes the server and aborts all connections. */
const shut = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });

const originOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const formOf = async (request: IncomingMessage): Promise<URLSearchParams> => new URLSearchParams(await text(request));

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
