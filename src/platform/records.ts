// Converts rows to API records.

import { type agent as agentRecord, unlistedModel } from "../wire/agent.ts";
import type { conversation, message, user } from "../wire/conversation.ts";
import type { Served } from "../wire/record.ts";

import type { AgentDefinition } from "./agents/definition.ts";
import type { AnswerSource } from "./brain/brain.ts";
import { uuidOf } from "./ids.ts";
import type { PlatformConversationRow } from "./store/conversations.ts";
import type { MessageFileRow, MessageRow } from "./store/messages.ts";
import type { PlatformStore } from "./store/store.ts";
import type { PersonRow } from "./store/users.ts";

/** `key` is the caller's own key, which the API skill returns; it is not stored. */
export function agentOf(agent: AgentDefinition, key: string): Served<typeof agentRecord> {
  return {
    organizationId: agent.organization.id,
    organizationName: agent.organization.name,
    id: agent.id,
    name: agent.name,
    publicName: agent.publicName,
    role: agent.role,
    ...given({
      description: agent.description,
      avatarUrl: agent.avatarUrl,
      tags: agent.tags && [...agent.tags],
      restrictDocumentsToOwnerOnly: agent.restrictDocumentsToOwnerOnly,
    }),
    vectorStoreId: `vs_${agent.id}`,
    aiConfig: {
      id: uuidOf("ai config", agent.id),
      model: agent.model?.listedAs ?? unlistedModel,
      // Defaults of an OpenAI-compatible endpoint when neither parameter is sent.
      temperature: agent.model ? (agent.model.temperature ?? 1) : 0,
      topP: agent.model?.topP ?? 1,
      instructions: agent.instructions,
      isCodeInterpreterEnabled: agent.codeInterpreter,
      isFileSearchEnabled: agent.fileSearch.enabled,
      fileSearchMaxNumResults: agent.fileSearch.maxResults,
      reasoningEffort: agent.model?.reasoningEffort ?? null,
      reasoningMode: agent.model?.reasoningMode ?? null,
      isOutputJsonSchemaEnabled: agent.model?.outputSchema?.enabled ?? false,
      outputJsonSchema: agent.model?.outputSchema?.text ?? "",
    },
    status: agent.status,
    skills: [...agent.skills, { systemName: "API", status: "active", apiKey: key }],
  };
}

export function userOf(row: PersonRow): Served<typeof user> {
  return {
    id: row.id,
    firstName: row.first_name,
    lastName: row.last_name,
    ...given({
      context: row.context,
      source: row.source,
      fkId: row.fk_id,
      fkUserId: row.fk_user_id,
      email: row.email,
      phoneNumber: row.phone_number,
      metadata: parsed(row.metadata),
    }),
    isAnonymized: row.anonymized === 1,
  };
}

export function conversationOf(row: PlatformConversationRow, person: PersonRow): Served<typeof conversation> {
  return {
    id: row.id,
    conversationUserId: row.person_id,
    ...given({
      title: row.title,
      score: row.score,
      metadata: parsed(row.metadata),
      conversationStateId: row.state_id,
    }),
    aiConversationId: row.ai_conversation_id,
    mode: row.mode,
    user: userOf(person),
    createdAt: iso(row.created_at),
    updatedAt: iso(row.updated_at),
    isAnonymized: row.anonymized === 1,
  };
}

function messageOf(row: MessageRow): Served<typeof message> {
  const sources = row.citations === null ? [] : (JSON.parse(row.citations) as AnswerSource[]);
  return {
    id: row.id,
    message: row.text,
    rawMessage: row.text,
    conversationId: row.conversation_id,
    senderRole: row.sender_role,
    conversationMessageId: row.question_id,
    source: "api",
    createdAt: iso(row.created_at),
    ...(row.sender_role === "assistant"
      ? {
          fullAIResponse: {
            outputText: row.text,
            fileCitations: sources.map(({ title, fileId }) => ({
              fileId: fileId ?? uuidOf("passage", title),
              filename: title,
            })),
          },
        }
      : {}),
    isAnonymized: row.anonymized === 1,
  };
}

/** Removes null fields: optional fields of the API are absent instead of null. */
function given<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}

function parsed(metadata: string | null): { [key: string]: unknown } | null {
  return metadata === null ? null : (JSON.parse(metadata) as { [key: string]: unknown });
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

// Messages with their files, as the interface shows them.

export function shownMessage(store: PlatformStore, row: MessageRow): Served<typeof message> {
  return withFiles(row, store.messageFiles.ofMessage(row.id));
}

/** `rows`: some messages of the conversation. */
export function shownMessages(
  store: PlatformStore,
  conversationId: string,
  rows: readonly MessageRow[],
): Served<typeof message>[] {
  const files = Map.groupBy(store.messageFiles.ofConversation(conversationId), ({ message_id }) => message_id);
  return rows.map((row) => withFiles(row, files.get(row.id) ?? []));
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
