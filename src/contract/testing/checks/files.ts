// Rules of files that are sent with a reply: either all files arrive complete, or nothing is sent.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { type Attempt, type Json, partKey } from "../../index.ts";
import { keptFiles } from "../files.ts";
import { type Check, check, createFixture, type Fixture, mark, outboundOf, present } from "../fixture.ts";
import type { TakenFile } from "../harness.ts";
import { throughout } from "../patience.ts";
import { replyWith } from "./compose.ts";
import { arrives, type ComposedDraft, send, taken } from "./send.ts";

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

interface ReplyWithFiles {
  readonly text: string;
  /** The drafts in order: one with everything, or several where a message of the provider carries one file. */
  readonly drafts: readonly ComposedDraft[];
  readonly read: Attempt["read"];
}

/** Composes a reply with files. Its drafts are as they would be read from the store. */
function compose(fixture: Fixture): ReplyWithFiles {
  const text = mark("with files");
  const { attachments, read } = keptFiles(files);
  const reply = { ...replyWith(fixture, text), attachments };
  const drafts = outboundOf(fixture).compose(reply);
  const most = files.length + 1;
  assert.ok(drafts.length <= most, `compose made ${drafts.length} drafts of a few words and two small files`);
  const stored = JSON.parse(JSON.stringify(drafts)) as readonly Json[];
  return { text, drafts: stored.map((draft, part) => ({ draft, key: partKey(reply.key, part), text })), read };
}

const arrived = (fixture: Fixture, text: string) =>
  present(fixture.peer.files?.bind(fixture.peer), "the peer has no files()", "attachments")(text);

async function carriesThemWhole(fixture: Fixture): Promise<void> {
  // Another process may send the draft, so sending must not depend on the memory of the composing process.
  const later = await createFixture(fixture, fixture.peer);
  for (const one of [fixture, later]) {
    const { text, drafts, read } = compose(fixture);
    for (const draft of drafts) {
      const ending = await send(one, draft, { read });
      assert.equal(ending.kind, "sent", `all was well, and send came to ${ending.detail}`);
    }
    await arrives(fixture, text);
    // Another check covers messages that were sent twice.
    const found = (await arrived(fixture, text)).slice(0, files.length);
    assert.deepEqual(found.map(summary), files.map(summary), "the files did not arrive as they were");
  }
}

async function waitsForThem(fixture: Fixture): Promise<void> {
  const { text, drafts } = compose(fixture);
  const read = () => Promise.reject(new Error("read: the store is away (planted)"));
  let sent = 0;
  for (const draft of drafts) {
    const ending = await send(fixture, draft, { read });
    // The draft of the text alone.
    if (ending.kind === "sent" && ++sent < drafts.length) continue;
    assert.equal(ending.kind, "deferred", `a file could not be read, and send came to ${ending.detail}`);
    break;
  }
  const nothing = async () => (await taken(fixture, text)) <= sent && (await arrived(fixture, text)).length === 0;
  await throughout("the peer took a message without its files", nothing, fixture.quietMs);
}

export const fileChecks: readonly Check[] = [
  check("files: arrive whole, whichever process sends them", ["outbound", "attachments"], carriesThemWhole),
  check("files: nothing is sent while one cannot be read", ["outbound", "attachments"], waitsForThem),
];
