// Texts over SMPP 3.4: one bound connection receives and sends. The daemon needs no public URL.

import { randomInt } from "node:crypto";
import {
  type Attempt,
  type Channel,
  type ChannelStatus,
  type Cursor,
  externalId,
  Health,
  hostPattern,
  type SendOutcome,
  units,
} from "bridgehead/contract";
import * as z from "zod";
import type { SmsConfig } from "../config.ts";

import { outcomeOf, statusOf, unreachable } from "../outcomes.ts";
import { defineProvider, type Provider, type ProviderParts, type TextDraft } from "../provider.ts";
import type { SmsTiming } from "../timing.ts";
import { piecesOf, type SmppAddress, type SmppMessage, toAddress } from "./encoding.ts";
import { classOf, codeOf, type Pdu, type PduFields } from "./pdu.ts";
import { Memory, receive, type SmppDelivery, submittedId } from "./receive.ts";
import { isLoginRefusal, openSession, SendLines, type Session } from "./session.ts";

const mostTries = 5;
/** Values of registered_delivery (5.2.17). */
const receipts = { always: 1, onFailure: 2 } as const;

const { duration } = units(z);

const octet = z.int().min(0).max(255);
/** Limits a value to the length of the protocol's field (SMPP 3.4, 5.2). It is a refinement, because the
 *  configuration file may contain a reference in its place. */
const fitting = (most: number) =>
  z
    .string()
    .min(1)
    .refine((text) => text.length <= most, `must have at most ${most} characters`);

/** The configuration keys of the provider. */
export const smppConfig = z
  .strictObject({
    host: z
      .string()
      .min(1)
      .regex(hostPattern, "must be a host name or an address alone; the port has the key port")
      .describe("What is the host name of the message centre?"),
    port: z.int().min(1).max(65_535).prefault(2775).describe("Which port? Often 2775, or 3550 with TLS."),
    tls: z
      .enum(["implicit", "none"])
      .prefault("implicit")
      .describe("How is the connection encrypted? `none` is accepted for loopback and private networks (a VPN) only."),
    ca: z.string().optional().describe("Which private CA signs the centre's certificate? The PEM text."),
    system_id: fitting(15).describe("What is the system_id of the account?"),
    password: fitting(8).describe("What is the password?").meta({ secret: true }),
    system_type: z.string().max(12).prefault("").describe("Which system_type does the message centre require, if any?"),
    alphabet: z
      .enum(["gsm7", "gsm7-packed", "latin1"])
      .prefault("gsm7")
      .describe(
        "What is the default alphabet of the message centre (data_coding 0)? GSM with one character per octet, GSM packed, or Latin 1.",
      ),
    source: z
      .strictObject({
        ton: octet.optional().describe("What is the type of number (TON)? Default: derived from the number."),
        npi: octet.optional().describe("What is the numbering plan (NPI)? Default: derived from the number."),
      })
      .prefault({}),
    window: z
      .int()
      .min(1)
      .max(100)
      .prefault(10)
      .describe("How many submits may wait for a response of the message centre (window)?"),
    enquire: duration.prefault("30s").describe("How often is enquire_link sent?"),
    timeout: duration.prefault("20s").describe("How long do we wait for a response of the message centre (timeout)?"),
    receipt_ids: z
      .enum(["same", "decimal"])
      .prefault("same")
      .describe(
        "Which message id do delivery receipts contain? The same as in submit_sm_resp, or the decimal form of a hexadecimal id.",
      ),
    incomplete_after: duration
      .prefault("10m")
      .describe("After how long is a long text accepted without its missing parts?"),
  })
  .refine(({ host, tls }) => tls !== "none" || isPrivate(host), {
    path: ["tls"],
    error: "tls: none is only allowed for this machine and private networks",
  })
  .describe("How is the message centre (SMSC) reached (provider: smpp)?");

export type SmppConfig = z.output<typeof smppConfig>;

function isPrivate(host: string): boolean {
  return (
    host === "localhost" ||
    host === "::1" ||
    /^(127|10)\.\d+\.\d+\.\d+$/.test(host) ||
    /^192\.168\.\d+\.\d+$/.test(host) ||
    /^172\.(1[6-9]|2\d|3[01])\.\d+\.\d+$/.test(host) ||
    /^f[cd][0-9a-f]{2}:/i.test(host)
  );
}

export const smpp = defineProvider({
  name: "smpp",
  block: smppConfig,
  webhooks: false,
  // Each message centre has its own number space.
  network: ({ host }) => `smpp/${host.toLowerCase().replace(/\.$/, "")}`,
  create: (parts, common, config) => new Smpp(parts, common, config),
});

class Smpp implements Provider {
  readonly limits = { maxLength: 1600, media: false, bySegment: true } as const;
  readonly atOnce: number;
  readonly #channel: Channel;
  readonly #accept: ProviderParts["accept"];
  readonly #common: Pick<SmsConfig, "validity" | "country">;
  readonly #config: SmppConfig;
  readonly #timing: SmsTiming;
  readonly #state: Health;
  readonly #lines: SendLines;
  /** The open deliveries of the last connection. */
  #left: readonly SmppDelivery[] = [];
  #reference = randomInt(256);

  constructor({ channel, timing, accept }: ProviderParts, common: SmsConfig, config: SmppConfig) {
    this.atOnce = config.window;
    this.#channel = channel;
    this.#accept = accept;
    this.#common = common;
    this.#config = config;
    this.#timing = timing;
    this.#state = new Health(channel);
    this.#lines = new SendLines((mode, signal) => openSession(config, mode, channel.clock, signal), config.timeout);
  }

  async run(stored: Cursor | null, signal: AbortSignal): Promise<void> {
    const [config, timing] = [this.#config, this.#timing];
    this.#state.set("list", { state: "connecting" });
    const memory = new Memory(stored, this.#left, this.#channel.clock, {
      ...timing,
      incomplete: config.incomplete_after,
    });
    let line: Session | null = null;
    try {
      line = await this.#lines.receive(signal);
      this.#state.set("list", { state: "ready" });
      const { country } = this.#common;
      await receive({ line, memory, accept: this.#accept, config, timing, country, signal });
    } catch (error) {
      if (signal.aborted) return;
      this.#state.set("list", failureOf(error));
      throw error;
    } finally {
      this.#left = memory.open();
      await line?.close(AbortSignal.timeout(timing.leave));
    }
  }

  async send(draft: TextDraft, attempt: Attempt): Promise<SendOutcome> {
    const [from, to] = [draft.from === null ? none : toAddress(draft.from), toAddress(draft.to)];
    if (from === null || to === null)
      return { kind: "refused", code: "address", reason: "such an address cannot be reached over SMPP" };
    let line: Session;
    try {
      line = await this.#lines.get(attempt.signal);
    } catch (error) {
      return isLoginRefusal(error) ? this.#refused(error.status, "the login") : unreachable(error);
    }
    this.#reference = (this.#reference + 1) % 256;
    const pieces = piecesOf(draft.body, this.#config.alphabet, this.#reference);
    const ids: string[] = [];
    for (const [at, piece] of pieces.entries()) {
      const fields = this.#fieldsOf(piece, from, to, at === pieces.length - 1);
      const answer = await this.#submit(line, fields, attempt, at === 0);
      if (answer.status !== 0) {
        const outcome = this.#refused(answer.status, partName(at, pieces.length, draft));
        if (at === 0 || outcome.kind !== "deferred") return outcome;
        // A retry would send the messages before it again.
        return { kind: "unknown", reason: `${outcome.reason}; the messages before it were accepted` };
      }
      ids.push(submittedId(answer) || `${attempt.key}-${at}`);
    }
    this.#state.set("account", { state: "ready" });
    const [id = attempt.key, ...also] = ids.toReversed().map((one) => externalId(one));
    return { kind: "sent", id: externalId(id), ...(also.length > 0 ? { also } : {}) };
  }

  async probe(signal: AbortSignal): Promise<ChannelStatus> {
    try {
      const line = await openSession(this.#config, "bind_transmitter", this.#channel.clock, signal);
      await line.close(AbortSignal.timeout(this.#timing.leave));
      return { state: "ready" };
    } catch (error) {
      return failureOf(error);
    }
  }

  close(signal: AbortSignal): Promise<void> {
    return this.#lines.close(signal);
  }

  /** Returns the message centre's response to one message. A message that is throttled in the middle of
   *  a text is retried after a pause. */
  async #submit(line: Session, fields: PduFields, attempt: Attempt, first: boolean): Promise<Pdu> {
    for (let tries = 1; ; tries++) {
      const answer = await line.submit(fields, attempt.signal, first ? () => attempt.crossing() : undefined);
      if (first || tries === mostTries || classOf(answer.status) !== "rate") return answer;
      await this.#channel.clock.sleep(this.#timing.throttled, attempt.signal);
    }
  }

  /** Returns the outcome of an error response. Reports the channel status if the error concerns the channel. */
  #refused(status: number, what: string): SendOutcome {
    const code = codeOf(status);
    const refusal = { code, reason: `the message centre answered ${what} with ${code}` };
    const health = statusOf(classOf(status), refusal);
    if (health !== null) this.#state.set("account", health);
    return outcomeOf(classOf(status), refusal, this.#timing);
  }

  #fieldsOf(piece: SmppMessage, from: SmppAddress, to: SmppAddress, last: boolean): PduFields {
    const { source } = this.#config;
    return {
      source_addr_ton: source.ton ?? from.ton,
      source_addr_npi: source.npi ?? from.npi,
      source_addr: from.address,
      dest_addr_ton: to.ton,
      dest_addr_npi: to.npi,
      destination_addr: to.address,
      esm_class: piece.esmClass,
      validity_period: relative(this.#common.validity),
      // One receipt for the whole text, and one for a part of it that fails.
      registered_delivery: last ? receipts.always : receipts.onFailure,
      data_coding: piece.dataCoding,
      short_message: piece.shortMessage,
    };
  }
}

const none: SmppAddress = { ton: 0, npi: 0, address: "" };

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
