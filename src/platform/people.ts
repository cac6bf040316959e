// From what a request says about a person to a row, and the forms addresses must have.

import type { FailureDetail } from "../wire/failure.ts";
import { newUuid } from "./names.ts";
import type { PersonRow } from "./store/people.ts";
import type { PlatformStore } from "./store/store.ts";

/** The fields requests about a person share; see wire/user.ts. */
export interface PersonRequest {
  readonly firstName: string;
  readonly lastName: string;
  readonly context?: string | undefined;
  readonly source?: string | undefined;
  readonly fkId?: string | undefined;
  readonly fkUserId?: string | undefined;
  readonly email?: string | undefined;
  readonly phoneNumber?: string | undefined;
  readonly customData?: { readonly [key: string]: unknown } | undefined;
  readonly skipEmailValidation?: boolean | undefined;
  readonly skipPhoneNumberValidation?: boolean | undefined;
}

/** What is wrong with the addresses, unless the caller asked not to look. */
export function addressProblems(request: PersonRequest): FailureDetail[] {
  const problems: FailureDetail[] = [];
  const { email, phoneNumber } = request;
  if (email && !request.skipEmailValidation && !/^[^\s@]+@[^\s@]+$/.test(email))
    problems.push({ path: "email", message: "not an e-mail address" });
  if (phoneNumber && !request.skipPhoneNumberValidation && !/^\+[\d ().-]{5,25}$/.test(phoneNumber))
    problems.push({ path: "phoneNumber", message: "a number with its prefix, such as +15550100, is needed" });
  return problems;
}

/** A new row, not stored yet. Empty strings say nothing. */
export function personRow(agentId: string, request: PersonRequest, now: number): PersonRow {
  return {
    id: newUuid(now),
    agent_id: agentId,
    first_name: request.firstName,
    last_name: request.lastName,
    context: request.context || null,
    source: request.source || null,
    fk_id: request.fkId || null,
    fk_user_id: request.fkUserId || null,
    email: request.email || null,
    phone_number: request.phoneNumber || null,
    metadata: request.customData ? JSON.stringify({ customData: request.customData }) : null,
    created_at: now,
    anonymized: 0,
  };
}

/** Inside a transaction: the person's id, known or new. */
export function findOrInsert(store: PlatformStore, row: PersonRow): string {
  const known = store.people.find(row.agent_id, row);
  if (known) store.people.update({ ...row, id: known.id });
  else store.people.insert(row);
  return known?.id ?? row.id;
}
