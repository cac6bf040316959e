// Files of a person's answer on their way out: the draft holds where they are, every attempt reads the same bytes.

import { type Attempt, externalId, type FileRef, fileRef, type Outbound, type SendOutcome } from "bridgehead/contract";
import { expect, it } from "vitest";
import { enqueueRelay } from "../../../src/escalation/actions.ts";
import { readCustomers } from "../../../src/escalation/reply/rows.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { attachedFiles, type ReadyFile } from "../../../src/store/tables/files.ts";
import { openPipeline, type TestPipeline } from "../../support/pipeline/pipeline.ts";
import { listen } from "../../support/pipeline/stage.ts";

const sent: SendOutcome = { kind: "sent", id: externalId("<sent>") };
const invoice = { name: "invoice.pdf", mediaType: "application/pdf", bytes: Buffer.from("the invoice\r\n") };
const carries = (line: ChannelRuntime): ChannelRuntime => ({
  ...line,
  traits: { ...line.traits, attachments: true },
});

/** What each attempt has read, and what comes of it. */
function parcels(outcomes: readonly SendOutcome[], refs: (own: FileRef) => readonly FileRef[] = (own) => [own]) {
  const read: (string | null)[] = [];
  const outbound: Partial<Outbound> = {
    compose: ({ text, attachments }) => [{ text, files: (attachments ?? []).map((file) => ({ ...file })) }],
    async send(draft, attempt: Attempt) {
      const { text, files } = draft as unknown as { text: string; files: { ref: FileRef }[] };
      if (text !== "Here it is.") return sent;
      const [file] = files;
      if (!file) read.push(null);
      else for (const ref of refs(file.ref)) read.push(Buffer.from(await attempt.read(ref)).toString());
      return outcomes[read.length - 1] ?? sent;
    },
  };
  return { read, outbound };
}

/** The customer writes, and a person answers with that file. */
async function answers(pipeline: TestPipeline): Promise<void> {
  await pipeline.arrives({ text: "Where is my invoice?", attachments: [invoice] });
  await pipeline.db.tx(async (q) => {
    const about = await q.one<{ id: string }>("SELECT id FROM conversations");
    const files = (await attachedFiles(q, 1)).filter((file): file is ReadyFile => file.blob !== null);
    const customer = (await readCustomers(q, [about?.id ?? ""])).get(about?.id ?? "");
    if (customer === undefined) throw new Error("there is no conversation");
    const content = { text: "Here it is.", files, inCall: false };
    await enqueueRelay(q, customer, content, { clock: pipeline.clock, log: listen().log });
  });
  await pipeline.settles();
}

/** The draft of the person's answer. */
const draftOf = (pipeline: TestPipeline) =>
  pipeline.db.read((q) =>
    q.one<{ state: string; body: string }>(
      "SELECT d.state, d.body FROM drafts d JOIN replies r ON r.id = d.reply WHERE r.kind = 'human'",
    ),
  );

it("are read at every attempt, and the draft holds none of their bytes", async () => {
  const { read, outbound } = parcels([
    { kind: "deferred", reason: "later" },
    { kind: "unknown", reason: "no answer" },
  ]);
  const pipeline = await openPipeline({
    outbound,
    line: carries,
    rules: { on_unknown: "resend", unknown_window: 60_000 },
  });
  await answers(pipeline);
  const { body = "" } = (await draftOf(pipeline)) ?? {};
  expect(body).toContain('"name":"invoice.pdf","mediaType":"application/pdf","size":13,"ref":');
  expect(body).not.toContain("the invoice");
  await pipeline.passes(600_000, 10_000);
  expect(read).toEqual(Array.from({ length: 3 }, () => "the invoice\r\n"));
  expect((await draftOf(pipeline))?.state).toBe("sent");
});

it("keep the draft queued while they cannot be read", async () => {
  const { read, outbound } = parcels([], () => [fileRef("0123")]);
  const pipeline = await openPipeline({ outbound, line: carries });
  await answers(pipeline);
  expect(read).toEqual([]);
  expect(await draftOf(pipeline)).toMatchObject({ state: "queued" });
});

it("do not go to a channel that carries none", async () => {
  const { read, outbound } = parcels([]);
  const pipeline = await openPipeline({ outbound });
  await answers(pipeline);
  expect(read).toEqual([null]);
});
