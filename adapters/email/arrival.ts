import type { ExternalId } from "bridgehead/contract";
import type { Listed } from "./imap/fetch.ts";

/** What is known of a mail beside its text. */
export interface Arrival {
  readonly id: ExternalId;
  readonly listed: Listed;
  /** Epoch ms, when the server tells no arrival time. */
  readonly now: number;
}
