// Defects of escalations to plant, as in defects.ts: each must be caught by a case of the matrix of escalations.

import type { EscalationInvariant } from "./escalation-invariants.ts";
import { type Defects, keepDatabase } from "./planting.ts";

const ask = "src/pipeline/ask/stage.ts";

export const escalationDefects: Defects<EscalationInvariant> = {
  "told-in-advance": {
    what: "people count as told before what they are told is committed",
    caught: "hands over answer.commit after 1",
    by: ["unnotified"],
    endless: true,
    edits: [
      {
        file: "src/escalation/notify/render.ts",
        find: ".savepoint(() => write(q, policy, group.toSorted(byNumber), deps))",
        put: `.savepoint(async () => {
        for (const one of group) await endNotice(q, one.notice.id, null);
        setTimeout(() => void globalThis.plantedDb.tx((later) => write(later, policy, group, deps)), 60_000);
      })`,
      },
      keepDatabase,
    ],
  },
  "relayed-blindly-again": {
    what: "a human's words of unknown outcome are put to the platform again without looking",
    caught: "answers ask.cross after 1",
    by: ["relayed"],
    edits: [{ file: ask, find: "(repeated ? findSaid : say)(asking", put: "(repeated ? say : say)(asking" }],
  },
  "taken-later": {
    what: "who has taken it is written after their words were heard",
    caught: "answers route.commit after 1",
    by: ["untaken"],
    edits: [
      {
        file: "src/escalation/reply/handle.ts",
        find: 'if (words.acknowledge || text !== "" || attached) await take(q, row, by, deps);',
        put: 'if (words.acknowledge || text !== "" || attached) setTimeout(() => void globalThis.plantedDb.tx((later) => take(later, row, by, deps)), 60_000);',
      },
      keepDatabase,
    ],
  },
  "forgotten-at-the-start": {
    what: "notices that the last life did not hand over are dropped at the start",
    caught: "hands over send.cross before 1",
    by: ["unnotified"],
    endless: true,
    edits: [
      {
        file: "src/store/lanes.ts",
        find: "export async function endLeases(q: Query): Promise<void> {",
        put: `export async function endLeases(q: Query): Promise<void> {
  await q.run("UPDATE drafts SET state = 'dropped', open = 0 WHERE open = 1 AND reply IN (SELECT reply FROM notices)");`,
      },
    ],
  },
  "own-words-from-elsewhere": {
    what: "the human's words at the platform are not known for ours",
    caught: "gives back answer.commit after 1",
    by: ["answered-twice"],
    edits: [
      {
        file: "src/pipeline/ask/outcomes.ts",
        find: 'await leave(q, asking, "sent", { state: "answered", open: 0, questionId: id });',
        put: 'await leave(q, asking, "sent", { state: "answered", open: 0 });',
      },
      {
        file: "src/pipeline/ask/outcomes.ts",
        find: "await namePlatformId(q, asking.turn.id, id);",
        put: "void id;",
      },
    ],
  },
};
