// Routes for the messages of a conversation: asking the agent, listing messages, and replies of platform users.

import type { Clock } from "bridgehead/contract";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import * as z from "zod";
import { uploadUrlRequest } from "../../wire/agent.ts";
import { manualMessageRequest, type responseOn, sendRequest } from "../../wire/conversation.ts";
import type { Served } from "../../wire/record.ts";
import { defaultPageSize, forbidden, notFound, optionalPageQuery, pageOf, tooManyRequests } from "../../wire/record.ts";
import type { MessageContent, Turns } from "../conversations/turns.ts";
import { fileName, findAttached, isSigned, type Purpose, signedPath, storagePath } from "../files/message-files.ts";
import { newUuid } from "../ids.ts";
import { shownMessage, shownMessages } from "../records.ts";
import type { ConversationSize, MessageFileRow, MessageRow } from "../store/messages.ts";
import type { PlatformStore } from "../store/store.ts";
import {
  bounded,
  download,
  found,
  maxFileBytes,
  RequestRefused,
  type RouteContext,
  type RouteEnv,
  readBody,
  readQuery,
  refused,
} from "./exchange.ts";

type SendBody = Pick<z.output<typeof sendRequest>, "message" | "files"> & {
  readonly context?: string | undefined;
};

/** Without `page` and `pageSize` all messages are one page, as in the public description, unless they are too many. */
const listQuery = optionalPageQuery.extend({
  orderBy: z.enum(["createdAt"]).default("createdAt"),
  orderDirection: z.enum(["ASC", "DESC"]).default("ASC"),
  shouldIncludeFeedbacks: z.enum(["true", "false"]).optional(),
});

/** Maximum bytes of the texts in one list, except for a single longer message. JSON repeats each text up to five times. */
const listedBytes = 4 * 1024 * 1024;
/** Maximum number of messages in a list without `page` and `pageSize`. */
const listedAtOnce = 5_000;

/** Returns the page size of a list of messages. It depends on the longest text of the conversation and not on those of
 *  the page, so that the pages adjoin. `requested`: null for all messages. A conversation that is too large for one page
 *  gets the default size, so that a client can continue with `page=2` alone. */
function pageSizeOf(requested: number | null, { total, bytes, longest }: ConversationSize): number {
  if (requested === null && total <= listedAtOnce && bytes <= listedBytes) return Math.max(1, total);
  const fitting = Math.max(1, Math.floor(listedBytes / Math.max(1, longest)));
  return Math.min(requested ?? defaultPageSize, fitting);
}

export function messageRoutes(store: PlatformStore, turns: Turns): Hono<RouteEnv> {
  /** Returns the message of a request to the conversation of its path, or throws the 400 response. */
  const wordsOf = (c: RouteContext, { message, context, files }: SendBody): MessageContent => {
    const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id") ?? "");
    const attached = findAttached(store, conversation?.id ?? "", files ?? []);
    // If the conversation does not exist, the files are not reported; the conversation is reported as missing.
    if (conversation && attached.problems.length > 0) throw refused(attached.problems);
    return { text: message, context: context ?? null, files: attached.files };
  };
  return new Hono<RouteEnv>()
    .post("/:id/messages", async (c) => {
      const body = await readBody(c, sendRequest);
      const words = wordsOf(c, body);
      // When the client disconnects, a model request is cancelled to save its cost. Other answers are ready
      // before a client can disconnect.
      const gone = c.var.agent.model ? c.req.raw.signal : null;
      const said = await turns.ask(c.var.agent, c.req.param("id"), words, gone);
      return c.json(shownMessage(store, found(said)), 201);
    })
    .post("/:id/messages/async", async (c) => {
      const body = await readBody(c, sendRequest);
      const words = wordsOf(c, body);
      const question = await turns.askLater(c.var.agent, c.req.param("id"), words);
      return c.json(shownMessage(store, found(question)), 201);
    })
    .get("/:id/messages/:question/response-on", (c) => {
      const conversation = store.conversations.byId(c.var.agent.id, c.req.param("id"));
      const question = conversation && store.messages.byId(conversation.id, c.req.param("question"));
      if (!conversation || question?.sender_role !== "conversation_user") throw new RequestRefused(notFound);
      return c.json(responseTo(store, question, store.messages.answerTo(conversation.id, question.id)));
    })
    .get("/:id/messages", (c) => {
      const query = readQuery(c, listQuery);
      const conversation = found(store.conversations.byId(c.var.agent.id, c.req.param("id")));
      // The platform stores no feedback: a client that asks for it gets an empty list.
      const feedback = query.shouldIncludeFeedbacks === "true" ? { conversationMessageFeedbacks: [] } : {};
      const size = store.messages.size(conversation.id);
      const whole = query.page === undefined && query.pageSize === undefined;
      const at = query.page ?? 1;
      const pageSize = pageSizeOf(whole ? null : (query.pageSize ?? defaultPageSize), size);
      const rows = store.messages.list(conversation.id, query.orderDirection, pageSize, (at - 1) * pageSize);
      const messages = shownMessages(store, conversation.id, rows).map((each) => ({ ...each, ...feedback }));
      const { data, ...page } = pageOf(messages, at, pageSize, size.total);
      return c.json({ messages, ...page, data });
    })
    .post("/:id/send-manual-message", async (c) => {
      const body = await readBody(c, manualMessageRequest);
      const conversation = found(store.conversations.byId(c.var.agent.id, c.req.param("id")));
      if (conversation.mode !== "manual" || conversation.channel === "voice")
        throw refused([{ path: "", message: "only in manual mode, and not in a call" }]);
      const { conversationMessageId } = body;
      if (conversationMessageId && !store.messages.byId(conversation.id, conversationMessageId))
        throw refused([{ path: "conversationMessageId", message: "no such message here" }]);
      const words = wordsOf(c, body);
      const said = await turns.replyManually(conversation, words, conversationMessageId ?? null);
      return c.json(shownMessage(store, said));
    });
}

/** An unanswered question in manual mode is pending: a platform user may still answer. */
function responseTo(
  store: PlatformStore,
  question: MessageRow,
  answer: MessageRow | undefined,
): Served<typeof responseOn> {
  if (answer) return { status: "completed", message: shownMessage(store, answer), error: null };
  if (question.error !== null) return { status: "failed", message: null, error: question.error };
  return { status: "pending", message: null, error: null };
}

// Routes for files of messages. A key is required to get upload and download URLs; the URLs themselves need none.

/** The file of a signed URL, set after the signature was verified. */
type SignedEnv = { Variables: { file: MessageFileRow } };

/** Maximum number of announced files in one conversation that no message names yet. */
const looseAtMost = 20;

/** The routes that require an agent's key. */
export function messageFileRoutes(store: PlatformStore, clock: Clock): Hono<RouteEnv> {
  const signed = (c: RouteContext, purpose: Purpose, id: string) =>
    c.var.base + signedPath(store.messageFiles.secret, purpose, id, clock.now());
  return new Hono<RouteEnv>()
    .post("/:id/message-files/upload-url", async (c) => {
      const body = await readBody(c, uploadUrlRequest);
      const conversation = found(store.conversations.byId(c.var.agent.id, c.req.param("id")));
      if (store.messageFiles.loose(conversation.id) >= looseAtMost)
        throw refused([{ path: "", message: `${looseAtMost} files wait for their message already` }]);
      const now = clock.now();
      const row = {
        id: newUuid(now),
        conversation_id: conversation.id,
        message_id: null,
        name: fileName(body.fileName),
        media_type: body.contentType,
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
        throw new RequestRefused(notFound);
      return c.json({ signedUrl: signed(c, "download", file.id), fileId: file.id });
    });
}

/** Maximum number of uploads that are received at the same time, because each is held in memory. */
const uploadsAtOnce = 16;
/** Seconds in Retry-After when so many uploads are being received. */
const uploadRetryAfter = "10";

export function signedRoutes(store: PlatformStore, clock: Clock): Hono<SignedEnv> {
  /** Returns the file of the URL, or throws the error response. */
  function opened(c: Context, purpose: Purpose): MessageFileRow {
    const fileId = c.req.param("id") ?? "";
    if (!isSigned(store.messageFiles.secret, purpose, fileId, c.req.query(), clock.now()))
      throw new RequestRefused(forbidden);
    return found(store.messageFiles.byId(fileId));
  }
  let uploads = 0;
  /** Checks the URL before the body is received, so that only the owner of a valid URL can occupy memory. */
  const admit: MiddlewareHandler<SignedEnv> = async (c, next) => {
    c.set("file", opened(c, "upload"));
    if (uploads >= uploadsAtOnce) throw new RequestRefused(tooManyRequests, { "retry-after": uploadRetryAfter });
    uploads += 1;
    try {
      await next();
    } finally {
      uploads -= 1;
    }
  };
  return new Hono<SignedEnv>()
    .put("/:id/upload", admit, bounded(maxFileBytes), async (c) => {
      const { file } = c.var;
      const bytes = new Uint8Array(await c.req.arrayBuffer());
      const stored = await store.commits.write(() => store.messageFiles.fill(file.id, bytes, clock.now()));
      // A message already names the file, and its content must not change.
      if (!stored) throw new RequestRefused(forbidden);
      return c.body(null, 200);
    })
    .get("/:id/download", (c) => {
      const file = opened(c, "download");
      return download(c, file.name, found(store.messageFiles.bytes(file.id)));
    });
}
