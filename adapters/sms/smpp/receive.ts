// Takes what the centre delivers: stored first, answered after it, and forgotten when the centre has read the answer.

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
  /** Whose national numbers the centre gives us, if it does. */
  readonly country: string | undefined;
  readonly signal: AbortSignal;
}

/** What is no text (a picture, a ring tone) is told of: silence would leave the person waiting. */
const noText = "[a message that is no text]";
/** How long a cursor that has only become shorter may wait for texts to be committed with. */
const lingerMs = 50;

/** Ends when the signal aborts; throws when the line ends or a commit fails, with nothing answered that is not stored. */
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
