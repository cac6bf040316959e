// The timeline of a conversation: its history as one list in order of time, for the command line and the console. Pure.

import type { DraftHistory, EscalationHistory, EventHistory, History, TurnHistory } from "./history.ts";
import type { AttemptRow } from "./outbox.ts";

export type TimelineKind =
  | "received"
  | "question"
  | "asked"
  | "reply"
  | "queued"
  | "sent"
  | "receipt"
  | "call"
  | "escalation"
  | "notification"
  | "action";

export interface TimelineEntry {
  readonly kind: TimelineKind;
  /** Epoch milliseconds. */
  readonly at: number;
  /** Milliseconds until the end of the step: of an attempt, or of the wait for its due time. Null for an instant, and
   *  while an attempt runs. */
  readonly duration: number | null;
  /** State of the row, or outcome of the attempt. */
  readonly state: string;
  readonly title: string;
  /** The reason of a refusal or failure, or the response of the server. */
  readonly detail: string | null;
  /** What the customer, the agent or an operator wrote. */
  readonly text: string | null;
  /** Ids that a search may start from: `Message-ID`, `draft`, `platform message`. */
  readonly ids: readonly (readonly [name: string, id: string])[];
  /** Number of the message with its raw bytes; null for other steps. */
  readonly raw: number | null;
}

/** Returns the steps of a history, oldest first. Steps of the same millisecond keep the order of the pipeline. */
export function timelineOf(history: History): TimelineEntry[] {
  const entries = [
    ...history.events.map((event) => eventEntry(event, history)),
    ...history.turns.flatMap(turnEntries),
    ...history.replies.map(replyEntry),
    ...history.drafts.flatMap(draftEntries),
    ...history.escalations.flatMap(escalationEntries),
    ...history.actions.map(
      ({ action, actor, detail, event, draft, made_at }): TimelineEntry => ({
        ...instant("action", made_at, action),
        title: `${actor}: ${action} ${event === null ? `draft ${draft}` : `message ${event}`}`,
        detail,
      }),
    ),
  ];
  return entries
    .map((entry, at) => ({ entry, at }))
    .sort((left, right) => left.entry.at - right.entry.at || left.at - right.at)
    .map(({ entry }) => entry);
}

const instant = (kind: TimelineKind, at: number, state: string): Omit<TimelineEntry, "title"> => ({
  kind,
  at,
  duration: null,
  state,
  detail: null,
  text: null,
  ids: [],
  raw: null,
});

const joined = (...parts: readonly (string | null | undefined)[]): string | null =>
  parts.filter((part) => part !== null && part !== undefined && part !== "").join(": ") || null;

/** The fields of stored events that the timeline shows; the body may come from any adapter version. */
interface StoredBody {
  readonly text?: unknown;
  readonly state?: unknown;
  readonly code?: unknown;
  readonly session?: unknown;
  readonly reason?: unknown;
  readonly durationMs?: unknown;
  readonly from?: { readonly name?: unknown };
  readonly about?: { readonly key?: unknown; readonly sent?: unknown };
}

function bodyOf(event: EventHistory): StoredBody {
  try {
    return JSON.parse(event.body) as StoredBody;
  } catch {
    return {};
  }
}

const word = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

function eventEntry(event: EventHistory, history: History): TimelineEntry {
  const body = bodyOf(event);
  if (event.kind === "delivery") return receiptEntry(event, body, history);
  if (event.kind === "session") {
    const state = word(body.state) ?? "changed";
    return {
      ...instant("call", event.received_at, state),
      title: `call ${state}`,
      detail: joined(word(body.reason), event.reason),
      ids: word(body.session) === null ? [] : [["call", word(body.session) ?? ""]],
    };
  }
  const files = event.attachments.map(
    ({ name, size }) => `${name || "(erased)"}${size === null ? "" : ` (${size} bytes)`}`,
  );
  const name = word(body.from?.name);
  return {
    ...instant("received", event.received_at, event.state),
    title: `message ${event.id} from ${event.sender ?? "(erased)"}${name === null ? "" : ` (${name})`}`,
    detail: joined(
      event.state === "routed" ? null : event.state,
      event.code,
      event.reason,
      files.length > 0 ? `attachments: ${files.join(", ")}` : null,
    ),
    text: [event.subject === null ? null : `Subject: ${event.subject}`, word(body.text)]
      .filter((part) => part !== null)
      .join("\n"),
    ids: [
      ...(event.cited === null ? [] : [["Message-ID", event.cited] as const]),
      ["provider", event.external_id],
      ...(event.turn === null ? [] : [["question", event.turn] as const]),
    ],
    raw: event.raw_size === null ? null : event.id,
  };
}

function receiptEntry(event: EventHistory, body: StoredBody, { drafts }: History): TimelineEntry {
  const sent = Array.isArray(body.about?.sent) ? (body.about.sent as unknown[]) : [];
  const key = word(body.about?.key);
  const draft = drafts.find(({ id, external_id }) => id === key || sent.includes(external_id));
  const state = word(body.state) ?? event.state;
  return {
    ...instant("receipt", event.received_at, state),
    title: `delivery receipt: ${state}${draft === undefined ? "" : ` by ${draft.recipient}`}`,
    detail: joined(word(body.code), event.reason),
    ids: draft === undefined ? [] : [["draft", draft.id]],
    raw: event.raw_size === null ? null : event.id,
  };
}

const turnTitles = {
  question: "question",
  relayed: "answer of a human",
  mode: "change of who answers",
} as const;

function turnEntries(turn: TurnHistory): TimelineEntry[] {
  const what = turn.opening === null ? turnTitles[turn.kind] : "conversation";
  const ids: [string, string][] = [["question", turn.id]];
  if (turn.question_id !== null) ids.push(["platform message", turn.question_id]);
  const made: TimelineEntry = {
    ...instant("question", turn.made_at, turn.state),
    title: `${what} for the agent: ${turn.state}`,
    duration: turn.state === "waiting" ? Math.max(0, turn.due_at - turn.made_at) : null,
    detail: joined(
      turn.state === "waiting" ? `due ${iso(turn.due_at)}` : null,
      turn.reason,
      turn.lookups > 0 ? `looked up ${turn.lookups} times` : null,
    ),
    text: turn.opening === null ? [turn.context, turn.question].filter(Boolean).join("\n") || null : null,
    ids,
  };
  return [
    made,
    ...turn.attempts.map((attempt) => ({
      ...attemptEntry("asked", attempt),
      title: `asked the agent, attempt ${attempt.number}: ${outcomeOf(attempt, "accepted")}`,
    })),
  ];
}

const iso = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;

const outcomeOf = ({ outcome }: AttemptRow, sent: string): string =>
  outcome === "sent" ? sent : (outcome ?? "no outcome yet");

const attemptEntry = (kind: TimelineKind, attempt: AttemptRow): Omit<TimelineEntry, "title"> => ({
  ...instant(kind, attempt.started_at, attempt.outcome ?? "running"),
  duration: attempt.ended_at === null ? null : attempt.ended_at - attempt.started_at,
  detail: attempt.detail,
});

const replyTitles = {
  answer: "answer of the agent",
  opening: "first message",
  notice: "notice of the channel",
  human: "answer of a human",
} as const;

const replyEntry = (reply: History["replies"][number]): TimelineEntry => ({
  ...instant("reply", reply.created_at, reply.state),
  title: `${replyTitles[reply.kind]}${reply.state === "composed" ? "" : `: ${reply.state}`}`,
  detail: reply.reason,
  text: reply.text === "" ? null : reply.text,
  ids: [["reply", reply.id], ...(reply.platform_id === null ? [] : [["platform message", reply.platform_id] as const])],
});

/** Masks the path of a webhook, because it often contains a secret key and screens are shared. */
export function shownAddress(address: string): string {
  const url = URL.parse(address);
  return url?.protocol.startsWith("http") ? `${url.protocol}//${url.host}/...` : address;
}

function draftEntries(draft: DraftHistory): TimelineEntry[] {
  const ids: [string, string][] = [["draft", draft.id]];
  const waits = ["queued", "unknown"].includes(draft.state);
  const made: TimelineEntry = {
    ...instant("queued", draft.created_at, draft.state),
    title: `message to ${shownAddress(draft.recipient) || "(erased)"}: ${draft.state}`,
    duration: draft.attempts[0] ? draft.attempts[0].started_at - draft.created_at : null,
    detail: joined(
      waits ? `due ${iso(draft.due_at)}` : null,
      draft.reason,
      draft.lookups > 0 ? `looked up ${draft.lookups} times` : null,
      draft.heard === null ? null : `interrupted; heard: ${draft.heard}`,
    ),
    ids,
  };
  return [
    made,
    ...draft.attempts.map((attempt) => ({
      ...attemptEntry("sent", attempt),
      title: `attempt ${attempt.number} to send: ${outcomeOf(attempt, "accepted by the server")}`,
      ids: attempt.outcome === "sent" && draft.external_id !== null ? [["sent as", draft.external_id] as const] : [],
    })),
  ];
}

const notificationTitles: Readonly<Record<string, string>> = {
  opened: "notified",
  reminder: "reminded",
  acknowledged: "notified of the acknowledgement",
  customer: "passed on a message of the customer",
  message: "answered",
};

function escalationEntries(escalation: EscalationHistory): TimelineEntry[] {
  const name = `escalation ${escalation.number}`;
  const ids: [string, string][] = [["escalation", escalation.id]];
  const entries: TimelineEntry[] = [
    {
      ...instant("escalation", escalation.opened_at, escalation.state),
      title: `${name} opened: ${escalation.cause}${escalation.topic === null ? "" : ` (${escalation.topic})`}`,
      detail: escalation.reason || null,
      ids,
    },
    ...escalation.triggers.map(({ source, detail, recorded_at }) => ({
      ...instant("escalation", recorded_at, escalation.state),
      title: source === "note" ? `note on ${name}` : `${name}: reported by ${source}`,
      text: detail,
    })),
    ...escalation.notifications.map((one): TimelineEntry => {
      const state = one.state ?? (one.due_at === null ? "dropped" : "waiting");
      return {
        ...instant("notification", one.made_at, state),
        title: `${notificationTitles[one.kind] ?? one.kind}: ${one.name || "(erased)"} by ${one.way} (${shownAddress(one.address)}): ${state}`,
        duration: one.finished_at === null ? null : one.finished_at - one.made_at,
        detail: one.reason,
        ids: one.draft === null ? [] : [["draft", one.draft]],
      };
    }),
  ];
  if (escalation.acknowledged_at !== null)
    entries.push({
      ...instant("escalation", escalation.acknowledged_at, "acknowledged"),
      title: `${name} acknowledged by ${escalation.acknowledged_by ?? "(erased)"}`,
    });
  if (escalation.closed_at !== null)
    entries.push({
      ...instant("escalation", escalation.closed_at, "closed"),
      title: `${name} closed by ${escalation.closed_by ?? "(erased)"}`,
    });
  return entries;
}
