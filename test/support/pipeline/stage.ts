// What one stage of the pipeline needs: a real store in which every change of a state is written down and held against
// states.ts, a channel, and a scripted platform.

import { type ServerResponse } from "node:http";
import type { Clock, Log } from "bridgehead/contract";
import { expect, onTestFinished } from "vitest";
import { machines } from "../../../src/domain/states.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { type Rate, RateReserve, rateOf } from "../../../src/store/rates.ts";
import { notFound } from "../../../src/wire/record.ts";
import { agentRecord, conversationRecord, emailSkill, messageRecord } from "../client/client.ts";
import { bodyServer, serve } from "../machine/network.ts";
import { fresh, type NewDatabase, sqliteDatabase } from "../store/databases.ts";

export { activeSettings, eventRow, lineOf, receipt } from "../rows.ts";

/** A store whose transitions are checked when the test ends. SQLite: its triggers are short. */
export async function watched(newDatabase: NewDatabase = sqliteDatabase): Promise<Database> {
  const db = await fresh(newDatabase);
  await db.tx(async (q) => {
    await q.run("CREATE TABLE moves (what TEXT, before TEXT, after TEXT)");
    for (const table of Object.keys(machines)) {
      await q.run(
        `CREATE TRIGGER watch_${table} AFTER UPDATE OF state ON ${table} WHEN OLD.state <> NEW.state
         BEGIN INSERT INTO moves VALUES ('${table}', OLD.state, NEW.state); END`,
      );
    }
  });
  onTestFinished(async () => expect(await forbidden(db)).toEqual([]));
  return db;
}

/** Moves that states.ts does not know. */
async function forbidden(db: Database): Promise<string[]> {
  const moves = await db.read((q) =>
    q.all<{ what: keyof typeof machines; before: string; after: string }>(
      "SELECT DISTINCT what, before, after FROM moves",
    ),
  );
  return moves
    .filter(
      ({ what, before, after }) => !(machines[what] as Record<string, readonly string[]>)[before]?.includes(after),
    )
    .map(({ what, before, after }) => `${what}: ${before} -> ${after}`);
}

/** Puts a row into a state to begin with, without that being a move. */
export async function put(q: Query, table: keyof typeof machines, id: string, set: string): Promise<void> {
  await q.run(`UPDATE ${table} SET ${set} WHERE id = $1`, id);
  await q.run("DELETE FROM moves");
}

export const clock: Clock = systemClock;

/** The platform's rate limit as a node has it; generous unless `rate` is given. */
export const reserveOf = (
  db: Database,
  time: Clock,
  rate: Partial<Pick<Rate, "interval" | "tolerance">> = {},
): RateReserve =>
  new RateReserve({
    db,
    clock: time,
    log: listen().log,
    name: "platform",
    rate: { ...rateOf(100_000, 60_000, standardTiming.rate), ...rate },
    timing: standardTiming,
  });

export interface Heard {
  readonly log: Log;
  readonly lines: string[];
  readonly entries: readonly { readonly fields: unknown; readonly text: string }[];
}

/** A log that keeps its entries. */
export function listen(): Heard {
  const lines: string[] = [];
  const entries: { fields: unknown; text: string }[] = [];
  const hear = (fields: unknown, text: string) => {
    lines.push(text);
    entries.push({ fields, text });
  };
  return { lines, entries, log: { debug: () => undefined, info: hear, warn: hear, error: hear } };
}

// A platform on a real socket that keeps people, conversations and messages, and misbehaves where a test says so.

type Operation = "start" | "ask" | "say" | "look" | "search" | "mode" | "describe";

/** One request as a fault sees it. */
export interface Asked {
  readonly operation: Operation;
  /** The platform's conversation, or the empty string. */
  readonly conversation: string;
  /** What was asked, or the person's address of a start. */
  readonly words: string;
  readonly body: { readonly [name: string]: string };
  readonly query: URLSearchParams;
  /** Does what the operation does, and returns the answer's body; null for 404. */
  perform(): object | null;
  answer(status: number, body: object | null, headers?: { [name: string]: string }): void;
  /** Cuts the line. */
  cut(): void;
}
type Fault = (asked: Asked) => unknown;

export interface ScriptedPlatform {
  readonly url: string;
  /** Every call in order: "start ada@example.org", "ask hello", "say hello", "look p1", "search", "mode p1", "describe". */
  readonly calls: string[];
  /** What an operation does instead, while it is set. */
  readonly faults: { [operation in Operation]?: Fault };
  readonly messages: Map<string, ReturnType<typeof messageRecord>[]>;
  mode: "ai" | "manual";
  /** A start continues the person's conversation. Default: false. */
  continues: boolean;
  /** How often it was called that way. */
  count(begin: string): number;
  /** Writes the answer to a conversation's last question, as a person at the platform does. */
  reply(conversation: string, text: string): void;
}

export async function startPlatform(): Promise<ScriptedPlatform> {
  const people = new Map<string, string[]>();
  let ids = 0;
  const platform: ScriptedPlatform = {
    url: "",
    calls: [],
    faults: {},
    messages: new Map(),
    mode: "ai",
    continues: false,
    count: (begin) => platform.calls.filter((call) => call.startsWith(begin)).length,
    reply(conversation, text) {
      const known = platform.messages.get(conversation) ?? [];
      const over = { conversationMessageId: known.at(-1)?.id };
      known.push(messageRecord(`a${++ids}`, "assistant", text, over));
    },
  };

  function start(body: { fkId: string }): object {
    const earlier = people.get(body.fkId)?.at(-1);
    if (platform.continues && earlier !== undefined) return { conversationId: earlier };
    const id = `p${++ids}`;
    people.set(body.fkId, [...(people.get(body.fkId) ?? []), id]);
    platform.messages.set(id, []);
    return { conversationId: id };
  }

  function ask(conversation: string, text: string): object | null {
    const known = platform.messages.get(conversation);
    if (!known) return null;
    known.push(messageRecord(`q${++ids}`, "conversation_user", text));
    platform.reply(conversation, `answer to ${text}`);
    return known.at(-1) ?? null;
  }

  function say(conversation: string, text: string): object | null {
    const known = platform.messages.get(conversation);
    known?.push(messageRecord(`h${++ids}`, "manual_assistant", text));
    return known?.at(-1) ?? null;
  }

  function search(fkId: string): object | null {
    const conversationIds = people.get(fkId);
    if (!conversationIds) return null;
    return {
      user: { id: fkId, firstName: "A", lastName: "B", isAnonymized: false },
      conversationIds,
    };
  }

  function perform(operation: Operation, conversation: string, body: Record<string, string>): object | null {
    const messages = platform.messages.get(conversation);
    switch (operation) {
      case "start":
        return start(body as { fkId: string });
      case "ask":
        return ask(conversation, body["message"] ?? "");
      case "say":
        return say(conversation, body["message"] ?? "");
      case "look":
        return messages ? { messages } : null;
      case "search":
        return search(body["query"] ?? "");
      case "mode":
        return messages ? conversationRecord({ id: conversation, mode: platform.mode }) : null;
      case "describe":
        return agentRecord([emailSkill({ responseDelaySeconds: 0 })]);
    }
  }

  const server = bodyServer((text, response, request) => {
    const url = new URL(request.url ?? "", "http://platform");
    const conversation = decodeURIComponent(/conversations\/([^/]+)/.exec(url.pathname)?.[1] ?? "");
    const operation = operationOf(request.method ?? "", url.pathname);
    const body = text
      ? (JSON.parse(text) as Record<string, string>)
      : { query: url.searchParams.get("fkId") ?? url.searchParams.get("value") ?? url.search };
    const words = {
      start: body["email"],
      ask: body["message"],
      say: body["message"],
      look: conversation,
      mode: conversation,
    };
    const said = words[operation as keyof typeof words] ?? "";
    platform.calls.push(`${operation} ${said}`.trim());
    const asked: Asked = {
      operation,
      conversation,
      words: said,
      body,
      query: url.searchParams,
      perform: () => perform(operation, conversation, body),
      answer: (status, answer, headers) => respond(response, status, answer, headers),
      cut: () => request.socket.resetAndDestroy(),
    };
    const fault = platform.faults[operation];
    if (fault) fault(asked);
    else asked.answer(200, asked.perform());
  });
  const url = await serve(server);
  return Object.assign(platform, { url });
}

function operationOf(method: string, path: string): Operation {
  if (path.endsWith("/by-api-key")) return "describe";
  if (path.endsWith("/start")) return "start";
  if (path.endsWith("/send-manual-message")) return "say";
  if (path.endsWith("/messages")) return method === "POST" ? "ask" : "look";
  return path.includes("/search") ? "search" : "mode";
}

function respond(
  response: ServerResponse,
  status: number,
  body: object | null,
  headers: { [name: string]: string } = {},
): void {
  const all = { "content-type": "application/json", ...headers };
  if (body) response.writeHead(status, all).end(JSON.stringify(body));
  else response.writeHead(404, all).end(JSON.stringify(notFound));
}

/** Answers with that status, and does nothing. */
export const refusing =
  (status: number, headers: { [name: string]: string } = {}): Fault =>
  (asked) =>
    asked.answer(status, status === 404 ? notFound : { status, name: "ERROR", message: "no" }, headers);

/** Cuts the line, having done it (`after`) or not. */
export const cutting =
  (when: "before" | "after"): Fault =>
  (asked) => {
    if (when === "after") asked.perform();
    asked.cut();
  };
