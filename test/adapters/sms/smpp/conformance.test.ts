// The contract's own suite over the adapter with provider smpp, against npm's smpp server.

import { describeAdapter, type Fault, type Harness, type Peer } from "bridgehead/contract/testing";
import sms from "../../../../adapters/sms/index.ts";
import { type SmscFault, spoken, startSmsc } from "../../../support/sms/smpp.ts";

const faults: Record<Exclude<Fault, "refuse-connection" | "server-error"> | "none", SmscFault> = {
  none: "none",
  "refuse-message": { status: 0x0b },
  later: { status: 0x58 },
  "cut-before": "cut-bind",
  "hang-before": "silent",
  "cut-after": "cut-submit",
  "hang-after": "hang-submit",
};

async function start(): Promise<Peer> {
  const centre = await startSmsc();
  return {
    config: (credentials) => ({
      provider: "smpp",
      number: "+12025550100",
      smpp: {
        host: "127.0.0.1",
        port: centre.port,
        tls: "none",
        system_id: "desk",
        password: credentials === "right" ? "secret" : "wrong",
        timeout: "30s",
      },
    }),
    async fault(fault) {
      if (fault === "server-error") return;
      if (fault === "refuse-connection") return centre.refuse();
      await centre.listen();
      if (fault.endsWith("before")) centre.cut();
      centre.fault(faults[fault]);
    },
    stop: () => centre.close(),
    say: (text) => Promise.resolve(centre.deliver(spoken(text))),
    acknowledged: () => centre.answered.map((one) => String((one as { short_message: Buffer }).short_message)),
    reply: { to: [{ address: "+15550177" }] },
    delivered: () => centre.taken.map(({ text }) => text),
  };
}

const harness: Harness = {
  start,
  lacks: {
    attachments: "texts carry no files of ours",
    reconcile: "SMPP has no list of what was sent, and carries no key of ours; a receipt may tell",
    delay: "a response of SMPP states no time",
    "server-error": "every response of SMPP tells whether the text was taken",
    history: "the message centre keeps only what was never delivered",
    http: "texts come over the line we open",
    socket: "texts come over the line we open",
  },
};

describeAdapter(sms, harness);
