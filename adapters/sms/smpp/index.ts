// Texts over SMPP 3.4: one bound connection receives and sends. The daemon needs no public URL.

import { randomInt } from "node:crypto";
import { type Attempt, type ChannelStatus, externalId, Health, type SendOutcome } from "bridgehead/contract";
import { outcomeOf, statusOf, unreachable } from "../classes.ts";
import type { Provider, ProviderParts, TextDraft } from "../provider.ts";
import { type Address, toAddress } from "./address.ts";
import type { SmppConfig } from "./config.ts";
import { type Piece, piecesOf } from "./encoding.ts";
import { classOf, codeOf } from "./errors.ts";
import { createMemory, type Delivery } from "./memory.ts";
import { type Pdu, text } from "./pdu.ts";
import { receive } from "./receive.ts";
import { createSendLines } from "./send-lines.ts";
import { isLoginRefusal, openSession, type Session } from "./session.ts";

/** Timeout for closing a connection in good order, in milliseconds. */
const leaveMs = 700;
const throttledMs = 1000;
const mostTries = 5;
/** Values of registered_delivery (5.2.17). */
const receipts = { always: 1, onFailure: 2 } as const;

export interface SmppOptions {
  /** How long the network may try to deliver a text, in milliseconds. */
  readonly validityMs: number;
  /** Country of the national numbers that the message centre sends, if it does. */
  readonly country?: string | undefined;
}

/** Creates the provider. Opens no connection. */
export function smpp({ channel, hear }: ProviderParts, config: SmppConfig, options: SmppOptions): Provider {
  const state = new Health(channel);
  const lines = createSendLines(
    (mode, signal) => openSession(config, mode, channel.clock, signal),
    config.timeout,
  );
  let left: readonly Delivery[] = [];
  let reference = randomInt(256);

  /** Returns the message centre's response to one message. A message that is throttled in the middle of
   *  a text is retried after a pause. */
  async function submit(
    line: Session,
    fields: Parameters<Session["submit"]>[0],
    attempt: Attempt,
    first: boolean,
  ): Promise<Pdu> {
    for (let tries = 1; ; tries++) {
      const answer = await line.submit(fields, attempt.signal, first ? () => attempt.crossing() : undefined);
      if (first || tries === mostTries || classOf(answer.status) !== "rate") return answer;
      await channel.clock.sleep(throttledMs, attempt.signal);
    }
  }

  /** Returns the outcome of an error response. Reports the channel status if the error concerns the
   *  channel. */
  function refused(status: number, what: string): SendOutcome {
    const refusal = {
      code: codeOf(status),
      reason: `the message centre answered ${what} with ${codeOf(status)}`,
    };
    const told = statusOf(classOf(status), refusal);
    if (told !== null) state.set("account", told);
    return outcomeOf(classOf(status), refusal);
  }

  return {
    name: "smpp",
    limits: { maxLength: 1600, media: false },
    atOnce: config.window,

    async run(stored, signal) {
      state.set("list", { state: "connecting" });
      const memory = createMemory(stored, left, channel.clock, config.incomplete_after);
      let line: Session | null = null;
      try {
        line = await openSession(config, "bind_transceiver", channel.clock, signal);
        lines.offer(line);
        state.set("list", { state: "ready" });
        const { country } = options;
        await receive({ line, memory, hear, config, country, signal });
      } catch (error) {
        if (signal.aborted) return;
        state.set("list", failureOf(error));
        throw error;
      } finally {
        left = memory.open();
        await line?.close(AbortSignal.timeout(leaveMs));
      }
    },

    async send(draft, attempt) {
      const [from, to] = [draft.from === null ? none : toAddress(draft.from), toAddress(draft.to)];
      if (from === null || to === null)
        return { kind: "refused", code: "address", reason: "such an address cannot be reached over SMPP" };
      let line: Session;
      try {
        line = await lines.get(attempt.signal);
      } catch (error) {
        if (isLoginRefusal(error)) return refused(error.status, "the login");
        return unreachable(error);
      }
      reference = (reference + 1) % 256;
      const pieces = piecesOf(draft.body, config.alphabet, reference);
      const ids: string[] = [];
      for (const [at, piece] of pieces.entries()) {
        const last = at === pieces.length - 1;
        const answer = await submit(line, fieldsOf(piece, from, to, last), attempt, at === 0);
        if (answer.status !== 0) return refused(answer.status, partName(at, pieces.length, draft));
        ids.push(text(answer, "message_id") || `${attempt.key}-${at}`);
      }
      state.set("account", { state: "ready" });
      const [id = attempt.key, ...also] = ids.toReversed().map((one) => externalId(one));
      return { kind: "sent", id: externalId(id), ...(also.length > 0 ? { also } : {}) };
    },

    async probe(signal) {
      try {
        const line = await openSession(config, "bind_transmitter", channel.clock, signal);
        await line.close(AbortSignal.timeout(leaveMs));
        return { state: "ready" };
      } catch (error) {
        return failureOf(error);
      }
    },

    close: (signal) => lines.close(signal),
  };

  function fieldsOf(piece: Piece, from: Address, to: Address, last: boolean) {
    return {
      source_addr_ton: config.source.ton ?? from.ton,
      source_addr_npi: config.source.npi ?? from.npi,
      source_addr: from.address,
      dest_addr_ton: to.ton,
      dest_addr_npi: to.npi,
      destination_addr: to.address,
      esm_class: piece.esmClass,
      validity_period: relative(options.validityMs),
      // One receipt for the whole text, and one for a part of it that fails.
      registered_delivery: last ? receipts.always : receipts.onFailure,
      data_coding: piece.dataCoding,
      short_message: piece.shortMessage,
    };
  }
}

const none: Address = { ton: 0, npi: 0, address: "" };

function partName(at: number, pieces: number, { part }: TextDraft): string {
  return pieces === 1 ? `text ${part}` : `message ${at + 1} of ${pieces} of text ${part}`;
}

function failureOf(error: unknown): ChannelStatus {
  const reason = error instanceof Error ? error.message : String(error);
  return isLoginRefusal(error)
    ? { state: "unauthorized", code: codeOf(error.status), reason }
    : { state: "degraded", code: "unreachable", reason };
}

/** Returns `YYMMDDhhmmss000R` (7.1.1.2), at most 99 days. */
function relative(ms: number): string {
  const seconds = Math.min(Math.round(ms / 1000), 99 * 86_400);
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  const time = [seconds / 86_400, (seconds / 3600) % 24, (seconds / 60) % 60, seconds % 60].map(two);
  return `0000${time.join("")}000R`;
}
