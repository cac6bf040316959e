// The users of the agent: found by what the channel knows about a person, made when nobody is found.

import { user, userSearch } from "../wire/user.ts";
import type { Caller } from "./caller.ts";
import type { CallResult, CreateRequest } from "./calls.ts";

export interface FoundUser {
  readonly id: string;
  readonly conversationIds: readonly string[];
}
type Identifier = "fkId" | "email" | "phoneNumber";

/** GET users/search by one identifier; `missing` when there is no such user. */
export function searchUser(
  caller: Caller,
  name: Identifier,
  value: string,
  signal: AbortSignal,
): Promise<CallResult<FoundUser>> {
  return caller.call({
    method: "GET",
    path: `/external/users/search?${name}=${encodeURIComponent(value)}`,
    signal,
    mayBeMissing: true,
    read: caller.as(userSearch.read, (found) => ({
      id: found.user.id,
      conversationIds: found.conversationIds,
    })),
  });
}

/** The person's id. A person is never made twice (the platform refuses it), so an unknown outcome is worth a retry. */
export async function findOrMakeUser(
  caller: Caller,
  request: CreateRequest,
  signal: AbortSignal,
): Promise<CallResult<string>> {
  const { title: _title, conversationContext: _context, ...person } = request;
  const made = await caller.call({
    method: "POST",
    path: "/external/users",
    body: person,
    signal,
    read: caller.as(user.read, ({ id }) => id),
  });
  if (made.kind === "unknown") return repeatable(made.reason);
  return made.kind === "refused" ? findUser(caller, request, made, signal) : made;
}

/** Refused means: exists already, or is not acceptable. The search tells which. */
async function findUser(
  caller: Caller,
  request: CreateRequest,
  refusal: CallResult<string>,
  signal: AbortSignal,
): Promise<CallResult<string>> {
  for (const name of ["fkId", "email", "phoneNumber"] as const) {
    const value = request[name];
    if (!value) continue;
    const found = await searchUser(caller, name, value, signal);
    if (found.kind === "ok") return { kind: "ok", value: found.value.id };
    if (found.kind === "unknown") return repeatable(found.reason);
    if (found.kind === "unauthorized" || found.kind === "deferred") return found;
  }
  return refusal;
}

function repeatable(reason: string): CallResult<never> {
  return { kind: "deferred", reason: `finding the user: ${reason}` };
}
