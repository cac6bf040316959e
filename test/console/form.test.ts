// Forms at the console of a daemon in its own process: tests in this one run with the `Request` that Hono exchanges, and a daemon
// without the embedded platform with that of Node.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { bridgehead, childEnv, phoneConfig, phoneSecrets, root } from "../support/machine/command.ts";
import { freePort } from "../support/machine/network.ts";
import { newFolder } from "../support/resources.ts";

it("reads a form without an announced length, as a proxy may send it, up to its limit", async () => {
  const folder = newFolder();
  const file = join(folder, "bridgehead.yaml");
  const [listen, admin, console] = [await freePort(), await freePort(), await freePort()];
  const address = `127.0.0.1:${console}`;
  const config = {
    ...phoneConfig(`127.0.0.1:${listen}`, `127.0.0.1:${admin}`),
    console: { listen: address },
    store: "sqlite:store.db",
  };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  const child = spawn(process.execPath, ["--conditions=source", `${root}src/main.ts`, "run", "--config", file], {
    env: { ...childEnv, ...phoneSecrets },
    stdio: ["ignore", "ignore", "pipe"],
  });
  onTestFinished(async () => {
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
  });
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
  await expect.poll(() => log).toContain("console listening");
  const { url } = JSON.parse((await bridgehead(["console", "--json", "--config", file])).out) as { url: string };
  const send = (bytes: string) =>
    fetch(url, {
      method: "POST",
      headers: { origin: `http://${address}`, "content-type": "application/x-www-form-urlencoded" },
      body: new Blob([bytes]).stream(),
      duplex: "half",
      redirect: "manual",
    });
  expect((await send("x".repeat(2 ** 18 + 1))).status).toBe(413);
  expect((await send("a&".repeat(2000))).status).toBe(413);
  expect((await send("a=b")).status).toBe(303);
});
