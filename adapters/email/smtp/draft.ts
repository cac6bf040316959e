// What will be sent, frozen: everything a second attempt needs to send the same bytes again.

import * as z from "zod";

const party = z.strictObject({ address: z.string(), name: z.string() });

const schema = z.strictObject({
  v: z.literal(1),
  /** The send key: name of the draft in the envelope and in boundaries. */
  key: z.string(),
  envelopeFrom: z.string(),
  from: party,
  to: z.array(party),
  cc: z.array(party),
  replyTo: z.string().nullable(),
  subject: z.string(),
  /** With angle brackets, as are the following. */
  messageId: z.string(),
  inReplyTo: z.string().nullable(),
  references: z.array(z.string()),
  /** ISO 8601. */
  date: z.string(),
  /** Answers say `auto-replied`, mail we begin and notices say `auto-generated`, a person's words `no` (RFC 3834). */
  automatic: z.enum(["auto-replied", "auto-generated", "no"]),
  hops: z.int(),
  text: z.string(),
  html: z.string(),
  /** The core has the bytes, under `ref`. Drafts of earlier versions have none. */
  attachments: z
    .array(z.strictObject({ name: z.string(), mediaType: z.string(), size: z.int(), ref: z.string() }))
    .prefault([]),
});

type Plain<T> = T extends (infer Item)[]
  ? readonly Plain<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Plain<T[Key]> }
    : T;

export type Draft = Plain<z.output<typeof schema>>;

/** Throws on anything that this version did not write. */
export function readDraft(stored: unknown): Draft {
  const parsed = schema.safeParse(stored);
  if (!parsed.success) throw new Error(`reading a stored draft failed: ${parsed.error.message}`);
  return parsed.data;
}
