// `bridgehead init` in a pseudo-terminal and from a script, against Dovecot, an SMTP server and a model endpoint.

import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { address, modelKey, type Servers, startServers } from "../../support/email/servers.ts";
import { openTerminal, root, start } from "../../support/machine/command.ts";
import { startDaemon } from "../../support/process/daemon.ts";

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

/** Without a terminal; the configuration is in the servers' folder. */
const scripted = ({ folder, env }: Servers, args: readonly string[]) =>
  start(
    process.execPath,
    ["--conditions=source", `${root}src/main.ts`, "init", "--config", join(folder, "bridgehead.yaml"), ...args],
    env,
  ).ended;

const complete = ({ folder, servers, model }: Servers, key = "model-key") =>
  [
    ["--address", address, ...servers, "--imap-password-file", join(folder, "password")],
    ["--model-url", `${model}/v1`, "--model-name", "tiny", "--model-key-file", join(folder, key)],
    ["--no-responder", "--mode", "live"],
  ].flat();

it("asks five questions, corrects each wrong answer, and writes a file with which the daemon answers", async () => {
  const servers = await startServers();
  const { folder, dovecot, smtp, model, env } = servers;
  const terminal = openTerminal(folder, ["init", ...servers.servers, "--mode", "live"], env);
  await terminal.sees("Which mailbox is to be answered?");
  terminal.enter(address);
  await terminal.sees(`Password of ${address}?`);
  terminal.enter("not-the-password");
  await terminal.sees("the server rejects the credentials");
  await terminal.sees(`check the password; the user name is ${address}`);
  await terminal.sees(`Password of ${address}?`);
  terminal.enter(dovecot.password);
  await terminal.sees("(implicit)");
  await terminal.sees("Who answers?");
  terminal.enter(model);
  await terminal.sees("API key of 127.0.0.1");
  terminal.enter("wrong-key");
  await terminal.sees("the endpoint rejects the key");
  await terminal.sees("API key of 127.0.0.1");
  terminal.enter(modelKey);
  await terminal.sees("the endpoint offers tiny, large");
  await terminal.sees("Who answers?");
  terminal.enter(`${model}/v1 tiny`);
  await terminal.sees("the model tiny answers");
  await terminal.sees("Who is notified when a customer needs a human?");
  terminal.enter(address);
  await terminal.sees("The mailbox cannot be its own responder");
  terminal.press("\x15ben@bridge.test\r");
  await terminal.sees("the mail came back");
  await terminal.sees("a test notification went to ben@bridge.test");
  await terminal.sees("bridgehead run --config");
  expect(await terminal.ended).toBe(0);
  expect(terminal.screen()).not.toContain(modelKey);
  expect(terminal.screen()).not.toContain("not-the-password");
  expect(smtp.accepted.map(({ to }) => to[0])).toEqual([address, "ben@bridge.test"]);
  // The mailbox is as it was, apart from the test mail.
  expect((await dovecot.list(address)).map(({ flags }) => flags.filter((flag) => flag !== "\\Recent"))).toEqual([[]]);

  const config = join(folder, "bridgehead.yaml");
  const secrets = join(folder, "secrets");
  expect([config, secrets, join(secrets, "mail-password"), join(secrets, "model-key")].map(modeOf)).toEqual(
    "600 700 600 600".split(" "),
  );
  expect(readFileSync(config, "utf8")).not.toContain(modelKey);
  expect(existsSync(`${config}.init`)).toBe(false);

  const text = readFileSync(config, "utf8");
  writeFileSync(config, `${text}http: { listen: "127.0.0.1:0" }\nlog: { format: json }\n`);
  const daemon = startDaemon({ config, env });
  onTestFinished(() => daemon.send("SIGKILL"));
  expect(await daemon.ready, daemon.complaints.join("\n")).toBe(true);
  const head = `From: ann@customer.test\nTo: ${address}\nSubject: Lamps\nMessage-ID: <1@customer.test>\n`;
  await dovecot.deliver(address, `${head}Date: ${new Date().toUTCString()}\n\nDo you sell lamps?\n`);
  await expect.poll(() => smtp.accepted.length).toBe(3);
  expect(smtp.accepted[2]).toMatchObject({ to: ["ann@customer.test"] });
  expect(smtp.accepted[2]?.raw).toContain("We sell lamps.");
  expect(await daemon.stop()).toMatchObject({ code: 0 });
});

it("asks for the servers again after a wrong port and a certificate of another name", async () => {
  const servers = await startServers();
  const { folder, dovecot, smtp, env } = servers;
  const args = ["init", "--address", address, "--imap", "localhost:1", "--smtp", `127.0.0.1:${smtp.port}`];
  const terminal = openTerminal(folder, args, env);
  await terminal.sees("Password of");
  terminal.enter(dovecot.password);
  await terminal.sees("IMAP localhost:1:");
  await terminal.sees("check imap.port: nothing listens on 1");
  await terminal.sees("IMAP server and port?");
  terminal.enter(`127.1:${dovecot.tlsPort}`);
  await terminal.sees("SMTP server and port?");
  terminal.enter(`127.0.0.1:${smtp.port}`);
  // The password is kept: no server has rejected it.
  await terminal.sees("set imap.host to a name in the certificate");
  await terminal.sees("IMAP server and port?");
  terminal.press("\x03");
  expect(await terminal.ended).toBe(1);
  expect(existsSync(join(folder, "bridgehead.yaml"))).toBe(false);
});

it("continues after Ctrl-C with the verified answers, and leaves an old file untouched until the end", async () => {
  const servers = await startServers();
  const { folder, dovecot, model, env } = servers;
  const config = join(folder, "bridgehead.yaml");
  writeFileSync(config, "old: true\n", { mode: 0o600 });
  const first = openTerminal(folder, ["init", ...servers.servers, "--mode", "live"], env);
  await first.sees("exists. Replace it at the end?");
  first.press("y");
  await first.sees("Which mailbox");
  first.enter(address);
  await first.sees("Password of");
  first.enter(dovecot.password);
  await first.sees("Who answers?");
  first.press("\x03");
  await first.sees("run the same command again to continue");
  expect(await first.ended).toBe(1);
  expect(readFileSync(config, "utf8")).toBe("old: true\n");
  expect(existsSync(join(folder, "secrets"))).toBe(false);
  expect(modeOf(`${config}.init`)).toBe("600");

  const answers = readFileSync(`${config}.init`);
  const anew = openTerminal(folder, ["init", "--replace", "--restart"], env);
  await anew.sees("Which mailbox");
  anew.press("\x04"); // the end of the input
  await anew.sees("was not written");
  expect(await anew.ended).toBe(1);
  expect(existsSync(`${config}.init`)).toBe(false);

  writeFileSync(`${config}.init`, answers, { mode: 0o600 });
  const second = openTerminal(folder, ["init", "--mode", "live", "--no-round-trip", "--replace"], env);
  await second.sees(`continuing: the answers about ${address}`);
  await second.sees("Who answers?");
  second.enter(`${model}/v1 tiny`);
  await second.sees("API key");
  second.enter(modelKey);
  await second.sees("Who is notified");
  second.enter("");
  await second.sees("the earlier configuration is kept as");
  expect(await second.ended).toBe(0);
  expect(readFileSync(config, "utf8")).toContain(`host: "localhost"`);
  const old = readdirSync(folder).find((name) => name.endsWith(".old")) ?? "";
  expect(readFileSync(join(folder, old), "utf8")).toBe("old: true\n");
  expect(existsSync(`${config}.init`)).toBe(false);
});

it("runs from a script, names every missing option, and exits with the remedy of the first failure", async () => {
  const servers = await startServers();
  const { folder, model } = servers;
  const config = join(folder, "bridgehead.yaml");
  expect(await scripted(servers, ["--address", address])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/required: --imap-password-file .*; --model-url .*; --responder .*--no-responder/),
  });
  for (const [option, value] of [
    ["--address", "support"],
    ["--imap", "imap:no-port"],
    ["--model-url", "ftp://models.example.com"],
  ] as const)
    expect(await scripted(servers, [...complete(servers), option, value]), option).toMatchObject({ code: 2 });
  expect(await scripted(servers, [...complete(servers), "--config", folder, "--replace"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("is a folder"),
  });
  writeFileSync(join(folder, "bad-key"), "bad-key-1\n");
  const refused = await scripted(servers, complete(servers, "bad-key"));
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("the endpoint rejects the key") });
  expect(existsSync(config)).toBe(false);

  writeFileSync(config, "old: true\n");
  const existing = await scripted(servers, complete(servers));
  expect(existing).toMatchObject({
    code: 1,
    err: expect.stringContaining("was not changed: give --replace"),
  });
  expect(readFileSync(config, "utf8")).toBe("old: true\n");

  const done = await scripted(servers, [...complete(servers), "--replace"]);
  expect(done, done.err).toMatchObject({ code: 0, err: "" });
  expect(done.out).toContain("the mail came back");
  expect(readFileSync(config, "utf8")).toContain(`url: "${model}/v1"`);
  // Verified once, with the answers of the failed run.
  expect(servers.asked).toEqual(["Answer with one word: ready"]);
  const wrong = await scripted(servers, [...complete(servers), "--replace", "--responder", "anna"]);
  expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining("--responder: Write an address") });
});
