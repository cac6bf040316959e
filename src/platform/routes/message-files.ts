// Routes for files of messages. A key is required to get upload and download URLs; the URLs themselves need
// none.

import type { Clock } from "bridgehead/contract";
import { type Context, Hono } from "hono";
import { uploadUrlRequest } from "../../wire/agent.ts";
import { forbidden, notFound } from "../../wire/record.ts";
import { storagePath } from "../files/attached.ts";
import { fileName, savedAs } from "../files/name.ts";
import { isSigned, type Purpose, signedPath } from "../files/signed.ts";
import { newUuid } from "../names.ts";
import type { MessageFileRow } from "../store/message-files.ts";
import type { PlatformStore } from "../store/store.ts";
import { bounded } from "./bounded.ts";
import { type Env, type Exchange, fail, readBody, refused } from "./exchange.ts";

const maxFileBytes = 20 * 1024 * 1024;
/** Maximum number of announced files in one conversation that no message names yet. */
const looseAtMost = 20;

/** The routes that require an agent's key. */
export function messageFileRoutes(store: PlatformStore, clock: Clock): Hono<Env> {
  const signed = (c: Exchange, purpose: Purpose, id: string) =>
    c.var.base + signedPath(store.messageFiles.secret, purpose, id, clock.now());
  return new Hono<Env>()
    .post("/:id/message-files/upload-url", async (c) => {
      const body = await readBody(c, uploadUrlRequest);
      if ("response" in body) return body.response;
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      if (!conversation) return fail(c, notFound);
      if (store.messageFiles.loose(conversation.id) >= looseAtMost)
        return refused(c, [{ path: "", message: `${looseAtMost} files wait for their message already` }])
          .response;
      const now = clock.now();
      const row = {
        id: newUuid(now),
        conversation_id: conversation.id,
        message_id: null,
        name: fileName(body.value.fileName),
        media_type: body.value.contentType,
        created_at: now,
        updated_at: now,
      };
      await store.commits.write(() => store.messageFiles.insert(row));
      return c.json({ signedUrl: signed(c, "upload", row.id), storagePath: storagePath(row) });
    })
    .get("/:id/message-files/:fileId/signed-url", (c) => {
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      const file = store.messageFiles.byId(c.req.param("fileId"));
      if (!conversation || file?.conversation_id !== conversation.id || file.size === null)
        return fail(c, notFound);
      return c.json({ signedUrl: signed(c, "download", file.id), fileId: file.id });
    });
}

/** The routes of the signed URLs. */
export function signedRoutes(store: PlatformStore, clock: Clock): Hono {
  /** Returns the file of the URL, or the error response. */
  function opened(c: Context, purpose: Purpose): MessageFileRow | Response {
    const fileId = c.req.param("id") ?? "";
    const { expires = "", signature = "" } = c.req.query();
    const claim = { purpose, fileId, expires, signature };
    if (!isSigned(store.messageFiles.secret, claim, clock.now())) return fail(c, forbidden);
    return store.messageFiles.byId(fileId) ?? fail(c, notFound);
  }
  return new Hono()
    .put("/:id/upload", bounded(maxFileBytes), async (c) => {
      const file = opened(c, "upload");
      if (file instanceof Response) return file;
      const bytes = new Uint8Array(await c.req.arrayBuffer());
      const stored = await store.commits.write(() => store.messageFiles.fill(file.id, bytes, clock.now()));
      // A message already names the file, and its content must not change.
      return stored ? c.body(null, 200) : fail(c, forbidden);
    })
    .get("/:id/download", (c) => {
      const file = opened(c, "download");
      if (file instanceof Response) return file;
      const bytes = store.messageFiles.bytes(file.id);
      if (!bytes) return fail(c, notFound);
      return c.body(new Uint8Array(bytes), 200, {
        "content-type": "application/octet-stream",
        "content-disposition": savedAs(file.name),
        "x-content-type-options": "nosniff",
      });
    });
}
