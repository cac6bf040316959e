// Customers who send one text each. Either a fixed number of them waits for an answer at any time, or texts arrive at a
// fixed rate, independent of the answers.

import { clock, sleep, type Tally } from "../clock.ts";
import { accountSid, connections, postForm } from "./signed-form.ts";

export interface TextsOrder {
  readonly kind: "texts";
  /** The number's webhook. */
  readonly url: string;
  readonly count: number;
  /** Customers that wait for an answer at any time; null with a rate. */
  readonly waiting: number | null;
  /** Texts a second; null: as fast as answers come. */
  readonly perSecond: number | null;
}

export interface TextsResult extends Tally {
  /** Texts a second, from the first webhook to the last answer. */
  readonly rate: number;
  /** Milliseconds until each webhook was answered. */
  readonly webhooks: readonly number[];
  /** Milliseconds until each customer had the answer. */
  readonly answers: readonly number[];
  /** From each text to its answer, in `clock` milliseconds. */
  readonly spans: readonly (readonly [from: number, to: number])[];
}

const patienceMs = 20_000;
const afterwardsMs = 300;
const text = "Hello, my order 10023 has not arrived yet and the tracking page says nothing new. Where is it?";

export interface Texters {
  /** Handles the provider's send request; returns its message resource. */
  take(form: URLSearchParams): object;
  /** Resolves when every customer has an answer or has waited 20 seconds. */
  send(order: TextsOrder, asked: () => number): Promise<TextsResult>;
}

let people = 0;

export function createTexters(): Texters {
  const open = new Map<string, () => void>();
  let taken = 0;
  let extra = 0;

  /** Sends one text. Resolves when the answer has arrived, or after 20 seconds. */
  async function exchange(url: string, agent: ReturnType<typeof connections>, into: Measured): Promise<void> {
    people += 1;
    const from = `+1202${String(people).padStart(7, "0")}`;
    const began = clock();
    const answered = new Promise<void>((resolve) => open.set(from, resolve));
    const { ms } = await postForm(url, formOf(from, people), agent);
    into.webhooks.push(ms);
    const inTime = await Promise.race([answered.then(() => true), sleepUnheld(patienceMs)]);
    open.delete(from);
    const now = clock();
    if (inTime) into.spans.push([began, now]);
    else into.lost += 1;
  }

  return {
    take(form) {
      const to = form.get("To") ?? "";
      const person = open.get(to);
      taken += 1;
      if (person) person();
      else extra += 1;
      open.delete(to);
      return messageResource(`SM${String(taken).padStart(32, "0")}`, to, form);
    },
    async send({ url, count, waiting, perSecond }, asked) {
      const into: Measured = { webhooks: [], spans: [], lost: 0 };
      const agent = connections(waiting ?? 64);
      extra = 0;
      const began = clock();
      let left = count;
      const one = async () => {
        while (left-- > 0) await exchange(url, agent, into);
      };
      if (perSecond === null) await Promise.all(Array.from({ length: waiting ?? 1 }, one));
      else {
        const exchanges: Promise<void>[] = [];
        for (let n = 0; n < count; n += 1) {
          exchanges.push(exchange(url, agent, into));
          await sleep(Math.max(0, began + ((n + 1) * 1000) / perSecond - clock()));
        }
        await Promise.all(exchanges);
      }
      const rate = (count * 1000) / (clock() - began);
      await sleep(afterwardsMs);
      agent.destroy();
      const duplicated = extra + Math.max(0, asked() - count);
      const answers = into.spans.map(([from, to]) => to - from);
      return { rate, ...into, answers, duplicated };
    },
  };
}

interface Measured {
  readonly webhooks: number[];
  readonly spans: [number, number][];
  lost: number;
}

const formOf = (from: string, n: number) => ({
  ToCountry: "US",
  ToState: "",
  SmsMessageSid: sid(n),
  NumMedia: "0",
  ToCity: "",
  FromZip: "20500",
  SmsSid: sid(n),
  FromState: "DC",
  SmsStatus: "received",
  FromCity: "WASHINGTON",
  Body: text,
  FromCountry: "US",
  To: "+15550100",
  ToZip: "",
  NumSegments: "1",
  MessageSid: sid(n),
  AccountSid: accountSid,
  From: from,
  ApiVersion: "2010-04-01",
});
const sid = (n: number): string => `SM${n.toString(16).padStart(32, "0")}`;

const messageResource = (id: string, to: string, form: URLSearchParams): object => ({
  sid: id,
  account_sid: accountSid,
  to,
  from: form.get("From"),
  body: form.get("Body"),
  status: "queued",
  direction: "outbound-api",
  num_segments: "1",
  num_media: "0",
  error_code: null,
  error_message: null,
  date_created: "Sat, 21 Nov 2026 10:00:00 +0000",
  date_updated: "Sat, 21 Nov 2026 10:00:00 +0000",
  date_sent: null,
  price: null,
  price_unit: "USD",
  messaging_service_sid: null,
  api_version: "2010-04-01",
  uri: `/2010-04-01/Accounts/${accountSid}/Messages/${id}.json`,
  subresource_uris: {},
});

/** Resolves with false; does not keep the process alive. */
const sleepUnheld = (ms: number): Promise<false> =>
  new Promise((resolve) => setTimeout(() => resolve(false), ms).unref());
