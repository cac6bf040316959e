// A matrix can fail: each planted defect is caught by the case that is there for it.

import { expect, it } from "vitest";
import { acted } from "./daemon.ts";
import type { Defect, Defects } from "./planting.ts";

/** What the story is told with; `patience` in milliseconds. */
export interface Planted {
  readonly plant: readonly string[];
  readonly patience?: number;
}

interface Catching<Invariant extends string> {
  readonly defects: Defects<Invariant>;
  /** Tells the story of that case; its violations. No other has that name and number. */
  tell(
    caught: string,
    planted: Planted,
    defect: { readonly name: string; readonly number: number },
  ): Promise<readonly Found<Invariant>[]>;
  /** How long nothing is waited for that never comes (ms). Default: 8000. */
  readonly patience?: number;
  readonly timeout?: number;
}

interface Found<Invariant> {
  readonly invariant: Invariant;
}

/** Returns why the defect counts as not caught, or null. */
export function uncaught<Invariant extends string>(
  defect: Pick<Defect<Invariant>, "by">,
  found: readonly Found<Invariant>[],
  hasActed: boolean,
): string | null {
  if (!hasActed) return "its wrappers never changed anything";
  if (found.some(({ invariant }) => defect.by.includes(invariant))) return null;
  return `none of ${defect.by.join(", ")} is broken: ${JSON.stringify(found)}`;
}

/** One test for each defect. */
export function catchesAll<Invariant extends string>(catching: Catching<Invariant>): void {
  const { defects, patience = 20_000, timeout = 300_000 } = catching;
  for (const [number, [name, defect]] of Object.entries(defects).entries()) {
    it.concurrent(`catches that ${defect.what}`, { timeout }, async () => {
      const planted = { plant: [name], ...(defect.endless ? { patience } : {}) };
      const found = await catching.tell(defect.caught, planted, { name, number });
      expect(uncaught(defect, found, acted.has(name))).toBe(null);
    });
  }
}
