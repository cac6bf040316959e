// Where reading stopped: JSON, so that an operator can read it in the store.

import { type Cursor, cursor } from "bridgehead/contract";
import * as z from "zod";

const schema = z.object({
  v: z.literal(1),
  mailbox: z.string(),
  uidValidity: z.string(),
  /** Every UID up to here has been accepted. */
  uid: z.int().min(0),
  /** Epoch ms: the newest arrival time among them. A rescan begins a while before it. */
  at: z.number(),
  /** Epoch ms: mail that arrived before was there at the first start and is never looked at. */
  since: z.number(),
  /** From which UID on marks of others mean that they work on this mailbox now: where the channel with this mark began. */
  watch: z.object({ mark: z.string(), uid: z.int().min(1) }).optional(),
});

export type Position = Readonly<z.output<typeof schema>>;

/** For `channel.accept`. */
export function writePosition(position: Position): Cursor {
  return cursor(JSON.stringify(position));
}

/** Throws on anything that this version did not write: silently starting over would lose or repeat mail. */
export function readPosition(text: Cursor): Position {
  const parsed = schema.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(`reading the stored position failed: ${parsed.error.message}`);
  return parsed.data;
}
