// Batches of messages, and the memory that the mailboxes of the process share.

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { SharedBytes, takeMemory } from "../../../../adapters/email/imap/batches.ts";
import { arrived, before, type Mailboxes, mail, startMailboxes, subjects } from "../../../support/email/adapter.ts";
import { sharedDovecot } from "../../../support/email/dovecot.ts";
import { describeReal, need } from "../../../support/machine/debian.ts";

const { signal } = new AbortController();
const listed = (size: number) => ({ uid: 1, size, arrived: null, keywords: [] });

describe("shared bytes", () => {
  /** Takes bytes, and notes the name when it has them. */
  function taking(bytes: SharedBytes, order: string[]) {
    return async (name: string, count: number, until = signal) => {
      const free = await bytes.take(count, until);
      order.push(name);
      return free;
    };
  }

  it("are given in the order of the requests, as far as there are some", async () => {
    const order: string[] = [];
    const take = taking(new SharedBytes(10), order);
    const [first, second, third] = [take("6", 6), take("5", 5), take("1", 1)];
    const free = await first;
    expect(order).toEqual(["6"]);
    free();
    (await second)();
    (await third)();
    expect(order).toEqual(["6", "5", "1"]);
  });

  it("are all given to a request for more, when nobody uses any", async () => {
    const order: string[] = [];
    const take = taking(new SharedBytes(10), order);
    const free = await take("1", 1);
    const [large, small] = [take("1000", 1000), take("1 again", 1)];
    free();
    (await large)();
    (await small)();
    expect(order).toEqual(["1", "1000", "1 again"]);
  });

  it("are not given to a request that was aborted, which delays no other", async () => {
    const order: string[] = [];
    const take = taking(new SharedBytes(10), order);
    const free = await take("6", 6);
    const over = new AbortController();
    const waiting = take("8", 8, over.signal);
    const next = take("4", 4);
    over.abort(new Error("the connection ended"));
    await expect(waiting).rejects.toThrow("the connection ended");
    (await next)();
    free();
    (await take("10", 10))();
    expect(order).toEqual(["6", "4", "10"]);
    await expect(take("late", 1, over.signal)).rejects.toThrow("the connection ended");
  });
});

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("mail that waits for memory", missing, () => {
  let boxes: Mailboxes;
  beforeAll(async () => {
    boxes = await startMailboxes(4, sharedDovecot);
  });
  afterEach(() => boxes.stopAll());
  afterAll(() => boxes?.dispose());

  it("is read when there is some; usual mail of another mailbox is read before", async () => {
    const [one, other] = [boxes.fresh(), boxes.fresh()];
    const file = { "Content-Type": "application/octet-stream", "Content-Transfer-Encoding": "base64" };
    await boxes.dovecot.deliver(one, mail("large", file, `${"x".repeat(76)}\n`.repeat(60_000)));
    for (let n = 0; n < 20; n++) await boxes.dovecot.deliver(other, mail(n));
    const free = await takeMemory([listed(64_000_000)], 64_000_000, signal);
    const first = boxes.open({}, {}, before(), one);
    await first.channel.until("connecting", (c) => c.statuses.length > 0);
    const second = boxes.open({}, {}, before(), other);
    await arrived(second.channel, 20);
    await boxes.dovecot.deliver(other, mail("announced"));
    await arrived(second.channel, 21);
    expect(subjects(first.channel)).toEqual([]);
    free();
    await arrived(first.channel, 1);
    expect(subjects(first.channel)).toEqual(["Mail large"]);
    // The memory is free again after the commit.
    (await takeMemory([listed(64_000_000)], 64_000_000, signal))();
  });
});
