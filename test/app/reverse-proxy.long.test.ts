// The reverse proxies of docs/operations.md in front of the daemon, with the blocks that the document shows: signed webhooks and
// the websockets of calls pass. Only addresses are replaced, and TLS ends before the test.

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { postSigned } from "../../src/sandbox/twilio-webhooks.ts";
import { eventually } from "../support/clock.ts";
import { account, anna, ourNumber, startPhoneDaemon } from "../support/daemon/phone-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";
import { describeReal, need } from "../support/machine/debian.ts";
import { freePort } from "../support/machine/network.ts";

type Finished = Parameters<typeof startPhoneDaemon>[0];

/** A proxy server, configured with a block of the document. */
interface Proxy {
  readonly name: string;
  /** The Debian package and its program. */
  readonly program: string;
  /** How the block begins. */
  readonly block: string;
  /** What the block names as its own address. */
  readonly own: string;
  /** Replaces `own`. */
  address(port: number): string;
  /** Returns the whole file around the block. */
  file(block: string, folder: string): string;
  argv(file: string, folder: string): readonly string[];
}

const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
const proxies: readonly Proxy[] = [
  {
    name: "nginx",
    program: "/usr/sbin/nginx",
    block: "map $http_upgrade",
    own: "listen 443 ssl;",
    address: (port) => `listen 127.0.0.1:${port};`,
    file: (block, folder) => `user root;
daemon off;
pid ${folder}/pid;
error_log stderr;
events {}
http {
access_log off;
${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n")}
${block}
}
`,
    argv: (file, folder) => ["-p", folder, "-e", "stderr", "-c", file],
  },
  {
    name: "caddy",
    program: "/usr/bin/caddy",
    block: "bridge.example.com {",
    own: "bridge.example.com {",
    address: (port) => `http://127.0.0.1:${port} {`,
    file: (block) => `{\n\tadmin off\n}\n${block}`,
    argv: (file) => ["run", "--adapter", "caddyfile", "--config", file],
  },
];

/** Returns the code block of the document that begins like this. */
async function documented(beginning: string): Promise<string> {
  const text = await readFile(new URL("../../docs/operations.md", import.meta.url), "utf8");
  const found = text.split("\n```").find((part) => part.startsWith(`\n${beginning}`));
  if (found === undefined) throw new Error(`docs/operations.md has no block that begins with ${beginning}`);
  return found;
}

const replaced = (text: string, from: string, to: string): string => {
  if (!text.includes(from)) throw new Error(`the block does not contain ${from}`);
  return text.replace(from, to);
};

/** Resolves with its URL when it serves. */
async function startProxy(proxy: Proxy, daemonUrl: string, finished: Finished): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "bridgehead-proxy-"));
  const port = await freePort();
  const block = replaced(await documented(proxy.block), proxy.own, proxy.address(port));
  const file = join(folder, "proxy.conf");
  await writeFile(file, proxy.file(replaced(block, "127.0.0.1:8025", new URL(daemonUrl).host), folder));
  const child = spawn(proxy.program, proxy.argv(file, folder), {
    stdio: ["ignore", "inherit", "pipe"],
    env: { PATH: process.env["PATH"], HOME: folder },
  });
  let output = "";
  child.stderr.on("data", (data: Buffer) => void (output += data.toString()));
  const ended = new Promise<void>((resolve) => void child.once("exit", () => resolve()));
  finished(async () => {
    child.kill("SIGTERM");
    await ended;
    await rm(folder, { recursive: true, force: true });
  });
  const url = `http://127.0.0.1:${port}`;
  await eventually(async () => {
    if (child.exitCode !== null) throw new Error(output);
    await fetch(url);
  });
  return url;
}

for (const proxy of proxies)
  describeReal(
    `the reverse proxy ${proxy.name}`,
    await need(proxy.name === "nginx" ? "nginx-light" : "caddy", proxy.program),
    () => {
      it.concurrent("passes signed webhooks, with every byte of the query, and calls", async ({ onTestFinished }) => {
        const daemon = await startPhoneDaemon(onTestFinished, { voice: { collect: "50ms", speaking_rate: 40 } });
        const url = await startProxy(proxy, daemon.node().url, onTestFinished);
        daemon.aim({ url });

        const { message, tries } = await daemon.text("Hello?");
        expect(tries).toMatchObject([{ status: 200 }]);
        await daemon.api.until(({ callbacks }) => callbacks.length === 2);
        expect(daemon.api.callbacks.map(({ posted }) => posted.status)).toEqual([200, 200]);
        expect(daemon.textsTo()).toEqual([echoed("Hello?")]);
        expect(await daemon.forge(message)).toBe(403);

        const signed = "https://bridge.example.com/channels/sms/inbound?a=%2Fb%20c+d&e=%C3%A9&&f";
        const form = { AccountSid: account, MessageSid: message.sid, From: anna, To: ourNumber, Body: "Hello?" };
        expect(await postSigned({ url: signed, via: url, form, token: "auth-token" })).toMatchObject({ status: 200 });

        const call = await daemon.dial();
        await call.hears("Hello, how can I help?");
        call.say("Where is my lamp?");
        await call.hears(echoed("Where is my lamp?"));
        await call.hangUp();
        await daemon.idle();
        expect(call.complaints).toEqual([]);
      });
    },
  );
