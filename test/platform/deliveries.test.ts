// Deliveries beside each other: what one receiver keeps waiting is nobody else's matter.

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { closeServer, listen } from "../agent/fault-server.ts";
import { receiver } from "./receiver.ts";
import { type Rig, startRig } from "./rig.ts";

/** A receiver that takes everything in and answers nothing before it is told to. */
async function silent() {
  const held: ServerResponse[] = [];
  const server = createServer((request, response) => {
    request.resume().on("end", () => void held.push(response));
  });
  await listen(server);
  onTestFinished(() => closeServer(server));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, held };
}

async function registered(rig: Rig, url: string): Promise<string> {
  const body = { title: "T", description: "", url, triggerCondition: "manual" };
  return (await rig.call("POST", "agents/webhooks", body)).body.id as string;
}

test("a receiver that does not answer, with hundreds behind it, holds no other up", async () => {
  const rig = await startRig({ allowPrivateWebhooks: true });
  const [slow, quick] = [await silent(), await receiver()];
  const conversationId = await rig.open();
  const fire = (id: string) => rig.call("POST", `agents/webhooks/${id}/fire`, { conversationId });
  const stuck = await registered(rig, slow.url);
  for (let n = 0; n < 250; n++) expect(await fire(stuck)).toMatchObject({ status: 202 });
  await expect.poll(() => slow.held.length).toBeGreaterThan(0);
  const { id } = (await fire(await registered(rig, quick.url))).body;
  await expect.poll(() => quick.got.map(({ headers }) => headers["webhook-id"])).toEqual([id]);
});
