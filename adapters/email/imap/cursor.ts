// The read position in a mailbox. It is stored as JSON so that an operator can read it in the database.

import { type Cursor, cursor } from "bridgehead/contract";
import * as z from "zod";

const schema = z.object({
  v: z.literal(1),
  mailbox: z.string(),
  uidValidity: z.string(),
  /** Every message with a UID up to this one has been accepted. */
  uid: z.int().min(0),
  /** Epoch ms of the newest arrival time among the accepted messages. A rescan begins some time before
   *  it. */
  at: z.number(),
  /** Epoch ms: messages that arrived earlier predate the first start and are never read. */
  since: z.number(),
  /** From this UID on, marks of another daemon mean that it works on this mailbox now. It is where the
   *  channel with this mark began. */
  watch: z.object({ mark: z.string(), uid: z.int().min(1) }).optional(),
});

export type Position = Readonly<z.output<typeof schema>>;

/** Serializes the position for `channel.accept`. */
export function writePosition(position: Position): Cursor {
  return cursor(JSON.stringify(position));
}

/** Throws an error on any format that this version did not write: a silent restart would lose or repeat
 *  messages. */
export function readPosition(text: Cursor): Position {
  const parsed = schema.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(`reading the stored position failed: ${parsed.error.message}`);
  return parsed.data;
}
