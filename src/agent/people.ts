// Finds the agent's users by the identifiers that a channel knows, and creates missing ones.

import { type CallResult, type Client, mapped } from "../client/index.ts";
import type { CreateRequest } from "./calls.ts";

export interface FoundUser {
  readonly id: string;
  readonly conversationIds: readonly string[];
}
type Identifier = { readonly [name in "fkId" | "email" | "phoneNumber"]?: string };

/** Finds a user by one identifier; `missing` when no such user exists. */
export async function searchUser(
  client: Client,
  by: Identifier,
  signal: AbortSignal,
): Promise<CallResult<FoundUser>> {
  const found = await client.users.search(by, { signal });
  return mapped(found, ({ user, conversationIds }) => ({ id: user.id, conversationIds }));
}

/** Returns the user's id. The platform refuses duplicate users, so an unknown outcome can be retried. */
export async function findOrMakeUser(
  client: Client,
  request: CreateRequest,
  signal: AbortSignal,
): Promise<CallResult<string>> {
  const { title: _title, conversationContext: _context, ...person } = request;
  const made = mapped(await client.users.create(person, { signal }), ({ id }) => id);
  if (made.kind === "unknown") return findingFailed(made.reason);
  return made.kind === "refused" ? findUser(client, request, made, signal) : made;
}

/** Refused means that the user exists already, or the data is invalid. The search distinguishes the two. */
async function findUser(
  client: Client,
  request: CreateRequest,
  refusal: CallResult<string>,
  signal: AbortSignal,
): Promise<CallResult<string>> {
  for (const name of ["fkId", "email", "phoneNumber"] as const) {
    const value = request[name];
    if (!value) continue;
    const found = await searchUser(client, { [name]: value }, signal);
    if (found.kind === "ok") return { kind: "ok", value: found.value.id };
    if (found.kind === "unknown") return findingFailed(found.reason);
    if (found.kind === "unauthorized" || found.kind === "deferred") return found;
  }
  return refusal;
}

const findingFailed = (reason: string) => repeatable(`finding the user: ${reason}`);

/** No conversation was opened, and a retry may succeed. */
export function repeatable(reason: string): CallResult<never> {
  return { kind: "deferred", reason };
}
