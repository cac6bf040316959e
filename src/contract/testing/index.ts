// bridgehead/contract/testing: the conformance suite for adapters and what tests of an adapter need besides.

export * from "./channel.ts";
export * from "./clock.ts";
