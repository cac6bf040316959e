// Encodes text to the octets of messages and decodes it: alphabets, headers of long texts, data codings
// (SMPP v3.4, 5.2.19; 3GPP TS 23.040, 9.2.3.24).

import { canonicalNumber, isCountry } from "../numbers.ts";
import { decodeGsm, encodeGsm, type NationalTables, segmentsOf } from "../text/segments.ts";
import type { SmppConfig } from "./index.ts";
import { bytes, number, type Pdu } from "./pdu.ts";

type Alphabet = SmppConfig["alphabet"];
const coding = { standard: 0, ia5: 1, latin1: 3, ucs2: 8 } as const;
/** The encodings of other codings that the standard names: JIS, Latin/Cyrillic, Latin/Hebrew, ISO 2022-JP and KS C 5601. */
const older: Readonly<Record<number, string>> = {
  5: "shift_jis",
  6: "iso-8859-5",
  7: "iso-8859-8",
  10: "iso-2022-jp",
  14: "euc-kr",
};
const headerFlag = 0x40;
const escape = 0x1b;
const carriageReturn = 0x0d;

/** One SMPP message: a whole text, or a part of it. */
export interface SmppMessage {
  readonly dataCoding: number;
  readonly esmClass: number;
  readonly shortMessage: Uint8Array;
}

/** Returns the messages of a text. `reference` (0-255) identifies the text among recent ones to the same recipient. */
export function piecesOf(body: string, alphabet: Alphabet, reference: number): readonly SmppMessage[] {
  // The euro sign and capital Greek letters are in the GSM alphabet but not in Latin 1.
  const foreign = alphabet === "latin1" && !/^[\u0000-\u00ff]*$/.test(body);
  const { encoding, texts } = foreign ? segmentsOf(body, "ucs2") : segmentsOf(body);
  return texts.map((one, at) => {
    const header =
      texts.length === 1 ? new Uint8Array() : Uint8Array.from([5, 0, 3, reference & 0xff, texts.length, at + 1]);
    const data = encoding === "ucs2" ? ucs2(one) : standard(one, alphabet, header.length);
    return {
      dataCoding: data.coding,
      esmClass: header.length === 0 ? 0 : headerFlag,
      shortMessage: Buffer.concat([header, data.octets]),
    };
  });
}

interface Encoded {
  readonly octets: Uint8Array;
  readonly coding: number;
}

function ucs2(text: string): Encoded {
  return { octets: Buffer.from(text, "utf16le").swap16(), coding: coding.ucs2 };
}

function standard(text: string, alphabet: Alphabet, header: number): Encoded {
  if (alphabet === "latin1") return { octets: Buffer.from(text, "latin1"), coding: coding.standard };
  const septets = encodeGsm(text);
  return { octets: alphabet === "gsm7" ? septets : pack(septets, fillOf(header)), coding: coding.standard };
}

/** The data after a message's header, and which part of which long text it is. */
export interface UserData {
  readonly data: Uint8Array;
  readonly part: SmppPart | null;
  /** Number of header octets before the data. */
  readonly header: number;
  readonly tables: NationalTables;
}

export interface SmppPart {
  readonly reference: number;
  readonly total: number;
  /** Counted from 1. */
  readonly number: number;
}

const tag = { payload: 0x0424, reference: 0x020c, total: 0x020e, number: 0x020f } as const;

/** Returns the data of a message. A part is identified by a header in the message or by optional parameters. */
export function userData(pdu: Pdu): UserData {
  const short = bytes(pdu, "short_message");
  const whole = short.length > 0 ? short : (pdu.tlvs.get(tag.payload) ?? short);
  if ((number(pdu, "esm_class") & headerFlag) !== 0 && whole.length > 0) {
    const header = 1 + (whole[0] ?? 0);
    const elements = elementsOf(whole.subarray(1, header));
    const tables = { single: elements.get(element.single)?.[0], locking: elements.get(element.locking)?.[0] };
    return { data: whole.subarray(header), part: partIn(elements), header, tables };
  }
  const [reference, total, at] = [tag.reference, tag.total, tag.number].map((one) => pdu.tlvs.get(one));
  const isPart = reference?.length === 2 && total?.[0] !== undefined && at?.[0] !== undefined;
  const part = isPart ? checked(Buffer.from(reference).readUInt16BE(0), total[0] ?? 0, at[0] ?? 0) : null;
  return { data: whole, part, header: 0, tables: {} };
}

/** Information elements of a message's header. `part` and `widePart`: the reference has one octet or two. */
const element = { part: 0x00, widePart: 0x08, single: 0x24, locking: 0x25 } as const;

/** Returns the elements of a header by kind; the first of each kind counts. */
function elementsOf(header: Uint8Array): ReadonlyMap<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  for (let at = 0; at + 1 < header.length; ) {
    const [kind = 0, length = 0] = [header[at], header[at + 1]];
    if (!found.has(kind)) found.set(kind, header.subarray(at + 2, at + 2 + length));
    at += 2 + length;
  }
  return found;
}

function partIn(elements: ReadonlyMap<number, Uint8Array>): SmppPart | null {
  const [part, wide] = [elements.get(element.part), elements.get(element.widePart)];
  if (part?.length === 3) return checked(part[0] ?? 0, part[1] ?? 0, part[2] ?? 0);
  if (wide?.length === 4) return checked(((wide[0] ?? 0) << 8) | (wide[1] ?? 0), wide[2] ?? 0, wide[3] ?? 0);
  return null;
}

/** Returns null for a text of one part, and for a part beyond the last. Such a message is a separate text. */
function checked(reference: number, total: number, at: number): SmppPart | null {
  return total > 1 && at >= 1 && at <= total ? { reference, total, number: at } : null;
}

/** Returns the text in one message, or in all parts of one text; null: the content is not text. */
export function textIn(pdus: readonly Pdu[], alphabet: Alphabet): string | null {
  const [first] = pdus;
  if (first === undefined) return null;
  const dataCoding = number(first, "data_coding");
  const scheme = older[dataCoding] ?? alphabetOf(dataCoding);
  if (scheme === null) return null;
  const all = pdus.map(userData);
  if (scheme === "standard" && alphabet === "gsm7-packed")
    return all.map(({ data, header, tables }) => decodeGsm(unpack(data, fillOf(header)), tables)).join("");
  // Concatenated before decoding, because phones split in the middle of an emoji or after an escape.
  const data = Buffer.concat(all.map((one) => one.data));
  if (scheme !== "standard")
    return scheme === "latin1" ? data.toString("latin1") : new TextDecoder(scheme).decode(data);
  return alphabet === "gsm7" ? decodeGsm(data, all[0]?.tables) : data.toString("latin1");
}

/** Returns the alphabet, also for codings that carry a message class (TS 23.038, 4). */
function alphabetOf(dataCoding: number): "standard" | "latin1" | "utf-16be" | null {
  if (dataCoding === coding.ia5 || dataCoding === coding.latin1) return "latin1";
  if (dataCoding === coding.ucs2) return "utf-16be";
  const group = dataCoding & 0xf0;
  if (group === 0x10) return (dataCoding & 0x0c) === 0x08 ? "utf-16be" : (dataCoding & 0x0c) === 0 ? "standard" : null;
  if (group === 0xf0) return (dataCoding & 0x04) === 0 ? "standard" : null;
  return dataCoding === coding.standard ? "standard" : null;
}

/** Returns the number of bits between a header and the first septet, which begins on a septet boundary. */
function fillOf(header: number): number {
  return (7 - ((header * 8) % 7)) % 7;
}

/** Packs septets into octets. Seven spare bits would be decoded as `@`, so a carriage return fills them
 *  (TS 23.038, 6.1.2.3.1). */
function pack(septets: Uint8Array, fill: number): Uint8Array {
  const spare = (8 - ((fill + septets.length * 7) % 8)) % 8;
  const all = spare === 7 ? [...septets, carriageReturn] : [...septets];
  const octets = new Uint8Array(Math.ceil((fill + all.length * 7) / 8));
  all.forEach((septet, at) => {
    const bit = fill + at * 7;
    const [octet, shift] = [bit >> 3, bit & 7];
    octets[octet] = (octets[octet] ?? 0) | ((septet << shift) & 0xff);
    if (shift > 1) octets[octet + 1] = (octets[octet + 1] ?? 0) | (septet >> (8 - shift));
  });
  return octets;
}

function unpack(octets: Uint8Array, fill: number): Uint8Array {
  const count = Math.floor((octets.length * 8 - fill) / 7);
  const septets = Array.from({ length: Math.max(0, count) }, (_, at) => {
    const bit = fill + at * 7;
    const [octet, shift] = [bit >> 3, bit & 7];
    return (((octets[octet] ?? 0) >> shift) | ((octets[octet + 1] ?? 0) << (8 - shift))) & 0x7f;
  });
  const full = (octets.length * 8 - fill) % 7 === 0;
  if (full && septets.at(-1) === carriageReturn && septets.at(-2) !== escape) septets.pop();
  return Uint8Array.from(septets);
}

// Converts numbers to and from SMPP addresses: a type, a numbering plan and digits (SMPP v3.4, 5.2.5 and 5.2.6).
export interface SmppAddress {
  readonly ton: number;
  readonly npi: number;
  readonly address: string;
}

const ton = { unknown: 0, international: 1, national: 2, network: 3, alphanumeric: 5 } as const;
const telephone = 1;

/** Returns null for an address of a service that SMPP does not carry (`whatsapp:...`). */
export function toAddress(canonical: string): SmppAddress | null {
  if (canonical.startsWith("+")) return { ton: ton.international, npi: telephone, address: canonical.slice(1) };
  if (/^\d+$/.test(canonical)) return { ton: ton.network, npi: 0, address: canonical };
  return canonical.includes(":") ? null : { ton: ton.alphanumeric, npi: 0, address: canonical };
}

/** Returns the canonical number if it can be determined, else the address as received. Message centres
 *  often omit the type of an international number. */
export function fromAddress({ ton: type, address }: Omit<SmppAddress, "npi">, country?: string): string {
  if (type === ton.alphanumeric) return address;
  const digits = address.replace(/^\+/, "");
  const home = country !== undefined && isCountry(country) ? country : undefined;
  if (type === ton.national || (type === ton.unknown && home !== undefined && digits.startsWith("0")))
    return canonicalNumber(digits, home) ?? address;
  const long = digits.length > 8;
  return (type === ton.international || long ? canonicalNumber(`+${digits}`) : null) ?? address;
}
