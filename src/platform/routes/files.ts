// HTTP routes of the agent's documents (External API 4.3; response formats from the public description).

import { Hono } from "hono";
import { type agentFile, deleteFilesRequest } from "../../wire/agent.ts";
import { internalError, notFound, type Served, tooLarge, tooManyRequests } from "../../wire/record.ts";
import type { Added, Library } from "../files/library.ts";
import { fileName } from "../files/message-files.ts";
import type { FileRow } from "../store/files.ts";
import type { PlatformStore } from "../store/store.ts";
import {
  bounded,
  download,
  found,
  listPage,
  listQuery,
  maxFileBytes,
  RequestRefused,
  type RouteContext,
  type RouteEnv,
  readBody,
  readQuery,
  refused,
} from "./exchange.ts";

const maxFiles = 1000;

export function fileRoutes(store: PlatformStore, library: Library): Hono<RouteEnv> {
  const named = (c: RouteContext) => store.files.byId(c.var.agent.id, c.req.param("id") ?? "");
  /** Runs `work` on the named file. Answers 200 without a body, or the reason why the file was not added. */
  const on = (work: (file: FileRow) => Promise<Added | void>) => async (c: RouteContext) => {
    const file = found(named(c));
    const added = await work(file);
    if (added) refuseUnlessAdded(added);
    return c.body(null, 200);
  };
  const add = on((file) => library.add(file));
  const addLater = on((file) => library.addLater(file));
  const withdraw = on((file) => library.withdraw(file));
  const remove = on((file) => library.remove([file]));
  return new Hono<RouteEnv>()
    .post("/upload", bounded(maxFileBytes + 64 * 1024), (c) => upload(c, store, library))
    .get("/by-api-key", (c) => list(c, store))
    .get("/:id/content", (c) => {
      const file = named(c);
      const bytes = file && store.files.bytes(file.id);
      if (!file || !bytes) throw new RequestRefused(notFound);
      return download(c, file.name, bytes);
    })
    .put("/:id/add-to-assistant", add)
    .put("/:id/add-to-vector-store", add)
    .put("/:id/add-to-vector-store/async", addLater)
    .delete("/:id/delete-from-vector-store", withdraw)
    .delete("/:id/delete", remove)
    .delete("/", async (c) => {
      const body = await readBody(c, deleteFilesRequest);
      const files = body.fileIds.flatMap((id) => store.files.byId(c.var.agent.id, id) ?? []);
      await library.remove(files);
      return c.body(null, 200);
    });
}

function list(c: RouteContext, { files }: PlatformStore): Response {
  const { id } = c.var.agent;
  return listPage(
    c,
    readQuery(c, listQuery),
    (...page) => ({ rows: files.list(id, ...page), total: files.count(id) }),
    (row) => shown(c, row),
  );
}

async function upload(c: RouteContext, store: PlatformStore, library: Library): Promise<Response> {
  const form: { [name: string]: unknown } = await c.req.parseBody({ all: true }).catch(() => {
    throw refused([{ path: "", message: "not multipart/form-data" }]);
  });
  const { file } = form;
  if (Array.isArray(file)) throw refused([{ path: "file", message: "one file is expected" }]);
  if (!(file instanceof File)) throw refused([{ path: "file", message: "is missing" }]);
  if (file.size > maxFileBytes) throw new RequestRefused(tooLarge);
  const agentId = c.var.agent.id;
  if (store.files.count(agentId) >= maxFiles)
    throw refused([{ path: "file", message: `an agent has at most ${maxFiles} files` }]);
  const wish = form["autoAddToVectorStore"] ?? form["autoAddToAssistant"] ?? "false";
  // Clients in Python write a boolean as "True".
  const adding = typeof wish === "string" ? wish.toLowerCase() : "";
  if (adding !== "true" && adding !== "false")
    throw refused([{ path: "autoAddToVectorStore", message: "true or false is expected" }]);
  if (adding === "true" && library.full) refuseUnlessAdded({ kind: "busy" });
  const bytes = new Uint8Array(await file.arrayBuffer());
  const row = await library.take(agentId, fileName(file.name), file.type, bytes);
  // The file is stored even if it cannot be added; its record contains the status and the reason.
  if (adding === "true") await library.add(row);
  return c.json(shown(c, store.files.byId(agentId, row.id) ?? row));
}

/** Seconds in Retry-After when the queue is full. */
const retryAfter = "10";

/** Throws the error response when the file was not added. */
function refuseUnlessAdded(added: Added): void {
  switch (added.kind) {
    case "done":
      return;
    case "failed":
      throw refused([{ path: "file", message: added.reason }]);
    case "busy":
      throw new RequestRefused(tooManyRequests, { "retry-after": retryAfter });
    case "gone":
      throw new RequestRefused(notFound);
    case "stopped":
      throw new RequestRefused(internalError);
  }
}

function shown(c: RouteContext, row: FileRow): Served<typeof agentFile> {
  const done = row.status === "done";
  return {
    id: row.id,
    fileName: row.name,
    url: `${c.var.base}/external/agent-files/${row.id}/content`,
    createdAt: new Date(row.created_at).toISOString(),
    isUploadedToVectorStore: row.status === "failed" ? null : done,
    vectorStoreUploadStatus: row.status,
    vectorStoreUploadError: row.status === "failed" ? row.reason : null,
    ...(done ? { vectorStoreFileId: `file-${row.id}` } : {}),
    ...(row.added_at === null ? {} : { uploadedToVectorStoreAt: new Date(row.added_at).toISOString() }),
  };
}
