// A proxy between the daemon and the embedded platform: forwards requests, records them, and injects faults before the
// platform has received the request or after it has answered.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import Sqlite from "better-sqlite3";
import { forbidden, notFound, tooManyRequests } from "../../../src/wire/record.ts";
import { bodyServer, closeServer, freePort, listen } from "../machine/network.ts";

export interface ProxyFault {
  /** `before`: the platform never sees the request. `after`: it has done what was asked. */
  readonly at: "before" | "after";
  readonly how:
    | {
        readonly status: number;
        readonly headers?: { readonly [name: string]: string };
        /** Body of the error as a proxy would write it. */
        readonly foreign?: true;
      }
    /** hang: no response; reset: the connection; truncated: an incomplete response; html, shape: an unreadable
     *  response. */
    | "hang"
    | "reset"
    | "truncated"
    | "html"
    | "shape";
}

export interface ProxyCall {
  readonly method: string;
  readonly path: string;
  /** What the daemon was answered; null for nothing. */
  status: number | null;
  readonly at: number;
  readonly faulty: boolean;
}

export interface PlatformProxy {
  readonly url: string;
  /** Every request of the daemon. Only grows. */
  readonly calls: readonly ProxyCall[];
  /** Fails the next `times` requests like `POST /messages`: a method and a regular expression for the path. */
  fail(call: `${"GET" | "POST"} ${string}`, fault: ProxyFault, times?: number): void;
  heal(): void;
  /** Changes the agent's record on its way to the daemon. */
  settings(change: (agent: AgentRecord) => void): void;
  /** Refuses connections until `up`. */
  down(): Promise<void>;
  up(): Promise<void>;
  close(): Promise<void>;
}

export interface AgentRecord {
  status: string;
  skills: { systemName: string; status: string; [field: string]: unknown }[];
}

interface Rule {
  readonly method: string;
  readonly path: RegExp;
  readonly fault: ProxyFault;
  left: number;
}

/** Listens on a free port of 127.0.0.1. `target`: where the platform is now. */
export async function startPlatformProxy(target: () => string): Promise<PlatformProxy> {
  const calls: ProxyCall[] = [];
  let rules: Rule[] = [];
  let change: (agent: AgentRecord) => void = () => undefined;

  function due(method: string, path: string): ProxyFault | null {
    const rule = rules.find((one) => one.method === method && one.path.test(path));
    if (rule === undefined) return null;
    rule.left -= 1;
    if (rule.left <= 0) rules = rules.filter((one) => one !== rule);
    return rule.fault;
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url = "" } = request;
    const body = await buffer(request);
    const fault = due(method, url);
    const call: ProxyCall = { method, path: url, status: null, at: Date.now(), faulty: fault !== null };
    calls.push(call);
    if (fault?.at === "before") return misbehave(fault.how, "", call, request, response);
    const answer = await fetch(target() + url, {
      method,
      headers: forwarded(request),
      ...(method === "GET" ? {} : { body }),
    });
    let text = await answer.text();
    if (fault) return misbehave(fault.how, text, call, request, response);
    if (url.endsWith("/by-api-key") && answer.ok) {
      const agent = JSON.parse(text) as AgentRecord;
      change(agent);
      text = JSON.stringify(agent);
    }
    call.status = answer.status;
    const retry = answer.headers.get("retry-after");
    response
      .writeHead(answer.status, {
        "content-type": "application/json",
        ...(retry === null ? {} : { "retry-after": retry }),
      })
      .end(text);
  }

  const server = createServer((request, response) => {
    serve(request, response).catch(() => request.socket.destroy());
  });
  server.keepAliveTimeout = 60_000;
  const port = await freePort();
  const up = () => new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  await up();
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    fail(call, fault, times = Number.POSITIVE_INFINITY) {
      const [method = "", path = ""] = call.split(" ");
      rules.push({ method, path: new RegExp(path), fault, left: times });
    },
    heal: () => void (rules = []),
    settings: (next) => void (change = next),
    down: () => closeServer(server),
    up,
    close: async () => {
      if (server.listening) await closeServer(server);
    },
  };
}

function misbehave(
  how: ProxyFault["how"],
  text: string,
  call: ProxyCall,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const type = { "content-type": "application/json" };
  if (typeof how === "object") {
    call.status = how.status;
    const own = [forbidden, notFound, tooManyRequests].find((failure) => failure.status === how.status);
    const body = own ?? { status: how.status, name: "FAULT", message: "made by the test", details: [] };
    const said = how.foreign ? "<html>not here</html>" : JSON.stringify(body);
    response.writeHead(how.status, { ...type, ...how.headers }).end(said);
  } else if (how === "reset") request.socket.resetAndDestroy();
  else if (how === "html") response.writeHead(200, { "content-type": "text/html" }).end("<html>Hello</html>");
  else if (how === "shape") response.writeHead(200, type).end('{"message":{"not":"a text"}}');
  else if (how === "truncated") {
    response.writeHead(200, { ...type, "content-length": String(text.length + 100) });
    response.write(text || '{"id":"', () => request.socket.destroy());
  }
}

const forwarded = ({ headers }: IncomingMessage): Record<string, string> => ({
  "agent-secret-key": String(headers["agent-secret-key"] ?? ""),
  ...(headers["content-type"] === undefined ? {} : { "content-type": headers["content-type"] }),
});

// The model of the embedded platform's agent: it answers every question with the question, so that answers can be
// distinguished. It can be held, like a slow model.

export interface Echo {
  /** For `model.url` of an agent. */
  readonly url: string;
  /** How many questions it has been asked. */
  asked(): number;
  /** Holds all answers until `release`. */
  hold(): void;
  release(): void;
  close(): Promise<void>;
}

/** The answer to a question, as it stands in the reply's text. */
export const echoed = (question: string): string => `You asked: ${question}`;

export async function startEcho(): Promise<Echo> {
  let held = false;
  let count = 0;
  const waiting: (() => void)[] = [];
  const server = bodyServer((body, response) => {
    count += 1;
    const { messages } = JSON.parse(body) as { messages: { content: string }[] };
    const answer = () => say(response, echoed(lastLine(messages.at(-1)?.content ?? "")));
    if (held) waiting.push(answer);
    else answer();
  });
  const url = await listen(server);
  const release = () => {
    held = false;
    for (const answer of waiting.splice(0)) answer();
  };
  return {
    url: `${url}/v1`,
    asked: () => count,
    hold: () => void (held = true),
    release,
    close: () => closeServer(server),
  };
}

function say(response: ServerResponse, content: string): void {
  const body = JSON.stringify({ choices: [{ message: { role: "assistant", content } }] });
  response.writeHead(200, { "content-type": "application/json" }).end(body);
}

/** A new conversation's question begins with the subject. */
export const lastLine = (text: string): string => text.trim().split("\n").at(-1) ?? "";

// Reads the file of the embedded platform next to it.

export interface Question {
  readonly conversation: string;
  readonly text: string;
}

export interface PlatformReader {
  /** Questions in their order. */
  questions(): Question[];
  conversations(): number;
  /** Of the person with that foreign key. */
  conversationsOf(fkId: string): number;
}

/** `file`: where it is now. */
export function platformReader(file: () => string): PlatformReader {
  function all<T>(sql: string, ...values: string[]): T[] {
    const db = new Sqlite(file(), { readonly: true });
    try {
      return db.prepare<string[], T>(sql).all(...values);
    } finally {
      db.close();
    }
  }
  return {
    questions: () =>
      all(
        "SELECT conversation_id AS conversation, text FROM message WHERE sender_role = 'conversation_user' ORDER BY seq",
      ),
    conversations: () => all("SELECT id FROM conversation").length,
    conversationsOf: (fkId) =>
      all(
        "SELECT conversation.id FROM conversation JOIN person ON person.id = conversation.person_id WHERE fk_id = ?",
        fkId,
      ).length,
  };
}
