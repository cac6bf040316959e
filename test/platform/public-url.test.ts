// Behind a proxy: the addresses that the platform tells are those by which it is reached.

import { expect, test } from "vitest";
import { keys, startTestPlatform, type TestPlatform } from "../support/platform/platform.ts";

/** Every address the platform tells, each with its path alone. */
async function told({ platform, call, open }: TestPlatform) {
  const form = new FormData();
  form.set("file", new File(["Lamps."], "lamps.txt"));
  const uploaded = await fetch(`${platform.url}/external/agent-files/upload`, {
    method: "POST",
    headers: { "Agent-Secret-Key": keys.support },
    body: form,
  });
  const file = (await uploaded.json()) as { url: string };
  const announced = { fileName: "a.txt", contentType: "text/plain" };
  const up = await call("POST", `conversations/${await open()}/message-files/upload-url`, announced);
  const description = await fetch(`${platform.url}/api/external/docs/openapi.json`);
  const { servers } = (await description.json()) as { servers: [{ url: string }] };
  return { file: file.url, upload: up.body.signedUrl as string, server: servers[0].url };
}

test.each(["https://agents.example.com", "https://example.com/agents/"])("at %s", async (publicUrl) => {
  const addresses = await told(await startTestPlatform({ publicUrl }));
  const base = publicUrl.replace(/\/$/, "");
  expect(addresses.file).toMatch(`${base}/external/agent-files/`);
  expect(addresses.upload).toMatch(`${base}/message-files/`);
  expect(addresses.server).toBe(base);
});

test("without a word of it, where the request came in", async () => {
  const fixture = await startTestPlatform();
  const addresses = await told(fixture);
  for (const address of Object.values(addresses)) expect(address).toMatch(fixture.platform.url);
  expect((await fetch(addresses.upload, { method: "PUT", body: "Lamps." })).status).toBe(200);
});
