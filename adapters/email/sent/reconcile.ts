// Determines from the Sent folder whether a draft with unknown outcome was sent, where the provider files
// sent messages.

import { type Clock, externalId, type PastAttempt, type Verdict } from "bridgehead/contract";
import type { Draft } from "../smtp/draft.ts";
import type { SentFolder } from "./folder.ts";

export interface Filing {
  /** True when the provider files every sent message in Sent. */
  readonly byProvider: boolean;
  /** True when the filed message keeps the Message-ID we gave it. */
  readonly keepsMessageId: boolean;
}

/** A provider may file a copy late. Before this time has passed, absence proves nothing. */
const grace = 120_000;
const lookAgainMs = 60_000;

/** A copy in the folder means sent, because we file copies only of messages that the server accepted.
 *  Absence means not sent only when the provider is known to file every message under our Message-ID. */
export async function reconcile(
  folder: SentFolder,
  filing: Filing,
  clock: Clock,
  draft: Draft,
  attempt: PastAttempt,
  signal: AbortSignal,
): Promise<Verdict> {
  const found = await Promise.race([folder.has(draft.messageId).catch(() => undefined), aborted(signal)]);
  if (found === true) return { kind: "sent", id: externalId(draft.messageId) };
  if (found === undefined) return { kind: "unsure", lookAgainAfterMs: lookAgainMs };
  if (found === null || !filing.byProvider || !filing.keepsMessageId) return { kind: "unsure" };
  const left = attempt.startedAt.getTime() + grace - clock.now();
  return left > 0 ? { kind: "unsure", lookAgainAfterMs: left } : { kind: "not-sent" };
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
