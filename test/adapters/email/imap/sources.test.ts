// A server that cannot return one message: the others are read, and that one is given up after some time.

import type { ExternalId } from "bridgehead/contract";
import { externalId } from "bridgehead/contract";
import type { ImapFlow } from "imapflow";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { readSources } from "../../../../adapters/email/imap/sources.ts";
import { arrived, type Mailboxes, mail, ready, startMailboxes, subjects } from "../../../support/email/adapter.ts";
import { type MailStore, sharedDovecot } from "../../../support/email/dovecot.ts";
import { describeReal, need } from "../../../support/machine/debian.ts";
import { startTcpProxy, type TcpProxy } from "../../../support/machine/network.ts";

const listed = (...uids: number[]) => uids.map((uid) => ({ uid, size: 100, arrived: 0, keywords: [] }));
const rejection = (code: string) =>
  Object.assign(new Error("Command failed"), {
    responseStatus: "NO",
    responseText: "cannot convert it",
    response: { attributes: [{ section: [{ value: code }] }] },
  });

/** A mailbox whose server fails with this error on requests for these UIDs; an error without a response ends the connection. */
function mailbox(bad: readonly number[], failure: Error) {
  const requests: string[] = [];
  const ends = new Map<ExternalId, number>();
  const connect = () => {
    const client = { usable: true, mailbox: { path: "INBOX", uidValidity: 7n, exists: 9 }, fetchAll };
    async function fetchAll(range: string) {
      requests.push(range);
      const uids = range.split(",").flatMap((part) => {
        const [from = 0, to = from] = part.split(":").map(Number);
        return Array.from({ length: to - from + 1 }, (_, at) => from + at);
      });
      if (!uids.some((uid) => bad.includes(uid)))
        return uids.map((uid) => ({ uid, source: Buffer.from(`mail ${uid}`) }));
      client.usable = "responseStatus" in failure;
      throw failure;
    }
    return client as unknown as ImapFlow;
  };
  const read = async (...uids: number[]) => {
    const idOf = (uid: number) => externalId(`INBOX/7/${uid}`);
    const found = await readSources({ client: connect(), maxLength: 1000, ends, idOf }, listed(...uids));
    return found.map(({ raw, failure: why }) => (raw === null ? (why ?? "nothing") : Buffer.from(raw).toString()));
  };
  return { read, requests, ends };
}

describe("the bytes of several messages", () => {
  const refused = "the server does not return it: cannot convert it";

  it("are one request", async () => {
    const { read, requests } = mailbox([], rejection("SERVERBUG"));
    expect(await read(1, 2, 3)).toEqual(["mail 1", "mail 2", "mail 3"]);
    expect(requests).toEqual(["1:3"]);
  });

  it("are requested one by one when the server rejects one", async () => {
    const { read, ends } = mailbox([2], rejection("SERVERBUG"));
    expect(await read(1, 2, 3)).toEqual(["mail 1", refused, "mail 3"]);
    expect(await read(2)).toEqual([refused]);
    expect(ends.size).toBe(0);
  });

  it("fail together when the server returns none of them, or none for now", async () => {
    await expect(mailbox([1, 2, 3], rejection("SERVERBUG")).read(1, 2, 3)).rejects.toThrow("Command failed");
    await expect(mailbox([2], rejection("UNAVAILABLE")).read(1, 2)).rejects.toThrow("Command failed");
    const throttled = Object.assign(rejection(""), { code: "ETHROTTLE" });
    await expect(mailbox([2], throttled).read(2)).rejects.toThrow("Command failed");
  });

  it("are read around one on which the connection ends, which is given up in the end", async () => {
    const { read, requests } = mailbox([2], new Error("Connection not available"));
    for (let connection = 1; connection <= 8; connection++) await expect(read(1, 2, 3)).rejects.toThrow("Connection");
    expect(await read(1, 2, 3)).toEqual(["mail 1", "the server ends the connection when it is requested", "mail 3"]);
    expect(requests.filter((one) => one === "1:3")).toHaveLength(1);
    expect(requests.filter((one) => one === "3")).toHaveLength(1);
  });
});

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("a message that the server rejects", missing, () => {
  let boxes: Mailboxes;
  let dovecot: MailStore;
  let proxy: TcpProxy;
  beforeAll(async () => {
    boxes = await startMailboxes(3, sharedDovecot);
    dovecot = boxes.dovecot;
    proxy = await startTcpProxy(dovecot.port);
  });
  afterEach(() => boxes.stopAll());
  afterAll(async () => {
    await proxy?.close();
    await boxes?.dispose();
  });

  it.each(["while it waits", "when it connects"])("keeps no other from being read: %s", async (when) => {
    // The answer to every request for its bytes becomes a rejection.
    proxy.rewrite((data) => {
      const text = data.toString("latin1");
      const rejected = text.replace(/\* \d+ FETCH [^]*?(\w+) OK [^\r\n]*\r\n/, "$1 NO [SERVERBUG] cannot convert\r\n");
      return text.includes("POISON") ? Buffer.from(rejected, "latin1") : data;
    });
    const first = boxes.open({}, { port: proxy.port, poll: "1s" });
    await ready(first.channel);
    if (when === "when it connects") await first.supervised.stop();
    await dovecot.deliver(first.box, mail("before"));
    await dovecot.deliver(first.box, mail("bad", {}, "POISON"));
    await dovecot.deliver(first.box, mail("after"));
    const { channel } =
      when === "when it connects" ? boxes.open({}, { port: proxy.port, poll: "1s" }, first.channel, first.box) : first;
    await arrived(channel, 2);
    expect(new Set(subjects(channel))).toEqual(new Set(["Mail after", "Mail before"]));
    proxy.rewrite(null);
    await arrived(channel, 3);
    expect(channel.messages[2]).toMatchObject({ subject: "Mail bad", text: "POISON" });
    expect(channel.messages[2]?.refusal).toBeUndefined();
  });

  it("delays the others by two connections when they end on it", async () => {
    const first = boxes.open({}, { port: proxy.port, poll: "1s" });
    await ready(first.channel);
    await first.supervised.stop();
    /** How many messages had arrived when a connection ended. */
    const ends: number[] = [];
    proxy.rewrite((data) => {
      if (!data.includes("POISON")) return data;
      ends.push(first.channel.messages.length);
      proxy.cut();
      return data;
    });
    for (const name of ["1", "2"]) await dovecot.deliver(first.box, mail(name));
    await dovecot.deliver(first.box, mail("bad", {}, "POISON"));
    for (const name of ["3", "4", "5"]) await dovecot.deliver(first.box, mail(name));
    const { channel } = boxes.open({}, { port: proxy.port, poll: "1s" }, first.channel, first.box);
    await expect.poll(() => ends.slice(0, 3)).toEqual([0, 2, 5]);
    proxy.rewrite(null);
    await arrived(channel, 6);
    expect(channel.messages[5]).toMatchObject({ subject: "Mail bad", text: "POISON" });
  });
});
