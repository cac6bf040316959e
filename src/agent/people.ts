// The users of the agent: found by what the channel knows about a person, made when nobody is found.

import { type CallResult, type Client, mapped } from "../client/index.ts";
import type { CreateRequest } from "./calls.ts";

export interface FoundUser {
  readonly id: string;
  readonly conversationIds: readonly string[];
}
type Identifier = { readonly [name in "fkId" | "email" | "phoneNumber"]?: string };

/** By one identifier; `missing` when there is no such user. */
export async function searchUser(
  client: Client,
  by: Identifier,
  signal: AbortSignal,
): Promise<CallResult<FoundUser>> {
  const found = await client.users.search(by, { signal });
  return mapped(found, ({ user, conversationIds }) => ({ id: user.id, conversationIds }));
}

/** The person's id. A person is never made twice (the platform refuses it), so an unknown outcome is worth a retry. */
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

/** Refused means: exists already, or is not acceptable. The search tells which. */
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

/** Certain: nothing was opened, and another try may. */
export function repeatable(reason: string): CallResult<never> {
  return { kind: "deferred", reason };
}
