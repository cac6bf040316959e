// Not defects, but circumstances that would take too long to wait for, or need more than one machine: planted as defects are.

import type { Edit } from "./planting.ts";

const ask = "src/pipeline/ask/stage.ts";

export const circumstances: { readonly [name: string]: readonly Edit[] } = {
  /** A lease that hardly holds one call. */
  "short-lease": [
    {
      file: ask,
      find: "const leaseMs = maxWait + readTimeout(deps) + deps.timeout + leaseMargin;",
      put: "const leaseMs = deps.timeout + 500;",
    },
  ],
  /** Looks at a provider's list of texts that need not wait until it is certainly complete. */
  "quick-looks": [
    { file: "adapters/sms/twilio/send.ts", find: "const settleMs = 30_000;", put: "const settleMs = 400;" },
  ],
  /** Calls to providers that give up on a silent one soon. */
  "short-calls": [
    {
      file: "adapters/sms/twilio/client.ts",
      find: "const timeoutMs = 30_000;",
      put: "const timeoutMs = 6000;",
    },
    {
      file: "src/escalation/webhook/adapter.ts",
      find: "const answerMs = 20_000;",
      put: "const answerMs = 6000;",
    },
  ],
  /** Nobody waits for three quarters of a minute in doubt whether somebody was told. */
  "short-doubt": [
    {
      file: "src/pipeline/reconcile/stage.ts",
      find: "const noticeWindowMs = 45_000;",
      put: "const noticeWindowMs = 300;",
    },
  ],
  /** What is sent again and again, because the daemon dies each time, does not wait longer each time. */
  "no-patience": [
    {
      file: "src/pipeline/reconcile/stage.ts",
      find: "return draft.attempts < 2 ? change",
      put: "return draft.attempts < 99 ? change",
    },
  ],
  /** Two daemons on one SQLite store, as two nodes are on PostgreSQL. */
  "shared-store": [
    {
      file: "src/app.ts",
      find: 'const unlock = store.kind === "sqlite" ? lockStore(store.file) : () => undefined;',
      put: "void lockStore;\n  const unlock = () => undefined;",
    },
  ],
};
