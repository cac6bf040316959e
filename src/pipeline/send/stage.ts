// Stage send. Input: the head of a conversation's outbound lane, due: a draft `queued`; a draft of unknown outcome goes
// to stage reconcile. At most as many as the adapter has capacity for; a reply in a call may need none. Effect: checks
// suppression and supersession, and sends. The attempt is recorded at the crossing. Output: draft `sent`, `failed`,
// `queued` until its retry, or `unknown` until the first lookup. Failure: depends on the outcome. Crash: before the
// crossing the draft is `queued` and is sent immediately. After it the draft is `sending` with an expired lease: its
// outcome is unknown, so stage reconcile determines it.

import { type Json, type Outbound, type SendOutcome, sendKey, wrongFieldText, wrongOutcome } from "bridgehead/contract";
import { strikeLimit } from "../../domain/retry.ts";
import { type Claimed, type Stage, type Transition, withFailpoint } from "../../engine/stage.ts";
import { jitter, limited } from "../../ops/clock.ts";
import { failpoints } from "../../ops/failpoints.ts";
import { type Core, failpointBefore, failpointOfCommit, type Query } from "../../store/driver.ts";
import { abandonLane, guardLease, type Lease, releaseLane, returnLane } from "../../store/lanes.ts";
import { cite } from "../../store/tables/conversations.ts";
import {
  changeDraft,
  type DraftChange,
  type DraftRow,
  endRest,
  endSent,
  reportDraft,
  reportEnd,
} from "../../store/tables/drafts.ts";
import { readFile } from "../../store/tables/files.ts";
import { strike } from "../../store/tables/suppressions.ts";
import { endAttempt } from "../../store/tables/turns.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../channel-runtime.ts";
import { heldTrigger } from "../escalation.ts";
import { endsWithPower, type LiveSessions } from "../live-sessions.ts";
import { applyOptOut } from "../reconcile/receipts.ts";
import { type DraftWork, reconcile } from "../reconcile/stage.ts";
import { concluded, type Ending, type HeadFacts, type NextStep, nextStep } from "./decide.ts";
import {
  type HeadRow,
  headDraft,
  isHumans,
  isSuperseded,
  leaseAdmitted,
  needsCapacity,
  Pauses,
  recordAnyway,
  recordSending,
} from "./rows.ts";

interface SendDeps extends Core {
  readonly lines: () => ChannelRuntimes;
  readonly sessions: LiveSessions;
}

/** One claimed draft with what its attempt needs. */
interface Sending extends DraftWork {
  readonly pauses: Pauses;
  readonly node: string;
  /** Called when the adapter's `send` is called: from then on the adapter counts the draft. */
  readonly started: () => void;
  readonly waitsForDisk: boolean;
  /** The claim has recorded the attempt. */
  readonly isRecorded: boolean;
}

export function sendStage(deps: SendDeps): Stage {
  const { attempt, leaseMargin } = deps.timing.send;
  const leaseMs = attempt + leaseMargin;
  const pauses = new Pauses(deps.clock, leaseMs, deps.timing);
  /** Drafts by channel that need capacity, were claimed, and whose `send` was not called yet. */
  const waiting = new Map<string, number>();
  /** Channels whose adapter failed to return its capacity. */
  const failing = new Set<string>();
  return {
    name: "send",
    takes: "drafts",
    async claim(q, channel, most, isDue = true) {
      const line = deps.lines().get(channel);
      if (!line?.outbound || line.catchingUp()) return { claimed: [], room: most };
      const free = freeCapacity(line.outbound);
      // One line for each change: claims are made at least once a second.
      if (typeof free === "number") {
        if (failing.delete(channel)) deps.log.info({ channel }, "capacity of an adapter works again");
      } else if (!failing.has(channel)) {
        failing.add(channel);
        deps.log.error({ channel, err: free }, "capacity of an adapter failed");
      }
      const capacity = (typeof free === "number" ? free : 0) - (waiting.get(channel) ?? 0);
      // Without capacity only replies in calls can start. They are claimed when they become due.
      if (capacity <= 0 && !(isDue && line.outbound.unlimitedInSessions)) return { claimed: [], room: capacity };
      const claimed: Claimed[] = [];
      const gate = await pauses.gate(q, line, capacity);
      const { clock, node } = deps;
      const claim = { channel, holder: node, leaseMs, limit: most, clock, announced: true };
      for await (const { lease, deadline, head } of leaseAdmitted(q, gate, claim)) {
        const { draft, waitsForDisk } = await nextDraft(q, line, lease, head, deps);
        // A reply in a call is spoken at the commit of its claim, so the claim records the attempt. A commit of
        // PostgreSQL whose response is lost starts no work.
        const isRecorded = draft?.session != null && draft.state === "queued" && !waitsForDisk && q.leases !== null;
        const admits = async (one: HeadRow) =>
          (await gate.admits(one, lease.sender)) && (!isRecorded || recordSpeech(q, one, node, lease.token));
        if (!draft || !(await admits(draft))) {
          await returnLane(q, lease, "out");
          continue;
        }
        const started = needsCapacity(line, draft) ? count(waiting, channel) : () => undefined;
        q.onRollback(started);
        const about = { line, lease, leaseDeadline: deadline, draft, pauses, node, started };
        claimed.push(piece({ ...about, waitsForDisk, isRecorded }, deps));
      }
      return { claimed, room: gate.isFull() && claimed.length < most ? 0 : most };
    },
  };
}

/** Adds one to the counter of the key. Returns a function that subtracts it at its first call. */
function count(counts: Map<string, number>, key: string): () => void {
  const add = (by: number) => void counts.set(key, (counts.get(key) ?? 0) + by);
  let counted = true;
  add(1);
  return () => {
    if (counted) add(-1);
    counted = false;
  };
}

interface Next {
  readonly draft: HeadRow | null;
  readonly waitsForDisk: boolean;
}

const none: Next = { draft: null, waitsForDisk: false };

/** Returns the lane's head when it can be sent or reconciled now, after dropping drafts that must not be
 *  sent. `first` is the head that the claim has read. */
async function nextDraft(
  q: Query,
  line: ChannelRuntime,
  lease: Lease,
  first: HeadRow | null,
  deps: SendDeps,
): Promise<Next> {
  for (let head = first; head !== null; head = await headDraft(q, lease)) {
    const facts = await loadNext(q, line, head, deps);
    const next = nextStep(head, facts, line.rules);
    if (next.kind === "start")
      return { draft: head, waitsForDisk: facts.admission?.waitsForDisk === true && endsWithPower(deps.db) };
    if (next.kind === "wait") return none;
    if (next.kind !== "unspoken") await refuse(q, line, head, next, deps);
    else if (await leaveUnspoken(q, line, head, next.change)) return none;
  }
  return none;
}

/** Loads what decides about the head of a lane. */
async function loadNext(q: Query, line: ChannelRuntime, head: HeadRow, { sessions }: SendDeps): Promise<HeadFacts> {
  const { session, attempts } = head;
  const { mode, on_new_message } = line.rules;
  const isQueued = head.state === "queued";
  const isDue = isQueued && head.due_in <= 0;
  const admission = session !== null && (isDue || !isQueued) ? await sessions.admission(q, head, session) : null;
  const isNew = isDue && attempts === 0 && on_new_message === "drop";
  const superseded = isNew && (await isSuperseded(q, head));
  const byHuman = isDue && mode === "shadow" && (await isHumans(q, head));
  return { admission, superseded, byHuman };
}

/** Writes that a draft is not spoken now. Returns true when it stays the head of its lane. */
async function leaveUnspoken(q: Query, line: ChannelRuntime, draft: HeadRow, change: DraftChange): Promise<boolean> {
  if (draft.state !== "queued") await endAttempt(q, draft.id, "unknown", change.reason ?? null);
  await changeDraft(q, draft.id, change);
  await reportUnsent(q, line, draft, change);
  return change.open === 1;
}

/** Reports a draft that has ended unsent to operators and, where it needs a human or a human wrote it, to responders. */
async function reportUnsent(q: Query, line: ChannelRuntime, draft: DraftRow, change: DraftChange): Promise<void> {
  reportEnd(q, draft, change);
  const { state, code, reason } = change;
  if (state !== "failed" && state !== "dropped") return;
  await line.escalation()?.undeliverable(q, line, draft, { state, code: code ?? null, reason: reason ?? "" });
}

/** Ends a draft that is not sent. Of the parts of a reply, those after a held one are held with it. */
async function refuse(
  q: Query,
  line: ChannelRuntime,
  draft: HeadRow,
  { kind, code, reason, notifies }: Extract<NextStep, { kind: "hold" | "drop" }>,
  { clock, timing }: SendDeps,
): Promise<void> {
  const state = kind === "hold" ? "held" : "dropped";
  reportEnd(q, draft, { state, code });
  await changeDraft(q, draft.id, { state, open: 0, code, reason });
  if (kind === "hold") await endRest(q, draft, "held");
  if (notifies === "channel")
    await line.escalation()?.open(q, heldTrigger(line, { code, reason }, clock.now(), timing));
  if (notifies === "draft") await line.escalation()?.undeliverable(q, line, draft, { state, reason });
}

function piece(sending: Sending, deps: SendDeps): Claimed {
  const { line, lease, draft, leaseDeadline: deadline, started, waitsForDisk } = sending;
  const fields = { channel: line.channel, draft: draft.id };
  const fresh = draft.state === "queued";
  return {
    channel: line.channel,
    waitsForDisk,
    pace: draft.session === null ? undefined : "joining",
    left: () => deadline.left(),
    abandon: async (q) => {
      started();
      await abandonLane(q, lease);
    },
    work: async (signal) =>
      fresh
        ? withFailpoint(await send(sending, signal, deps), "outcome.commit", fields)
        : withFailpoint(await reconcile(sending, signal, deps), "reconcile.commit", fields),
  };
}

/** `obsolete`: the draft changed after the claim and may not be sent. `failed`: the store failed, so nothing was sent. */
type RecordResult = "no" | "yes" | "obsolete" | "failed";

async function send(sending: Sending, signal: AbortSignal, deps: SendDeps): Promise<Transition> {
  const { line, draft } = sending;
  const fields = { channel: line.channel, draft: draft.id };
  const limit = limited(signal, deps.timing.send.attempt);
  const state: { recorded: RecordResult; crossed: boolean; ended: boolean } = {
    recorded: sending.isRecorded ? "yes" : "no",
    crossed: false,
    ended: false,
  };
  let recording: Promise<void> | null = sending.isRecorded ? Promise.resolve() : null;
  const record = async () => {
    state.recorded = "failed";
    state.recorded = (await recordAttempt(sending, deps)) ? "yes" : "obsolete";
  };
  /** Rejects, and nothing may be sent, when the effect would not be covered by the lease and the record. */
  const crossing = async () => {
    // The provider's response is awaited no longer than the lease lasts.
    sending.leaseDeadline.check(deps.timing.send.crossing);
    recording ??= record();
    await recording;
    if (state.recorded === "obsolete") throw new Error("crossing: the draft changed after it was claimed");
    if (state.ended || limit.aborted) throw new Error("crossing: the attempt has ended");
    sending.leaseDeadline.check(deps.timing.send.crossing);
    state.crossed = true;
    failpoints["send.cross"].publish({ phase: "before", ...fields });
  };
  let outcome: SendOutcome;
  const began = deps.clock.monotonic();
  try {
    if (!line.outbound) throw new Error("the channel cannot send");
    const work = line.outbound.send(JSON.parse(draft.body) as Json, {
      key: sendKey(draft.id),
      number: draft.attempts + 1,
      signal: limit,
      // An adapter that does not await it must not end the process.
      crossing: () => {
        const crossed = crossing();
        crossed.catch(() => undefined);
        return crossed;
      },
      read: async (ref) => {
        const bytes = await deps.db.read((q) => readFile(q, draft.reply, ref));
        if (bytes === null) throw new Error(`draft ${draft.id} has no file ${ref}`);
        return bytes;
      },
    });
    sending.started();
    outcome = checkedOutcome(await work, state.crossed);
  } catch (error) {
    outcome = { kind: state.crossed ? "unknown" : "deferred", reason: String(error) };
  }
  sending.started();
  state.ended = true;
  // The adapter may have given up while the record was being committed.
  await recording?.catch(() => undefined);
  failpoints["send.cross"].publish({ phase: "after", ...fields });
  if (state.recorded === "obsolete") return (q) => handBack(q, sending);
  const isUnrecorded = state.recorded === "failed";
  // The provider has not failed, so the schedule of its retries and its pauses do not apply.
  if (isUnrecorded && outcome.kind === "deferred")
    outcome = { kind: "deferred", reason: outcome.reason, retryAfterMs: deps.timing.send.shortestRetry };
  if (outcome.kind !== "sent") {
    outcome = { ...outcome, reason: line.mask(outcome.reason) };
    const { trace } = draft;
    const { kind, reason } = outcome;
    deps.log.warn(
      { ...(trace && { trace }), ...fields, outcome: kind, reason },
      isUnrecorded ? "recording an attempt failed" : "send attempt failed",
    );
  }
  const tookMs = deps.clock.monotonic() - began;
  return (q) => conclude(q, sending, { outcome, recorded: state.recorded, tookMs }, deps);
}

async function recordSpeech(q: Query, draft: HeadRow, node: string, token: number): Promise<boolean> {
  const written = await recordSending(q, draft, node, token);
  if (written) failpointOfCommit(q, "send.record", { channel: draft.channel, draft: draft.id });
  return written;
}

/** Commits the attempt. A reply in a call does not wait until the record is on disk: a power failure that takes
 *  the record ends the call. Returns false when the draft changed after it was claimed. Rejects when the lease
 *  is lost or the transaction fails. */
async function recordAttempt({ line, lease, draft, node }: Sending, { db }: SendDeps): Promise<boolean> {
  const fields = { channel: line.channel, draft: draft.id };
  const durable = draft.session === null || !endsWithPower(db);
  const write = async (q: Query) => {
    const done = failpointBefore(q, "send.record", fields);
    await guardLease(q, lease);
    const written = await recordSending(q, draft, node, lease.token);
    if (written) done();
    return written;
  };
  return db.tx(write, { durable, joint: lease.lane });
}

/** Releases the lane without a change. Nothing was sent, and the next claim finds the changed draft. */
async function handBack(q: Query, { line, lease, draft, pauses }: Sending): Promise<void> {
  await guardLease(q, lease);
  const reason = "the draft changed after it was claimed";
  await pauses.apply(q, line, draft, lease.sender, { kind: "unknown", reason });
  await releaseLane(q, lease, "out");
}

/** Writes an outcome under the lease. If a delivery receipt has already settled the draft, the receipt's
 *  state stays. An attempt that was not recorded sent nothing; it counts for backoff and lifetime. */
async function conclude(
  q: Query,
  sending: Sending,
  attempted: { readonly outcome: SendOutcome; readonly recorded: RecordResult; readonly tookMs: number },
  deps: SendDeps,
): Promise<void> {
  const { line, lease, draft, node } = sending;
  const { recorded, tookMs } = attempted;
  const { outcome, ending } = concluded(attempted.outcome, draft, line, deps, jitter);
  const isSent = outcome.kind === "sent";
  const detail = isSent ? (outcome.detail ?? null) : outcome.reason;
  await guardLease(q, lease);
  if (recorded === "yes" || (await recordAnyway(q, draft, node, lease.token))) {
    await endAttempt(q, draft.id, outcome.kind, detail);
    for (const id of ending.ids ?? []) await cite(q, line.channel, id, draft.conversation, draft.id);
    reportDraft(q, draft, "sendAttempt", { outcome: outcome.kind, isRetried: !isSent && ending.change.open === 1 });
    if (isSent) reportDraft(q, draft, "sent", { attempt: draft.attempts + 1, tookMs });
    if (isSent) await endSent(q, draft.id, ending.change);
    else await applyEnding(q, sending, ending);
  }
  const known = recorded === "failed" ? ({ kind: "unknown", reason: "not recorded" } as const) : outcome;
  await sending.pauses.apply(q, line, draft, lease.sender, known);
  await releaseLane(q, lease, "out");
}

async function applyEnding(q: Query, { line, lease, draft }: Sending, { change, suppress }: Ending): Promise<void> {
  if (!(await changeDraft(q, draft.id, change, "sending"))) return;
  const { channel } = line;
  if (suppress?.by === "opt-out") await applyOptOut(q, line, { ...draft, via: lease.sender || null }, suppress.reason);
  if (suppress?.by === "strike") await strike(q, channel, draft.recipient, strikeLimit, suppress.reason);
  // The following parts are incomplete without a refused part, so they are dropped too.
  if (change.state === "failed" && change.open === 0) await endRest(q, draft, "dropped");
  await reportUnsent(q, line, draft, change);
}

/** Fields without which an outcome still tells what became of the draft. */
const dispensable: ReadonlySet<string> = new Set(["also", "detail", "scope", "cause", "retryAfterMs"]);

/** Returns what `send` of an adapter resolved with, without dispensable fields that are wrong, as an adapter without types may
 *  return them; its reason names them. For a value that is no outcome, returns what is certain: without a crossing nothing
 *  was sent. */
export function checkedOutcome(given: SendOutcome, crossed: boolean): SendOutcome {
  let outcome = given;
  for (let wrong = wrongOutcome(given); wrong !== null; wrong = wrongOutcome(outcome)) {
    const flaw = `send of the adapter returned ${wrongFieldText(wrong)}`;
    if (!dispensable.has(wrong.field)) return { kind: crossed ? "unknown" : "deferred", reason: `no outcome: ${flaw}` };
    const note = outcome.kind === "sent" ? { detail: flaw } : { reason: `${outcome.reason} (${flaw})` };
    outcome = { ...outcome, [wrong.field]: undefined, ...note };
  }
  return outcome;
}

/** Returns the adapter's free capacity; an error where it fails or returns no number, so that one adapter does not stop the
 *  sends of the others. */
export function freeCapacity(outbound: Outbound): number | Error {
  try {
    const free: unknown = outbound.capacity?.() ?? Number.POSITIVE_INFINITY;
    return typeof free === "number" && !Number.isNaN(free) ? free : new Error(`capacity returned ${String(free)}`);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
