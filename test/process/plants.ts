// Everything that can be planted, by name.

import { circumstances } from "./circumstances.ts";
import { defects } from "./defects.ts";
import { escalationDefects } from "./escalation-defects.ts";
import type { Edit } from "./planting.ts";
import { textDefects } from "./text-defects.ts";

export const plantable: readonly string[] = [defects, textDefects, escalationDefects, circumstances].flatMap(
  (all) => Object.keys(all),
);

/** Throws when there is no such defect or circumstance. */
export function editsOf(name: string): readonly Edit[] {
  const edits = (defects[name] ?? textDefects[name] ?? escalationDefects[name])?.edits ?? circumstances[name];
  if (!edits) throw new Error(`there is no defect ${name}`);
  return edits;
}
