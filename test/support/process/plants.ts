// Everything that can be planted, by name.

import { circumstances } from "./circumstances.ts";
import { escalationDefects } from "./escalation/defects.ts";
import { defects } from "./mail/defects.ts";
import type { Plant } from "./planting.ts";
import { textDefects } from "./sms/defects.ts";

export const plantable: readonly string[] = [defects, textDefects, escalationDefects, circumstances].flatMap(
  (all) => Object.keys(all),
);

/** Throws when there is no such defect or circumstance. */
export function plantNamed(name: string): Plant {
  const plant = (defects[name] ?? textDefects[name] ?? escalationDefects[name])?.plant ?? circumstances[name];
  if (!plant) throw new Error(`there is no defect ${name}`);
  return plant;
}
