// Messages with their files, as the interface shows them.

import type { message } from "../wire/conversation.ts";
import type { Served } from "../wire/record.ts";
import { messageOf } from "./records.ts";
import type { MessageFileRow } from "./store/message-files.ts";
import type { MessageRow, MessageSlice } from "./store/messages.ts";
import type { PlatformStore } from "./store/store.ts";

export function shownMessage(store: PlatformStore, row: MessageRow): Served<typeof message> {
  return withFiles(row, store.messageFiles.ofMessage(row.id));
}

/** The messages of a conversation: all of them, oldest first, or a part. */
export function transcript(
  store: PlatformStore,
  conversationId: string,
  slice?: MessageSlice,
): Served<typeof message>[] {
  const files = Map.groupBy(
    store.messageFiles.ofConversation(conversationId),
    ({ message_id }) => message_id,
  );
  return store.messages.list(conversationId, slice).map((row) => withFiles(row, files.get(row.id) ?? []));
}

function withFiles(row: MessageRow, files: readonly MessageFileRow[]): Served<typeof message> {
  if (files.length === 0) return messageOf(row);
  return {
    ...messageOf(row),
    files: files.map(({ id, name, size, created_at, updated_at }) => ({
      id,
      fileName: name,
      openAIFileId: `file-${id}`,
      size,
      createdAt: new Date(created_at).toISOString(),
      updatedAt: new Date(updated_at).toISOString(),
    })),
  };
}
