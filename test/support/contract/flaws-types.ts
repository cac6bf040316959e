// Flaws of adapters without types: what they return, report and pass on has not the declared form.

import type { Channel, ChannelStatus, Finding, InboundEvent } from "bridgehead/contract";
import line from "../../contract/line-adapter.ts";
import { altered, type Flaw, flaw, misled, required } from "./flaws.ts";

const parts = "parts: are those the harness declares";
const events = "events: say what they must";
const login = "inbound: reports unauthorized, never ready, when the login is rejected";
const comesBack = "inbound: reads on after the peer was away";
const found = "reconcile: finds what was sent";
const missed = "reconcile: does not find what was not sent";

/** A value that the types do not allow. */
const untyped = <T>(value: unknown): T => value as T;
const withoutReason = (status: ChannelStatus) => untyped<ChannelStatus>({ ...status, reason: undefined });

export const typeFlaws: readonly Flaw[] = [
  flaw(
    "examine is a list",
    altered(line, () => ({ examine: untyped([]) })),
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
      report: (status) => channel.report(status.state === "degraded" ? untyped({ ...status, code: 7 }) : status),
    })),
    { [comesBack]: /^report was given code as number, expected a string/ },
  ),
  flaw(
    "the cursor is a number",
    misled(line, (channel) => ({
      accept: (given, cursor) => channel.accept(given, untyped<Parameters<Channel["accept"]>[1]>(Number(cursor))),
    })),
    { [events]: /^accept was given number as the cursor, expected a string/ },
  ),
  flaw(
    "a refusal is a text",
    misled(line, (channel) => ({
      accept: (given, cursor) =>
        channel.accept(
          given.map((event) => untyped<InboundEvent>({ ...event, refusal: "bot" })),
          cursor,
        ),
    })),
    { [events]: /^accept was given refusal as string, expected an object/ },
  ),
  flaw(
    "probe returns a text",
    altered(line, () => ({ probe: async () => untyped<ChannelStatus>("ready") })),
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
          const finding = await required(required(outbound).reconcile)(...given);
          return finding.kind === "unsure" ? finding : untyped<Finding>({ kind: `is-${finding.kind}` });
        },
      },
    })),
    {
      [found]: /^reconcile returned kind as string, expected one of sent, not-sent, unsure/,
      [missed]: /kind as string/,
    },
  ),
];
