// Every way a delivery can end, against a real SMTP server: certain or not, and whom it concerns.

import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { fileRef, type SendOutcome, sendKey } from "bridgehead/contract";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { SmtpPool } from "../../../../adapters/email/smtp/connection.ts";
import { standardTiming as timing } from "../../../../adapters/email/timing.ts";
import { adapterFor, attempt, replyTo, type Settings, settingsFor } from "../../../support/email/adapter.ts";
import { type Fault, type SmtpPeer, type Stage, startSmtpPeer } from "../../../support/email/smtp-server.ts";
import { certificate, freePort, listen, startTcpProxy } from "../../../support/machine/network.ts";

let peer: SmtpPeer;
beforeAll(async () => {
  peer = await startSmtpPeer({ users: { support: "secret" } });
});
afterEach(() => peer.heal());
afterAll(() => peer.close());

/** Sends one reply over a fresh adapter. */
async function send(smtp: Partial<Settings["smtp"]> = {}, port = peer.port, signal?: AbortSignal) {
  const { adapter, channel } = adapterFor(settingsFor(1, port, { smtp: smtp as Settings["smtp"] }));
  const [draft] = adapter.outbound?.compose(replyTo()) ?? [];
  if (!adapter.outbound || draft === undefined) throw new Error("nothing to send");
  const tried = attempt(undefined, undefined, signal);
  const outcome = await adapter.outbound.send(draft, tried);
  return { outcome, crossed: tried.crossed, channel, draft };
}

it("hands a mail over once, with the crossing called", async () => {
  const before = peer.accepted.length;
  const { outcome, crossed } = await send();
  expect(outcome).toEqual({
    kind: "sent",
    id: "<01hzx7key.bridgehead@example.com>",
    detail: "250 2.0.0 OK queued",
  });
  expect(crossed).toBe(true);
  const [mail] = peer.accepted.slice(before);
  expect(peer.accepted.length).toBe(before + 1);
  expect([mail?.from, mail?.to, mail?.user]).toEqual(["support@example.com", ["ann@example.net"], "support"]);
  expect(mail?.raw).toContain("It is here.");
});

it("refuses a mail that exceeds the size that the server announces, before any of it is sent", async () => {
  await using small = await startSmtpPeer({ users: { support: "secret" }, size: 100 });
  const { outcome, crossed } = await send({}, small.port);
  expect(outcome).toMatchObject({ kind: "refused", code: "5.3.4", scope: "draft" });
  expect([crossed, small.arrived]).toEqual([false, []]);
});

const reply = (code: number, text: string): Fault => ({ kind: "reply", code, text });
const reset: Fault = { kind: "reset" };
const silence: Fault = { kind: "silence" };
const deferred = { kind: "deferred" };
const waiting = { kind: "deferred", scope: undefined };
const paused = { kind: "deferred", scope: "channel" };
const blocked = { ...paused, cause: "set-up" };
const limited = { ...paused, cause: "rate" };
const refusedPerson = (code: string) => ({ kind: "refused", code, scope: "recipient" });
const refusedDraft = (code: string) => ({ kind: "refused", code, scope: "draft" });
const table: readonly (readonly [Stage, Fault, object])[] = [
  ["connect", reply(421, "4.3.2 busy"), deferred],
  ["connect", reply(554, "5.7.1 no service here"), deferred],
  ["connect", reset, deferred],
  ["connect", silence, deferred],
  ["ehlo", reply(550, "5.7.1 bad name"), deferred],
  ["ehlo", reset, deferred],
  ["auth", reply(535, "5.7.8 credentials invalid"), paused],
  ["auth", reply(454, "4.7.0 temporary failure"), paused],
  ["auth", reset, deferred],
  ["auth", silence, deferred],
  ["mail", reply(451, "4.3.0 later"), deferred],
  ["mail", reply(550, "5.7.60 not allowed to send as"), blocked],
  ["mail", reply(550, "5.3.4 message too big"), refusedDraft("5.3.4")],
  ["mail", reply(550, "5.4.5 daily user sending limit exceeded"), paused],
  ["mail", reply(550, "5.7.708 Access denied, traffic not accepted from this IP"), blocked],
  ["mail", reply(550, "5.7.501 Access denied, spam abuse detected"), blocked],
  ["rcpt", reply(550, "5.1.8 <ann@example.net>: Sender address rejected: Domain not found"), blocked],
  ["rcpt", reply(450, "4.1.8 <ann@example.net>: Sender address rejected: Domain not found"), deferred],
  ["dot", reply(550, "5.1.8 Access denied, bad outbound sender"), blocked],
  ["dot", reply(554, "5.2.0 STOREDRV.Submission.Exception:OutboundSpamException; failed to process"), blocked],
  ["mail", reply(432, "4.3.2 concurrent connections limit exceeded"), paused],
  ["mail", reset, deferred],
  ["rcpt", reply(450, "4.2.0 greylisted"), waiting],
  ["rcpt", reply(450, "4.2.1 rate"), paused],
  ["rcpt", reply(454, "4.7.0 too many messages"), paused],
  ["rcpt", reply(454, "4.7.1 <support@example.com>: Sender address rejected: rate"), paused],
  ["rcpt", reply(450, "4.7.1 <ann@example.net>: Recipient address rejected: sending quota exceeded"), paused],
  ["rcpt", reply(550, "5.4.5 <ann@example.net>: limit of the account"), paused],
  ["rcpt", reply(450, "4.2.1 <ann@example.net>: mailbox temporarily disabled"), waiting],
  ["rcpt", reply(454, "4.7.1 <ann@example.net>: Relay access denied"), waiting],
  ["rcpt", reply(454, "4.1.1 user lookup failed, try later"), waiting],
  ["rcpt", reply(452, "4.2.2 Recipient user quota exceeded"), waiting],
  ["rcpt", reply(452, "<ann@example.net>: user quota exceeded"), waiting],
  ["rcpt", reply(552, "5.2.2 <ann@example.net>: user mailbox quota exceeded"), refusedDraft("5.2.2")],
  ["rcpt", reply(550, "5.1.1 no such user <ann@example.net>"), refusedPerson("5.1.1")],
  ["rcpt", reply(553, "mailbox name not allowed"), refusedPerson("553")],
  ["rcpt", reply(550, "5.7.1 blocked by policy"), refusedDraft("5.7.1")],
  ["rcpt", reply(550, "<ann@example.net>: user unknown"), refusedPerson("550")],
  ["rcpt", reply(550, "5.1.0 address rejected"), refusedPerson("5.1.0")],
  ["rcpt", reply(550, "5.1.0 sender rejected"), refusedDraft("5.1.0")],
  ["rcpt", reply(550, "relay not permitted"), refusedDraft("550")],
  ["rcpt", reply(553, "sender address rejected: not owned by user"), blocked],
  ["rcpt", reply(553, "5.7.1 <support@example.com>: Sender address rejected: not logged in"), blocked],
  ["rcpt", reply(550, "5.1.1 <ann@example.net>: mx said: Sender address rejected"), refusedPerson("5.1.1")],
  ["rcpt", reset, deferred],
  ["rcpt", silence, deferred],
  ["data", reply(451, "4.3.0 later"), deferred],
  ["data", reply(554, "5.5.1 no valid recipients"), refusedDraft("5.5.1")],
  ["dot", reply(451, "4.3.0 later"), deferred],
  ["dot", reply(552, "5.3.4 too big"), refusedDraft("5.3.4")],
  ["dot", reply(550, "5.2.3 user message size limit exceeded"), refusedDraft("5.2.3")],
  ["dot", reply(552, "user mailbox quota exceeded"), refusedDraft("552")],
  ["dot", reply(552, "user quota exceeded"), paused],
  ["dot", reply(550, "5.4.5 daily sending quota exceeded"), paused],
  ["dot", reply(554, "5.2.0 STOREDRV.Submission.Exception:SubmissionQuotaExceededException; failed"), limited],
  ["dot", reply(550, "5.2.251 Sender throttled due to mailbox full errors"), limited],
  ["dot", reply(550, "5.4.6 Unusual sending activity detected. Please try after sometime"), limited],
  ["dot", reply(554, "User has exceeded its 24-hour sending limit. Messages to 250 recipients were sent"), limited],
  ["dot", reset, { kind: "unknown" }],
  ["dot", silence, { kind: "unknown" }],
  ["dot", { kind: "delay", ms: 300 }, { kind: "sent" }],
];

describe.concurrent("an outcome for every stage", () => {
  it.each(table)("%s, %j", async (stage, fault, expected) => {
    await using own = await startSmtpPeer({ users: { support: "secret" } });
    own.fail(stage, fault);
    const timeout = fault === silence ? "3s" : "60s";
    const { outcome, crossed } = await send({ timeout }, own.port);
    expect({ scope: undefined, ...outcome }).toMatchObject(expected);
    expect(crossed).toBe(stage === "dot");
    if (outcome.kind === "refused" || outcome.kind === "deferred")
      expect(outcome.reason).not.toContain("ann@example.net");
  });

  it("is certain when the line breaks while the message flows", async () => {
    await using own = await startSmtpPeer();
    own.fail("data", reset);
    const { adapter } = adapterFor(settingsFor(1, own.port, { smtp: { login: false } as Settings["smtp"] }));
    const [draft] = adapter.outbound?.compose(replyTo({ text: "x ".repeat(400_000) })) ?? [];
    const outcome = await adapter.outbound?.send(draft as never, attempt());
    expect(outcome?.kind === "deferred" || outcome?.kind === "unknown").toBe(true);
    expect(own.arrived).toHaveLength(0);
  });

  it("is certain when the server stops reading a large message", async () => {
    await using own = await startSmtpPeer();
    const stalling = await stallingProxy(own.port, 100_000);
    const { adapter } = adapterFor(settingsFor(1, stalling.port, { smtp: { login: false } as Settings["smtp"] }));
    const file = { name: "a.bin", mediaType: "application/octet-stream", size: 15_000_000, ref: fileRef("a") };
    const [draft] = adapter.outbound?.compose(replyTo({ byHuman: true, attachments: [file] })) ?? [];
    const end = new AbortController();
    const tried = attempt(undefined, undefined, end.signal);
    const read = async () => Buffer.alloc(file.size);
    const sending = adapter.outbound?.send(draft as never, { ...tried, read });
    await stalling.stalled;
    end.abort();
    expect(await sending).toMatchObject({ kind: "deferred" });
    expect([tried.crossed, own.arrived.length]).toEqual([false, 0]);
    stalling.close();
  });
});

/** Stops reading from the client after so many bytes. */
async function stallingProxy(target: number, afterBytes: number) {
  const { promise: stalled, resolve } = Promise.withResolvers<void>();
  const sockets: Socket[] = [];
  const proxy = createServer((client) => {
    const server = connect(target, "127.0.0.1");
    sockets.push(client, server);
    for (const socket of [client, server]) socket.on("error", () => {});
    server.pipe(client);
    let taken = 0;
    client.on("data", (data) => {
      server.write(data);
      taken += data.length;
      if (taken < afterBytes) return;
      client.pause();
      resolve();
    });
  });
  await listen(proxy);
  const close = () => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  };
  return { port: (proxy.address() as AddressInfo).port, stalled, close };
}

it("defers when the connection is refused, or the name is unknown", async () => {
  expect((await send({}, await freePort())).outcome.kind).toBe("deferred");
  const { adapter } = adapterFor(settingsFor(1, 25, { smtp: { host: "nowhere.invalid", tls: "implicit" } }));
  const [draft] = adapter.outbound?.compose(replyTo()) ?? [];
  expect((await adapter.outbound?.send(draft as never, attempt()))?.kind).toBe("deferred");
});

it.each([
  ["rejected credentials", "auth", reply(535, "5.7.8 no"), { state: "unauthorized" }],
  ["a blocked account", "dot", reply(550, "5.1.8 bad outbound sender"), { state: "degraded", code: "account" }],
] as const)("reports %s, and the recovery", async (_, stage, fault, status) => {
  const { adapter, channel } = adapterFor(settingsFor(1, peer.port));
  const [draft] = adapter.outbound?.compose(replyTo()) ?? [];
  peer.fail(stage, fault, 1);
  expect(await adapter.outbound?.send(draft as never, attempt())).toMatchObject(paused);
  expect(channel.statuses.at(-1)).toMatchObject(status);
  expect(await adapter.outbound?.send(draft as never, attempt())).toMatchObject({ kind: "sent" });
  expect(channel.statuses.at(-1)).toEqual({ state: "ready" });
});

it("ends with the attempt's deadline, certain before the message and unknown after it", async () => {
  /** Its deadline comes when the server has fallen silent. */
  const sentUntil = async (stage: "rcpt" | "dot") => {
    peer.fail(stage, silence);
    const end = new AbortController();
    const seen = peer.stages.length;
    const sending = send({}, peer.port, end.signal);
    await expect.poll(() => peer.stages.slice(seen)).toContain(stage);
    end.abort(new Error("the attempt's deadline"));
    return sending;
  };
  expect(await sentUntil("rcpt")).toMatchObject({ outcome: deferred, crossed: false });
  peer.heal();
  expect(await sentUntil("dot")).toMatchObject({ outcome: { kind: "unknown" }, crossed: true });
});

it("sends nothing when the crossing is refused", async () => {
  const { adapter } = adapterFor(settingsFor(1, peer.port));
  const [draft] = adapter.outbound?.compose(replyTo()) ?? [];
  const before = peer.arrived.length;
  const refused = {
    ...attempt(),
    crossing: () => Promise.reject(new Error("the lease is lost")),
  };
  expect(await adapter.outbound?.send(draft as never, refused)).toMatchObject({ kind: "deferred" });
  expect(peer.arrived.length).toBe(before);
});

it("stores the Message-ID that a server assigns instead of our own", async () => {
  await using own = await startSmtpPeer({
    confirmation: () => "2.0.0 OK <other@server> [Hostname=x.prod.outlook.com]",
  });
  const { outcome } = await send({ login: false }, own.port);
  expect(outcome.kind).toBe("sent");
});

describe("a message with a copy", () => {
  const [ann, bob] = ["ann@example.net", "bob@example.net"];
  type Answer = { readonly code: number; readonly text: string } | null;
  /** Sends to ann with a copy to bob, once with these responses to their RCPT and once without. `number`: of the attempt. */
  async function sendTwice(toAnn: Answer, toBob: Answer, number = 1) {
    const refused = new Map(
      Object.entries({ [ann]: toAnn, [bob]: toBob }).flatMap(([to, one]) => (one ? [[to, one]] : [])),
    );
    await using own = await startSmtpPeer({ refused });
    const login = { login: false } as Settings["smtp"];
    const { outbound } = adapterFor(settingsFor(1, own.port, { reply: "all", smtp: login })).adapter;
    if (!outbound) throw new Error("cannot send");
    const [draft] = outbound.compose(replyTo({ cc: [{ address: bob }] }));
    const tried = Object.assign(attempt(), { number });
    const outcome = await outbound.send(draft as never, tried);
    const arrived = own.arrived.map(({ to }) => to);
    refused.clear();
    expect((await outbound.send(draft as never, attempt())).kind).toBe("sent");
    expect(own.arrived.at(-1)?.to).toEqual([ann, bob]);
    await own.close();
    return { outcome, crossed: tried.crossed, arrived };
  }

  const noUser = { code: 550, text: "5.1.1 unknown" };
  const wait = { code: 450, text: "4.2.0 greylisted" };
  const policy = { code: 550, text: "5.7.1 blocked by policy" };
  const full = { code: 552, text: "5.2.2 mailbox full" };
  const limit = { code: 550, text: "5.4.5 daily user sending limit exceeded" };
  const refused = (code: string, scope: string) => ({ kind: "refused", code, scope });
  const sent = (response: string) => ({
    kind: "sent",
    detail: expect.stringMatching(new RegExp(`; 1 of the recipients were refused: ${response}$`)),
  });
  it.each<readonly [string, Answer, Answer, object, readonly string[] | null]>([
    ["waits while the recipient is refused for now", wait, null, waiting, null],
    ["waits for the recipient whose copy has no mailbox", wait, noUser, waiting, null],
    ["waits for the end of a limit of the account", limit, null, paused, null],
    ["fails when the recipient is unknown", noUser, null, refused("5.1.1", "recipient"), [bob]],
    ["fails when the recipient is blocked", policy, null, refused("5.7.1", "draft"), [bob]],
    ["fails when the recipient's mailbox is full", full, null, refused("5.2.2", "draft"), [bob]],
    ["fails by the response to the recipient", policy, noUser, refused("5.7.1", "draft"), null],
    ["fails by a permanent response to the recipient", noUser, wait, refused("5.1.1", "recipient"), null],
    ["is sent when a copy is refused", null, noUser, sent("550 5.1.1 unknown"), [ann]],
    ["waits for a copy that is refused for now", null, wait, waiting, null],
  ])("%s", async (_, toAnn, toBob, expected, receivers) => {
    const { outcome, crossed, arrived } = await sendTwice(toAnn, toBob);
    expect({ scope: undefined, ...outcome }).toMatchObject(expected);
    expect([crossed, arrived]).toEqual([receivers !== null, receivers === null ? [] : [receivers]]);
  });
  it("is sent without a copy that the third attempt still refuses for now", async () => {
    expect(await sendTwice(null, wait, 2)).toMatchObject({ outcome: { kind: "deferred" }, arrived: [] });
    expect(await sendTwice(null, wait, 3)).toMatchObject({ outcome: sent("450 4.2.0 greylisted"), arrived: [[ann]] });
  });
});

it("uses a line again, and a new one when the idle one has died in silence", async () => {
  await using own = await startSmtpPeer({ users: { support: "secret" } });
  const proxy = await startTcpProxy(own.port);
  const { adapter } = adapterFor(settingsFor(1, proxy.port, { smtp: { connections: 2 } as Settings["smtp"] }));
  const all: Promise<SendOutcome>[] = [];
  for (let n = 0; n < 20; n++) {
    const [draft] = adapter.outbound?.compose(replyTo({ key: sendKey(`key${n}`) })) ?? [];
    if (adapter.outbound && draft) all.push(adapter.outbound.send(draft, attempt(sendKey(`key${n}`))));
  }
  expect((await Promise.all(all)).map((outcome) => outcome.kind)).toEqual(Array(20).fill("sent"));
  expect(proxy.accepted()).toBe(2);
  proxy.cut();
  const [draft] = adapter.outbound?.compose(replyTo({ key: sendKey("last") })) ?? [];
  expect(await adapter.outbound?.send(draft as never, attempt(sendKey("last")))).toMatchObject({
    kind: "sent",
  });
  expect(own.accepted.map((mail) => mail.messageId)).toHaveLength(21);
  expect(new Set(own.accepted.map((mail) => mail.messageId)).size).toBe(21);
  await proxy.close();
});

describe("a server that accepts fewer connections than configured", () => {
  const login = { login: false } as Settings["smtp"];
  const sendAll = (port: number, count: number) => {
    const { adapter } = adapterFor(settingsFor(1, port, { smtp: login }));
    const { outbound } = adapter;
    if (!outbound) throw new Error("nothing to send with");
    const outcomes = Array.from({ length: count }, (_, n) => {
      const key = sendKey(`many${n}`);
      return outbound.send(outbound.compose(replyTo({ key }))[0] as never, attempt(key));
    });
    return { outcomes: Promise.all(outcomes), capacity: () => outbound.capacity?.() };
  };

  it("gets all messages over those that it accepts, and the capacity follows", async () => {
    await using own = await startSmtpPeer({ maxClients: 2 });
    const { outcomes, capacity } = sendAll(own.port, 30);
    expect((await outcomes).map((outcome) => outcome.kind)).toEqual(Array(30).fill("sent"));
    expect(new Set(own.accepted.map((mail) => mail.messageId)).size).toBe(30);
    expect(own.accepted).toHaveLength(30);
    expect(capacity()).toBe(2);
  });

  it("defers all messages, and closes nothing for good, when it accepts none", async () => {
    await using own = await startSmtpPeer();
    own.fail("connect", reply(421, "4.7.0 too many connections"));
    const { outcomes } = sendAll(own.port, 12);
    expect(new Set((await outcomes).map((outcome) => JSON.stringify(outcome)))).toHaveLength(1);
    expect((await outcomes)[0]).toMatchObject({ kind: "deferred", scope: "channel", cause: "unreachable" });
    own.heal();
    expect((await sendAll(own.port, 12).outcomes).map((outcome) => outcome.kind)).toEqual(Array(12).fill("sent"));
  });

  it("is asked for more again after a while", async () => {
    await using own = await startSmtpPeer({ maxClients: 1 });
    const { smtp } = settingsFor(1, own.port, { smtp: login });
    const refusals: unknown[] = [];
    const pool = new SmtpPool(
      { smtp, timing: { ...timing, smtpRefusal: 300 }, login: null },
      (error) => void refusals.push(error),
    );
    const both = Array.from({ length: 2 }, () => pool.use(new AbortController().signal, async () => pool.connections));
    expect(await Promise.all(both)).toContain(1);
    expect(refusals).toEqual([expect.objectContaining({ responseCode: 421 })]);
    await expect.poll(() => pool.connections).toBe(smtp.connections);
    pool.close();
  });
});

it("gives no connection to a send that was aborted while it waited", async () => {
  await using own = await startSmtpPeer({ users: { support: "secret" } });
  const { adapter } = adapterFor(settingsFor(1, own.port, { smtp: { connections: 1 } as Settings["smtp"] }));
  const sending = (n: number, ms: number) => {
    const key = sendKey(`wait${n}`);
    return adapter.outbound?.send(adapter.outbound.compose(replyTo({ key }))[0] as never, attempt(key, ms));
  };
  own.fail("rcpt", { kind: "delay", ms: 500 }, 1);
  const outcomes = await Promise.all([sending(1, 60_000), sending(2, 100), sending(3, 60_000)]);
  expect(outcomes.map((outcome) => outcome?.kind)).toEqual(["sent", "deferred", "sent"]);
});

describe("encryption", () => {
  const { key, cert } = certificate();
  it.each(["implicit", "starttls"] as const)("%s, under a private CA", async (mode) => {
    await using own = await startSmtpPeer({
      tls: { mode, certificate: { key, cert } },
      users: { support: "secret" },
    });
    expect((await send({ tls: mode, ca: cert }, own.port)).outcome.kind).toBe("sent");
    own.fail("dot", reset, 1);
    expect((await send({ tls: mode, ca: cert }, own.port)).outcome.kind).toBe("unknown");
    const unknown = await send({ tls: mode }, own.port);
    expect(unknown.outcome.kind).toBe("deferred");
    expect(unknown.channel.statuses.at(-1)).toMatchObject({ state: "degraded", code: "tls" });
  });

  it("never continues without encryption when STARTTLS is stripped", async () => {
    const before = peer.stages.length;
    const { outcome } = await send({ tls: "starttls", ca: cert });
    expect(outcome.kind).toBe("deferred");
    expect(peer.stages.slice(before)).not.toContain("auth");
    expect(peer.stages.slice(before)).not.toContain("mail");
  });
});

/** Relays to the port and keeps what the client says: smtp-server shows domains decoded. */
async function wiretap(target: number) {
  const said: Buffer[] = [];
  const sockets = new Set<Socket>();
  const relay = createServer((client) => {
    const server = connect(target, "127.0.0.1");
    for (const socket of [client, server]) sockets.add(socket.on("error", () => {}));
    client.on("data", (data) => said.push(data));
    client.pipe(server).pipe(client);
  });
  await listen(relay);
  return {
    port: (relay.address() as AddressInfo).port,
    commands: () => Buffer.concat(said).toString(),
    close() {
      relay.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

describe("international addresses", () => {
  const mailTo = async (to: string, own: string, withoutUtf8: boolean, rounds = 1) => {
    const server = await startSmtpPeer({ withoutUtf8 });
    const wire = await wiretap(server.port);
    const { adapter, channel } = adapterFor(
      settingsFor(1, wire.port, { address: own, smtp: { login: false } as Settings["smtp"] }),
    );
    const outbound = adapter.outbound;
    if (!outbound) throw new Error("cannot send");
    const [draft] = outbound.compose(replyTo({ to: [{ address: to, name: "Jörg" }] }));
    if (draft === undefined) throw new Error("nothing to send");
    const outcomes: SendOutcome[] = [];
    let crossed = false;
    for (let round = 0; round < rounds; round++) {
      const tried = attempt();
      outcomes.push(await outbound.send(draft, tried));
      crossed ||= tried.crossed;
    }
    await adapter.close?.(AbortSignal.timeout(60_000));
    await server.close();
    wire.close();
    return {
      commands: wire.commands(),
      outcome: outcomes.at(-1),
      crossed,
      mail: server.accepted.at(-1),
      channel,
      recipients: outbound.recipients?.(draft),
    };
  };

  it.each([true, false])(
    "domains go out as A-labels, in the envelope and the header (SMTPUTF8 hidden: %s)",
    async (hidden) => {
      const { outcome, mail, recipients, commands } = await mailTo(
        "Ann@Müller.example",
        "support@bücher.example",
        hidden,
      );
      expect(outcome).toMatchObject({ kind: "sent", id: "<01hzx7key.bridgehead@xn--bcher-kva.example>" });
      expect(commands).toContain("MAIL FROM:<support@xn--bcher-kva.example>");
      expect(commands).toContain("RCPT TO:<Ann@xn--mller-kva.example>");
      expect(commands).not.toContain("SMTPUTF8");
      expect(mail?.raw).toMatch(/^To: =\?UTF-8\?Q\?J=C3=B6rg\?= <Ann@xn--mller-kva\.example>/im);
      expect(mail?.raw).toMatch(/^From: support@xn--bcher-kva\.example\r$/m);
      expect(recipients).toEqual(["Ann@xn--mller-kva.example"]);
    },
  );
  it("a local part outside ASCII is refused with a clear reason where the server lacks SMTPUTF8", async () => {
    const { outcome, crossed, mail, channel } = await mailTo("jörg@müller.example", "support@example.com", true, 2);
    expect(outcome).toMatchObject({ kind: "refused", code: "5.6.7", scope: "draft" });
    expect(outcome?.kind === "refused" && outcome.reason).toMatch(/local part outside ASCII.*SMTPUTF8/);
    expect([crossed, mail]).toEqual([false, undefined]);
    expect(channel.statuses.every((status) => status.state === "ready")).toBe(true);
  });
  it("and goes out where the server has it, also over a line that was used before", async () => {
    const { outcome, commands } = await mailTo("jörg@müller.example", "support@example.com", false, 2);
    expect(outcome).toMatchObject({ kind: "sent" });
    expect(commands).toMatch(/^MAIL FROM:<support@example\.com> .*SMTPUTF8/m);
    expect(commands).toContain("RCPT TO:<jörg@xn--mller-kva.example>");
  });
});
