// Stage send.
// Input: the head of a conversation's outbound lane, due: a draft `queued`; a draft of unknown outcome goes
// to stage settle.
// Effect: checks suppression and supersession, records the attempt, and sends.
// Output: draft `sent`, `failed`, `queued` until its retry, or `unknown` until the first lookup.
// Failure: depends on the outcome.
// Crash: the draft is `sending` with an expired lease. Its outcome is unknown, so stage settle reconciles
// it.

import type { Json, SendOutcome } from "bridgehead/contract";
import { sendKey } from "bridgehead/contract";
import { lookDelay, paceOf, sendDelay, sendLifetime, strikeLimit } from "../../domain/retry.ts";
import { leaseDeadline, TooLate } from "../../engine/lease-deadline.ts";
import type { Claimed, Stage, Transition } from "../../engine/stage.ts";
import { jitter } from "../../ops/clock.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Query } from "../../store/driver.ts";
import {
  abandonLane,
  channelsWithDueLanes,
  guardLease,
  type Lease,
  leaseLanes,
  releaseLane,
} from "../../store/lanes.ts";
import { cite } from "../../store/tables/conversations.ts";
import {
  changeDraft,
  type DraftRow,
  headDraft,
  isSuperseded,
  readDraft,
  recordSending,
} from "../../store/tables/drafts.ts";
import { readFile } from "../../store/tables/files.ts";
import { endRest } from "../../store/tables/parts.ts";
import { strike, suppression } from "../../store/tables/suppressions.ts";
import { endAttempt } from "../../store/tables/turns.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";
import { settle } from "../reconcile/stage.ts";
import { optedOut, suppressOptedOut } from "../route/consent.ts";
import { heedOutcome, openGate } from "./pauses.ts";
import type { SendDeps, Sending } from "./sending.ts";

const leaseMargin = 15_000;
/** Minimum remaining lease for a crossing, in milliseconds. The provider's response is awaited no longer
 *  than the lease lasts. */
const leastLeft = 10_000;
/** Minimum delay in milliseconds, also when the provider asks for an immediate retry. */
const shortestWait = 1000;

export function sendStage(deps: SendDeps): Stage {
  const leaseMs = deps.timeout + leaseMargin;
  const rested = new Map<string, number>();
  return {
    name: "send",
    takes: "drafts",
    async channels(q) {
      const channels: string[] = [];
      for (const channel of await channelsWithDueLanes(q, "out", deps.node)) {
        const line = deps.lines().get(channel);
        if (line?.outbound && !line.catchingUp()) channels.push(channel);
      }
      return channels;
    },
    async claim(q, channel, room) {
      const line = deps.lines().get(channel);
      if (!line) return [];
      const claimed: Claimed[] = [];
      const gate = await openGate(q, line, deps.clock, rested, leaseMs);
      for (const lease of await leaseLanes(q, "out", channel, deps.node, leaseMs, room, gate.closed)) {
        const draft = await nextToSend(q, line, lease, deps);
        if (!draft || !(await gate.admits(draft, lease.sender))) {
          await releaseLane(q, lease, "out");
          continue;
        }
        const sending = { line, lease, leaseDeadline: leaseDeadline(deps.clock, leaseMs), draft };
        if (sending.draft.state === "queued") await recordSending(q, sending.draft, deps.node, lease.token);
        claimed.push(piece(sending, deps));
      }
      return claimed;
    },
  };
}

/** Returns the lane's head after dropping drafts that must not be sent. The check runs here and not when
 *  the draft is created. A reply in its delay is thus dropped when its address is suppressed before it
 *  is due. */
async function nextToSend(
  q: Query,
  line: ChannelRuntime,
  lease: Lease,
  deps: SendDeps,
): Promise<DraftRow | null> {
  for (;;) {
    const draft = await headDraft(q, lease);
    if (!draft || draft.state === "held" || draft.state === "failed") return null;
    if (draft.session !== null && (draft.state !== "queued" || draft.due_in <= 0)) {
      const when = await deps.sessions.admit(q, draft, draft.session);
      if (when === "never") continue;
      if (when === "later") return null;
    }
    if (draft.state !== "queued") return draft;
    // The lane was due for the previous draft, which was just dropped.
    if (draft.due_in > 0) return null;
    const suppressed = draft.forced ? null : await suppression(q, line.channel, draft.recipient);
    const superseded =
      line.rules.on_newer === "drop" && draft.attempts === 0 && (await isSuperseded(q, draft));
    if (suppressed === null && !superseded) return draft;
    const reason =
      suppressed === null ? "the person wrote again before it was due" : `suppressed: ${suppressed}`;
    deps.log.info(
      { channel: line.channel, draft: draft.id, suppressed: suppressed !== null },
      "a reply is not sent",
    );
    await changeDraft(q, draft.id, { state: "dropped", open: 0, reason });
    await line.escalation()?.stuck(q, line, draft, { state: "dropped", reason });
  }
}

function piece(sending: Sending, deps: SendDeps): Claimed {
  const fields = { channel: sending.line.channel, draft: sending.draft.id };
  const fresh = sending.draft.state === "queued";
  return {
    channel: sending.line.channel,
    left: () => sending.leaseDeadline.left(),
    abandon: (q) => abandonLane(q, sending.lease),
    recorded: (phase) => failpoint("send.record", phase, fields),
    committing: (phase) => failpoint(fresh ? "outcome.commit" : "verdict.commit", phase, fields),
    work: (signal) => (fresh ? send(sending, signal, deps) : settle(sending, signal, deps)),
  };
}

async function send(sending: Sending, signal: AbortSignal, deps: SendDeps): Promise<Transition> {
  const { line, draft } = sending;
  const fields = { channel: line.channel, draft: draft.id };
  let crossed = false;
  let outcome: SendOutcome;
  try {
    if (!line.outbound) throw new Error("the channel cannot send");
    outcome = await line.outbound.send(JSON.parse(draft.body) as Json, {
      key: sendKey(draft.id),
      number: draft.attempts + 1,
      signal: sending.leaseDeadline.signal(signal, deps.timeout),
      crossing: () => {
        const left = sending.leaseDeadline.left();
        if (left < leastLeft) throw new TooLate(left);
        crossed = true;
        failpoint("send.cross", "before", fields);
      },
      read: async (ref) => {
        const bytes = await deps.db.read((q) => readFile(q, draft.reply, ref));
        if (bytes === null) throw new Error(`draft ${draft.id} has no file ${ref}`);
        return bytes;
      },
    });
  } catch (error) {
    outcome = { kind: crossed ? "unknown" : "deferred", reason: String(error) };
  }
  failpoint("send.cross", "after", fields);
  if (outcome.kind !== "sent") {
    deps.log.warn({ ...fields, outcome: outcome.kind, reason: outcome.reason }, "a reply was not sent");
  }
  return (q) => conclude(q, sending, outcome, deps);
}

/** Writes an outcome under the lease. If a delivery receipt has already settled the draft, the receipt's
 *  state stays. */
async function conclude(q: Query, sending: Sending, outcome: SendOutcome, deps: SendDeps): Promise<void> {
  const { line, lease, draft } = sending;
  await guardLease(q, lease);
  const now = await readDraft(q, draft.id);
  await endAttempt(
    q,
    draft.id,
    outcome.kind,
    outcome.kind === "sent" ? (outcome.detail ?? null) : outcome.reason,
  );
  if (outcome.kind === "sent") {
    for (const id of [outcome.id, ...(outcome.also ?? [])])
      await cite(q, line.channel, id, draft.conversation, draft.id);
  }
  if (now?.state === "sending") {
    const change = await changeFor(q, sending, outcome, deps);
    await changeDraft(q, draft.id, change);
    // The following parts are incomplete without a refused part, so they are dropped too.
    if (change.state === "failed" && change.open === 0) await endRest(q, draft, "dropped");
    if (change.state === "failed")
      await line.escalation()?.stuck(q, line, draft, { state: "failed", reason: change.reason ?? "" });
  }
  await heedOutcome(q, line, draft, lease.sender, outcome);
  await releaseLane(q, lease, "out");
}

async function changeFor(q: Query, sending: Sending, outcome: SendOutcome, deps: SendDeps) {
  const { line, draft } = sending;
  if (draft.session !== null) return deps.sessions.afterAttempt(outcome, draft.trying_for ?? 0);
  switch (outcome.kind) {
    case "sent":
      return { state: "sent", open: 0, externalId: outcome.id } as const;
    case "refused":
      // The confirmation of a STOP: the provider sent its own confirmation and refuses others. The draft is
      // dropped without an error.
      if (outcome.code === optedOut && draft.forced === 1) {
        await suppressOptedOut(q, line.channel, draft.recipient, outcome.reason);
        return { state: "dropped", open: 0, reason: `${outcome.code}: ${outcome.reason}` } as const;
      }
      if (outcome.code === optedOut) await suppressOptedOut(q, line.channel, draft.recipient, outcome.reason);
      else if (outcome.scope === "recipient")
        await strike(q, line.channel, draft.recipient, strikeLimit, outcome.reason);
      return {
        state: "failed",
        open: line.rules.on_dead === "block" ? 1 : 0,
        reason: `${outcome.code}: ${outcome.reason}`,
      } as const;
    case "deferred": {
      if ((draft.trying_for ?? 0) > sendLifetime) {
        return {
          state: "failed",
          open: line.rules.on_dead === "block" ? 1 : 0,
          reason: `given up: ${outcome.reason}`,
        } as const;
      }
      // The draft keeps its place in the queue and waits until the pause ends.
      if (outcome.scope === "channel" || outcome.scope === "sender")
        return { state: "queued", open: 1, reason: outcome.reason } as const;
      const backoff = sendDelay(paceOf(line.traits.platform), draft.attempts + 1);
      const dueInMs = Math.max(outcome.retryAfterMs ?? jitter(backoff), shortestWait);
      return { state: "queued", open: 1, dueInMs, reason: outcome.reason } as const;
    }
    case "unknown":
      return {
        state: "unknown",
        open: 1,
        dueInMs: lookDelay(0),
        reason: outcome.reason,
        settleForMs: line.rules.unknown_window,
      } as const;
  }
}
