// Simulates an escalation policy for an escalation without an acknowledgement. Operators can thus check a
// policy in advance.

import { type Duty, dutyAt } from "./hours.ts";
import { type About, begin, type Contact, type Person, type Policy, step, tiersFor } from "./policy.ts";

/** One step of the policy: responders are notified, or a tier is skipped. */
export interface Look {
  /** Epoch ms. */
  readonly at: number;
  /** Counted from 0; null: the fallback. */
  readonly tier: number | null;
  /** Empty: no responder of the tier is on duty, so the tier is skipped. */
  readonly notify: readonly Contact[];
  /** Responders of the tier (of all tiers, for the fallback) who are not notified. */
  readonly spared: readonly Spared[];
}

export interface Spared {
  readonly person: Person;
  readonly duty: Extract<Duty, { on: false }>;
}

/** Limits the number of steps: some policies notify every second for a year. */
const mostLooks = 2000;

/** Returns all steps until the fallback has notified once. `complete` is false when the limit was
 *  reached first. */
export function forecast(
  policy: Policy,
  about: About,
  openedAt: number,
): { readonly looks: readonly Look[]; readonly complete: boolean } {
  const tiers = tiersFor(policy, about);
  const looks: Look[] = [];
  let progress = begin(openedAt);
  let next: number | null = openedAt;
  while (next !== null && looks.length < mostLooks) {
    const at: number = next;
    const done = step(policy, about, progress, at);
    const inFallback = done.progress.tier >= tiers.length;
    const fresh = progress.toldAt === null ? progress.tier : progress.tier + 1;
    for (const [tier, { notify }] of tiers.entries())
      if (tier >= fresh && tier < done.progress.tier)
        looks.push({ at, tier, notify: [], spared: sparedOf(policy, notify, [], at) });
    const people = inFallback
      ? tiers.flatMap(({ notify }) => notify)
      : (tiers[done.progress.tier]?.notify ?? []);
    looks.push({
      at,
      tier: inFallback ? null : done.progress.tier,
      notify: done.notify,
      spared: sparedOf(policy, people, done.notify, at),
    });
    if (inFallback) return { looks, complete: true };
    progress = done.progress;
    next = done.dueAt;
  }
  return { looks, complete: false };
}

function sparedOf(
  policy: Policy,
  people: readonly string[],
  told: readonly Contact[],
  at: number,
): readonly Spared[] {
  return [...new Set(people)].flatMap((id) => {
    const person = policy.responders.get(id);
    if (!person || told.some((contact) => contact.person === id)) return [];
    const duty = dutyAt(person, at);
    return duty.on ? [] : [{ person, duty }];
  });
}
