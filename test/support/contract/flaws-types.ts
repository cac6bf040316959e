// Flaws of adapters without types: what they return, report and pass on has not the declared form.

import type { ChannelStatus } from "bridgehead/contract";
import line from "../../contract/line-adapter.ts";
import { altered, type Flaw, flaw, misled, required } from "./flaws.ts";

const parts = "parts: are those the harness declares";
const events = "events: say what they must";
const login = "inbound: reports unauthorized, never ready, when the login is rejected";
const comesBack = "inbound: reads on after the peer was away";
const found = "reconcile: finds what was sent";
const missed = "reconcile: does not find what was not sent";

const withoutReason = (status: ChannelStatus) => ({ ...status, reason: undefined }) as unknown as ChannelStatus;

export const typeFlaws: readonly Flaw[] = [
  flaw(
    "examine is a list",
    altered(line, () => ({ examine: [] as never })),
    {
      [parts]: /^create returned a wrong adapter: examine is object: it must be a function/,
    },
  ),
  flaw(
    "a status has no reason",
    misled(line, (channel) => ({
      report: (status) => channel.report(status.state.startsWith("u") ? withoutReason(status) : status),
    })),
    { [login]: /^report was given reason as undefined, expected a string/ },
  ),
  flaw(
    "a failure is reported without its code",
    misled(line, (channel) => ({
      report: (status) => channel.report(status.state === "degraded" ? ({ ...status, code: 7 } as never) : status),
    })),
    { [comesBack]: /^report was given code as number, expected a string/ },
  ),
  flaw(
    "the cursor is a number",
    misled(line, (channel) => ({
      accept: (given, cursor) => channel.accept(given, Number(cursor) as never),
    })),
    { [events]: /^accept was given number as the cursor, expected a string/ },
  ),
  flaw(
    "a refusal is a text",
    misled(line, (channel) => ({
      accept: (given, cursor) =>
        channel.accept(
          given.map((event) => ({ ...event, refusal: "bot" }) as never),
          cursor,
        ),
    })),
    { [events]: /^accept was given refusal as string, expected an object/ },
  ),
  flaw(
    "probe returns a text",
    altered(line, () => ({ probe: async () => "ready" as never })),
    {
      "probe: ready when all is well, and changes nothing": /^probe returned it as string, expected an object/,
      "probe: unauthorized when the login is rejected": /^probe returned it as string/,
      "probe: degraded when nobody listens": /^probe returned it as string/,
    },
  ),
  flaw(
    "a finding has another name",
    altered(line, ({ outbound }) => ({
      outbound: {
        ...required(outbound),
        async reconcile(...given) {
          const finding = await required(outbound?.reconcile?.(...given));
          return finding.kind === "unsure" ? finding : ({ kind: `is-${finding.kind}` } as never);
        },
      },
    })),
    {
      [found]: /^reconcile returned kind as string, expected one of sent, not-sent, unsure/,
      [missed]: /kind as string/,
    },
  ),
];
