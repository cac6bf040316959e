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
    host: z.string().min(1).describe("What is the host name of the message centre?"),
    port: z.int().min(1).max(65_535).prefault(2775).describe("Which port? Often 2775, or 3550 with TLS."),
    tls: z
      .enum(["implicit", "none"])
      .prefault("implicit")
      .describe(
        "How is the connection encrypted? `none` is accepted for loopback and private networks (a VPN) only.",
      ),
    ca: z.string().optional().describe("Which private CA signs the centre's certificate? The PEM text."),
    system_id: fitting(15).describe("What is the system_id of the account?"),
    password: fitting(8).describe("What is the password?").meta({ secret: true }),
    system_type: z
      .string()
      .max(12)
      .prefault("")
      .describe("Which system_type does the message centre require, if any?"),
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
    timeout: duration
      .prefault("20s")
      .describe("How long do we wait for a response of the message centre (timeout)?"),
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
