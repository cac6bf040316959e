// The servers of test/support do what the tests that stand on them believe.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { connect } from "node:net";
import { createTransport } from "nodemailer";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { type Dovecot, startDovecot } from "./support/email/dovecot.ts";
import { startSmtpPeer } from "./support/email/smtp-server.ts";
import { longest } from "./support/longest-first.ts";
import { describeReal, need } from "./support/machine/debian.ts";
import { json, startFaultServer, startTcpProxy } from "./support/machine/network.ts";

const mail = { from: "a@example.org", to: "b@example.org", subject: "hi", text: "hello" };

it("accepts a mail, and fails at each configured stage", async () => {
  const peer = await startSmtpPeer({ users: { a: "secret" } });
  const send = () =>
    createTransport({ host: "127.0.0.1", port: peer.port, auth: { user: "a", pass: "secret" } }).sendMail(mail);
  await send();
  expect(peer.accepted.map((m) => [m.from, ...m.to, m.user])).toEqual([["a@example.org", "b@example.org", "a"]]);
  expect(peer.stages).toEqual(["connect", "ehlo", "auth", "mail", "rcpt", "data", "dot"]);
  for (const stage of ["ehlo", "auth", "mail", "rcpt", "data", "dot"] as const) {
    peer.fail(stage, { kind: "reply", code: 451, text: `4.3.0 ${stage}` });
    await expect(send(), stage).rejects.toThrow();
    peer.heal();
    peer.fail(stage, { kind: "reset" }, 1);
    await expect(send(), stage).rejects.toThrow();
  }
  expect(peer.accepted).toHaveLength(1);
  expect(peer.arrived).toHaveLength(3);
  await send();
  expect(peer.accepted).toHaveLength(2);
  await peer.close();
});

it("cuts and swallows lines", async () => {
  const peer = await startSmtpPeer();
  const proxy = await startTcpProxy(peer.port);
  const socket = connect(proxy.port, "127.0.0.1");
  const closed = new Promise((resolve) => socket.on("close", resolve));
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("data", resolve));
  proxy.swallow();
  socket.write("EHLO x\r\n");
  proxy.resume();
  expect(peer.stages).toEqual(["connect"]);
  proxy.cut();
  await closed;
  await proxy.close();
  await peer.close();
});

it("asks a server with fetch on a connection of its own each time", async () => {
  const server = await startFaultServer();
  server.script(json({}));
  for (let n = 0; n < 3; n += 1) await (await fetch(server.url)).json();
  expect(server.connections()).toBe(3);
  await server.close();
});

it("gives processes of several runs ports of their own", async () => {
  const module = JSON.stringify(new URL("support/machine/network.ts", import.meta.url).href);
  const program = `const { freePort } = await import(${module});
    const ports = [];
    while (ports.length < 240) ports.push(await freePort());
    console.log(ports.join());
    process.stdin.resume();`;
  const children = [1, 2, 3].map(() =>
    spawn(process.execPath, ["--conditions=source", "--input-type=module", "-e", program]),
  );
  onTestFinished(() => children.forEach((child) => void child.kill("SIGKILL")));
  const dealt = await Promise.all(
    children.map(async (child) =>
      String((await once(child.stdout, "data"))[0])
        .trim()
        .split(","),
    ),
  );
  expect(dealt.flat()).toHaveLength(720);
  expect(new Set(dealt.flat()).size).toBe(720);
});

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("Dovecot itself", missing, () => {
  let dovecot: Dovecot;
  beforeAll(async () => {
    dovecot = await startDovecot({ users: ["a"] });
  });
  afterAll(() => dovecot?.dispose());

  it("keeps what is delivered, over a restart", async () => {
    await dovecot.deliver("a", "From: x@example.org\nSubject: one\n\nhello\n");
    await dovecot.restart();
    const listed = await dovecot.list("a");
    expect(listed.map((m) => m.raw)).toEqual(["From: x@example.org\r\nSubject: one\r\n\r\nhello\r\n"]);
  });

  it("changes its UIDVALIDITY", async () => {
    const validity = async () => {
      const client = await dovecot.connect("a");
      const status = await client.status("INBOX", { uidValidity: true });
      await client.logout();
      return status !== false ? status.uidValidity : undefined;
    };
    const before = await validity();
    await dovecot.changeUidValidity("a");
    expect(await validity()).not.toBe(before);
    expect(await dovecot.list("a")).toHaveLength(1);
  });
});

it.each(longest)("%s, which starts first, exists", (name) => {
  expect(existsSync(new URL(`${name}.long.test.ts`, import.meta.url))).toBe(true);
});
