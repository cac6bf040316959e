// Did a draft of unknown outcome go out? The Sent folder knows, where the provider files what it sent.

import { type Clock, externalId, type PastAttempt, type Verdict } from "bridgehead/contract";
import type { Draft } from "../smtp/draft.ts";
import type { SentFolder } from "./folder.ts";

export interface Filing {
  /** Every sent mail appears in Sent without our doing. */
  readonly byProvider: boolean;
  /** And it appears under the Message-ID we gave it. */
  readonly keepsMessageId: boolean;
}

/** A provider may file a copy late; before this much time absence proves nothing. */
const grace = 120_000;
const lookAgainMs = 60_000;

/** Present means sent, however it got there: we file copies only of what was taken. Absent means not sent only where
 *  the provider is known to file everything under our id. */
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
