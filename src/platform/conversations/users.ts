// Converts the user fields of a request into a row and validates addresses.

import type { FailureDetail } from "../../wire/record.ts";
import { newUuid } from "../ids.ts";
import type { PlatformStore } from "../store/store.ts";
import type { PersonRow } from "../store/users.ts";

/** User fields shared by several requests; see wire/conversation.ts. */
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

/** Returns the invalid addresses, unless the caller disabled validation. */
export function addressProblems(request: PersonRequest): FailureDetail[] {
  const problems: FailureDetail[] = [];
  const { email, phoneNumber } = request;
  if (email && !request.skipEmailValidation && !/^[^\s@]+@[^\s@]+$/.test(email))
    problems.push({ path: "email", message: "not an e-mail address" });
  if (phoneNumber && !request.skipPhoneNumberValidation && !/^\+[\d ().-]{5,25}$/.test(phoneNumber))
    problems.push({ path: "phoneNumber", message: "a number with its prefix, such as +15550100, is needed" });
  return problems;
}

/** Builds a new row without storing it. Empty strings count as absent. */
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
    phone_number: dialled(request.phoneNumber ?? "") || null,
    metadata: request.customData ? JSON.stringify({ customData: request.customData }) : null,
    created_at: now,
    anonymized: 0,
  };
}

/** Normalizes a phone number to digits with a leading plus. Returns other text unchanged. */
export function dialled(number: string): string {
  return /^\+[\d ().-]+$/.test(number) ? `+${number.replace(/\D/g, "")}` : number;
}

/** Returns the id of an existing or new user. Call inside a transaction. */
export function findOrInsert(store: PlatformStore, row: PersonRow): string {
  const known = store.people.find(row.agent_id, row);
  if (!known) {
    store.people.insert(row);
    return row.id;
  }
  const { first_name, last_name } = row.first_name || row.last_name ? row : known;
  const email = addressNow(store, known, row, "email");
  const phone_number = addressNow(store, known, row, "phone_number");
  store.people.update({ ...row, id: known.id, first_name, last_name, email, phone_number });
  return known.id;
}

/** Decides which address a known user keeps. A match by fkId replaces the address; a match by address
 *  keeps the other one. An address that belongs to another user is never moved. */
function addressNow(
  store: PlatformStore,
  known: PersonRow,
  row: PersonRow,
  name: "email" | "phone_number",
): string | null {
  const given = row[name];
  const keyed = row.fk_id !== null && row.fk_id === known.fk_id;
  if (given === null || (known[name] !== null && !keyed)) return known[name];
  const nobody = { fk_id: null, email: null, phone_number: null };
  const owner = store.people.find(row.agent_id, { ...nobody, [name]: given });
  return owner === undefined || owner.id === known.id ? given : known[name];
}
