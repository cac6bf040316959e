import type { ExternalId } from "bridgehead/contract";
import type { Listed } from "./imap/fetch.ts";

/** What is known of a message apart from its text. */
export interface Arrival {
  readonly id: ExternalId;
  readonly listed: Listed;
  /** Epoch ms, used when the server returns no arrival time. */
  readonly now: number;
}
