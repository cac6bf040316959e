// Encodes and decodes the SMPP 3.4 PDUs that a client handles (SMPP v3.4, issue 1.2, sections 3 to 5).

import { classes, type TextClass } from "../outcomes.ts";

export type PduFields = Readonly<Record<string, number | string | Uint8Array>>;

export interface Pdu {
  /** `unknown`: a command that this client does not support; its body is not parsed. */
  readonly command: PduCommand | "unknown";
  /** 0: success. */
  readonly status: number;
  readonly sequence: number;
  readonly fields: PduFields;
  /** Optional parameters by tag. */
  readonly tlvs: ReadonlyMap<number, Uint8Array>;
  /** The octets as received. */
  readonly raw: Uint8Array;
}

/** `c`: text terminated by a zero octet; `b`: one octet; `m`: octets after their count. */
type FieldKind = "c" | "b" | "m";
type Layout = readonly (readonly [name: string, kind: FieldKind])[];

const nothing: Layout = [];
const bind: Layout = [
  ["system_id", "c"],
  ["password", "c"],
  ["system_type", "c"],
  ["interface_version", "b"],
  ["addr_ton", "b"],
  ["addr_npi", "b"],
  ["address_range", "c"],
];
const bound: Layout = [["system_id", "c"]];
const taken: Layout = [["message_id", "c"]];
const message: Layout = [
  ["service_type", "c"],
  ["source_addr_ton", "b"],
  ["source_addr_npi", "b"],
  ["source_addr", "c"],
  ["dest_addr_ton", "b"],
  ["dest_addr_npi", "b"],
  ["destination_addr", "c"],
  ["esm_class", "b"],
  ["protocol_id", "b"],
  ["priority_flag", "b"],
  ["schedule_delivery_time", "c"],
  ["validity_period", "c"],
  ["registered_delivery", "b"],
  ["replace_if_present_flag", "b"],
  ["data_coding", "b"],
  ["sm_default_msg_id", "b"],
  ["short_message", "m"],
];

const commands = {
  generic_nack: { id: 0x80000000, layout: nothing },
  bind_transmitter: { id: 0x02, layout: bind },
  bind_transmitter_resp: { id: 0x80000002, layout: bound },
  submit_sm: { id: 0x04, layout: message },
  submit_sm_resp: { id: 0x80000004, layout: taken },
  deliver_sm: { id: 0x05, layout: message },
  deliver_sm_resp: { id: 0x80000005, layout: taken },
  unbind: { id: 0x06, layout: nothing },
  unbind_resp: { id: 0x80000006, layout: nothing },
  bind_transceiver: { id: 0x09, layout: bind },
  bind_transceiver_resp: { id: 0x80000009, layout: bound },
  enquire_link: { id: 0x15, layout: nothing },
  enquire_link_resp: { id: 0x80000015, layout: nothing },
} as const satisfies Record<string, { id: number; layout: Layout }>;
export type PduCommand = keyof typeof commands;

const byId = new Map(Object.entries(commands).map(([name, { id }]) => [id as number, name as PduCommand]));
const headerLength = 16;
const largest = 65_536;

/** Returns true for a response. Its sequence number is that of the request. */
export function isResponse({ command }: Pdu): boolean {
  return command === "generic_nack" || command.endsWith("_resp");
}

/** Encodes a PDU. Omitted fields are empty or zero. An error response (status above 0) has no body. */
export function encode(
  command: PduCommand,
  sequence: number,
  { status = 0, fields = {} }: { readonly status?: number; readonly fields?: PduFields } = {},
): Buffer {
  const body = status === 0 ? commands[command].layout.map(([name, kind]) => octets(kind, fields[name])) : [];
  const header = Buffer.alloc(headerLength);
  const packet = Buffer.concat([header, ...body]);
  packet.writeUInt32BE(packet.length, 0);
  packet.writeUInt32BE(commands[command].id, 4);
  packet.writeUInt32BE(status, 8);
  packet.writeUInt32BE(sequence, 12);
  return packet;
}

function octets(kind: FieldKind, value: number | string | Uint8Array | undefined): Buffer {
  if (kind === "b") return Buffer.from([Number(value ?? 0)]);
  if (kind === "c") return Buffer.from(`${String(value ?? "")}\0`, "latin1");
  const bytes = Buffer.from((value ?? []) as Uint8Array);
  return Buffer.concat([Buffer.from([bytes.length]), bytes]);
}

/** Splits a stream into PDUs. The returned function throws at an invalid length, after which the stream is unusable. */
export function framing(): (chunk: Uint8Array) => Pdu[] {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const found: Pdu[] = [];
    while (rest.length >= 4) {
      const length = rest.readUInt32BE(0);
      if (length < headerLength || length > largest) throw new Error("reading a packet: its length is impossible");
      if (rest.length < length) break;
      found.push(decode(rest.subarray(0, length)));
      rest = rest.subarray(length);
    }
    return found;
  };
}

/** Decodes a PDU. If the body ends early, the remaining fields are empty. */
export function decode(raw: Uint8Array): Pdu {
  const packet = Buffer.from(raw);
  const command = byId.get(packet.readUInt32BE(4)) ?? "unknown";
  const fields: Record<string, number | string | Uint8Array> = {};
  let at = headerLength;
  for (const [name, kind] of command === "unknown" ? nothing : commands[command].layout) {
    if (kind === "b") fields[name] = packet[at++] ?? 0;
    else if (kind === "c") {
      const end = packet.indexOf(0, at);
      fields[name] = packet.toString("latin1", at, end < 0 ? packet.length : end);
      at = end < 0 ? packet.length : end + 1;
    } else {
      const length = packet[at++] ?? 0;
      fields[name] = packet.subarray(at, at + length);
      at += length;
    }
  }
  return {
    command,
    status: packet.readUInt32BE(8),
    sequence: packet.readUInt32BE(12),
    fields,
    tlvs: command === "unknown" ? new Map() : optional(packet, at),
    raw: packet,
  };
}

function optional(packet: Buffer, from: number): ReadonlyMap<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  for (let at = from; at + 4 <= packet.length; ) {
    const length = packet.readUInt16BE(at + 2);
    found.set(packet.readUInt16BE(at), packet.subarray(at + 4, at + 4 + length));
    at += 4 + length;
  }
  return found;
}

export const text = (pdu: Pdu, name: string): string => String(pdu.fields[name] ?? "");
export const number = (pdu: Pdu, name: string): number => Number(pdu.fields[name] ?? 0);
export const bytes = (pdu: Pdu, name: string): Uint8Array => (pdu.fields[name] ?? new Uint8Array()) as Uint8Array;

// Maps a message centre's status codes to error classes (SMPP v3.4, 5.1.3). Codes from 0x400 on are
// specific to the message centre.
const codes = classes({
  recipient: [0x0b],
  login: [0x04, 0x05, 0x0d, 0x0e, 0x0f],
  account: [0x15, 0x53, 0x66],
  "set-up": [0x0a, 0x48, 0x49],
  // It rejects the type or the plan of the number, which we derive: the recipient is not dead.
  reach: [0x50, 0x51],
  content: [0x01, 0x02, 0x06, 0x07, 0x43, 0x61, 0x62, 0x63, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4],
  rate: [0x14, 0x58],
  unreached: [0x08, 0x45, 0x64, 0x65],
  // "Unknown error" is the only information.
  ambiguous: [0xff],
});

/** Returns the class of a status above 0. Null: an unknown error, which refuses the text. */
export function classOf(status: number): TextClass | null {
  return codes.get(status) ?? null;
}

/** Returns `0x0b`, the form used in the documentation of all message centres. */
export function codeOf(status: number): string {
  return `0x${status.toString(16).padStart(2, "0")}`;
}
