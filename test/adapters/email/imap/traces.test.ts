// What a mailbox tells of earlier work: which mail is new on a first start, which was handled before, who else is at work.

import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { recordingChannel } from "bridgehead/contract/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import {
  adapterFor,
  arrived,
  type Mailboxes,
  mail,
  ready,
  type Settings,
  settingsFor,
  startMailboxes,
  subjects,
  supervise,
} from "../../../support/email/adapter.ts";
import { type MailStore, sharedDovecot } from "../../../support/email/dovecot.ts";
import { describeReal, need } from "../../../support/machine/debian.ts";
import { listen } from "../../../support/machine/network.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
const other = "other-installation";
const hour = 3_600_000;

/** Relays to an IMAP server, but for the commands that open the Sent folder: those get no answer. */
async function startSilentSent(target: number) {
  const sockets = new Set<Socket>();
  let asked = 0;
  const listener = createServer((client) => {
    const server = connect(target, "127.0.0.1");
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(from);
      from.on("error", () => {});
      from.on("close", () => to.destroy());
    }
    server.pipe(client);
    client.on("data", (data) => {
      if (/ (?:SELECT|EXAMINE) "?Sent\b/i.test(data.toString("latin1"))) asked += 1;
      else server.write(data);
    });
  });
  await listen(listener);
  return {
    port: (listener.address() as AddressInfo).port,
    asked: () => asked,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

describeReal("traces in a mailbox", missing, () => {
  let boxes: Mailboxes;
  let dovecot: MailStore;
  beforeAll(async () => {
    boxes = await startMailboxes(20, sharedDovecot);
    dovecot = boxes.dovecot;
  });
  afterEach(() => boxes.stopAll());
  afterAll(() => boxes?.dispose());

  const flagsOf = async (box: string) => (await dovecot.list(box)).map(({ flags }) => flags);
  async function flag(box: string, range: string, flags: string[]): Promise<void> {
    const client = await dovecot.connect(box);
    await client.mailboxOpen("INBOX");
    await client.messageFlagsAdd(range, flags, { uid: true });
    await client.logout();
  }
  const file = async (box: string, raw: string) => {
    const client = await dovecot.connect(box);
    await client.append("Sent", Buffer.from(raw.replaceAll("\n", "\r\n")), ["\\Seen"]);
    await client.logout();
  };

  describe("on the very first start", () => {
    it("mail that arrived before the first login is new, and what was there before is not", async () => {
      const box = boxes.fresh();
      const since = new Date(Date.now() - hour);
      await dovecot.deliver(box, mail("history"), "INBOX", new Date(since.getTime() - 5000));
      await dovecot.deliver(box, mail("between"), "INBOX", new Date(since.getTime() + 5000));
      await dovecot.deliver(box, mail("later"));
      const { channel } = boxes.open({}, {}, recordingChannel({ since }), box);
      await arrived(channel, 2);
      await ready(channel);
      await dovecot.deliver(box, mail("after"));
      await arrived(channel, 3);
      expect(subjects(channel)).toEqual(["Mail between", "Mail later", "Mail after"]);
      expect(channel.messages.every(({ handledBefore }) => handledBefore === undefined)).toBe(true);
    });

    it("a login that fails for a while loses nothing", async () => {
      const box = boxes.fresh();
      const channel = recordingChannel({ since: new Date(Date.now() - 2000) });
      const settings = settingsFor(dovecot.port, 1, {
        imap: { user: dovecot.login(box), password: "wrong" } as Settings["imap"],
      });
      const first = adapterFor(settings, channel).adapter;
      const refused = supervise(first.inbound as never, channel);
      await channel.until("refused", () => refused.errors.length > 0);
      await dovecot.deliver(box, mail("meanwhile"));
      await refused.stop();
      boxes.open({}, {}, channel, box);
      await arrived(channel, 1);
      expect(subjects(channel)).toEqual(["Mail meanwhile"]);
    });

    it("a process that dies before its first commit reads the same mail again", async () => {
      const box = boxes.fresh();
      const channel = recordingChannel({ since: new Date(Date.now() - 60_000) });
      await dovecot.deliver(box, mail("one"));
      channel.hold();
      const { supervised } = boxes.open({}, {}, channel, box);
      await channel.until("offered", (c) => c.calls.length > 0);
      void supervised.stop();
      channel.reject(1);
      channel.release();
      await supervised.stop();
      expect(channel.cursor).toBeNull();
      boxes.open({}, {}, channel, box);
      await arrived(channel, 1);
      expect(subjects(channel)).toEqual(["Mail one"]);
    });
  });

  describe("of a store that is behind", () => {
    /** A channel whose store first ran an hour ago and has since lost everything. */
    const behind = (more: Parameters<typeof recordingChannel>[0] = {}) =>
      recordingChannel({ since: new Date(Date.now() - hour), mark: "current000", ...more });

    it.each([
      ["its own mark", "$Bridgehead-current000", "self"],
      ["the mark of an earlier state", "$Bridgehead-earlier000", "self"],
      ["the mark of another installation", "$Bridgehead-unknown000", "other"],
      ["the bare keyword", "$Bridgehead", "other"],
    ])("shows as %s on mail it does not know", async (_what, keyword, by) => {
      const box = boxes.fresh();
      await dovecot.deliver(box, mail("handled"));
      await flag(box, "1", [keyword]);
      await dovecot.deliver(box, mail("new"));
      const ownerOf = (mark: string) => (mark === "earlier000" ? ("earlier" as const) : ("foreign" as const));
      const { channel } = boxes.open({}, {}, behind({ ownerOf }), box);
      await arrived(channel, 2);
      expect(channel.messages.map(({ handledBefore }) => handledBefore?.by)).toEqual([by, undefined]);
      expect(channel.warnings.has(other)).toBe(false);
    });

    it("is recognized in Sent as our own reply, but not as a colleague's", async () => {
      const box = boxes.fresh();
      for (const n of ["ours", "replaced", "colleague", "open"]) await dovecot.deliver(box, mail(n));
      const answer = (id: string, to: string, more: Record<string, string> = {}) =>
        mail("answer", { "Message-ID": id, "In-Reply-To": `<${to}@example.net>`, ...more });
      await file(box, answer("<01hzx7key.bridgehead@example.com>", "ours"));
      // Microsoft 365 replaces our Message-ID and keeps our header.
      await file(box, answer("<AM0@outlook.example>", "replaced", { "X-Bridgehead-Hops": "1" }));
      await file(box, answer("<c1@example.com>", "colleague"));
      const { channel } = boxes.open({ mark: { with: "none" } }, {}, behind(), box);
      await arrived(channel, 4);
      expect(channel.messages.map(({ subject, handledBefore }) => [subject, handledBefore?.by])).toEqual([
        ["Mail ours", "self"],
        ["Mail replaced", "self"],
        ["Mail colleague", undefined],
        ["Mail open", undefined],
      ]);
    });

    it("is not searched for in a Sent folder that does not respond: reading mail continues", async () => {
      const box = boxes.fresh();
      for (const n of ["one", "two"]) await dovecot.deliver(box, mail(n));
      const silent = await startSilentSent(dovecot.port);
      try {
        const server = { port: silent.port, poll: "1s" } as Settings["imap"];
        const { channel } = boxes.open({ mark: { with: "none" } }, server, behind(), box);
        await arrived(channel, 2);
        await ready(channel);
        expect(silent.asked()).toBe(1);
        expect(channel.messages.every(({ handledBefore }) => handledBefore === undefined)).toBe(true);
      } finally {
        await silent.close();
      }
    });

    it("leaves mail of a sibling channel, moved here, to be answered", async () => {
      const box = boxes.fresh();
      await dovecot.deliver(box, mail("moved"));
      await flag(box, "1", ["$Bridgehead", "$Bridgehead-sibling000"]);
      const { channel } = boxes.open({}, {}, behind({ ownerOf: () => "sibling" }), box);
      await arrived(channel, 1);
      expect(channel.messages[0]?.handledBefore).toBeUndefined();
    });
  });

  describe("of another daemon on the mailbox", () => {
    it("are reported on both sides", async () => {
      const box = boxes.fresh();
      const often = { poll: "1s" } as Partial<Settings["imap"]>;
      const one = boxes.open({}, often, recordingChannel({ mark: "daemonone0" }), box).channel;
      const two = boxes.open({}, often, recordingChannel({ mark: "daemontwo0" }), box).channel;
      await Promise.all([ready(one), ready(two)]);
      expect([one.warnings.has(other), two.warnings.has(other)]).toEqual([false, false]);
      for (let n = 0; n < 4; n++) await dovecot.deliver(box, mail(n));
      await Promise.all([arrived(one, 4), arrived(two, 4)]);
      for (const channel of [one, two]) await channel.until("told", (c) => c.warnings.has(other));
      expect(one.warnings.get(other)).toMatch(/another daemon with its own store works on this mailbox/);
      for (const { escalated, warnings } of [one, two]) expect(escalated.get(other)).toBe(warnings.get(other));
    });

    it("are reported for as long as it has a copy of the store", async () => {
      const box = boxes.fresh();
      const channel = recordingChannel({ mark: "current000" });
      boxes.open({}, { poll: "1s" }, channel, box);
      await ready(channel);
      const client = await dovecot.connect(box);
      await client.append("INBOX", Buffer.from(mail("copied")), ["$Bridgehead-current000"]);
      await client.logout();
      await channel.until("told", (c) => c.warnings.has(other));
      const reports: (string | null)[] = [];
      const warn = channel.warn.bind(channel);
      Object.assign(channel, {
        warn: (code: string, sentence: string | null, options?: { escalates: boolean }) => {
          reports.push(sentence);
          warn(code, sentence, options);
        },
      });
      // The next polls report it again.
      await expect.poll(() => reports.length).toBeGreaterThanOrEqual(2);
      const text = expect.stringContaining("a copy of this store");
      expect([channel.escalated.get(other), ...reports.slice(0, 2)]).toEqual([text, text, text]);
    });

    it("are no alarm after a restore: marks from before count for nothing", async () => {
      const box = boxes.fresh();
      const often = { poll: "1s" } as Partial<Settings["imap"]>;
      const before = boxes.open({}, often, recordingChannel({ mark: "earlier000" }), box);
      await ready(before.channel);
      const { cursor } = before.channel;
      for (let n = 0; n < 4; n++) await dovecot.deliver(box, mail(n));
      await arrived(before.channel, 4);
      await expect
        .poll(async () => (await flagsOf(box)).flat().filter((one) => one.endsWith("earlier000")).length)
        .toBe(4);
      await before.supervised.stop();
      const restored = recordingChannel({ mark: "current000", ownerOf: () => "earlier", cursor });
      boxes.open({}, often, restored, box);
      await arrived(restored, 4);
      await dovecot.deliver(box, mail("new"));
      await arrived(restored, 5);
      expect(restored.messages.map(({ handledBefore }) => handledBefore?.by)).toEqual([
        "self",
        "self",
        "self",
        "self",
        undefined,
      ]);
      // Some sweeps later there is still no alarm. Each sweep without news ends with a report about other daemons.
      const reports: (string | null)[] = [];
      const warn = restored.warn.bind(restored);
      Object.assign(restored, {
        warn: (code: string, sentence: string | null) => {
          if (code === other) reports.push(sentence);
          warn(code, sentence);
        },
      });
      await dovecot.deliver(box, mail("last"));
      await arrived(restored, 6);
      const sweeps = reports.length + 2;
      await expect.poll(() => reports.length).toBeGreaterThanOrEqual(sweeps);
      expect(reports.every((sentence) => sentence === null)).toBe(true);
      expect(restored.warnings.has(other)).toBe(false);
    });

    it("are reported when the former daemon still runs after the restore", async () => {
      const box = boxes.fresh();
      const often = { poll: "1s" } as Partial<Settings["imap"]>;
      const restored = recordingChannel({ mark: "current000", ownerOf: () => "earlier" });
      boxes.open({}, often, restored, box);
      await ready(restored);
      const former = boxes.open({}, often, recordingChannel({ mark: "earlier000" }), box).channel;
      await ready(former);
      // The marks of the former daemon reach the restored one before it has read all messages. A flag that changes in the middle
      // of a FETCH is in none of its responses.
      const accept = restored.accept.bind(restored);
      Object.assign(restored, {
        accept: async (...given: Parameters<typeof accept>) => {
          await arrived(former, 4);
          return accept(...given);
        },
      });
      for (let n = 0; n < 4; n++) await dovecot.deliver(box, mail(n));
      await Promise.all([arrived(restored, 4), arrived(former, 4)]);
      await restored.until("told", (c) => c.warnings.has(other));
    });
  });
});
