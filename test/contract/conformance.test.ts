import { describeAdapter } from "bridgehead/contract/testing";
import callAdapter, { callHarness } from "./call-adapter.ts";
import hookAdapter, { hookHarness } from "./hook-adapter.ts";
import lineAdapter from "./line-adapter.ts";
import { lineHarness } from "./line-peer.ts";

describeAdapter(lineAdapter, lineHarness);
describeAdapter(hookAdapter, hookHarness);
describeAdapter(callAdapter, callHarness);

// The archive of this peer lags: what is not found may still have been sent. Each of its messages carries the text or one
// file of a reply.
const lagging: typeof lineAdapter = {
  ...lineAdapter,
  name: "lagging",
  create(channel, config) {
    const adapter = lineAdapter.create(channel, config);
    const { outbound } = adapter;
    const reconcile = outbound?.reconcile?.bind(outbound);
    if (outbound === undefined || reconcile === undefined) return adapter;
    return {
      ...adapter,
      outbound: {
        ...outbound,
        compose(reply) {
          const { attachments = [], ...text } = reply;
          const apart = attachments.map((file) => ({ ...text, text: "", signature: null, attachments: [file] }));
          return [text, ...apart].flatMap((part) => outbound.compose(part));
        },
        async reconcile(draft, attempt, signal) {
          const finding = await reconcile(draft, attempt, signal);
          return finding.kind === "not-sent" ? { kind: "unsure" } : finding;
        },
      },
    };
  },
};
describeAdapter(lagging, {
  ...lineHarness,
  lacks: { ...lineHarness.lacks, absence: "the archive lags, so absence proves nothing" },
});
