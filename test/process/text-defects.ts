// Defects of texts to plant, as in defects.ts: each must be caught by a case of the matrix of texts.

import type { Defects } from "./planting.ts";
import type { TextInvariant } from "./text-invariants.ts";

const sending = "adapters/sms/twilio/send.ts";

export const textDefects: Defects<TextInvariant> = {
  "answered-first": {
    what: "a webhook is answered before its text is committed",
    caught: "event.commit before 2",
    by: ["acknowledged"],
    edits: [
      {
        file: "adapters/sms/index.ts",
        find: "if (heard.texts.length + heard.statuses.length > 0) await hear(heard);",
        put: "if (heard.texts.length + heard.statuses.length > 0) setTimeout(() => void hear(heard), 50);",
      },
    ],
  },
  "missed-for-ever": {
    what: "what came in while nobody listened is not looked for",
    caught: "event.commit before 2",
    by: ["lost"],
    endless: true,
    edits: [
      {
        file: "adapters/sms/twilio/missed.ts",
        find: "!stored.has(sid)",
        put: "stored.has(sid) && !stored.has(sid)",
      },
    ],
  },
  "found-again": {
    what: "a text that was found by listing has another id than the one that was told of",
    caught: "event.commit after 2",
    by: ["asked-twice"],
    edits: [
      {
        file: "adapters/sms/inbound.ts",
        find: "id: externalId(text.id),",
        put: "id: externalId(`${text.id}/${Math.random()}`),",
      },
    ],
  },
  "sent-blindly-again": {
    what: "a text of unknown outcome is sent again without looking for it",
    caught: "send.cross after 1",
    by: ["sent-twice"],
    edits: [
      {
        file: sending,
        find: "if (age < settleMs) return",
        put: 'if (age >= 0) return { kind: "not-sent" };\n      if (age < settleMs) return',
      },
    ],
  },
  "unanswered-is-no": {
    what: "a request that was not answered is taken for one that was not made",
    caught: "unanswered",
    by: ["sent-twice", "phantom"],
    edits: [{ file: sending, find: "if (crossed) return", put: "if (crossed && reason === null) return" }],
  },
  "fetched-by-nobody": {
    what: "a claimed attachment is not due again when its holder has died",
    caught: "fetch.commit before 1 picture",
    by: ["unsettled"],
    edits: [
      {
        file: "src/store/lanes.ts",
        find: "holder = NULL, due_at = now_ms() WHERE due_at IS NOT NULL",
        put: "holder = NULL, due_at = NULL WHERE due_at IS NOT NULL",
      },
    ],
  },
  "suppressed-too-early": {
    what: "who said STOP is only heeded when a reply is made, not when it is sent",
    caught: "stop during the delay",
    by: ["unwanted"],
    edits: [
      {
        file: "src/pipeline/send/stage.ts",
        find: "draft.forced ? null : await suppression(q, line.channel, draft.recipient);",
        put: "draft.forced || draft.attempts === 0 ? null : await suppression(q, line.channel, draft.recipient);",
      },
    ],
  },
};
