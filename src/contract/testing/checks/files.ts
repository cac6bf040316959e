// Rules of files that are sent with a reply: either all files arrive complete, or nothing is sent.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Attempt, Json } from "../../index.ts";
import { keptFiles } from "../files.ts";
import type { TakenFile } from "../harness.ts";
import { eventually, throughout } from "../patience.ts";
import {
  type AdapterUnderTest,
  type Check,
  makeRig,
  mark,
  outboundOf,
  present,
  type Rig,
  withRig,
} from "../rig.ts";
import { replyWith } from "./compose.ts";
import { type Letter, send, taken } from "./send.ts";

/** Contains every byte value, all kinds of line ends, and a last line without one. */
const everyByte = Uint8Array.from({ length: 1024 }, (_, at) => at % 256);
const lines = new TextEncoder().encode("one\ntwo\r\n\r\n.\r\n--\rend ");

const files = [
  { name: "every byte.bin", bytes: everyByte },
  { name: "lines.txt", bytes: lines },
];

const summary = ({ name, bytes }: TakenFile) => ({
  name,
  length: bytes.byteLength,
  sha256: createHash("sha256").update(bytes).digest("hex"),
});

interface Parcel extends Letter {
  readonly read: Attempt["read"];
}

/** Composes one draft with files, as it would be read from the store. */
function compose(rig: Rig): Parcel {
  const text = mark("with files");
  const { attachments, read } = keptFiles(files);
  const reply = { ...replyWith(rig, text), attachments };
  const drafts = outboundOf(rig).compose(reply);
  assert.equal(drafts.length, 1, `compose made ${drafts.length} drafts of a few words and two small files`);
  return { draft: JSON.parse(JSON.stringify(drafts[0])) as Json, key: reply.key, text, read };
}

const arrived = (rig: Rig, text: string) =>
  present(rig.peer.files?.bind(rig.peer), "the peer has no files()", "attachments")(text);

async function carriesThemWhole(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    // Another process may send the draft, so sending must not depend on the memory of the composing
    // process.
    const later = await makeRig(subject, rig.peer);
    for (const one of [rig, later]) {
      const parcel = compose(rig);
      const ending = await send(one, parcel, { read: parcel.read });
      assert.equal(ending.kind, "sent", `all was well, and send came to ${ending.told}`);
      const there = async () => (await taken(rig, parcel.text)) > 0;
      await eventually("the message at the peer", there, rig.patienceMs);
      // Another check covers messages that were sent twice.
      const found = (await arrived(rig, parcel.text)).slice(0, files.length);
      assert.deepEqual(found.map(summary), files.map(summary), "the files did not arrive as they were");
    }
  });
}

async function waitsForThem(subject: AdapterUnderTest): Promise<void> {
  await withRig(subject, async (rig) => {
    const parcel = compose(rig);
    const read = () => Promise.reject(new Error("read: the store is away (planted)"));
    const ending = await send(rig, parcel, { read });
    assert.equal(ending.kind, "deferred", `a file could not be read, and send came to ${ending.told}`);
    const nothing = async () => (await taken(rig, parcel.text)) === 0;
    await throughout("the peer took a message without its files", nothing, rig.quietMs);
  });
}

export const fileChecks: readonly Check[] = [
  {
    name: "files: arrive whole, whichever process sends them",
    needs: ["outbound", "attachments"],
    run: carriesThemWhole,
  },
  {
    name: "files: nothing is sent while one cannot be read",
    needs: ["outbound", "attachments"],
    run: waitsForThem,
  },
];
