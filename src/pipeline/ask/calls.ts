// The API calls of stage ask: opens the platform's conversation, asks the question, posts what a human wrote, and looks
// up a call of unknown outcome. Each attempt is recorded at the crossing, unless its claim has recorded it.

import {
  type Answer,
  type CallResult,
  type CreateRequest,
  type StartedConversation,
  type StartRequest,
  stopped,
} from "../../agent/calls.ts";
import { type Opening, readOpening } from "../../domain/turn.ts";
import { limited, type SignalScope, scopeUnder } from "../../ops/clock.ts";
import { failpoints } from "../../ops/failpoints.ts";
import { guardLease } from "../../store/lanes.ts";
import { type ConversationRow, isBound } from "../../store/tables/conversations.ts";
import { platformIds } from "../../store/tables/turns.ts";
import { type ChannelRuntime, phoneOf, skillOf, startable } from "../channel-runtime.ts";
import { endsWithPower } from "../live-sessions.ts";
import { readCall } from "../rate.ts";
import {
  type AskDecision,
  afterAbsence,
  afterFailedCall,
  afterFailedLookup,
  afterPending,
  type FailedCall,
  handBack,
  repeatable,
} from "./decide.ts";
import { logged, recordAttempt } from "./rows.ts";
import type { AskDeps, Asking } from "./stage.ts";

/** A decision, and the turn it is about: the same work may continue with the question after the opening. */
export interface Decided {
  readonly asking: Asking;
  readonly decision: AskDecision;
}

/** Timeout of a lookup after a call. A lookup that takes longer is retried later. */
export const readTimeout = (deps: Pick<AskDeps, "timeout" | "timing">): number =>
  Math.min(deps.timeout, deps.timing.ask.read);
const readSignal = (signal: AbortSignal, deps: AskDeps): AbortSignal => limited(signal, readTimeout(deps));

/** Returns the channel's `absent_after`, or the platform's default, in milliseconds. */
const absentAfterOf = ({ line }: Asking, deps: AskDeps): number => line.rules.absent_after ?? deps.absentAfter;
/** `early` and `final`: the reasons before that time and after it. */
const absent = (asking: Asking, deps: AskDeps, early: string, final: string): AskDecision =>
  afterAbsence(asking, absentAfterOf(asking, deps), { early, final });

/** The parameters of an API call with an effect. The call ends with the lease and does not begin unless its full timeout
 *  fits into the lease. The attempt is recorded at the crossing, when the connection is available, unless its claim has
 *  recorded it. A process that dies earlier, while it waits for the rate limit, the queue or the connection, leaves a
 *  turn that was certainly not asked and is asked immediately. The client limits the call's duration. */
function effect(name: "open.cross" | "ask.cross", asking: Asking, signal: AbortSignal, deps: AskDeps) {
  const fields = { channel: asking.line.channel, turn: asking.turn.id };
  return {
    signal,
    reserved: asking.attempt.early !== null,
    crossing: async () => {
      asking.leaseDeadline.check(deps.timeout);
      const { early, recorded: isRecorded } = asking.attempt;
      early?.release();
      // A turn of unknown outcome stays unknown until this call has an outcome.
      if (early !== null) await early.durable();
      else if (asking.turn.state === "waiting" && !isRecorded) await (asking.attempt.recording = record(asking, deps));
      asking.leaseDeadline.check(deps.timeout);
      if (name === "ask.cross") asking.attempt.askedAt = deps.clock.monotonic();
      failpoints[name].publish({ phase: "before", ...fields });
    },
    crossed: () => failpoints[name].publish({ phase: "after", ...fields }),
  };
}

/** Returns true for the first attempt to ask a question of a call whose conversation is bound. The question is asked at the
 *  commit of its record, before that is on disk: what a power failure takes is explained in calls/power-failure-rows.ts.
 *  Every other attempt waits for the disk, and with it for everything that was committed before. */
export const isAskedAtCommit = (
  { turn, conversation }: Pick<Asking, "turn" | "conversation">,
  { db }: Pick<AskDeps, "db">,
): boolean =>
  endsWithPower(db) &&
  turn.session !== null &&
  turn.opening === null &&
  turn.state === "waiting" &&
  turn.attempts === 0 &&
  conversation.platform_id !== null;

/** Commits the attempt. Rejects, and nothing is sent, when the lease is lost, the transaction fails, or
 *  the turn changed. */
async function record(asking: Asking, deps: AskDeps): Promise<void> {
  const { attempt, lease } = asking;
  const options = { joint: lease.lane, durable: !isAskedAtCommit(asking, deps) };
  const recorded = await stored(
    attempt,
    deps.db.tx((q) => recordAttempt(q, asking), options),
  );
  if (!recorded) {
    attempt.obsolete = true;
    throw new Error("recording the attempt: the turn changed after it was claimed");
  }
  attempt.recorded = true;
}

/** Marks the attempt when the store fails: nothing is sent then, and the platform has not failed. */
async function stored<T>(attempt: Asking["attempt"], writing: Promise<T>): Promise<T> {
  return writing.catch((error: unknown) => {
    attempt.unrecorded = true;
    throw error;
  });
}

/** Returns the result of a call about the platform's conversation. That of another agent counts as one that is gone when the
 *  platform refuses the key: the agent of the channel was changed. */
const accessible = <Result extends CallResult<unknown>>({ line, conversation }: Asking, result: Result) =>
  result.kind === "unauthorized" && conversation.platform_id !== null && conversation.agent !== line.agent
    ? ({ kind: "missing", reason: result.reason } as const)
    : result;

/** Reports a call's result to the channel runtime and the log; `done` decides after the result `ok`. */
function concluded<T>(
  asking: Asking,
  given: CallResult<T>,
  deps: AskDeps,
  done: (value: T) => AskDecision,
): AskDecision {
  const { turn, line, attempt } = asking;
  const result = accessible(asking, given);
  if (result.kind === "ok") {
    const decision = done(result.value);
    if (decision.kind === "answered" && line.refusal() !== null) line.report(result, true);
    return decision;
  }
  if (attempt.obsolete) return afterFailedCall(asking, result);
  const fields = { ...logged(turn), result: result.kind, reason: result.reason };
  // A caller who continues to speak cancels the question; this is no failure of the platform.
  if (turn.session !== null && result.reason === stopped) deps.log.debug(fields, "question cancelled");
  else deps.log.warn(fields, attempt.unrecorded ? "recording an attempt failed" : "platform request failed");
  line.report(result, turn.kind === "question");
  return afterFailedCall(asking, result);
}

/** Opens the platform's conversation. A customer's question is asked in the same work, under the same
 *  lease: the binding is stored with the record of that attempt. */
export async function open(asking: Asking, signal: AbortSignal, deps: AskDeps): Promise<Decided> {
  const { line, conversation, turn } = asking;
  const call = effect("open.cross", asking, signal, deps);
  const request = openingOf(asking, turn.opening === null ? null : readOpening(turn.opening));
  const result: CallResult<StartedConversation> =
    request.kind === "start"
      ? await line.client.start(request.body, call)
      : await line.client.create(request.body, call);
  call.crossed();
  const decision = concluded(asking, result, deps, (started) => ({
    kind: "bound",
    platformId: started.conversationId,
    adopted: false,
  }));
  // The turn of a call, or of an opening without a question, is read again after the binding.
  const isQuestion = turn.kind === "question" && turn.opening === null && turn.session === null;
  if (decision.kind !== "bound" || !isQuestion || asking.leaseDeadline.left() < deps.timeout)
    return { asking, decision };
  const { platformId } = decision;
  const next: Asking = {
    ...asking,
    conversation: { ...conversation, platform_id: platformId, agent: line.agent },
    attempt: { recorded: false, obsolete: false, unbound: platformId, askedAt: null, early: null },
  };
  const asked = await ask(next, platformId, signal, deps);
  // The turn changed since: only the binding is stored, and the turn is claimed again.
  return next.attempt.obsolete ? { asking, decision } : { asking: next, decision: asked };
}

export async function ask(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<AskDecision> {
  const { line, turn } = asking;
  const call = effect("ask.cross", asking, signal, deps);
  const question = turn.context === null ? { text: turn.question } : { text: turn.question, context: turn.context };
  const result = await line.client.ask(platformId, question, call);
  call.crossed();
  const rendered = result.kind === "ok" ? await prepared(line, result.value.text, call.signal, deps) : null;
  return concluded(asking, result, deps, (answer: Answer) => ({ kind: "answered", answer, rendered }));
}

/** Calls the adapter to render an agent's Markdown before the transaction that stores the answer.
 *  Returns JSON for `Reply.rendered`. Returns null when the adapter does not render ahead, fails, or
 *  exceeds the timeout; the reply is then composed without it. */
async function prepared(
  { channel, outbound }: ChannelRuntime,
  text: string | null,
  signal: AbortSignal,
  { clock, log, timing }: AskDeps,
): Promise<string | null> {
  if (text === null || !outbound?.prepare) return null;
  let done: SignalScope | null = null;
  try {
    const render = outbound.prepare(text);
    if (render === null) return null;
    done = scopeUnder(signal);
    const rendering = render(done.signal);
    const late = clock.sleep(timing.compose.prepare, done.signal).then(() => null);
    const rendered = await Promise.race([rendering, late]);
    return rendered === null ? null : JSON.stringify(rendered);
  } catch (error) {
    log.warn({ channel, err: error }, "rendering an answer failed");
    return null;
  } finally {
    done?.abort();
    done?.end();
  }
}

/** Calls PUT mode with the mode of the turn. */
export async function setMode(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<AskDecision> {
  const mode = asking.turn.question === "ai" ? "ai" : "manual";
  const call = effect("ask.cross", asking, signal, deps);
  const result = await asking.line.client.setMode(platformId, mode, call);
  call.crossed();
  return concluded(asking, repeatable(result), deps, () => ({ kind: "mode", mode }));
}

/** Posts a human's message. Sets mode manual first, because the platform accepts a human's message in no
 *  other mode. Posting is not idempotent, so a message that may have been posted is looked up. */
export async function post(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<AskDecision> {
  const { client } = asking.line;
  const guarded = () => deps.db.tx((q) => guardLease(q, asking.lease));
  const crossing = () => stored(asking.attempt, guarded()); // it has no record
  const manual = await client.setMode(platformId, "manual", { signal: readSignal(signal, deps), crossing });
  if (manual.kind !== "ok") return concluded(asking, repeatable(manual), deps, () => handBack);
  const call = effect("ask.cross", asking, signal, deps);
  const result = await client.say(platformId, asking.turn.question, call);
  call.crossed();
  return concluded(asking, result, deps, (id) => ({ kind: "relayed", id }));
}

/** After a start call of unknown outcome: looks up the conversation that it may have opened. */
export async function findOpened(asking: Asking, signal: AbortSignal, deps: AskDeps): Promise<AskDecision> {
  const { line, conversation } = asking;
  const result = await line.client.findConversations(foreignKey(conversation), readSignal(signal, deps));
  if (result.kind !== "ok") return unreadable(asking, result, deps);
  for (const id of [...result.value].reverse()) {
    if (await deps.db.read((q) => isBound(q, id))) continue;
    return { kind: "bound", platformId: id, adopted: true };
  }
  return absent(asking, deps, "not opened yet", "the conversation was never opened");
}

/** A lookup failed. */
function unreadable(asking: Asking, result: FailedCall, deps: AskDeps): AskDecision {
  const { line, turn } = asking;
  deps.log.warn({ ...logged(turn), result: result.kind, reason: result.reason }, "platform lookup failed");
  line.report(result, false);
  return afterFailedLookup(asking, result);
}

/** What a lookup in the platform's conversation needs: the text, and the messages that belong to other turns. */
async function lookup({ turn }: Asking, platformId: string, signal: AbortSignal, deps: AskDeps) {
  const call = readCall(readSignal(signal, deps), deps);
  const knownIds = await deps.db.read((q) => platformIds(q, platformId, turn.id));
  return { wanted: { text: turn.question, knownIds }, call };
}

/** Looks up whether the platform has the question, and its answer. */
export async function findAnswer(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<AskDecision> {
  const { line } = asking;
  const { wanted, call } = await lookup(asking, platformId, signal, deps);
  const result = await line.client.lookUp(platformId, wanted, call);
  if (result.kind !== "ok") return missingOr(asking, result, deps);
  const found = result.value;
  switch (found.state) {
    case "answered": {
      const rendered = await prepared(line, found.answer.text, call.signal, deps);
      return { kind: "answered", answer: found.answer, rendered };
    }
    case "absent":
      return absent(asking, deps, "not there yet", "the question never arrived");
    case "pending": {
      const mode = await line.client.mode(platformId, call.signal);
      return afterPending(asking, found, mode.kind === "ok" && mode.value === "manual");
    }
  }
}

/** Looks up whether a human's message was posted. */
export async function findPosted(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<AskDecision> {
  const { line } = asking;
  const { wanted, call } = await lookup(asking, platformId, signal, deps);
  const result = await line.client.findHumanReply(platformId, wanted, call);
  if (result.kind !== "ok") return missingOr(asking, result, deps);
  if (result.value !== null) return { kind: "relayed", id: result.value };
  return absent(asking, deps, "not there yet", "the words never arrived");
}

/** HTTP 404 or 410 for the whole conversation: after the settle time, the question was deleted with it. */
function missingOr(asking: Asking, given: FailedCall, deps: AskDeps): AskDecision {
  const result = accessible(asking, given);
  const isFinal = (asking.turn.over_ago ?? 0) >= absentAfterOf(asking, deps);
  if (result.kind === "missing" && isFinal) return { kind: "gone", reason: result.reason };
  return unreadable(asking, result, deps);
}

export type OpeningCall =
  | { readonly kind: "start"; readonly body: StartRequest }
  | { readonly kind: "create"; readonly body: CreateRequest };

/** The customer's foreign key on the platform. It is the same for all their conversations on a channel. */
function foreignKey(conversation: ConversationRow): string {
  const { channel, person, via } = conversation;
  // The platform continues a customer's current conversation, so each of our addresses needs its own key.
  return `bridgehead:${channel}:${person}${via === null ? "" : `:${via}`}`;
}

/** Splits a name as the platform requires: everything before the last word, and the last word. */
function splitName(name: string | null, address: string): { firstName: string; lastName: string } {
  const words = (name ?? "").trim().split(/\s+/).filter(Boolean);
  if (words.length === 0) return { firstName: address.split("@")[0] || address, lastName: "-" };
  if (words.length === 1) return { firstName: words[0] ?? address, lastName: "-" };
  return { firstName: words.slice(0, -1).join(" "), lastName: words.at(-1) ?? "-" };
}

/** Builds the API call that opens the conversation. `begun` is the data of an outbound conversation;
 *  null when the customer wrote first. */
function openingOf({ line, conversation, isCreated }: Asking, begun: Opening | null): OpeningCall {
  const { person } = conversation;
  const who = {
    ...splitName(conversation.person_name, person),
    fkId: foreignKey(conversation),
    source: "bridgehead",
  };
  const mail = line.traits.platform === "email";
  const introduction = begun?.introduction ?? skillOf(line)?.introduction ?? "";
  const phone = mail || !startable(line.traits.platform) ? null : phoneOf(person);
  if (isCreated) {
    const about = aboutBegun(begun, introduction);
    const body = { ...who, ...(about && { conversationContext: about }) };
    const reached = mail ? { email: person } : phone === null ? {} : { phoneNumber: phone };
    return { kind: "create", body: { ...body, ...reached } };
  }
  const common = { ...who, ...(begun?.context && { conversationContext: begun.context }) };
  if (line.traits.platform === "voice") {
    return {
      kind: "start",
      body: { ...common, channel: "voice", phoneNumber: phone ?? "", firstMessage: introduction },
    };
  }
  // Resets the platform's conversation for an outbound one. Otherwise the platform would continue the
  // customer's current conversation, which does not contain this introduction.
  const written = { ...common, ...(begun?.speak && { resetConversation: true }) };
  if (mail) {
    const subject = begun?.subject || conversation.subject || skillOf(line)?.defaultSubject || "";
    return {
      kind: "start",
      body: {
        ...written,
        channel: "email",
        email: person,
        emailSubject: subject,
        emailIntroduction: introduction,
      },
    };
  }
  return {
    kind: "start",
    body: { ...written, channel: "sms", phoneNumber: phone ?? "", smsIntroduction: introduction },
  };
}

/** A conversation opened by the create call has no field for the introduction. The context carries it,
 *  so that the agent knows what was sent. */
function aboutBegun(begun: Opening | null, introduction: string): string | null {
  if (!begun) return null;
  const said = begun.speak && introduction !== "" ? `You wrote to the person first: ${introduction}` : null;
  return [begun.context, said].filter((part) => part !== null && part !== "").join("\n\n") || null;
}
