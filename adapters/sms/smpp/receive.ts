// Receives the message centre's deliveries: each is stored, then answered, and removed when the message
// centre has read the response.

import { createHash } from "node:crypto";
import { type Clock, type Cursor, cursor, type DeliveryEvent } from "bridgehead/contract";
import type { InboundText, ProviderParts, TextStatus } from "../provider.ts";
import type { SmsTiming } from "../timing.ts";
import { fromAddress, type SmppPart, textIn, userData } from "./encoding.ts";
import type { SmppConfig } from "./index.ts";
import { decode, number, type Pdu, text } from "./pdu.ts";
import type { Session } from "./session.ts";

export interface Receiving {
  readonly line: Session;
  readonly memory: Memory;
  readonly accept: ProviderParts["accept"];
  readonly config: SmppConfig;
  readonly timing: Pick<SmsTiming, "linger" | "incompleteCheck">;
  /** Country of the national numbers that the message centre sends, if it does. */
  readonly country: string | undefined;
  readonly signal: AbortSignal;
}

/** Placeholder for content that is not text (a picture, a ring tone). Without it the customer would get no response. */
const noText = "[a message that is no text]";

/** Returns when the signal aborts. Throws when the connection ends or a commit fails. No message is
 *  acknowledged before it is stored. */
export async function receive({ line, memory, accept, config, timing, country, signal }: Receiving): Promise<void> {
  const idleMs = Math.min(timing.incompleteCheck, Math.max(10, config.incomplete_after / 2));
  let waitMs = timing.linger;
  while (!signal.aborted) {
    const pdus = await line.delivered(waitMs, signal);
    if (signal.aborted) return;
    const wholes = pdus.filter((pdu) => !isReceipt(pdu)).map((pdu) => memory.take(pdu));
    const texts = [...wholes, ...memory.incomplete()].filter((whole) => whole !== null);
    const statuses = pdus.filter(isReceipt).map((pdu) => readReceipt(pdu, config.receipt_ids));
    const received = {
      texts: texts.map((whole) => textOf(whole, config, country)),
      statuses: statuses.filter((status) => status !== null),
    };
    const cursor = memory.cursor();
    if (cursor !== null) await accept(received, cursor);
    else if (received.texts.length + received.statuses.length > 0) await accept(received);
    for (const pdu of pdus) {
      line.answer(pdu);
      memory.answered(pdu);
    }
    waitMs = idleMs;
    if (!memory.hasUnconfirmed()) continue;
    const confirmed = memory.confirming();
    await line.flushed(signal);
    confirmed();
    waitMs = timing.linger;
  }
}

function textOf({ id, pdus, since, missing }: Whole, config: SmppConfig, country?: string): InboundText {
  const [first] = pdus as readonly [Pdu, ...Pdu[]];
  const body = textIn(pdus, config.alphabet) ?? noText;
  const party = (side: "source" | "dest") =>
    fromAddress(
      {
        ton: number(first, `${side}_addr_ton`),
        address: text(first, side === "source" ? "source_addr" : "destination_addr"),
      },
      country,
    );
  return {
    id,
    from: party("source"),
    to: party("dest"),
    body: missing === 0 ? body : `${body} [...]`,
    sentAt: new Date(since),
    media: [],
    raw: Buffer.concat(pdus.map((pdu) => pdu.raw)),
    ...(missing === 0 ? {} : { notes: { incomplete: `${missing} parts of this text did not arrive` } }),
  };
}

// State that must survive a connection. It is stored in the channel's cursor and so committed together with the texts:
//
// - parts of long texts that are incomplete. Each part is acknowledged when it is stored; a message centre
//   that sends one message at a time would otherwise never send the next;
// - deliveries whose response the message centre may not have read. SMPP gives a delivered text no id. A
//   text that is delivered again over another connection can be recognized only by its content, and customers
//   do write "ok" twice.

/** One text: its only message, or all its parts in order. An incomplete text has the parts that arrived. */
export interface Whole {
  readonly id: string;
  readonly pdus: readonly Pdu[];
  /** Arrival of its first part, in milliseconds. */
  readonly since: number;
  /** Number of parts that never arrived. */
  readonly missing: number;
}

interface PartGroup {
  readonly name: string;
  readonly id: string;
  readonly since: number;
  readonly total: number;
  readonly parts: Record<string, string>;
}

/** A delivery whose response the message centre may not have read. */
export interface SmppDelivery {
  readonly print: string;
  readonly id: string;
  readonly at: number;
}

type Open = SmppDelivery & { readonly pdu: Pdu; readonly answered: boolean };

const mostGroups = 200;

/** `incomplete`: milliseconds after which a long text is given without its missing parts. */
type MemoryLimits = Pick<SmsTiming, "forgotten" | "impatient"> & { readonly incomplete: number };

/** The record of a connection's deliveries; each run has one. */
export class Memory {
  readonly #clock: Pick<Clock, "now">;
  readonly #limits: MemoryLimits;
  #groups: PartGroup[];
  /** Deliveries of earlier connections, which may arrive again. On this connection an identical message is
   *  another text, unless the response to the first is still pending: then the message centre retried it. */
  #earlier: readonly SmppDelivery[];
  #open: readonly Open[] = [];
  /** The parts of complete texts by print, with the time of completion: the network may deliver one twice. */
  #complete = new Map<string, number>();
  #count = 0;
  #kept: string;

  /** `left`: the open deliveries of the previous run, including those that were never committed. */
  constructor(stored: Cursor | null, left: readonly SmppDelivery[], clock: Pick<Clock, "now">, limits: MemoryLimits) {
    this.#clock = clock;
    this.#limits = limits;
    const restored = parsed(stored);
    this.#groups = [...restored.groups];
    this.#earlier = [...left, ...restored.open.filter(({ id }) => !left.some((one) => one.id === id))].filter(
      ({ at }) => clock.now() - at < limits.forgotten,
    );
    this.#kept = stored ?? "";
  }

  /** Adds one message. Returns the text that it completes, or null. */
  take(pdu: Pdu): Whole | null {
    const now = this.#clock.now();
    const print = printOf(pdu);
    const { part } = userData(pdu);
    const before = this.#known(print);
    const group = part === null ? undefined : this.#groups.find(({ name }) => name === nameOf(pdu, part));
    const id = before?.id ?? group?.id ?? this.#newId(print);
    this.#open = [...this.#open.filter((one) => one !== before), { print, id, at: now, pdu, answered: false }];
    if (part === null) return { id, pdus: [pdu], since: now, missing: 0 };
    // The other parts are gone: the text was complete before, and only the response was lost, or a phone sent it again.
    if ((before !== undefined || this.#complete.has(print)) && group === undefined) return null;
    return this.#join(pdu, part, group ?? this.#begin(pdu, part, id));
  }

  /** Returns long texts whose timeout for missing parts has expired. When there are too many, also the oldest. */
  incomplete(): readonly Whole[] {
    const now = this.#clock.now();
    // After the clock went back, they wait from now on.
    this.#groups = this.#groups.map((group) => (group.since > now ? { ...group, since: now } : group));
    for (const [print, at] of this.#complete)
      if (Math.abs(now - at) >= this.#limits.incomplete) this.#complete.delete(print);
    const late = (group: PartGroup, at: number) =>
      now - group.since >= this.#limits.incomplete || at < this.#groups.length - mostGroups;
    const given = this.#groups.filter(late);
    this.#groups = this.#groups.filter((group) => !given.includes(group));
    return given.map(wholeOf);
  }

  /** Records that the response to the message was sent. */
  answered(pdu: Pdu): void {
    this.#open = this.#open.map((one) => (one.pdu === pdu ? { ...one, answered: true } : one));
  }

  /** Called when responses have been written. Returns a function to call when the message centre has read them. */
  confirming(): () => void {
    const written = new Set(this.#open.filter((one) => one.answered));
    return () => {
      this.#open = this.#open.filter((one) => !written.has(one));
    };
  }

  /** Returns true when the message centre may not have read a response that was written. */
  hasUnconfirmed(): boolean {
    return this.#open.some((one) => one.answered);
  }

  /** Returns the open deliveries for the next run's `left`. */
  open(): readonly SmppDelivery[] {
    return [...this.#earlier, ...this.#open].map(({ print, id, at }) => ({ print, id, at }));
  }

  /** Returns the cursor to commit; null: it has not changed since the last one. */
  cursor(): Cursor | null {
    const now = JSON.stringify({ groups: this.#groups, open: this.open() });
    if (now === this.#kept) return null;
    this.#kept = now;
    return cursor(now);
  }

  #newId(print: string): string {
    return `smpp-${this.#clock.now().toString(36)}-${(this.#count++).toString(36)}-${print.slice(0, 16)}`;
  }

  #known(print: string): SmppDelivery | undefined {
    const again = this.#earlier.find((one) => one.print === print);
    this.#earlier = this.#earlier.filter((one) => one !== again);
    const late = (one: Open) => !one.answered && this.#clock.now() - one.at >= this.#limits.impatient;
    return again ?? this.#open.find((one) => one.print === print && late(one));
  }

  #begin(pdu: Pdu, part: SmppPart, id: string): PartGroup {
    const group = { name: nameOf(pdu, part), id, since: this.#clock.now(), total: part.total, parts: {} };
    this.#groups = [...this.#groups, group];
    return group;
  }

  #join(pdu: Pdu, part: SmppPart, group: PartGroup): Whole | null {
    group.parts[part.number] = Buffer.from(pdu.raw).toString("base64");
    if (Object.keys(group.parts).length < group.total) return null;
    this.#groups = this.#groups.filter((one) => one !== group);
    const whole = wholeOf(group);
    for (const one of whole.pdus) this.#complete.set(printOf(one), this.#clock.now());
    return whole;
  }
}

function wholeOf({ id, since, total, parts }: PartGroup): Whole {
  // Integer keys of an object come in ascending order.
  const pdus = Object.values(parts).map((raw) => decode(Buffer.from(raw, "base64")));
  return { id, since, pdus, missing: total - pdus.length };
}

/** Returns a hash without the header: the sequence number changes when a message is delivered again, the
 *  rest does not. */
function printOf({ raw }: Pdu): string {
  return createHash("sha256").update(Buffer.from(raw).subarray(16)).digest("hex");
}

function nameOf(pdu: Pdu, { reference, total }: SmppPart): string {
  return JSON.stringify([text(pdu, "source_addr"), text(pdu, "destination_addr"), reference, total]);
}

interface Stored {
  readonly groups: readonly PartGroup[];
  readonly open: readonly SmppDelivery[];
}

function parsed(stored: Cursor | null): Stored {
  return stored === null ? { groups: [], open: [] } : (JSON.parse(stored) as Stored);
}

// Parses delivery receipts: a text in the customary format (SMPP v3.4, appendix B), optional parameters, or both.
const tag = { receiptedId: 0x001e, networkError: 0x0423, state: 0x0427 } as const;
/** Bits 2 to 5 of esm_class (5.2.12). */
const receiptBits = { mask: 0x3c, receipt: 0x04, intermediate: 0x20 } as const;

const names = ["", "ENROUTE", "DELIVRD", "EXPIRED", "DELETED", "UNDELIV", "ACCEPTD", "UNKNOWN", "REJECTD"] as const;
// UNKNOWN means that no further status will follow. It is not a failure. Some message centres write the words in full.
const failed = /^(?:EXPIRED|DELETED|UNDELIV|REJECT|FAIL)/;

/** Returns the id in a response to submit_sm, in the form in which `readReceipt` returns that of the receipt; empty when the
 *  response has none. */
export const submittedId = (response: Pdu): string => canonicalId(text(response, "message_id"));

/** Returns an id of digits, or a hexadecimal one, in lower case and without leading zeros, another id unchanged: message
 *  centres write one id in several ways. */
const canonicalId = (id: string): string => (/^[0-9a-f]{1,64}$/i.test(id) ? BigInt(`0x${id}`).toString(16) : id);
/** Returns the hexadecimal form of a decimal id. An id with letters is hexadecimal already. */
const fromDecimal = (id: string): string => (/^\d{1,64}$/.test(id) ? BigInt(id).toString(16) : canonicalId(id));

/** A receipt's text. Message centres omit some of its fields, or write them differently. */
const receiptText =
  /^id:\s*\S+\s(?:.*\s)?stat:\s*(?:\w+\s+err:|DELIVE?R|UNDELIV|EXPIRED|DELETED|ACCEPT|ENROUTE|REJECT)/is;

/** Some message centres do not mark receipts in esm_class. As a person's text a receipt would be answered, and the answer
 *  would cause the next one. */
function isReceipt(pdu: Pdu): boolean {
  const bits = number(pdu, "esm_class") & receiptBits.mask;
  const isMarked = bits === receiptBits.receipt || bits === receiptBits.intermediate;
  return isMarked || (pdu.tlvs.has(tag.receiptedId) && pdu.tlvs.has(tag.state)) || receiptText.test(receiptWords(pdu));
}

/** Without the octets that UCS-2 puts between the characters. */
const receiptWords = (pdu: Pdu): string => Buffer.from(userData(pdu).data).toString("latin1").replaceAll("\0", "");

/** Returns null for a receipt that names no text. A failure is never permanent, because networks use
 *  their error codes freely. */
function readReceipt(pdu: Pdu, ids: "same" | "decimal"): TextStatus | null {
  const words = receiptWords(pdu);
  const named = pdu.tlvs.get(tag.receiptedId);
  const own = named === undefined ? undefined : Buffer.from(named).toString("latin1").replace(/\0.*$/s, "");
  const id = own || /\bid:\s*([^\s]+)/i.exec(words)?.[1];
  const status = names[pdu.tlvs.get(tag.state)?.[0] ?? 0] || /\bstat:\s*([A-Z]+)/i.exec(words)?.[1]?.toUpperCase();
  if (id === undefined || !status) return null;
  const network = pdu.tlvs.get(tag.networkError);
  const code =
    network?.length === 3 ? String(Buffer.from(network).readUInt16BE(1)) : /\berr:\s*(\w+)/i.exec(words)?.[1];
  const at = /\bdone[ _]date:\s*(\d{10,14})\b/i.exec(words)?.[1];
  const state = stateOf(status);
  return {
    id: ids === "decimal" ? fromDecimal(id) : canonicalId(id),
    key: null,
    status,
    ...(at === undefined ? {} : { at }),
    state,
    ...(state === "failed" ? { kind: null, code: code ?? status, detail: `the network reports ${status}` } : {}),
    raw: pdu.raw,
  };
}

function stateOf(status: string): DeliveryEvent["state"] {
  if (/^DELIVE?R/.test(status)) return "delivered";
  return failed.test(status) ? "failed" : "accepted";
}
