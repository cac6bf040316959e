// Creates the contract's Channel for an adapter, from the pipeline and the channel's own state.

import { createHash } from "node:crypto";
import {
  type AgentFacts,
  type Channel,
  type ChannelId,
  type ChannelIdentity,
  type ChannelStatus,
  type ExternalId,
  externalId,
  type Log,
  type SessionFacts,
  type SessionId,
  wrongFieldText,
  wrongStatus,
} from "bridgehead/contract";
import type { Scheduler } from "../engine/scheduler.ts";
import { accept, type ReaderLease } from "../pipeline/accept/stage.ts";
import type { Core, Query } from "../store/driver.ts";
import type { Installation } from "../store/installation.ts";
import { readSecret, writeSecret } from "../store/secrets.ts";
import { ownAddresses } from "../store/tables/conversations.ts";
import { unconfirmedRecipients } from "../store/tables/drafts.ts";
import { channelsSince, knownEvents } from "../store/tables/events.ts";
import { probeNow } from "../store/tables/pauses.ts";
import { readSession, sessionParty } from "../store/tables/sessions.ts";

export interface ChannelState {
  status: ChannelStatus;
  /** Clock milliseconds of the last change of `status.state`. */
  since: number;
  /** The same instant in monotonic milliseconds, for durations. */
  changedAt: number;
  /** Clock milliseconds of the last accepted event or confirmed poll; null before the first. */
  lastActivityAt: number | null;
  /** Warnings for the operator while the channel works, by code. */
  readonly warnings: Map<string, string>;
  /** The warnings of which responders are notified, by code. Null: the condition was absent at the last check. Contains
   *  none that this process has not checked. */
  readonly escalating: Map<string, string | null>;
  /** The errors with which `accept` has rejected. */
  readonly rejections: WeakSet<object>;
  /** Clock milliseconds (monotonic) of the supervisor's last tick; null for a channel without inbound. */
  tickedAt: number | null;
  /** Ended attempts to connect since the channel was built. */
  failures: number;
  /** Clock milliseconds of the next attempt to connect; null while connected or connecting. */
  retryAt: number | null;
  /** True when another node reads the channel. This node still asks, sends and serves the channel's webhooks. */
  isStandby: boolean;
}

interface ChannelParts extends Core {
  readonly id: ChannelId;
  /** The adapter's name. All channels of an adapter share its secrets. */
  readonly adapter: string;
  readonly installation: Installation;
  /** Ids of the channels that currently run on this store. */
  running(): readonly string[];
  readonly scheduler: Scheduler;
  readonly publicUrl: string;
  readonly state: ChannelState;
  /** Masks the secrets of the channel's block in a text. */
  readonly mask: (text: string) => string;
  /** The platform's current facts about the agent on this channel. */
  agent(): AgentFacts | null;
  /** The lease under which this process currently reads the channel. */
  reader(): ReaderLease | null;
  /** Called when a channel that worked, or was connecting, has failed. */
  lost(): void;
}

export function createChannel(options: ChannelParts): Channel {
  const { id, scheduler, db, clock, node, state, mask } = options;
  const log = inChannel(options.log, id);
  const startedAt = clock.now();
  const { knownSender } = options.timing.accept;
  return {
    id,
    log,
    clock,
    timing: options.timing.adapters[options.adapter] ?? {},
    url: (path) => new URL(`${options.publicUrl.replace(/\/$/, "")}/channels/${id}${path}`),
    async accept(events, cursor) {
      try {
        const given: { readonly events: unknown; readonly cursor: unknown } = { events, cursor };
        if (!Array.isArray(given.events))
          throw new TypeError(
            `accepting from channel ${id}: its adapter gave ${typeof events}, expected an array of events`,
          );
        if (cursor !== undefined && typeof given.cursor !== "string")
          throw new TypeError(
            `accepting from channel ${id}: its adapter gave the cursor as ${typeof cursor}, expected a string`,
          );
        if (cursor === undefined) return await accept(scheduler, id, events, null, node, startedAt, knownSender);
        const reader = options.reader();
        if (!reader) throw new Error(`accepting from channel ${id}: this process does not read it now`);
        const accepted = await accept(scheduler, id, events, { cursor, reader }, node, startedAt, knownSender);
        state.lastActivityAt = clock.now();
        return accepted;
      } catch (error) {
        state.rejections.add(Object(error));
        throw error;
      }
    },
    async known(ids) {
      return (await db.read((q) => knownEvents(q, id, ids))) as Set<ExternalId>;
    },
    unconfirmed: (since) => db.read((q) => unconfirmedRecipients(q, id, since.getTime())),
    addresses: () => db.read((q) => ownAddresses(q, id)),
    session: (session) => db.read((q) => sessionFacts(q, id, session)),
    agent: () => options.agent(),
    identity: async () =>
      identityOf(id, options.installation, await db.read(channelsSince), new Set(options.running())),
    secrets: {
      read: (name) => db.read((q) => readSecret(q, `${options.adapter}/${name}`)),
      write: (name, value) => db.tx((q) => writeSecret(q, `${options.adapter}/${name}`, value)),
    },
    warn(code, given: unknown, { escalates = false } = {}) {
      const wrong = given !== null && given !== undefined && typeof given !== "string";
      const sentence = wrong ? `its adapter gave ${typeof given}, expected a sentence` : given ? mask(given) : null;
      if (escalates) state.escalating.set(code, sentence);
      if ((state.warnings.get(code) ?? null) === sentence) return;
      if (sentence === null) state.warnings.delete(code);
      else state.warnings.set(code, sentence);
      if (sentence === null) log.info({ code }, "channel warning cleared");
      else log.warn({ code, reason: sentence }, "channel warning");
    },
    report(given) {
      const status = reportable(given, mask);
      const recovered = status.state === "ready" && state.status.state !== "ready";
      if (status.state !== state.status.state) {
        reportChange(log, state, status, clock.monotonic() - state.changedAt);
        if (!isUp(status) && isUp(state.status)) options.lost();
        state.since = clock.now();
        state.changedAt = clock.monotonic();
      } else if (status.state === "degraded" && state.status.state === "degraded" && status.code !== state.status.code)
        log.warn({ ...status }, "channel fails for another reason, retrying");
      const caughtUp = state.status.state === "connecting" && status.state !== "connecting";
      state.status = status;
      // Due work was delayed until the channel caught up.
      if (caughtUp) scheduler.wake();
      // Retries work that waits for a connection or a login.
      if (recovered)
        void scheduler
          .commit((q) => probeNow(q, id))
          .catch((error: unknown) => log.warn({ err: error }, "ending the pauses of a channel failed"));
      if (status.state === "ready") state.lastActivityAt = clock.now();
    },
  };
}

/** Returns the status as it is shown. Of an adapter without types it may be none, which the operator has to know. */
function reportable(given: ChannelStatus, mask: ChannelParts["mask"]): ChannelStatus {
  const wrong = wrongStatus(given);
  if (wrong === null) return isUp(given) ? given : { ...given, reason: mask(given.reason) };
  return { state: "degraded", code: "wrong-report", reason: `its adapter reported ${wrongFieldText(wrong)}` };
}

/** True until a failure is reported. */
export const isUp = (status: ChannelStatus): status is ChannelStatus & { readonly state: "ready" | "connecting" } =>
  status.state === "ready" || status.state === "connecting";

/** Writes one line when the connection is lost or cannot be made, and one when it works again. Failed attempts in between
 *  change no state and have no line at this level. `lastedMs`: how long the state before lasted. */
function reportChange(log: Log, before: ChannelState, after: ChannelStatus, lastedMs: number): void {
  const fields = { ...after };
  switch (after.state) {
    case "unauthorized":
      return log.error(fields, "channel unauthorized: the server rejected the credentials");
    case "degraded":
      return log.warn(
        fields,
        before.status.state === "ready" ? "channel connection lost" : "channel cannot connect, retrying",
      );
    case "ready":
      if (before.status.state === "connecting") return log.info(fields, "channel connected");
      return log.info({ ...fields, duration_ms: Math.round(lastedMs) }, "channel connection recovered");
    default:
      return log.info(fields, "channel state changed");
  }
}

async function sessionFacts(q: Query, channel: string, id: SessionId): Promise<SessionFacts | null> {
  const row = await readSession(q, channel, id);
  if (!row) return null;
  const { person, pending } = await sessionParty(q, row);
  return {
    state: row.state,
    from: { address: person },
    openedAt: new Date(row.opened_at),
    openings: row.openings,
    transferring: row.transferring,
    pending: pending === null ? null : externalId(pending),
  };
}

/** Returns the identifier that a channel of one installation uses in its marks at the provider. */
const markOf = (installation: string, channel: string): string =>
  createHash("sha256").update(`${installation}/${channel}`).digest("hex").slice(0, 10);

function identityOf(
  id: string,
  installation: Installation,
  since: ReadonlyMap<string, number>,
  running: ReadonlySet<string>,
): ChannelIdentity {
  const mark = markOf(installation.id, id);
  const channels = new Set([id, ...since.keys()]);
  const all = [...channels].flatMap((channel) =>
    [installation.id, ...installation.earlier].map((one) => ({ channel, mark: markOf(one, channel) })),
  );
  const siblings = new Set([...running].filter((channel) => channel !== id).map((one) => markOf(installation.id, one)));
  const known = new Set(all.map((one) => one.mark));
  return {
    since: new Date(since.get(id) ?? 0),
    mark,
    ownerOf(other) {
      if (other === mark) return "self";
      if (siblings.has(other)) return "sibling";
      return known.has(other) ? "earlier" : "foreign";
    },
  };
}

/** Adds the channel's id to every log record. */
function inChannel(log: Log, channel: ChannelId): Log {
  return {
    debug: (fields, message) => log.debug({ channel, ...fields }, message),
    info: (fields, message) => log.info({ channel, ...fields }, message),
    warn: (fields, message) => log.warn({ channel, ...fields }, message),
    error: (fields, message) => log.error({ channel, ...fields }, message),
  };
}
