// Packets, alphabets and addresses of SMPP, without a line.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fromAddress, piecesOf, textIn, toAddress, userData } from "../../../../adapters/sms/smpp/encoding.ts";
import { smppConfig } from "../../../../adapters/sms/smpp/index.ts";
import { decode, encode, framing, text } from "../../../../adapters/sms/smpp/pdu.ts";

const alphabets = ["gsm7", "gsm7-packed", "latin1"] as const;

/** A message as it would come back to us. */
const delivered = (piece: ReturnType<typeof piecesOf>[number]) =>
  decode(
    encode("deliver_sm", 7, {
      fields: { data_coding: piece.dataCoding, esm_class: piece.esmClass, short_message: piece.shortMessage },
    }),
  );

describe("a stream", () => {
  const packets = [
    encode("submit_sm", 1, { fields: { source_addr: "1", short_message: Buffer.from("hello") } }),
    encode("enquire_link", 2),
    encode("submit_sm_resp", 3, { fields: { message_id: "m-1" } }),
    encode("deliver_sm_resp", 4, { status: 8 }),
  ];

  it("comes to the same packets however it is cut", () => {
    const whole = Buffer.concat(packets);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: whole.length }), { maxLength: 20 }), (cuts) => {
        const edges = [0, ...cuts.sort((a, b) => a - b), whole.length];
        const frames = framing();
        const found = edges.slice(1).flatMap((end, at) => frames(whole.subarray(edges[at], end)));
        expect(found.map(({ command, sequence }) => [command, sequence])).toEqual([
          ["submit_sm", 1],
          ["enquire_link", 2],
          ["submit_sm_resp", 3],
          ["deliver_sm_resp", 4],
        ]);
        expect(found[2] && text(found[2], "message_id")).toBe("m-1");
      }),
    );
  });

  it("of anything at all ends in packets or in an error", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
        const frames = framing();
        try {
          for (const pdu of frames(bytes)) textIn([pdu], "gsm7");
        } catch (error) {
          expect(String(error)).toContain("length is impossible");
        }
      }),
      { numRuns: 2000 },
    );
    expect(() => framing()(Buffer.from([0, 0, 0, 4]))).toThrow("impossible");
    expect(() => framing()(Buffer.from([255, 0, 0, 4]))).toThrow("impossible");
  });

  it("of well-formed packets with any body is read without an error", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(4, 5, 0x80000004, 0x80000009, 0x99),
        fc.uint8Array({ maxLength: 300 }),
        (id, body) => {
          const header = Buffer.alloc(16);
          header.writeUInt32BE(16 + body.length, 0);
          header.writeUInt32BE(id, 4);
          const [pdu] = framing()(Buffer.concat([header, body]));
          expect(pdu).toBeDefined();
          if (pdu) expect(["string", "object"]).toContain(typeof textIn([pdu], "gsm7-packed"));
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe("texts", () => {
  // No carriage return: in packed form, a trailing one cannot be distinguished from padding. Our texts never contain
  // any.
  const some = fc.oneof(
    fc.array(fc.constantFrom("a", "é", "€", "[", " ", "@", "Z", "\n"), { maxLength: 500 }),
    fc.array(fc.constantFrom("a", "я", "🙂", "€", "ç"), { maxLength: 300 }),
  );

  it.each(alphabets)("come back from %s as they went, in parts that fit", (alphabet) => {
    fc.assert(
      fc.property(some, fc.nat(255), (signs, reference) => {
        const body = signs.join("");
        const pieces = piecesOf(body, alphabet, reference);
        for (const { dataCoding, shortMessage } of pieces)
          expect(shortMessage.length).toBeLessThanOrEqual(dataCoding === 8 || alphabet === "gsm7-packed" ? 140 : 160);
        const pdus = pieces.map(delivered);
        expect(textIn(pdus, alphabet)).toBe(body);
        if (pieces.length > 1)
          expect(pdus.map((pdu) => userData(pdu).part)).toEqual(
            pieces.map((_, at) => ({ reference, total: pieces.length, number: at + 1 })),
          );
      }),
      { numRuns: 300 },
    );
  });

  it.each([
    // Of the single shift table only; "ğ" alone would be "g".
    ["Turkish", [0x24, 1, 1], [0x49, 0x1b, 0x67, 0x1b, 0x69, 0x1b, 0x65], "Iğı€"],
    ["Turkish, both tables", [0x24, 1, 1, 0x25, 1, 1], [0x07, 0x1d, 0x0c, 0x04, 0x1b, 0x53, 0x61], "ışğ€Şa"],
    ["Spanish", [0x24, 1, 2], [0x61, 0x1b, 0x61, 0x1b, 0x75, 0x7d], "aáúñ"],
    ["Portuguese", [0x24, 1, 3, 0x25, 1, 3], [0x0b, 0x7b, 0x1b, 0x0f, 0x09, 0x60, 0x61], "Ôãáç~a"],
    ["a language without a table here", [0x24, 1, 6], [0x61, 0x1b, 0x62], "ab"],
  ])("of %s use the alphabet that their header names", (_, elements, codes, wanted) => {
    const shortMessage = Uint8Array.from([elements.length, ...elements, ...codes]);
    expect(textIn([delivered({ dataCoding: 0, esmClass: 0x40, shortMessage })], "gsm7")).toBe(wanted);
  });

  it("are packed as the standard's examples are", () => {
    const [piece] = piecesOf("hellohello", "gsm7-packed", 0);
    expect(Buffer.from(piece?.shortMessage ?? []).toString("hex")).toBe("e8329bfd4697d9ec37");
  });

  it.each([
    ["Japanese", 5, [0x83, 0x89, 0x83, 0x93, 0x83, 0x76, 0x20, 0x31, 0xb6], "ランプ 1ｶ"],
    ["Cyrillic", 6, [0xbb, 0xd0, 0xdc, 0xdf, 0xd0, 0x20, 0x31], "Лампа 1"],
    ["Hebrew", 7, [0xf9, 0xec, 0xe5, 0xed, 0x20, 0x61], "שלום a"],
    ["Japanese in ISO 2022", 10, [0x1b, 0x24, 0x42, 0x25, 0x69, 0x1b, 0x28, 0x42, 0x31], "ラ1"],
    ["Korean", 14, [0xb7, 0xa5, 0xc7, 0xc1, 0x20, 0x31], "램프 1"],
  ])("of older codings are read: %s", (_, dataCoding, octets, wanted) => {
    const shortMessage = Uint8Array.from(octets);
    expect(textIn([delivered({ dataCoding, esmClass: 0, shortMessage })], "gsm7")).toBe(wanted);
    // In two parts, the first of which ends inside of a character.
    const parts = [octets.slice(0, 1), octets.slice(1)].map((part, at) =>
      delivered({
        dataCoding,
        esmClass: 0x40,
        shortMessage: Uint8Array.from([5, 0, 3, 1, 2, at + 1, ...part]),
      }),
    );
    expect(textIn(parts, "gsm7")).toBe(wanted);
  });

  it("of no alphabet are none", () => {
    for (const dataCoding of [2, 4, 9, 13, 0xf4, 0x14])
      expect(textIn([delivered({ dataCoding, esmClass: 0, shortMessage: Buffer.from("x") })], "gsm7")).toBeNull();
    for (const dataCoding of [0, 1, 3, 0x10, 0xf0])
      expect(textIn([delivered({ dataCoding, esmClass: 0, shortMessage: Buffer.from("x") })], "gsm7")).toBe("x");
    const wide = { dataCoding: 0x18, esmClass: 0, shortMessage: Buffer.from([0x04, 0x4f]) };
    expect(textIn([delivered(wide)], "gsm7")).toBe("я");
  });
});

describe("addresses", () => {
  it("go out by their form", () => {
    expect(toAddress("+15550100")).toEqual({ ton: 1, npi: 1, address: "15550100" });
    expect(toAddress("12345")).toEqual({ ton: 3, npi: 0, address: "12345" });
    expect(toAddress("Bank")).toEqual({ ton: 5, npi: 0, address: "Bank" });
    expect(toAddress("whatsapp:+15550100")).toBeNull();
  });

  it("come in by their type, and where it is open by their form", () => {
    expect(fromAddress({ ton: 1, address: "15550177" })).toBe("+15550177");
    expect(fromAddress({ ton: 1, address: "+15550177" })).toBe("+15550177");
    expect(fromAddress({ ton: 0, address: "4930901820" })).toBe("+4930901820");
    expect(fromAddress({ ton: 0, address: "12345" })).toBe("12345");
    expect(fromAddress({ ton: 5, address: "Bank 24" })).toBe("Bank 24");
    expect(fromAddress({ ton: 2, address: "030901820" }, "DE")).toBe("+4930901820");
    expect(fromAddress({ ton: 0, address: "030901820" }, "DE")).toBe("+4930901820");
  });
});

describe("the block", () => {
  const block = { host: "smsc.example.com", system_id: "desk", password: "secret" };

  it("is encrypted unless the centre is in a private network", () => {
    expect(smppConfig.parse(block).tls).toBe("implicit");
    expect(smppConfig.safeParse({ ...block, tls: "none" }).success).toBe(false);
    for (const host of ["127.0.0.1", "localhost", "10.1.2.3", "192.168.0.4", "172.20.1.1", "fd00::1"])
      expect(smppConfig.safeParse({ ...block, host, tls: "none" }).success).toBe(true);
    for (const host of ["172.32.1.1", "11.1.1.1", "10.example.com"])
      expect(smppConfig.safeParse({ ...block, host, tls: "none" }).success).toBe(false);
  });

  it("has a host without a port and a scheme", () => {
    for (const host of ["smsc.example.com:2775", "smpp://smsc.example.com", "desk@smsc.example.com"])
      expect(smppConfig.safeParse({ ...block, host }).error?.issues).toMatchObject([{ path: ["host"] }]);
    expect(smppConfig.safeParse({ ...block, host: "2001:db8::1" }).success).toBe(true);
  });

  it("marks the password as a secret", () => {
    expect(smppConfig.shape.password.meta()).toMatchObject({ secret: true });
  });
});
