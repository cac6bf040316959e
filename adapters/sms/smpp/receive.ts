// Receives the message centre's deliveries: each is stored, then answered, and removed when the message
// centre has read the response.

import type { InboundText, ProviderParts } from "../provider.ts";
import { fromAddress } from "./address.ts";
import type { SmppConfig } from "./config.ts";
import { textIn } from "./encoding.ts";
import type { Memory, Whole } from "./memory.ts";
import { number, type Pdu, text } from "./pdu.ts";
import { isReceipt, readReceipt } from "./receipt.ts";
import type { Session } from "./session.ts";

export interface Receiving {
  readonly line: Session;
  readonly memory: Memory;
  readonly hear: ProviderParts["hear"];
  readonly config: SmppConfig;
  /** Country of the national numbers that the message centre sends, if it does. */
  readonly country: string | undefined;
  readonly signal: AbortSignal;
}

/** Placeholder for content that is not text (a picture, a ring tone). Without it the customer would get
 *  no response. */
const noText = "[a message that is no text]";
/** How long a cursor that only became shorter may wait for texts to share its commit. Milliseconds. */
const lingerMs = 50;

/** Returns when the signal aborts. Throws when the connection ends or a commit fails. No message is
 *  acknowledged before it is stored. */
export async function receive({ line, memory, hear, config, country, signal }: Receiving): Promise<void> {
  const idleMs = Math.min(30_000, Math.max(10, config.incomplete_after / 2));
  let waitMs = lingerMs;
  while (!signal.aborted) {
    const pdus = await line.delivered(waitMs, signal);
    if (signal.aborted) return;
    const wholes = pdus.filter((pdu) => !isReceipt(pdu)).map((pdu) => memory.take(pdu));
    const texts = [...wholes, ...memory.incomplete()].filter((whole) => whole !== null);
    const statuses = pdus.filter(isReceipt).map((pdu) => readReceipt(pdu, config.receipt_ids));
    const heard = {
      texts: texts.map((whole) => textOf(whole, config, country)),
      statuses: statuses.filter((status) => status !== null),
    };
    const cursor = memory.cursor();
    if (cursor !== null) await hear(heard, cursor);
    else if (heard.texts.length + heard.statuses.length > 0) await hear(heard);
    for (const pdu of pdus) {
      line.answer(pdu);
      memory.answered(pdu);
    }
    waitMs = idleMs;
    if (!memory.unsettled()) continue;
    const settled = memory.settling();
    await line.settled(signal);
    settled();
    waitMs = lingerMs;
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
