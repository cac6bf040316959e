// Configuration keys of a channel that sends texts over an SMPP connection.

import { units } from "bridgehead/contract";
import * as z from "zod";

const { duration } = units(z);

const octet = z.int().min(0).max(255);
/** Limits a value to the length of the protocol's field (SMPP 3.4, 5.2). It is a refinement, because the
 *  configuration file may contain a reference in its place. */
const fitting = (most: number) =>
  z
    .string()
    .min(1)
    .refine((text) => text.length <= most, `must have at most ${most} characters`);

export const smppConfig = z
  .strictObject({
    host: z.string().min(1).describe("Where is the message centre?"),
    port: z.int().min(1).max(65_535).prefault(2775).describe("On which port? Often 2775, or 3550 with TLS."),
    tls: z
      .enum(["implicit", "none"])
      .prefault("implicit")
      .describe("How is the line encrypted? `none` only on this machine and in private networks (a VPN)."),
    ca: z.string().optional().describe("Which private CA signs the centre's certificate? The PEM text."),
    system_id: fitting(15).describe("As whom do we log in?"),
    password: fitting(8).describe("With which password?").meta({ secret: true }),
    system_type: z.string().max(12).prefault("").describe("Which system type does the centre want, if any?"),
    alphabet: z
      .enum(["gsm7", "gsm7-packed", "latin1"])
      .prefault("gsm7")
      .describe(
        "What is the centre's default alphabet (data coding 0)? GSM one character an octet, GSM packed, or Latin 1.",
      ),
    source: z
      .strictObject({
        ton: octet.optional().describe("Which type of number has our number? Default: by its form."),
        npi: octet.optional().describe("Which numbering plan? Default: by its form."),
      })
      .prefault({}),
    window: z
      .int()
      .min(1)
      .max(100)
      .prefault(10)
      .describe("How many of our texts may be unanswered by the centre at once?"),
    enquire: duration.prefault("30s").describe("How often do we ask whether the line still stands?"),
    timeout: duration.prefault("20s").describe("How long may the centre take to answer?"),
    receipt_ids: z
      .enum(["same", "decimal"])
      .prefault("same")
      .describe(
        "How do receipts name a text? As it was named, or as the decimal form of a hexadecimal name.",
      ),
    incomplete_after: duration
      .prefault("10m")
      .describe("After how long is a long text taken without its missing parts?"),
  })
  .refine(({ host, tls }) => tls !== "none" || isPrivate(host), {
    path: ["tls"],
    error: "tls: none is only allowed for this machine and private networks",
  })
  .describe("provider: smpp: how do we reach the message centre?");

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
