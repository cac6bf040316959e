// Defects of escalations to plant, as in defects.ts: each must be caught by a case of the matrix of escalations.

import { atStart, type Defects, writingLater } from "../planting.ts";
import type { EscalationInvariant } from "./invariants.ts";

export const escalationDefects: Defects<EscalationInvariant> = {
  "told-in-advance": {
    what: "people count as told before what they are told is committed",
    caught: "hands over answer.commit after 1",
    by: ["unnotified"],
    endless: true,
    plant: writingLater((later) => ({
      "src/store/tables/drafts.ts": {
        insertNotices: (real) => (_q, notices) => {
          later(60_000, (q) => real(q, notices));
          return Promise.resolve();
        },
      },
      "src/escalation/notify/rows.ts": {
        endAll: (real) => (q, ended) =>
          real(
            q,
            ended.map(({ notification }) => ({ notification, reply: null })),
          ),
      },
    })),
  },
  "relayed-blindly-again": {
    what: "a human's words of unknown outcome are put to the platform again without looking",
    caught: "answers ask.cross after 1",
    by: ["relayed"],
    plant: (altered) => ({
      "src/agent/client.ts": {
        createAgentClient: (real) => (options) => ({
          ...real(options),
          findSaid() {
            altered();
            return Promise.resolve({ kind: "ok", value: null });
          },
        }),
      },
    }),
  },
  "taken-later": {
    what: "who has taken it is written after their words were heard",
    caught: "answers route.commit after 1",
    by: ["unacknowledged"],
    plant: writingLater((later) => ({
      "src/escalation/actions.ts": {
        acknowledge: (real) => (_q, row, by, deps) => {
          later(60_000, (q) => real(q, row, by, deps));
          return Promise.resolve(true);
        },
      },
    })),
  },
  "forgotten-at-the-start": {
    what: "notices that the last life did not hand over are dropped at the start",
    caught: "hands over send.cross before 1",
    by: ["unnotified"],
    endless: true,
    plant: atStart(
      "UPDATE drafts SET state = 'dropped', open = 0 WHERE open = 1 AND reply IN (SELECT reply FROM notifications)",
    ),
  },
  "own-words-from-elsewhere": {
    what: "the human's words at the platform are not known for ours",
    caught: "gives back answer.commit after 1",
    by: ["answered-twice"],
    plant: (altered) => ({
      "src/store/tables/takeover.ts": {
        namePlatformId: () => () => {
          altered();
          return Promise.resolve();
        },
      },
      "src/store/tables/turns.ts": {
        changeTurn:
          (real, { readTurn }) =>
          async (q, id, change) => {
            const { kind } = await readTurn(q, id);
            const { questionId: _, ...rest } = change;
            return real(q, id, kind === "relayed" ? rest : change);
          },
      },
    }),
  },
};
