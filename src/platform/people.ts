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
    phone_number: dialled(request.phoneNumber ?? "") || null,
    metadata: request.customData ? JSON.stringify({ customData: request.customData }) : null,
    created_at: now,
    anonymized: 0,
  };
}

/** A phone number as it is dialled, so that it is the same however it was written; what is none stays as it is. */
export function dialled(number: string): string {
  return /^\+[\d ().-]+$/.test(number) ? `+${number.replace(/\D/g, "")}` : number;
}

/** Inside a transaction: the person's id, known or new. */
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

/** The caller's own key says who it is, so a new address takes the old one's place; known by an address alone, a person
 *  keeps the other one. An address that leads to somebody else stays theirs. */
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
