// erase --platform: finds the users of a person's conversations on a platform elsewhere, and deletes them there.

import { type CallResult, createClient } from "../../client/index.ts";
import { loadConfig } from "../../config/index.ts";
import { counted } from "../../domain/duration-text.ts";
import type { PersonRecords } from "../../store/person/find.ts";
import { CommandFailure, type CommandOptions, fail, type Io } from "../io.ts";
import { load } from "./open.ts";

type PlatformConversation = PersonRecords["platform"][number];

export interface PlatformDeletion {
  readonly deleted: number;
  /** Ids of conversations that are no longer on the platform. */
  readonly conversations: readonly string[];
  /** What was not deleted, each with the reason. */
  readonly failed: readonly string[];
}

/** Deletes the users of the conversations, with all their conversations. Deletes nothing when a user cannot be found. */
export type DeletePlatformUsers = (conversations: readonly PlatformConversation[]) => Promise<PlatformDeletion>;

/** Loads the keys of the agents. Fails when they are not available. */
export async function platformUsers(options: CommandOptions, io: Io): Promise<DeletePlatformUsers> {
  const loaded = await load(loadConfig, options, io).catch((error: unknown) => {
    if (!(error instanceof CommandFailure)) throw error;
    const hint = "--platform needs the keys of the agents: run this with the service's environment";
    return fail(`${error.message}\n${hint}`, error.exitCode);
  });
  const { platform, agents } = loaded.config;
  return async (conversations) => {
    const clients = new Map(
      Object.entries(agents).map(([name, { key }]) => [
        name,
        createClient({
          url: platform.url,
          agentKey: key,
          timeoutMs: platform.timeout,
          connectionWaitMs: io.timing.agents.connection,
          longestRetryAfterMs: io.timing.rate.longestPenalty,
          pauses: io.timing.commands.platformPauses,
        }),
      ]),
    );
    try {
      return await deleteUsers(clients, conversations, io.signal);
    } finally {
      await Promise.all([...clients.values()].map((client) => client.close()));
    }
  };
}

async function deleteUsers(
  clients: ReadonlyMap<string, Pick<ReturnType<typeof createClient>, "conversations" | "users">>,
  conversations: readonly PlatformConversation[],
  signal: AbortSignal,
): Promise<PlatformDeletion> {
  const failed: string[] = [];
  const absent: string[] = [];
  const users = new Map<string, { readonly agent: string; readonly conversations: string[] }>();
  for (const { id, agent } of conversations) {
    const client = clients.get(agent);
    if (client === undefined) {
      failed.push(`conversation ${id}: the configuration has no key of its agent ${agent}`);
      continue;
    }
    const found = await client.conversations.get(id, { signal });
    if (found.kind === "missing") absent.push(id);
    else if (found.kind !== "ok") failed.push(`conversation ${id}: ${found.reason}`);
    else if (found.value.conversationUserId) {
      const user = users.get(found.value.conversationUserId) ?? { agent, conversations: [] };
      user.conversations.push(id);
      users.set(found.value.conversationUserId, user);
    } else failed.push(`conversation ${id}: the platform names no user of it`);
  }
  if (failed.length > 0) return { deleted: 0, conversations: absent, failed };
  let deleted = 0;
  for (const [user, { agent, conversations: own }] of users) {
    const result: CallResult<unknown> | undefined = await clients.get(agent)?.users.delete(user, { signal });
    if (result?.kind === "ok" || result?.kind === "missing") {
      deleted += 1;
      absent.push(...own);
    } else failed.push(`user ${user}: ${result?.reason ?? "no key"}`);
  }
  return { deleted, conversations: absent, failed };
}

/** Fails when something was not deleted. Call it before anything is erased from the store. */
export function requireDeleted({ deleted, failed }: PlatformDeletion): void {
  if (failed.length === 0) return;
  const users = deleted === 0 ? "" : ` (${counted(deleted, "user")} were deleted there)`;
  fail(
    [
      ...failed.map((line) => `not deleted on the platform: ${line}`),
      `nothing was erased from the store${users}: run this again when the platform works, or without --platform`,
    ].join("\n"),
  );
}
