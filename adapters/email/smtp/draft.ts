// The stored draft: all data that a retry needs to send the same bytes again.

import * as z from "zod";

const party = z.strictObject({ address: z.string(), name: z.string() });

const schema = z.strictObject({
  v: z.literal(1),
  /** The send key, which identifies the draft in the envelope and in boundaries. */
  key: z.string(),
  envelopeFrom: z.string(),
  from: party,
  to: z.array(party),
  cc: z.array(party),
  replyTo: z.string().nullable(),
  subject: z.string(),
  /** With angle brackets, as are the following ids. */
  messageId: z.string(),
  inReplyTo: z.string().nullable(),
  references: z.array(z.string()),
  /** ISO 8601. */
  date: z.string(),
  /** The Auto-Submitted header (RFC 3834): responses use `auto-replied`; outbound conversations and
   *  notifications use `auto-generated`; text by a person uses `no`. */
  automatic: z.enum(["auto-replied", "auto-generated", "no"]),
  hops: z.int(),
  text: z.string(),
  html: z.string(),
  /** The core stores the bytes under `ref`. Drafts of earlier versions have no attachments. */
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

/** Throws an error on any format that this version did not write. */
export function readDraft(stored: unknown): Draft {
  const parsed = schema.safeParse(stored);
  if (!parsed.success) throw new Error(`reading a stored draft failed: ${parsed.error.message}`);
  return parsed.data;
}
